// Command sdktypes writes the types of the API for the clients in sdk from openapi.yaml, for Python
// as TypedDicts and for Java as records. openapi-typescript writes those for TypeScript, and this
// command the kinds of error codes for all.
package main

//go:generate go run .

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/budgetd/budgetd"
)

// sdk is the folder of the clients, seen from that of this package.
const sdk = "../../sdk"

// javaFolder is the folder of the generated classes.
const javaFolder = "java/src/main/java/io/budgetd/api/"

func main() {
	if err := write(sdk); err != nil {
		fmt.Fprintln(os.Stderr, "sdktypes:", err)
		os.Exit(1)
	}
}

// write writes the files of all languages below a folder.
func write(folder string) error {
	files, err := render(budgetd.OpenAPI)
	if err != nil {
		return err
	}
	for name, text := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render returns the text of each file, by its name below sdk.
func render(document []byte) (map[string]string, error) {
	var d struct {
		Components struct{ Schemas schemas }
		Errors     codes `yaml:"x-errors"`
	}
	if err := yaml.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	all := d.Components.Schemas
	return map[string]string{
		"python/budgetd/api.py":   python(all) + pythonKinds(d.Errors),
		"typescript/src/kinds.ts": typescriptKinds(d.Errors),
		javaFolder + "Api.java":   java(all),
		javaFolder + "Kinds.java": javaKinds(d.Errors),
	}, nil
}

// codes are the error codes in the order of the document.
type codes []struct{ code, kind string }

// kindsOfClients are the kinds of errors as the clients name them.
var kindsOfClients = map[string]string{"not done": "not_now", "may be done": "unknown"}

// UnmarshalYAML reads a mapping in its order.
func (c *codes) UnmarshalYAML(node *yaml.Node) error {
	*c = make(codes, len(node.Content)/2)
	for i := range *c {
		var failure struct{ Kind string }
		if err := node.Content[2*i+1].Decode(&failure); err != nil {
			return err
		}
		(*c)[i].code, (*c)[i].kind = node.Content[2*i].Value, failure.Kind
		if name, other := kindsOfClients[failure.Kind]; other {
			(*c)[i].kind = name
		}
	}
	return nil
}

// schemas are schemas by name, in the order of the document.
type schemas []struct {
	name string
	schema
}

// schema is what a type needs of a schema.
type schema struct {
	Ref        string `yaml:"$ref"`
	Type       kinds
	Enum       []string
	Const      string
	Items      *schema
	Required   []string
	Properties schemas
	Values     yaml.Node `yaml:"additionalProperties"`
	AllOf      []schema  `yaml:"allOf"`
}

// kinds are the types that a value may have.
type kinds []string

// UnmarshalYAML reads one or several words.
func (k *kinds) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*k = kinds{node.Value}
		return nil
	}
	return node.Decode((*[]string)(k))
}

// UnmarshalYAML reads a mapping in its order.
func (s *schemas) UnmarshalYAML(node *yaml.Node) error {
	*s = make(schemas, len(node.Content)/2)
	for i := range *s {
		(*s)[i].name = node.Content[2*i].Value
		if err := node.Content[2*i+1].Decode(&(*s)[i].schema); err != nil {
			return fmt.Errorf("%s: %w", (*s)[i].name, err)
		}
	}
	return nil
}

// find returns the schema that a reference names.
func (s schemas) find(ref string) schema {
	for _, one := range s {
		if one.name == last(ref) {
			return one.schema
		}
	}
	return schema{}
}

// members returns the members of an object, with those of the objects that it includes.
func (s schemas) members(of schema) (all schemas, required map[string]bool) {
	required = map[string]bool{}
	parts := []schema{of}
	for len(parts) > 0 {
		part := parts[0]
		parts = parts[1:]
		if part.Ref != "" && len(part.Properties) == 0 {
			part = s.find(part.Ref)
		}
		parts = append(parts, part.AllOf...)
		for _, name := range part.Required {
			required[name] = true
		}
		for _, member := range part.Properties {
			all = all.with(member.name, member.schema)
		}
	}
	return all, required
}

// with adds a member, or replaces the one with its name.
func (s schemas) with(name string, member schema) schemas {
	for i := range s {
		if s[i].name == name {
			s[i].schema = member
			return s
		}
	}
	return append(s, struct {
		name string
		schema
	}{name, member})
}

// isObject reports whether a schema is an object with named members.
func (s schema) isObject() bool { return len(s.Properties) > 0 || len(s.AllOf) > 0 }

// mayBe reports whether a value may have a type.
func (s schema) mayBe(kind string) bool {
	for _, one := range s.Type {
		if one == kind {
			return true
		}
	}
	return false
}

// values returns the schema of the values of a mapping.
func (s schema) values() (one schema, is bool) {
	if s.Values.Kind != yaml.MappingNode || s.Values.Decode(&one) != nil {
		return schema{}, false
	}
	return one, true
}

// last is the last part of a reference.
func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
