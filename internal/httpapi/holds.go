package httpapi

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// Holds are the service's verbs on holds, of one request id or of a group: one view, or one per hold of
// the group, by request id. Errors as Deductions.
type Holds interface {
	Confirm(ctx context.Context, request bucket.ConfirmRequest) ([]bucket.DeductionView, error)
	Extend(ctx context.Context, request bucket.ExtendRequest) ([]bucket.DeductionView, error)
	RollbackGroup(ctx context.Context, request bucket.RollbackRequest) ([]bucket.DeductionView, error)
}

func (a *API) confirm(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body confirmation
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	views, err := a.service.Confirm(d.ctx, bucket.ConfirmRequest{Budget: ref, RequestID: body.requestID,
		Group: body.group, Amount: body.amount, Receipt: body.receipt})
	return answer{body: heldOf(body.group, views)}, err
}

func (a *API) extend(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body extension
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	views, err := a.service.Extend(d.ctx, bucket.ExtendRequest{Budget: ref, RequestID: body.requestID,
		Group: body.group, HoldTTL: body.ttl, Receipt: body.receipt})
	return answer{body: heldOf(body.group, views)}, err
}

// rollbackGroup gives back every hold of a group.
func (a *API) rollbackGroup(ctx context.Context, ref bucket.BudgetRef, body *giveBack) (answer, error) {
	views, err := a.service.RollbackGroup(ctx, bucket.RollbackRequest{Budget: ref, Group: body.group})
	return answer{body: heldOf(body.group, views)}, err
}

// whom is what a call on holds names: one request id, or a group.
type whom struct{ requestID, group, receipt string }

func (w *whom) member(r *strictjson.Reader, name string) bool {
	switch name {
	case "request_id":
		r.Text(name, &w.requestID, budget.CheckRequestID)
	case "group":
		r.Text(name, &w.group, budget.CheckRequestID)
	case "receipt":
		r.Text(name, &w.receipt, budget.CheckKey)
	default:
		return false
	}
	return true
}

// check requires one of the two, and nothing of single holds beside a group.
func (w *whom) check(r *strictjson.Reader, single ...string) {
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

// confirmation is the body of a confirm.
type confirmation struct {
	whom
	amount int64
}

func (b *confirmation) Member(r *strictjson.Reader, name string) bool {
	if name == "amount" {
		r.Amount(name, &b.amount)
		return true
	}
	return b.member(r, name)
}

func (b *confirmation) Check(r *strictjson.Reader) { b.check(r, "amount") }

// extension is the body of an extend.
type extension struct {
	whom
	ttl time.Duration
}

func (b *extension) Member(r *strictjson.Reader, name string) bool {
	if name == "hold_ttl" {
		readHold(r, name, &b.ttl)
		return true
	}
	return b.member(r, name)
}

func (b *extension) Check(r *strictjson.Reader) {
	b.check(r)
	r.Require("hold_ttl")
}

// readHold reads how long a hold lasts.
func readHold(r *strictjson.Reader, name string, into *time.Duration) {
	r.Duration(name, into)
	if r.Has(name) {
		return
	}
	if !budget.ValidHoldTTL(*into) {
		r.Invalid(name, "must be whole milliseconds, %s to %s", strictjson.FormatDuration(budget.MinHoldTTL),
			strictjson.FormatDuration(budget.MaxHoldTTL))
	}
}

// held is what became of the holds of a group.
type held struct {
	Group      string          `json:"group"`
	Deductions []deductionView `json:"deductions"`
}

// heldOf is one deduction, or those of a group.
func heldOf(group string, views []bucket.DeductionView) any {
	if group == "" && len(views) == 1 {
		return deductionOf(&views[0])
	}
	out := &held{Group: group, Deductions: make([]deductionView, len(views))}
	for i := range views {
		out.Deductions[i] = *deductionOf(&views[i])
	}
	return out
}
