package strictjson

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// scan reads the common parts of JSON without the library: objects, arrays, strings without
// escapes, integers, true and false. At the first token that is anything else or invalid, the
// library takes over: it reads the tokens up to there again and continues. So the library alone
// decides what is refused and how the fault is named.
type scan struct {
	text []byte
	// pos is the end of the last token, next the beginning of the token that peek saw.
	pos, next int
	// after is the kind of the last token.
	after position
	// depth is the number of objects and arrays around pos. Bit n of arrays reports that the n-th
	// is an array.
	depth  int
	arrays uint64
	// handed reports that the library has taken over.
	handed bool
}

// position is where in the grammar a text is.
type position uint8

const (
	atStart position = iota
	atOpened
	atName
	atValue
)

// maxScanDepth bounds the depth, maxScanNames the members of one object that scan reads; it
// searches all earlier names for each name.
const maxScanDepth, maxScanNames = 60, 64

// peek returns the kind of the next token.
func (r *Reader) peek() jsontext.Kind {
	if !r.handed {
		if kind := r.scan.peek(); kind != 0 {
			return kind
		}
		r.handOver()
	}
	return r.decoder.PeekKind()
}

// peek returns 0 if the library must read the next token.
func (s *scan) peek() jsontext.Kind {
	i := s.space(s.pos)
	if i == len(s.text) {
		return 0
	}
	array := s.depth > 0 && s.arrays>>s.depth&1 == 1
	closing := byte('}')
	if array {
		closing = ']'
	}
	switch s.after {
	case atName:
		if s.text[i] != ':' {
			return 0
		}
		i = s.space(i + 1)
	case atValue:
		if s.depth > 0 && s.text[i] == closing {
			s.next = i
			return jsontext.Kind(closing)
		}
		if s.depth == 0 || s.text[i] != ',' {
			return 0
		}
		i = s.space(i + 1)
	case atOpened:
		if s.text[i] == closing {
			s.next = i
			return jsontext.Kind(closing)
		}
	}
	if i == len(s.text) {
		return 0
	}
	s.next = i
	switch c := s.text[i]; c {
	case '{', '[', '"', 't', 'f':
		return jsontext.Kind(c)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	}
	return 0
}

// space returns the first position from i on that is not white space.
func (s *scan) space(i int) int {
	for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\n' || s.text[i] == '\t' ||
		s.text[i] == '\r') {
		i++
	}
	return i
}

// handOver lets the library read from here on.
func (r *Reader) handOver() {
	r.handed = true
	r.source = *bytes.NewBuffer(r.scan.text)
	r.decoder.Reset(&r.source)
	for r.decoder.InputOffset() < int64(r.pos) {
		if _, err := r.decoder.ReadToken(); !r.check(err) {
			return
		}
	}
}

// open consumes the beginning of the object or array that peek saw.
func (r *Reader) open() bool {
	if !r.handed && r.depth < maxScanDepth {
		r.depth++
		r.arrays &^= 1 << r.depth
		if r.scan.text[r.next] == '[' {
			r.arrays |= 1 << r.depth
		}
		r.pos, r.after = r.next+1, atOpened
		return true
	}
	_, ok := r.token()
	return ok
}

// close consumes the end of the object or array being read.
func (r *Reader) close(end jsontext.Kind) bool {
	if !r.handed && r.scan.peek() == end {
		r.depth--
		r.pos, r.after = r.next+1, atValue
		return true
	}
	_, ok := r.token()
	return ok
}

// name consumes the name of a member. The names of its object so far are seen[outer:]. kept reports
// that the name is in the cache.
func (r *Reader) name(outer int) (name string, kept, ok bool) {
	if !r.handed && r.scan.text[r.next] == '"' && len(r.seen)-outer < maxScanNames {
		if text, end, ok := r.plain(); ok {
			if name, kept = r.names[string(text)]; !kept {
				name = string(text)
			}
			if !slices.Contains(r.seen[outer:], name) {
				r.pos, r.after = end, atName
				return name, kept, true
			}
		}
	}
	token, ok := r.token()
	if !ok {
		return "", false, false
	}
	return token.String(), false, true
}

