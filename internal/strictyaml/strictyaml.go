// Package strictyaml reads files in YAML, or in JSON, which is a part of it, as strictly as the API
// reads JSON. To YAML 0100 is 64, and a file may have several documents, of which a decoder reads
// the first; here both are errors.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// number is the form of a number: that of JSON, without an exponent.
var number = regexp.MustCompile(`^(0|-?[1-9][0-9]*|-?(0|[1-9][0-9]*)\.[0-9]+)$`)

// quoted is a text of the file in an error of the decoder: a value, such as a password that begins
// with * and is taken for an alias. Names of keys stand between other marks.
var quoted = regexp.MustCompile("'.*'|`.*`")

// Parse returns the one document of a file, or nil if the file has none. Duplicate keys, anchors,
// merge keys, tags, and numbers in another form than 10 or 0.5 are errors. An error says where it
// is, and shows no value of the file.
func Parse(text []byte) (*yaml.Node, error) {
	decoder, document := yaml.NewDecoder(bytes.NewReader(text)), new(yaml.Node)
	switch err := decoder.Decode(document); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, WithoutValues(err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it must be one YAML document; there is more after a line with ---")
	}
	return document.Content[0], check(document.Content[0], "")
}

// WithoutValues returns an error of the decoder that shows no value of the file.
func WithoutValues(err error) error {
	return errors.New(quoted.ReplaceAllString(err.Error(), "(not shown)"))
}

// fault returns an error with the place of a value. at is its path, such as budgets[0].limits.
func fault(n *yaml.Node, at, what string) error {
	return fmt.Errorf("line %d: %s", n.Line, strings.TrimPrefix(at+" "+what, " "))
}

// check checks a value and what is below it.
func check(n *yaml.Node, at string) error {
	switch tag := n.ShortTag(); {
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		return fault(n, at, "must not have an anchor or an alias")
	case n.Style&yaml.TaggedStyle != 0:
		return fault(n, at, "must not have a tag that begins with !")
	case (tag == "!!int" || tag == "!!float") && !number.MatchString(n.Value):
		return fault(n, at, "must be a number such as 10 or 0.5: no leading zero, other base, +, _ or "+
			"exponent; a text that looks like a number must be in quotes")
	}
	seen := map[string]bool{}
	for i, value := range n.Content {
		below := at + "[" + strconv.Itoa(i) + "]"
		if n.Kind == yaml.MappingNode {
			if i%2 == 0 {
				switch {
				case value.ShortTag() == "!!merge":
					return fault(value, at, "must not have a merge key")
				case value.Kind == yaml.ScalarNode && seen[value.Value]:
					return fault(value, strings.TrimPrefix(at+"."+value.Value, "."), "appears twice")
				}
				seen[value.Value] = true
				continue
			}
			below = strings.TrimPrefix(at+"."+n.Content[i-1].Value, ".")
		}
		if err := check(value, below); err != nil {
			return err
		}
	}
	return nil
}

// JSON returns the document of a file as JSON. Numbers keep their digits. A key without a value is
// an error, because it would read as if it were not there.
func JSON(text []byte) ([]byte, error) {
	document, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if document == nil {
		return nil, errors.New("it is empty")
	}
	var out bytes.Buffer
	err = write(&out, document, "")
	return out.Bytes(), err
}

func write(out *bytes.Buffer, n *yaml.Node, at string) error {
	mapping := n.Kind == yaml.MappingNode
	switch tag := n.ShortTag(); {
	case mapping || n.Kind == yaml.SequenceNode:
	case tag == "!!null":
		return fault(n, at, "has no value: leave it out")
	case tag == "!!int", tag == "!!float":
		out.WriteString(n.Value)
		return nil
	case tag == "!!bool":
		out.WriteString(strings.ToLower(n.Value))
		return nil
	default:
		text, err := json.Marshal(n.Value)
		out.Write(text)
		return err
	}
	marks := "[]"
	if mapping {
		marks = "{}"
	}
	out.WriteByte(marks[0])
	for i, value := range n.Content {
		below, separator := at+"["+strconv.Itoa(i)+"]", ","
		switch {
		case mapping && i%2 == 1:
			below, separator = strings.TrimPrefix(at+"."+n.Content[i-1].Value, "."), ":"
		case mapping && value.Kind != yaml.ScalarNode:
			return fault(value, at, "a key must be a text")
		case mapping:
			value = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value.Value}
		}
		if i > 0 {
			out.WriteString(separator)
		}
		if err := write(out, value, below); err != nil {
			return err
		}
	}
	out.WriteByte(marks[1])
	return nil
}
