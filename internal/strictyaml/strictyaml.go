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

// Fault is a value that is not allowed. At is its path, such as budgets[0].limits.
type Fault struct {
	Line     int
	At, What string
}

// Faults are all values of a file that are not allowed, in its order.
type Faults []Fault

func (f Faults) Error() string {
	texts := make([]string, len(f))
	for i, one := range f {
		texts[i] = fmt.Sprintf("line %d: %s", one.Line, strings.TrimPrefix(one.At+" "+one.What, " "))
	}
	return strings.Join(texts, "; ")
}

// Parse returns the one document of a file, or nil if the file has none. Duplicate keys, anchors,
// merge keys, tags, keys that are no text, and numbers in another form than 10 or 0.5 are Faults.
// An error says where it is, and shows no value of the file.
func Parse(text []byte) (*yaml.Node, error) {
	document, err := one(text)
	if document == nil || err != nil {
		return nil, err
	}
	read := reading{nulls: true}
	read.value(document, "")
	return document, read.err()
}

// one returns the one document of a file, unchecked.
func one(text []byte) (*yaml.Node, error) {
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
	return document.Content[0], nil
}

// WithoutValues returns an error of the decoder that shows no value of the file.
func WithoutValues(err error) error {
	return errors.New(quoted.ReplaceAllString(err.Error(), "(not shown)"))
}

// JSON returns the document of a file as JSON. Numbers keep their digits. A key without a value is
// a fault, because it would read as if it were not there. With Faults it returns the document too,
// with null in place of each faulty value.
func JSON(text []byte) ([]byte, error) {
	document, err := one(text)
	switch {
	case err != nil:
		return nil, err
	case document == nil:
		return nil, errors.New("it is empty")
	}
	var read reading
	read.value(document, "")
	return read.out.Bytes(), read.err()
}

// reading checks a document and writes it as JSON.
type reading struct {
	out    bytes.Buffer
	faults Faults
	nulls  bool // whether a key may be without a value
}

func (r *reading) fault(n *yaml.Node, at, what string) {
	r.faults = append(r.faults, Fault{n.Line, at, what})
}

func (r *reading) err() error {
	if len(r.faults) == 0 {
		return nil
	}
	return r.faults
}

// value reads a value and what is below it.
func (r *reading) value(n *yaml.Node, at string) {
	switch tag := n.ShortTag(); {
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		r.fault(n, at, "must not have an anchor or an alias")
	case n.Style&yaml.TaggedStyle != 0:
		r.fault(n, at, "must not have a tag that begins with !")
	case (tag == "!!int" || tag == "!!float") && !number.MatchString(n.Value):
		r.fault(n, at, "must be a number such as 10 or 0.5: no leading zero, other base, +, _ or "+
			"exponent; a text that looks like a number must be in quotes")
	case n.Kind == yaml.MappingNode:
		r.mapping(n, at)
		return
	case n.Kind == yaml.SequenceNode:
		r.out.WriteByte('[')
		for i, value := range n.Content {
			if i > 0 {
				r.out.WriteByte(',')
			}
			r.value(value, at+"["+strconv.Itoa(i)+"]")
		}
		r.out.WriteByte(']')
		return
	case tag == "!!null" && !r.nulls:
		r.fault(n, at, "has no value: leave it out")
	case tag == "!!null":
	case tag == "!!int", tag == "!!float", tag == "!!bool":
		r.out.WriteString(strings.ToLower(n.Value))
		return
	default:
		r.text(n.Value)
		return
	}
	r.out.WriteString("null")
}

func (r *reading) mapping(n *yaml.Node, at string) {
	seen := map[string]bool{}
	r.out.WriteByte('{')
	for i := 0; i < len(n.Content); i += 2 {
		key, below := n.Content[i], strings.TrimPrefix(at+"."+n.Content[i].Value, ".")
		switch {
		case key.ShortTag() == "!!merge":
			r.fault(key, at, "must not have a merge key")
		case key.Kind != yaml.ScalarNode:
			r.fault(key, at, "a key must be a text")
		case seen[key.Value]:
			r.fault(key, below, "appears twice")
		default:
			if len(seen) > 0 {
				r.out.WriteByte(',')
			}
			seen[key.Value] = true
			r.text(key.Value)
			r.out.WriteByte(':')
			r.value(n.Content[i+1], below)
		}
	}
	r.out.WriteByte('}')
}

func (r *reading) text(value string) {
	text, _ := json.Marshal(value) // a string always can be
	r.out.Write(text)
}