// keepName adds a name to the cache, so that its next use needs no copy.
func (r *Reader) keepName(name string) {
	if _, known := r.names[name]; known || len(name) > maxNameBytes {
		return
	}
	if r.names == nil || len(r.names) >= maxNames {
		r.names = make(map[string]string, maxNames)
	}
	r.names[name] = name
}

// maxNames and maxNameBytes bound the cached names, because callers choose some of them.
const maxNames, maxNameBytes = 64, 64

// plain returns the string at next and its end. ok is false if the library must read it.
func (s *scan) plain() (text []byte, end int, ok bool) {
	ascii := true
	for i := s.next + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			text = s.text[s.next+1 : i]
			return text, i + 1, ascii || utf8.Valid(text)
		case c < ' ' || c == '\\':
			return nil, 0, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, 0, false
}

// string consumes the string that peek saw. The text is valid until the next call.
func (r *Reader) string() ([]byte, bool) {
	if !r.handed {
		if text, end, ok := r.plain(); ok {
			r.pos, r.after = end, atValue
			return text, true
		}
	}
	token, ok := r.token()
	if !ok {
		return nil, false
	}
	return []byte(token.String()), true
}

// sound consumes the next value if it is a string that scan can read and that passes check.
// Otherwise it returns false and consumes nothing.
func (r *Reader) sound(check func(string) string) (string, bool) {
	if r.broken || r.peek() != '"' || r.handed {
		return "", false
	}
	read, end, ok := r.plain()
	if !ok {
		return "", false
	}
	text := string(read)
	if check(text) != "" {
		return "", false
	}
	r.pos, r.after = end, atValue
	return text, true
}

// repeated consumes the next value if it is the string that ID read last, as in most batches, whose
// items share one budget.
func (r *Reader) repeated() bool {
	if r.broken || r.handed || r.id == "" || r.peek() != '"' || r.handed {
		return false
	}
	text, end, ok := r.plain()
	if !ok || string(text) != r.id {
		return false
	}
	r.pos, r.after = end, atValue
	return true
}

// number consumes the number that peek saw. The text is valid until the next call.
func (r *Reader) number() ([]byte, bool) {
	if !r.handed {
		if end := r.scan.integer(); end > 0 {
			text := r.scan.text[r.next:end]
			r.pos, r.after = end, atValue
			return text, true
		}
	}
	return r.value()
}

// integer returns the end of the integer at next, or 0 if the library must read it.
func (s *scan) integer() int {
	i := s.next
	if s.text[i] == '-' {
		i++
	}
	first := i
	for i < len(s.text) && s.text[i] >= '0' && s.text[i] <= '9' {
		i++
	}
	if i == len(s.text) || i == first || s.text[first] == '0' && i > first+1 {
		return 0
	}
	switch s.text[i] {
	case ',', '}', ']', ' ', '\n', '\t', '\r':
		return i
	}
	return 0
}

// boolean consumes the true or false whose beginning peek saw.
func (r *Reader) boolean() (value, ok bool) {
	if !r.handed {
		for _, text := range [...]string{"true", "false"} {
			if rest := r.scan.text[r.next:]; len(rest) > len(text) && string(rest[:len(text)]) == text {
				r.pos, r.after = r.next+len(text), atValue
				return text == "true", true
			}
		}
	}
	token, ok := r.token()
	return ok && token.Bool(), ok
}

// ended reports whether only white space is left.
func (r *Reader) ended() bool {
	return !r.handed && r.space(r.pos) == len(r.scan.text)
}

// token, value and skip call the library.

func (r *Reader) token() (jsontext.Token, bool) {
	r.needLibrary()
	token, err := r.decoder.ReadToken()
	return token, r.check(err)
}

func (r *Reader) value() (jsontext.Value, bool) {
	r.needLibrary()
	value, err := r.decoder.ReadValue()
	return value, r.check(err)
}

func (r *Reader) skip() bool {
	r.needLibrary()
	return r.check(r.decoder.SkipValue())
}

func (r *Reader) needLibrary() {
	if !r.handed {
		r.handOver()
	}
}
