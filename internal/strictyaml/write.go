package strictyaml

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// FromJSON returns a JSON value as YAML. Members keep their order, numbers their digits, and a text
// that would be read as something else is in quotes.
func FromJSON(text []byte) ([]byte, error) {
	document, err := nodeOf(jsontext.NewDecoder(bytes.NewReader(text)))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	err = encoder.Encode(document)
	return out.Bytes(), err
}

// nodeOf reads one value.
func nodeOf(from *jsontext.Decoder) (*yaml.Node, error) {
	n := &yaml.Node{Kind: yaml.ScalarNode}
	token, err := from.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		err := n.Encode(token.String())
		if n.Tag != "!!str" { // <<, which is a merge key
			n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
		}
		return n, err
	case '{':
		n.Kind = yaml.MappingNode
	case '[':
		n.Kind = yaml.SequenceNode
	default: // a number, true, false or null is written the same
		n.Value = token.String()
		return n, nil
	}
	for end := from.PeekKind(); end != '}' && end != ']'; end = from.PeekKind() {
		below, err := nodeOf(from)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, below)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err = from.ReadToken()
	return n, err
}
