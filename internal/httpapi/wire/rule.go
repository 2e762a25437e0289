package wire

import (
	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// rule reads a type_rule. allocation.CheckRule reports contradictions.
type rule struct{ *budget.Rule }

// readRule reads a type_rule. It returns nil, after adding a fault, if the value is not an object.
func readRule(r *strictjson.Reader, name string) *budget.Rule {
	read := new(budget.Rule)
	r.Nested(name, &rule{read})
	if r.Has(name) {
		return nil
	}
	return read
}

func (d *rule) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "kind":
		r.Text(name, (*string)(&d.Kind), nil)
	case "every":
		r.Text(name, (*string)(&d.Every), notEmpty)
	case "anchor":
		r.Nested(name, &anchor{&d.Anchor})
	case "quantity":
		r.Amount(name, &d.Quantity)
	case "unused":
		r.Text(name, (*string)(&d.Unused), notEmpty)
	case "max_rollover":
		r.Amount(name, &d.MaxRollover)
	case "partial":
		r.Text(name, (*string)(&d.Partial), notEmpty)
	case "windows":
		r.List(name, func(i int) strictjson.Body {
			if i > allocation.MaxWindows {
				return nil
			}
			d.Windows = append(d.Windows, budget.Window{})
			return &window{d.Windows, i}
		})
	default:
		return false
	}
	return true
}

func (d *rule) Check(r *strictjson.Reader) {
	r.Require("kind")
	if r.Seen("windows") && len(d.Windows) == 0 && !r.Has("windows") {
		r.Invalid("windows", "must list at least one segment of the day")
	}
}

// anchor reads where the periods of a calendar begin. budget.Anchor reports contradictions.
type anchor struct{ *budget.Anchor }

func (d *anchor) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "day":
		r.Int(name, &d.Day, 1, 31)
	case "weekday":
		r.Text(name, (*string)(&d.Weekday), notEmpty)
	case "hour":
		r.Int(name, &d.Hour, 0, 23)
	default:
		return false
	}
	return true
}

func (d *anchor) Check(r *strictjson.Reader) {
	if len(r.Members) == 0 {
		r.Invalid("", "names neither day, weekday nor hour")
	}
}

// window reads the window at an index of a type_rule.
type window struct {
	of []budget.Window
	i  int
}

func (d *window) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "from":
		r.Text(name, &d.of[d.i].From, nil)
	case "to":
		r.Text(name, &d.of[d.i].To, nil)
	case "quantity":
		r.Amount(name, &d.of[d.i].Quantity)
	default:
		return false
	}
	return true
}

func (d *window) Check(r *strictjson.Reader) { r.Require("from", "to", "quantity") }

// judged returns the rule to check with the rest of a definition. It makes a rule whose quantity
// could not be read differ from one without a quantity. nil stays nil.
func judged(r *strictjson.Reader, read *budget.Rule) *budget.Rule {
	if read == nil || !r.Has("type_rule.quantity") {
		return read
	}
	with := *read
	with.Quantity = 1
	return &with
}

// notEmpty returns what is wrong with a word that must be absent rather than empty, or "".
func notEmpty(word string) string {
	if word == "" {
		return "must not be empty: leave it out"
	}
	return ""
}

// checkLateRefund returns what is wrong with a late_refund, or "".
func checkLateRefund(where string) string {
	switch budget.Where(where) {
	case budget.ToTotal, budget.Next, budget.Forfeit:
		return ""
	}
	return `must be "total", "next" or "forfeit"`
}

// checkZone returns what is wrong with the name of a time zone, or "".
func checkZone(name string) string {
	if _, err := iana.Zone(name); err != nil || name == "" {
		return `must be an IANA time zone, such as "UTC" or "Asia/Shanghai"; this node has release ` +
			iana.Release()
	}
	return ""
}
