package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Body is a JSON object that a request consists of.
type Body interface {
	// Member reads the value of a member with exactly one of r's methods. false: no such member is
	// known, and nothing was read.
	Member(r *Reader, name string) bool
	// Check is called after the last member: it notes what is missing or does not go together.
	Check(r *Reader)
}

// Reader reads one body. Its methods note faults instead of returning them and leave their target
// as it was where there is one.
type Reader struct {
	*Faults
	scan
	// decoder reads source, where the library reads.
	decoder jsontext.Decoder
	source  bytes.Buffer
	// names are the names of members of earlier objects.
	names map[string]string
	// id is what ID read last.
	id string
	// strings is what Texts reads into.
	strings texts
	// member is the member being read, for faults of syntax; seen lists those of the object being
	// read.
	member string
	seen   []string
	broken bool
	// within is where the object being read lies, as its members' faults begin: "type_rule.".
	within string
}

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Read reads a body into an object and notes every fault. It keeps nothing of the body.
func Read(body []byte, into Body, faults *Faults) { read(body, into, faults, false) }

// read is Read; library: the library reads all of it.
func read(body []byte, into Body, faults *Faults, library bool) {
	if len(body) == 0 {
		faults.Malformed("", "the body is empty, a JSON object is needed")
		return
	}
	r := readers.Get().(*Reader)
	defer readers.Put(r)
	r.Faults, r.member, r.seen, r.broken, r.within = faults, "", r.seen[:0], false, ""
	r.scan = scan{text: body}
	if library {
		r.handOver()
	}
	r.object("", into)
	if !r.broken && !r.ended() {
		r.needLibrary()
		if _, err := r.decoder.ReadToken(); !errors.Is(err, io.EOF) {
			r.Malformed("", "something follows the JSON object")
		}
	}
	if r.handed {
		r.source = bytes.Buffer{}
		r.decoder.Reset(&r.source) // it keeps nothing of the body either
	}
	r.Faults, r.scan, r.source, r.strings = nil, scan{}, bytes.Buffer{}, texts{}
	if len(r.seen) > 0 || cap(r.seen) > maxFaults {
		r.seen = nil
	}
}

// object reads an object; name is what a fault of its type is noted under.
func (r *Reader) object(name string, into Body) {
	if !r.expect(name, '{', "an object") {
		return
	}
	outer := len(r.seen)
	r.open()
	for !r.broken && r.peek() != '}' {
		name, kept, ok := r.name(outer)
		if !ok {
			return
		}
		r.member = name
		if into.Member(r, name) {
			r.seen = append(r.seen, name)
			if !kept {
				r.keepName(name)
			}
		} else if r.skip() {
			r.Malformed(name, "is not known here")
		}
	}
	if r.close('}') {
		seen := r.seen
		r.seen = seen[outer:]
		into.Check(r)
		r.seen = seen[:outer]
	}
}

// Object reads an object within the one being read; its faults name its members as "name.member".
func (r *Reader) Object(name string, into Body) {
	outer := r.within
	defer func() { r.within, r.member = outer, name }()
	if r.expect(name, '{', "an object") {
		r.within = outer + name + "."
		r.object("", into)
	}
}

// List reads an array of objects within the object being read; faults name their members as
// "name[1].member". next returns where the one of an index goes, nil for one too many: it is
// skipped.
func (r *Reader) List(name string, next func(i int) Body) {
	if !r.expect(name, '[', "an array") {
		return
	}
	outer := r.within
	defer func() { r.within = outer }()
	r.open()
	for i := 0; !r.broken && r.peek() != ']'; i++ {
		into := next(i)
		if into == nil {
			r.member = name
			r.skip()
			continue
		}
		item := fmt.Sprintf("%s[%d]", name, i)
		if r.expect(item, '{', "an object") {
			r.within = outer + item + "."
			r.object("", into)
			r.within = outer
		}
		r.member = name
	}
	r.close(']')
}

// Malformed notes that a member of the object being read is not what it is made of.
func (r *Reader) Malformed(name, format string, args ...any) {
	r.Faults.Malformed(r.field(name), format, args...)
}

