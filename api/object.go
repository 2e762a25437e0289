package api

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/budgetd/budgetd/budget"
)

const (
	// maxFaults bounds the faults in an answer.
	maxFaults = 100
	// maxFieldBytes bounds the name of a field in an answer, because callers can send names of any
	// length.
	maxFieldBytes = 64
)

// Object is a JSON object of a request that has been read, as a method Validate sees it.
type Object struct {
	*Faults
	// Within is the place of the object, as in its members' faults: "type_rule.".
	Within string
	// Members are the names of its members.
	Members []string
}

// Malformed adds a fault of form of a member.
func (o *Object) Malformed(name, format string, args ...any) {
	o.Faults.Malformed(o.field(name), format, args...)
}

// Invalid adds a value of a member that is not allowed, or is missing. "" is the object itself.
func (o *Object) Invalid(name, format string, args ...any) {
	o.Faults.Invalid(o.field(name), format, args...)
}

// Has reports whether a member has a fault.
func (o *Object) Has(name string) bool { return o.Faults.Has(o.field(name)) }

// field returns the name of a member in answers; "" is the object itself.
func (o *Object) field(name string) string {
	if name == "" {
		return strings.TrimSuffix(o.Within, ".")
	}
	return o.Within + name
}

// Seen reports whether the object has a member.
func (o *Object) Seen(name string) bool { return slices.Contains(o.Members, name) }

// Require adds a fault for each of these members that is missing.
func (o *Object) Require(names ...string) {
	for _, name := range names {
		if !o.Seen(name) {
			o.Invalid(name, "is missing")
		}
	}
}

// Faults collects the faults of a request. The zero value is ready for use.
type Faults struct {
	malformed, invalid []budget.FieldError
	dropped            int
}

// Malformed adds a fault of form. Field "" means the whole body.
func (f *Faults) Malformed(field, format string, args ...any) {
	f.malformed = f.note(f.malformed, field, format, args)
}

// Invalid adds a value that is not allowed, or is missing.
func (f *Faults) Invalid(field, format string, args ...any) {
	f.invalid = f.note(f.invalid, field, format, args)
}

// Merge adds faults found elsewhere as invalid values, except for fields that have a fault already.
func (f *Faults) Merge(faults []budget.FieldError) {
	for _, fault := range faults {
		if !f.Has(fault.Field) {
			f.Invalid(fault.Field, "%s", fault.Message)
		}
	}
}

func (f *Faults) note(list []budget.FieldError, field, format string,
	args []any) []budget.FieldError {
	if len(f.malformed)+len(f.invalid) >= maxFaults {
		f.dropped++
		return list
	}
	message := fmt.Sprintf(format, args...)
	return append(list, budget.FieldError{Field: shorten(field), Message: message})
}

// Raise adds the faults of form of an element to those of the whole.
func (f *Faults) Raise(whole *Faults, element string) {
	for _, fault := range f.malformed {
		if !strings.HasPrefix(fault.Field, element) {
			fault.Field = element + "." + fault.Field
		}
		whole.Malformed(fault.Field, "%s", fault.Message)
	}
}

// Has reports whether a field has a fault.
func (f *Faults) Has(field string) bool {
	field = shorten(field)
	for _, list := range [...][]budget.FieldError{f.malformed, f.invalid} {
		for i := range list {
			if list[i].Field == field {
				return true
			}
		}
	}
	return false
}

// Err returns nil without faults. Otherwise it returns one *budget.Error with all of them:
// Malformed if any fault is, else Invalid.
func (f *Faults) Err(op string) error {
	if len(f.malformed)+len(f.invalid) == 0 {
		return nil
	}
	e := budget.Refuse(budget.Invalid, op, "the request has values that are not allowed")
	if len(f.malformed) > 0 {
		e = budget.Refuse(budget.Malformed, op, "the request is not in the form that this call expects")
	}
	if f.dropped > 0 {
		e.Message += fmt.Sprintf("; %d more faults are not listed", f.dropped)
	}
	e.Fields = append(append(e.Fields, f.malformed...), f.invalid...)
	return e
}

// shorten cuts a field's name between characters and marks the cut. It replaces bytes that are not
// UTF-8, which the name of a parameter may contain.
func shorten(field string) string {
	field = strings.ToValidUTF8(field, "\ufffd")
	if len(field) <= maxFieldBytes {
		return field
	}
	cut := maxFieldBytes
	for cut > 0 && !utf8.RuneStart(field[cut]) {
		cut--
	}
	return field[:cut] + "…"
}
