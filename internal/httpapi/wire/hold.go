package wire

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// holdTarget is the target of a call on holds: one request id, or a group.
type holdTarget struct{ RequestID, Group, Receipt string }

func (w *holdTarget) member(r *strictjson.Reader, name string) bool {
	switch name {
	case "request_id":
		r.Text(name, &w.RequestID, budget.CheckRequestID)
	case "group":
		r.Text(name, &w.Group, budget.CheckRequestID)
	case "receipt":
		r.Text(name, &w.Receipt, budget.CheckKey)
	default:
		return false
	}
	return true
}

// check requires a request id or a group, and refuses members of single holds with a group.
func (w *holdTarget) check(r *strictjson.Reader, single ...string) {
	if !r.Seen("group") {
		r.Require("request_id")
		return
	}
	for _, name := range append([]string{"request_id", "receipt"}, single...) {
		if r.Seen(name) {
			r.Invalid(name, `cannot stand beside "group", which names all of its holds`)
		}
	}
}

// Confirmation is the body of a confirm.
type Confirmation struct {
	holdTarget
	Amount int64
}

func (b *Confirmation) Member(r *strictjson.Reader, name string) bool {
	if name == "amount" {
		r.Amount(name, &b.Amount)
		return true
	}
	return b.member(r, name)
}

func (b *Confirmation) Check(r *strictjson.Reader) { b.check(r, "amount") }

// Extension is the body of an extend.
type Extension struct {
	holdTarget
	TTL time.Duration
}

func (b *Extension) Member(r *strictjson.Reader, name string) bool {
	if name == "hold_ttl" {
		readHold(r, name, &b.TTL)
		return true
	}
	return b.member(r, name)
}

func (b *Extension) Check(r *strictjson.Reader) {
	b.check(r)
	r.Require("hold_ttl")
}

// readHold reads the lifetime of a hold.
func readHold(r *strictjson.Reader, name string, into *time.Duration) {
	r.Duration(name, into)
	if r.Has(name) {
		return
	}
	if !budget.ValidHoldTTL(*into) {
		r.Invalid(name, "must be whole milliseconds, %s to %s",
			strictjson.FormatDuration(budget.MinHoldTTL),
			strictjson.FormatDuration(budget.MaxHoldTTL))
	}
}

// held is the JSON form of the holds of a group.
type held struct {
	Group      string          `json:"group"`
	Deductions []deductionView `json:"deductions"`
}

// HeldOf returns the JSON form of one deduction, or of those of a group.
func HeldOf(group string, views []bucket.DeductionView) any {
	if group == "" && len(views) == 1 {
		return DeductionOf(&views[0])
	}
	out := &held{Group: group, Deductions: make([]deductionView, len(views))}
	for i := range views {
		out.Deductions[i] = *DeductionOf(&views[i])
	}
	return out
}
