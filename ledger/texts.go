package ledger

import (
	"encoding/json"
	"slices"
	"strings"
)

// canonical returns the JSON of texts by name, as json.Marshal writes it: members sorted by name,
// no white space. Texts that need escapes are left to encoding/json.
func canonical(texts map[string]string) string {
	names, size := make([]string, 0, len(texts)), 2
	for name, text := range texts {
		if !isPlain(name) || !isPlain(text) {
			all, err := json.Marshal(texts)
			if err != nil {
				panic(err) // strings always have a JSON form
			}
			return string(all)
		}
		names, size = append(names, name), size+len(name)+len(text)+len(`"":"",`)
	}
	slices.Sort(names)
	out := append(make([]byte, 0, size), '{')
	for i, name := range names {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, '"'), name...), `":"`...)
		out = append(append(out, texts[name]...), '"')
	}
	return string(append(out, '}'))
}

// isPlain reports whether json.Marshal writes a text without escapes.
func isPlain(text string) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// readCanonical parses JSON of texts by name, such as the result of canonical. It returns nil for
// any other text.
func readCanonical(text string) (texts map[string]string) {
	if plain, ok := readPlain(text); ok {
		return plain
	}
	if json.Unmarshal([]byte(text), &texts) != nil {
		return nil
	}
	return texts
}

// readPlain parses JSON of texts by name that has no escapes and no white space. ok is false for
// any other text.
func readPlain(text string) (texts map[string]string, ok bool) {
	texts = make(map[string]string, strings.Count(text, `":"`))
	ok = eachPlain(text, func(name, value string) bool {
		texts[name] = value
		return true
	})
	if !ok {
		return nil, false
	}
	return texts, true
}

// eachPlain calls each for the members of such JSON in order. ok is false if the text is another
// one, or if each returned false, which ends the calls.
func eachPlain(text string, each func(name, value string) bool) (ok bool) {
	rest, ok := strings.CutPrefix(text, "{")
	if !ok || strings.IndexByte(text, '\\') >= 0 {
		return false
	}
	for {
		var name, value string
		if name, rest, ok = readQuoted(rest); !ok {
			return false
		}
		if rest, ok = strings.CutPrefix(rest, ":"); !ok {
			return false
		}
		if value, rest, ok = readQuoted(rest); !ok || !each(name, value) {
			return false
		}
		if rest == "}" {
			return true
		}
		if rest, ok = strings.CutPrefix(rest, ","); !ok {
			return false
		}
	}
}

func readQuoted(text string) (inner, rest string, ok bool) {
	if text, ok = strings.CutPrefix(text, `"`); !ok {
		return "", "", false
	}
	inner, rest, ok = strings.Cut(text, `"`)
	return inner, rest, ok && isPlain(inner)
}
