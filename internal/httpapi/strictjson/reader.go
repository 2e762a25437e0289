package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/budgetd/budgetd/api"
	"github.com/go-json-experiment/json/jsontext"
)

// Body is the JSON object of a request, or a part of it.
type Body interface {
	// Member reads the value of a member with exactly one of r's methods. It returns false for an
	// unknown member, without reading its value.
	Member(r *Reader, name string) bool
	// Check is called after the last member. It adds faults for missing members and contradictions.
	Check(r *Reader)
}

// Reader reads one body. Its methods add faults instead of returning them, and leave their target
// unchanged after a fault.
type Reader struct {
	// Object is the object being read. Its Members are the end of seen.
	api.Object
	scan
	// decoder reads source once the library takes over.
	decoder jsontext.Decoder
	source  bytes.Buffer
	// names caches the names of members of earlier objects.
	names map[string]string
	// id is the text that ID read last.
	id string
	// strings is the target of Texts.
	strings texts
	// member is the member being read, for faults of syntax. seen lists the members of the objects
	// being read.
	member string
	seen   []string
	broken bool
	// whole is the object that is read into a struct, or one element of a list.
	whole record
}

var readers = sync.Pool{New: func() any { return new(Reader) }}

// Read reads a body into an object and adds every fault. It keeps nothing of the body.
func Read(body []byte, into any, faults *api.Faults) { read(body, into, faults, false) }

// read is Read; with library set, the library reads the whole body.
func read(body []byte, into any, faults *api.Faults, library bool) {
	if len(body) == 0 {
		faults.Malformed("", "the body is empty, a JSON object is needed")
		return
	}
	r := readers.Get().(*Reader)
	defer readers.Put(r)
	r.Object = api.Object{Faults: faults}
	r.member = ""
	r.seen = r.seen[:0]
	r.broken = false
	r.scan = scan{text: body}
	if library {
		r.handOver()
	}
	if body, is := into.(Body); is {
		r.object("", body)
	} else {
		r.object("", r.whole.of(into))
	}
	if !r.broken && !r.ended() {
		r.needLibrary()
		if _, err := r.decoder.ReadToken(); !errors.Is(err, io.EOF) {
			r.Malformed("", "something follows the JSON object")
		}
	}
	if r.handed {
		r.source = bytes.Buffer{}
		r.decoder.Reset(&r.source) // so it keeps nothing of the body either
	}
	r.Object = api.Object{}
	r.scan = scan{}
	r.source = bytes.Buffer{}
	r.strings = texts{}
	r.whole.at = reflect.Value{}
	if len(r.seen) > 0 || cap(r.seen) > maxNames {
		r.seen = nil
	}
}

// object reads an object. A fault of its type is added under name.
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
		r.Members = r.seen[outer:]
		into.Check(r)
		r.Members = nil
		r.seen = r.seen[:outer]
	}
}

// Nested reads an object within the one being read. Faults name its members "name.member".
func (r *Reader) Nested(name string, into Body) {
	outer := r.Within
	defer func() { r.Within, r.member = outer, name }()
	if r.expect(name, '{', "an object") {
		r.Within = outer + name + "."
		r.object("", into)
	}
}

// List reads an array of objects within the object being read. Faults name members
// "name[1].member". next returns the target of the element at an index, or nil to skip an element
// that is one too many.
func (r *Reader) List(name string, next func(i int) Body) {
	if !r.expect(name, '[', "an array") {
		return
	}
	outer := r.Within
	defer func() { r.Within = outer }()
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
			r.Within = outer + item + "."
			r.object("", into)
			r.Within = outer
		}
		r.member = name
	}
	r.close(']')
}

// Objects reads an array of objects. next is called with each index before the element is read, and
// returns the element's target and its faults; nil stops the reading of the whole body. An element
// that is not an object is a fault of the whole.
func (r *Reader) Objects(name string, next func(i int) (Body, *api.Faults)) {
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
		if kind != '{' { // the list itself is malformed
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
			// The text itself is wrong: that is a fault of the whole, not of the item.
			faults.Raise(whole, fmt.Sprintf("%s[%d]", name, i))
			return
		}
		r.member = name
	}
	r.close(']')
}

// expect reports whether the next value is of a kind. If it is not, expect adds a fault and skips
// the value.
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

// check adds a syntax error once. Nothing can be read after it.
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

// fieldOf converts a JSON pointer to the name of a field in answers: dimensions.user,
// windows[1].to. A member whose name looks like an index becomes an index.
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
