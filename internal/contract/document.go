package contract

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/budgetd/budgetd"
)

// document is openapi.yaml as the pages show it. Maps whose order matters are lists.
type document struct {
	Info       struct{ Title, Description string }
	Tags       []struct{ Name, Description string }
	Paths      list[list[call]]
	Components struct {
		Parameters map[string]parameter
		Schemas    list[schema]
		Examples   map[string]example
	}
	Errors list[failure] `yaml:"x-errors"`
}

// call is one operation.
type call struct {
	// Method and Path identify the operation.
	Method, Path         string `yaml:"-"`
	Summary, Description string
	Tags                 []string
	Role                 string                      `yaml:"x-role"`
	RoleMore             struct{ Role, When string } `yaml:"x-role-more"`
	Codes                []string                    `yaml:"x-codes"`
	Parameters           []parameter
	RequestBody          body `yaml:"requestBody"`
	Responses            list[body]
}

// body is the body of a request or an answer: at most one content, under its media type.
type body struct {
	Ref         string `yaml:"$ref"`
	Description string
	Required    bool
	Content     list[content]
}

type content struct {
	Schema   schema
	Examples list[example]
}

type parameter struct {
	Ref                   string `yaml:"$ref"`
	Name, In, Description string
	Required              bool
	Schema                schema
	Example               any
	Examples              list[example]
}

type example struct {
	Ref     string `yaml:"$ref"`
	Summary string
	Value   yaml.Node
}

// schema is what the pages show of a schema.
type schema struct {
	Ref                          string `yaml:"$ref"`
	Type                         words
	Format, Description, Pattern string
	Enum                         []string
	Const                        string
	Default                      any
	Minimum, Maximum             *int64
	Items                        *schema
	Required                     []string
	Properties                   list[schema]
	Values                       yaml.Node `yaml:"additionalProperties"`
	AllOf                        []schema  `yaml:"allOf"`
}

// failure is an error code with its page.
type failure struct {
	Status       int
	Kind, Title  string
	General      bool
	Has          []string
	Happened, Do string
}

// words are one word or several.
type words []string

// UnmarshalYAML reads a word or a list of them.
func (w *words) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		*w = words{node.Value}
		return nil
	}
	return node.Decode((*[]string)(w))
}

// named is a member of a mapping.
type named[V any] struct {
	Name  string
	Value V
}

// list is a mapping in the order in which it is written.
type list[V any] []named[V]

// UnmarshalYAML reads a mapping.
func (l *list[V]) UnmarshalYAML(node *yaml.Node) error {
	for i := 0; i+1 < len(node.Content); i += 2 {
		one := named[V]{Name: node.Content[i].Value}
		if err := node.Content[i+1].Decode(&one.Value); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
		*l = append(*l, one)
	}
	return nil
}

// read parses openapi.yaml once. The file is part of the program, so tests find its faults.
var read = sync.OnceValue(func() *document {
	d := new(document)
	if err := yaml.Unmarshal(budgetd.OpenAPI, d); err != nil {
		panic(fmt.Errorf("openapi.yaml: %w", err))
	}
	for _, path := range d.Paths {
		for i := range path.Value {
			c := &path.Value[i].Value
			c.Method, c.Path = strings.ToUpper(path.Value[i].Name), path.Name
			for n, p := range c.Parameters {
				if p.Ref != "" {
					c.Parameters[n] = d.Components.Parameters[last(p.Ref)]
				}
			}
			for _, answer := range c.Responses {
				for _, content := range answer.Value.Content {
					d.resolve(content.Value.Examples)
				}
			}
		}
	}
	return d
})

// resolve replaces references to examples by the examples.
func (d *document) resolve(examples list[example]) {
	for i, e := range examples {
		if e.Value.Ref != "" {
			examples[i].Value = d.Components.Examples[last(e.Value.Ref)]
		}
	}
}

// last is the last part of a reference.
func last(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// appendJSON appends a node of the document as JSON, members in the order of the document.
func appendJSON(text []byte, node *yaml.Node) []byte {
	switch node.Kind {
	case yaml.DocumentNode:
		return appendJSON(text, node.Content[0])
	case yaml.MappingNode:
		text = append(text, '{')
		for i := 0; i+1 < len(node.Content); i += 2 {
			if i > 0 {
				text = append(text, ',')
			}
			text = append(appendText(text, node.Content[i].Value), ':')
			text = appendJSON(text, node.Content[i+1])
		}
		return append(text, '}')
	case yaml.SequenceNode:
		text = append(text, '[')
		for i, one := range node.Content {
			if i > 0 {
				text = append(text, ',')
			}
			text = appendJSON(text, one)
		}
		return append(text, ']')
	case yaml.AliasNode:
		return appendJSON(text, node.Alias)
	}
	switch node.Tag {
	case "!!int", "!!float", "!!bool", "!!null":
		return append(text, node.Value...) // the document writes them as JSON does
	}
	return appendText(text, node.Value)
}

func appendText(text []byte, value string) []byte {
	quoted, err := json.Marshal(value)
	if err != nil { // a string always has a JSON form
		panic(err)
	}
	return append(text, quoted...)
}
