package strictjson

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/budget"
)

// record reads the members of a struct as the tags of its fields say: json has the name, check what
// package api documents.
type record struct {
	plan *plan
	at   reflect.Value
	// next is the field after the one that was read last.
	next int
}

// of returns the record, for the struct that into points to.
func (s *record) of(into any) *record { return s.in(reflect.ValueOf(into).Elem()) }

func (s *record) in(at reflect.Value) *record {
	if s.plan == nil || s.plan.of != at.Type() {
		s.plan = planOf(at.Type())
	}
	s.at = at
	s.next = 0
	return s
}

func (s *record) Member(r *Reader, name string) bool {
	fields := s.plan.fields
	for range fields { // members usually come in the order of the fields
		f := &fields[s.next]
		if s.next++; s.next == len(fields) {
			s.next = 0
		}
		if f.name == name {
			f.read(r, name, s.at.FieldByIndex(f.index))
			return true
		}
	}
	return false
}

// Tagged reads a member into the struct that into points to, as its tags say.
func (r *Reader) Tagged(name string, into any) bool {
	return new(record).of(into).Member(r, name)
}

// Check adds faults for missing members and calls the Validate of the struct.
func (s *record) Check(r *Reader) {
	r.Require(s.plan.required...)
	if !s.plan.validated {
		return
	}
	switch v := s.at.Addr().Interface().(type) {
	case validator:
		v.Validate(&r.Object)
	case *budget.Anchor:
		if len(r.Members) == 0 {
			r.Invalid("", "names neither day, weekday nor hour")
		}
	case *budget.Rule:
		if r.Seen("windows") && len(v.Windows) == 0 && !r.Has("windows") {
			r.Invalid("windows", "must list at least one segment of the day")
		}
	}
}

// validator is a struct with rules about several of its members.
type validator interface{ Validate(o *api.Object) }

// plan says how the members of a type of struct are read.
type plan struct {
	of reflect.Type
	// validated means that there are rules about several members.
	validated bool
	fields    []field
	required  []string
}

type field struct {
	name  string
	index []int
	read  reading
}

// reading reads a member into a field, and leaves the field unchanged after a fault.
type reading func(r *Reader, name string, at reflect.Value)

var plans sync.Map // of *plan by reflect.Type

// planOf returns the plan of a type. It panics if a tag or the type of a field is unknown.
func planOf(of reflect.Type) *plan {
	if known, ok := plans.Load(of); ok {
		return known.(*plan)
	}
	p := &plan{of: of}
	switch reflect.New(of).Interface().(type) {
	case validator, *budget.Anchor, *budget.Rule:
		p.validated = true
	}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		c := checksOf(f.Tag.Get("check"))
		p.fields = append(p.fields, field{name, f.Index, c.reading(f.Type)})
		if c.required {
			p.required = append(p.required, name)
		}
	}
	plans.Store(of, p)
	return p
}

// reading returns how a value of a type is read.
func (c checks) reading(of reflect.Type) reading {
	switch reflect.New(of).Interface().(type) {
	case *string:
		return c.string()
	case *int64:
		least, most := c.least, c.most
		return func(r *Reader, name string, at reflect.Value) {
			r.Integer(name, at.Addr().Interface().(*int64), least, most)
		}
	case *time.Time:
		return func(r *Reader, name string, at reflect.Value) {
			r.Time(name, at.Addr().Interface().(*time.Time))
		}
	case *[]string:
		return func(r *Reader, name string, at reflect.Value) {
			r.Strings(name, at.Addr().Interface().(*[]string), int(c.most), c.text)
		}
	case *map[string]string:
		return func(r *Reader, name string, at reflect.Value) {
			r.Texts(name, at.Addr().Interface().(*map[string]string), int(c.most), c.text)
		}
	case *map[string]int64:
		return func(r *Reader, name string, at reflect.Value) {
			r.Integers(name, at.Addr().Interface().(*map[string]int64), int(c.most), c.text)
		}
	}
	switch of.Kind() {
	case reflect.String:
		return func(r *Reader, name string, at reflect.Value) {
			text := at.String()
			r.Text(name, &text, c.text)
			at.SetString(text)
		}
	case reflect.Int, reflect.Int64:
		return func(r *Reader, name string, at reflect.Value) {
			number := at.Int()
			r.Integer(name, &number, c.least, c.most)
			at.SetInt(number)
		}
	case reflect.Bool:
		return func(r *Reader, name string, at reflect.Value) {
			r.Bool(name, at.Addr().Interface().(*bool))
		}
	case reflect.Struct:
		return func(r *Reader, name string, at reflect.Value) { r.Nested(name, new(record).in(at)) }
	case reflect.Pointer:
		return c.pointer(of.Elem())
	case reflect.Slice:
		return c.list
	}
	panic("strictjson: a member cannot be a " + of.String())
}