// Invalid notes that a member of the object being read has a value that is not allowed, or is
// missing.
func (r *Reader) Invalid(name, format string, args ...any) {
	r.Faults.Invalid(r.field(name), format, args...)
}

// Has reports whether a fault of a member of the object being read has been noted.
func (r *Reader) Has(name string) bool { return r.Faults.Has(r.field(name)) }

// field is the name in answers of a member of the object being read, "" being that object itself.
func (r *Reader) field(name string) string {
	if name == "" {
		return strings.TrimSuffix(r.within, ".")
	}
	return r.within + name
}

// Seen reports whether the object being read has a member of that name.
func (r *Reader) Seen(name string) bool { return slices.Contains(r.seen, name) }

// None reports whether the object being read has no known member.
func (r *Reader) None() bool { return len(r.seen) == 0 }

// Require notes which of these members are missing.
func (r *Reader) Require(names ...string) {
	for _, name := range names {
		if !r.Seen(name) {
			r.Invalid(name, "is missing")
		}
	}
}

// Objects reads an array of objects. next is called for each with its index before it is read, and
// returns where it goes and where its faults do; nil ends the reading, the rest of the body with
// it. An element that is no object is a fault of the whole.
func (r *Reader) Objects(name string, next func(i int) (Body, *Faults)) {
	if !r.expect(name, '[', "an array") {
		return
	}
	r.open()
	whole := r.Faults
	defer func() { r.Faults = whole }()
	for i := 0; ; i++ {
		kind := r.peek()
		if kind == ']' || kind == 0 {
			break
		}
		if kind != '{' { // the list as a whole is not what it is made of
			if r.expect(fmt.Sprintf("%s[%d]", name, i), '{', "an object"); r.broken {
				return
			}
			continue
		}
		into, faults := next(i)
		if into == nil {
			r.broken = true
			return
		}
		r.Faults = faults
		r.object("", into)
		r.Faults = whole
		if r.broken {
			// The text itself is at fault: that is a fault of the whole, not of the item.
			item := fmt.Sprintf("%s[%d]", name, i)
			for _, fault := range faults.malformed {
				if !strings.HasPrefix(fault.Field, item) {
					fault.Field = item + "." + fault.Field
				}
				r.Malformed(fault.Field, "%s", fault.Message)
			}
			return
		}
		r.member = name
	}
	r.close(']')
}

// expect reports whether the next value is of a kind; otherwise it notes that and skips the value.
func (r *Reader) expect(name string, kind jsontext.Kind, what string) bool {
	if r.broken {
		return false
	}
	got := r.peek()
	if got == kind {
		return true
	}
	if r.skip() {
		r.Malformed(name, "must be %s, not %s", what, kindName(got))
	}
	return false
}

func kindName(kind jsontext.Kind) string {
	switch kind {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "something else"
}

// check notes an error of syntax, once; nothing can be read after it.
func (r *Reader) check(err error) bool {
	if err == nil {
		return true
	}
	if r.broken {
		return false
	}
	r.broken = true
	var syntax *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		r.Malformed(r.member, "the JSON text ends too early")
	case !errors.As(err, &syntax):
		r.Malformed(r.member, "is not valid JSON")
	case errors.Is(err, jsontext.ErrDuplicateName):
		r.Faults.Malformed(fieldOf(syntax.JSONPointer), "appears twice")
	default:
		r.Malformed(r.member, "is not valid JSON: %v at byte %d", syntax.Err, syntax.ByteOffset)
	}
	return false
}

// fieldOf writes a JSON pointer as fields are named in answers: dimensions.user, windows[1].to. A
// member that is called like an index is written like one.
func fieldOf(pointer jsontext.Pointer) string {
	var field strings.Builder
	for token := range pointer.Tokens() {
		_, err := strconv.ParseUint(token, 10, 32)
		switch {
		case err == nil && field.Len() > 0:
			field.WriteString("[" + token + "]")
			continue
		case field.Len() > 0:
			field.WriteByte('.')
		}
		field.WriteString(token)
	}
	return field.String()
}
