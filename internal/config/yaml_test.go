package config

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/budgetd/budgetd"
	"github.com/budgetd/budgetd/internal/secret"
)

// TestConfigYAMLIsComplete checks that config.yaml, the table of settings and Config have the same
// keys, and that every key has a comment with its range and its default.
func TestConfigYAMLIsComplete(t *testing.T) {
	var c Config
	var i Instance
	targets := map[any]bool{}
	leaves(reflect.ValueOf(&c).Elem(), targets)
	leaves(reflect.ValueOf(&i).Elem(), targets)
	delete(targets, any(&c.Instances))
	settings := append(c.settings(), i.settings()...)
	for _, s := range settings {
		if !targets[s.target] {
			t.Errorf("%s sets no field of Config, or the field of another key", s.key)
		}
		delete(targets, s.target)
	}
	if len(targets) != 0 {
		t.Errorf("%d fields have no key", len(targets))
	}

	var document yaml.Node
	if err := yaml.Unmarshal(withInstance(budgetd.Config), &document); err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	comments(document.Content[0], "", "", documented)
	for _, s := range c.settings() {
		checkComment(t, s.key, s, documented)
	}
	for _, s := range i.settings() {
		checkComment(t, "instances."+s.key, s, documented)
	}
	if len(documented) != 0 {
		t.Errorf("config.yaml has unknown keys: %v", documented)
	}
}

func leaves(v reflect.Value, into map[any]bool) {
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[secret.Text]() {
		for n := range v.NumField() {
			leaves(v.Field(n), into)
		}
		return
	}
	into[v.Addr().Interface()] = true
}

// comments collects the comment above each key. Keys without their own comment share that of the
// previous key.
func comments(node *yaml.Node, within, above string, into map[string]string) {
	switch node.Kind {
	case yaml.SequenceNode:
		comments(node.Content[0], within, above, into)
	case yaml.MappingNode:
		for n := 0; n+1 < len(node.Content); n += 2 {
			name, value := node.Content[n], node.Content[n+1]
			if name.HeadComment != "" {
				above = name.HeadComment
			} else if n == 0 && node.HeadComment != "" {
				above = node.HeadComment
			}
			nested := value.Kind == yaml.MappingNode || value.Kind == yaml.SequenceNode && len(value.Content) > 0
			if nested {
				comments(value, within+name.Value+".", above, into)
			} else {
				into[within+name.Value] = above
			}
		}
	}
}

func checkComment(t *testing.T, key string, s setting, documented map[string]string) {
	t.Helper()
	comment, there := documented[key]
	delete(documented, key)
	text := strings.Join(strings.Fields(strings.ReplaceAll(comment, "#", " ")), " ")
	switch {
	case !there:
		t.Errorf("%s is not in config.yaml", key)
	case text == "":
		t.Errorf("%s has no comment in config.yaml", key)
	case !strings.Contains(text, s.bounds):
		t.Errorf("%s: the comment lacks its range %q: %s", key, s.bounds, text)
	case !strings.Contains(text, "Default") && key != "instances.name":
		t.Errorf("%s: the comment lacks its default: %s", key, text)
	}
}

func TestConfigIsPlainText(t *testing.T) {
	for n, line := range bytes.Split(budgetd.Config, []byte("\n")) {
		if len(line) > 110 || bytes.ContainsAny(line, "\t\r") {
			t.Errorf("line %d is too long or has tabs", n+1)
		}
	}
}