func (c checks) string() reading {
	if c.same {
		return func(r *Reader, name string, at reflect.Value) {
			r.ID(name, at.Addr().Interface().(*string))
		}
	}
	check := c.text
	return func(r *Reader, name string, at reflect.Value) {
		r.Text(name, at.Addr().Interface().(*string), check)
	}
}

// pointer reads a value that may be absent. Faulty objects stay absent.
func (c checks) pointer(to reflect.Type) reading {
	read := c.reading(to)
	return func(r *Reader, name string, at reflect.Value) {
		value := reflect.New(to)
		if !c.null || !r.Null() {
			read(r, name, value.Elem())
		}
		if to.Kind() != reflect.Struct || !r.Has(name) {
			at.Set(value)
		}
	}
}

// list reads an array of structs. It keeps one that is too many, for the rules to find.
func (c checks) list(r *Reader, name string, at reflect.Value) {
	if c.null && r.Null() {
		return
	}
	at.Set(reflect.MakeSlice(at.Type(), 0, 0))
	r.List(name, func(i int) Body {
		if int64(i) > c.most {
			return nil
		}
		at.Set(reflect.Append(at, reflect.Zero(at.Type().Elem())))
		return new(record).in(at.Index(i))
	})
}

// checks is what a tag check says.
type checks struct {
	required, null bool
	// same means that equal texts share their memory.
	same bool
	// least and most bound an integer, most the elements of a list or an object.
	least, most int64
	// text returns what is wrong with a text; nil allows any.
	text func(string) string
}

func checksOf(tag string) checks {
	var c checks
	for _, word := range strings.Fields(tag) {
		least, most, ranged := strings.Cut(word, "..")
		number, counted := strings.CutPrefix(word, "most=")
		switch {
		case word == "required":
			c.required = true
		case word == "null":
			c.null = true
		case word == "same":
			c.same = true
		case ranged:
			c.least = bound(least)
			c.most = bound(most)
		case counted:
			c.most = bound(number)
		case named[word] != nil:
			c.text = named[word]
		default:
			panic(fmt.Sprintf("strictjson: check %q is not known", word))
		}
	}
	return c
}

// bound returns the number that a tag names.
func bound(text string) int64 {
	if n, known := bounds[text]; known {
		return n
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("strictjson: bound %q is not known", text))
	}
	return n
}

// Each is a body with one member, an array of 1 to Most objects, each with faults of its own.
type Each struct {
	Name string
	Most int
	// Next returns where the next object and its faults go.
	Next func() (into any, faults *api.Faults)
	// TooMany reports that there are more than Most. The rest is not read.
	TooMany bool
	count   int
	element record
}

// Member implements Body.
func (e *Each) Member(r *Reader, name string) bool {
	if name != e.Name {
		return false
	}
	r.Objects(name, func(i int) (Body, *api.Faults) {
		if i == e.Most {
			e.TooMany = true
			return nil, nil
		}
		into, faults := e.Next()
		e.count++
		if body, is := into.(Body); is {
			return body, faults
		}
		return e.element.of(into), faults
	})
	return true
}

// Check implements Body.
func (e *Each) Check(r *Reader) {
	r.Require(e.Name)
	if e.count == 0 && r.Seen(e.Name) && !r.Has(e.Name) && !r.Has(e.Name+"[0]") {
		r.Invalid(e.Name, "must hold 1 to %d deductions", e.Most)
	}
}
