package adversarial

import (
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// names has what <<name>> stands for: limits of the target, columns of a table, and it.
type names map[string]line

// expand replaces every placeholder.
func (in names) expand(l line) (string, error) {
	var out strings.Builder
	for rest := l.text; ; {
		before, after, found := strings.Cut(rest, "<<")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		end := closing(after)
		if end < 0 {
			return "", fmt.Errorf("%s: << without >>", l.at)
		}
		text, err := in.replace(line{l.at, after[:end]})
		if err != nil {
			return "", err
		}
		out.WriteString(text)
		rest = after[end+len(">>"):]
	}
}

// closing returns where the >> stands that ends a placeholder, which may have others inside, or -1.
func closing(text string) int {
	depth := 1
	for i := 0; i+1 < len(text); i++ {
		switch text[i : i+2] {
		case "<<":
			depth++
			i++
		case ">>":
			depth--
			if depth == 0 {
				return i
			}
			i++
		}
	}
	return -1
}

// replace returns what a placeholder stands for.
func (in names) replace(l line) (string, error) {
	unknown := fmt.Errorf("%s: unknown placeholder <<%s>>", l.at, l.text)
	if value, found := in[l.text]; found {
		inner := maps.Clone(in)
		delete(inner, l.text) // so that no name stands for itself
		return inner.expand(value)
	}
	word, rest, _ := strings.Cut(l.text, " ")
	if word == "bytes" {
		raw, err := hex.DecodeString(strings.ReplaceAll(rest, " ", ""))
		if err != nil || len(raw) == 0 {
			return "", unknown
		}
		return string(raw), nil
	}
	n, err := in.number(word)
	if err != nil {
		return "", unknown
	}
	verb, text, _ := strings.Cut(rest, " ")
	switch {
	case rest == "":
		return strconv.Itoa(n), nil
	case rest == "hex":
		return strconv.FormatInt(int64(n), 16), nil
	case rest == "clock":
		return fmt.Sprintf("%02d:%02d", n/60%24, n%60), nil
	case verb == "times" && text != "":
		return in.repeat(n, line{l.at, text}, "")
	case verb == "items" && text != "":
		return in.repeat(n, line{l.at, text}, ",")
	}
	return "", unknown
}

// number returns the value of an integer or a name, to which another integer may be added.
func (in names) number(word string) (int, error) {
	base, change := word, "0"
	if i := strings.LastIndexAny(word, "+-"); i > 0 {
		base, change = word[:i], word[i:]
	}
	if value, found := in[base]; found {
		base = value.text
	}
	n, err := strconv.ParseInt(base, 0, 32)
	if err != nil {
		return 0, err
	}
	m, err := strconv.Atoi(change)
	return int(n) + m, err
}

// repeat returns n copies of a text with a separator between them. In each, n is its number.
func (in names) repeat(n int, l line, separator string) (string, error) {
	inner := maps.Clone(in)
	var out strings.Builder
	var text string
	for i := range n {
		if i == 0 || strings.Contains(l.text, "<<n") {
			inner["n"] = line{text: strconv.Itoa(i)}
			var err error
			text, err = inner.expand(l)
			if err != nil {
				return "", err
			}
		}
		out.WriteString(text + separator)
	}
	return strings.TrimSuffix(out.String(), separator), nil
}
