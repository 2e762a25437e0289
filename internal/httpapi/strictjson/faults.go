package strictjson

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/budgetd/budgetd/budget"
)

const (
	// maxFaults bounds the answer to a body that is nothing but faults.
	maxFaults = 100
	// maxFieldBytes bounds the name of a field in an answer: callers choose names of any length.
	maxFieldBytes = 64
)

// Faults collects what is wrong with a request. The zero value is ready.
type Faults struct {
	malformed, invalid []budget.FieldError
	dropped            int
}

// Malformed notes that a field is not what it is made of. Field "" means the body as a whole.
func (f *Faults) Malformed(field, format string, args ...any) {
	f.malformed = f.note(f.malformed, field, format, args)
}

// Invalid notes a value that is not allowed, or missing.
func (f *Faults) Invalid(field, format string, args ...any) {
	f.invalid = f.note(f.invalid, field, format, args)
}

// Merge notes faults found elsewhere as invalid values, except where the field has a fault already.
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

// Has reports whether a fault of the field has been noted.
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

// Err returns nil without faults, else one *budget.Error with all of them: Malformed when any is,
// Invalid otherwise.
func (f *Faults) Err(op string) error {
	if len(f.malformed)+len(f.invalid) == 0 {
		return nil
	}
	e := budget.Refuse(budget.Invalid, op, "the request has values that are not allowed")
	if len(f.malformed) > 0 {
		e = budget.Refuse(budget.Malformed, op, "the request is not made as this call expects it")
	}
	if f.dropped > 0 {
		e.Message += fmt.Sprintf("; %d more faults are not listed", f.dropped)
	}
	e.Fields = append(append(e.Fields, f.malformed...), f.invalid...)
	return e
}

// shorten cuts a field's name at a character border and marks the cut. Bytes of it that are no
// UTF-8, as in the name of a parameter, are replaced.
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
