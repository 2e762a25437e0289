package strictjson

import (
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Text reads a string. check returns what is wrong with it, or ""; a nil check allows any string.
func (r *Reader) Text(name string, into *string, check func(string) string) {
	if !r.expect(name, '"', "a string") {
		return
	}
	read, ok := r.string()
	if !ok {
		return
	}
	text := string(read)
	if check != nil {
		if why := check(text); why != "" {
			r.Invalid(name, "%s", why)
			return
		}
	}
	*into = text
}

// Amount reads an amount of 1 … budget.MaxAmount minor units.
func (r *Reader) Amount(name string, into *int64) { r.Integer(name, into, 1, budget.MaxAmount) }

// Integer reads an integer of least … most, which lie within ±budget.MaxAmount.
func (r *Reader) Integer(name string, into *int64, least, most int64) {
	if !r.expect(name, '0', "an integer") {
		return
	}
	value, ok := r.number()
	if !ok {
		return
	}
	text := string(value)
	if strings.ContainsAny(text, ".eE") {
		r.Malformed(name, "must be an integer, written without fraction and exponent")
		return
	}
	number, ok := parseInteger(text)
	if !ok || number < least || number > most {
		r.Invalid(name, "must be an integer of %d to %d", least, most)
		return
	}
	*into = number
}

// parseInteger parses an integer of JSON's grammar. ok is false for -0 and beyond
// ±budget.MaxAmount.
func parseInteger(text string) (number int64, ok bool) {
	if text == "0" {
		return 0, true
	}
	digits, negative := strings.CutPrefix(text, "-")
	number, ok = budget.ParseAmount(digits)
	if negative {
		number = -number
	}
	return number, ok
}

// Bool reads true or false.
func (r *Reader) Bool(name string, into *bool) {
	if r.broken {
		return
	}
	switch r.peek() {
	case 't', 'f':
		if value, ok := r.boolean(); ok {
			*into = value
		}
	default:
		r.expect(name, 't', "true or false")
	}
}

// Time reads an instant in RFC 3339 with a zone. It returns it in UTC, truncated to milliseconds.
func (r *Reader) Time(name string, into *time.Time) {
	var text string
	r.Text(name, &text, func(text string) string {
		var at time.Time
		if err := at.UnmarshalText([]byte(text)); err != nil {
			return "must be a time with its zone as in RFC 3339: 2026-01-31T09:00:00Z"
		}
		if at = at.UTC().Truncate(time.Millisecond); at.IsZero() {
			return "must not be the first instant of the year 1"
		}
		*into = at
		return ""
	})
}

// Null reads null if that is next, and reports whether it was.
func (r *Reader) Null() bool {
	if r.broken || r.peek() != 'n' {
		return false
	}
	return r.skip()
}

// Texts reads an object of strings with at most limit members; names and values must pass check.
func (r *Reader) Texts(name string, into *map[string]string, limit int, check func(string) string) {
	r.strings = texts{name, into, limit, check, nil} // such objects do not nest
	r.object(name, &r.strings)
	r.member = name
}

// texts is the Body of Texts.
type texts struct {
	name  string
	into  *map[string]string
	limit int
	check func(string) string
	read  map[string]string
}

func (t *texts) Member(r *Reader, name string) bool {
	value, ok := "", false
	if why := t.check(name); why != "" {
		r.Invalid(t.name, "the name of a member %s", why)
		r.Text(t.name, &value, t.check)
	} else if value, ok = r.sound(t.check); !ok {
		r.Text(t.name+"."+name, &value, t.check)
	}
	if t.read == nil {
		t.read = make(map[string]string, 4)
	}
	if len(t.read) <= t.limit {
		t.read[name] = value
	}
	return true
}

func (t *texts) Check(r *Reader) {
	if len(t.read) > t.limit {
		r.Invalid(t.name, "has more than %d members", t.limit)
		return
	}
	*t.into = t.read
}

// ID reads the name of a budget, or its id in digits. Equal ids share their memory.
func (r *Reader) ID(name string, into *string) {
	if r.repeated() {
		*into = r.id
		return
	}
	r.Text(name, into, nil)
	if r.id = ""; len(*into) <= maxNameBytes {
		r.id = *into
	}
}
