package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/internal/strictyaml"
)

// key is a key of a file, with its value unless it is a section.
type key struct {
	name  string
	value any
}

// yamlCodec decodes YAML for Viper and remembers the keys as they were written, because Viper
// ignores the case of keys and does not report keys that it was never asked for.
type yamlCodec struct {
	keys []key
	// odd lists keys with a capital letter.
	odd []string
}

// Encode returns an error: nothing is encoded.
func (*yamlCodec) Encode(map[string]any) ([]byte, error) {
	return nil, errors.New("configuration is not written")
}

// Decode decodes exactly one document, strictly.
func (c *yamlCodec) Decode(text []byte, into map[string]any) error {
	document, err := strictyaml.Parse(text)
	if err != nil || document == nil {
		return err
	}
	if err := document.Decode(&into); err != nil {
		return strictyaml.WithoutValues(err)
	}
	c.capitals(into)
	for name, value := range flatten(into) {
		c.keys = append(c.keys, key{name, value})
	}
	return nil
}

// capitals records the keys with a capital letter, at any depth.
func (c *yamlCodec) capitals(value any) {
	if section, nested := sectionOf(value); nested {
		for name, below := range section {
			if name != strings.ToLower(name) {
				c.odd = append(c.odd, name)
			}
			c.capitals(below)
		}
	}
	if list, ok := value.([]any); ok {
		for _, element := range list {
			c.capitals(element)
		}
	}
}

// flatten converts nested sections to keys with dots. An empty section becomes a key without a
// value.
func flatten(section map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range section {
		below, nested := sectionOf(value)
		if !nested {
			out[name] = value
			continue
		}
		if len(below) == 0 {
			out[name] = nil
		}
		for rest, value := range flatten(below) {
			out[name+"."+rest] = value
		}
	}
	return out
}

// sectionOf returns a value as a section. Its keys may have any type.
func sectionOf(value any) (map[string]any, bool) {
	switch value := value.(type) {
	case map[string]any:
		return value, true
	case map[any]any:
		out := make(map[string]any, len(value))
		for name, below := range value {
			out[fmt.Sprint(name)] = below
		}
		return out, true
	}
	return nil, false
}
