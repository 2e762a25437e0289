package httpapi

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
)

// DataPath is what data calls ask of the service. Each method runs on the goroutine of the caller's
// connection and returns when it is known what became of the call, soon after ctx's deadline at the
// latest. The texts and maps of a request are the service's to keep. Waiting for ctx.Done costs a
// timer for each call; ctx.Deadline costs nothing.
type DataPath interface {
	Deductions
	Holds
	Checks
}

// Deductions are the service's verbs on deductions. Errors are *budget.Error; any other one may
// have happened.
type Deductions interface {
	Deduct(ctx context.Context, request bucket.DeductRequest) (bucket.DeductAnswer, error)
	// DeductAll is Deduct for each request: those of one id of a budget one after the other in the
	// order given, others side by side. The results are in the order given.
	DeductAll(ctx context.Context, requests []bucket.DeductRequest) []bucket.DeductResult
	// DryRun answers what Deduct would be answered now, and changes nothing.
	DryRun(ctx context.Context, request bucket.DeductRequest) (bucket.CheckAnswer, error)
	Rollback(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
	// Cancel uses Budget, RequestID, Key and Receipt of a request.
	Cancel(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
}

// Lookups finds what became of a request id.
type Lookups interface {
	Deduction(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
}

func (a *API) deduct(d *data) (answer, error) {
	one := &d.deduct
	body, got := &one.body, &one.got
	ref, err := d.budget(d.query("tenant"))
	if err == nil {
		err = d.read(body)
	}
	body.Request.Budget, body.Request.By = ref, d.by()
	if err == nil && body.DryRun {
		return a.dryRun(d.ctx, body.Request)
	}
	if err == nil {
		*got, err = a.service.Deduct(d.ctx, body.Request)
	}
	a.observeDeduction(&body.Request, got, err)
	one.made = wire.AcceptedOf(got)
	return answer{body: &one.made}, err
}

// deductWork is all that is needed of a deduct, at once.
type deductWork struct {
	body wire.Deduction
	got  bucket.DeductAnswer
	made wire.Accepted
}

// observeDeduction counts what became of a deduct; request is nil where it was not read.
func (a *API) observeDeduction(request *bucket.DeductRequest, got *bucket.DeductAnswer, err error) {
	var refused *budget.Error
	if err == nil {
		a.observer.Deduction("", got.Replayed)
	} else {
		refused = wire.Settle(err, "deduct", true)
		a.observer.Deduction(refused.Code, false)
	}
	if a.overseer != nil {
		a.overseer.Deducted(request, refused)
	}
}

func (a *API) rollback(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body wire.GiveBack
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	if body.Group != "" {
		return a.rollbackGroup(d, ref, &body)
	}
	view, err := a.service.Rollback(d.ctx, bucket.RollbackRequest{Receipt: body.Receipt, Key: body.Key,
		Budget: ref, RequestID: body.RequestID, RollbackID: body.RollbackID, Amount: body.Amount,
		OnlyBy: d.onlyBy(),
	})
	return answer{body: wire.DeductionOf(&view)}, err
}

func (a *API) cancel(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	body := wire.GiveBack{Whole: true}
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	view, err := a.service.Cancel(d.ctx, bucket.RollbackRequest{Budget: ref, RequestID: body.RequestID,
		Key: body.Key, Receipt: body.Receipt, OnlyBy: d.onlyBy()})
	return answer{body: wire.DeductionOf(&view)}, err
}

func (a *API) deduction(c *call) (answer, error) {
	query := c.query("tenant", "request_id", "key", "receipt")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	id := query.Get("request_id")
	if why := budget.CheckRequestID(id); why != "" {
		c.faults.Invalid("request_id", "%s", why)
	}
	request := bucket.RollbackRequest{Budget: ref, RequestID: id, Key: query.Get("key"),
		Receipt: query.Get("receipt")}
	for _, of := range []struct{ name, text string }{{"key", request.Key},
		{"receipt", request.Receipt}} {
		if why := budget.CheckKey(of.text); query.Has(of.name) && why != "" {
			c.faults.Invalid(of.name, "%s", why)
		}
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	view, err := a.service.Deduction(c.ctx, request)
	return answer{body: wire.DeductionOf(&view)}, err
}

// Holds are the service's verbs on holds, of one request id or of a group: one view, or one per
// hold of the group, by request id. Errors as Deductions.
type Holds interface {
	Confirm(ctx context.Context, request bucket.ConfirmRequest) ([]bucket.DeductionView, error)
	Extend(ctx context.Context, request bucket.ExtendRequest) ([]bucket.DeductionView, error)
	RollbackGroup(ctx context.Context, request bucket.RollbackRequest) ([]bucket.DeductionView, error)
	// HoldsOf lists the open holds of a budget, at most limit, those first that expire first.
	HoldsOf(ctx context.Context, ref bucket.BudgetRef, limit int) ([]bucket.OpenHold, error)
}

func (a *API) confirm(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body wire.Confirmation
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	views, err := a.service.Confirm(d.ctx, bucket.ConfirmRequest{Budget: ref,
		RequestID: body.RequestID, Group: body.Group, Amount: body.Amount, Receipt: body.Receipt})
	return answer{body: wire.HeldOf(body.Group, views)}, err
}

func (a *API) extend(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body wire.Extension
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	views, err := a.service.Extend(d.ctx, bucket.ExtendRequest{Budget: ref, RequestID: body.RequestID,
		Group: body.Group, HoldTTL: body.TTL, Receipt: body.Receipt})
	return answer{body: wire.HeldOf(body.Group, views)}, err
}

// rollbackGroup gives back every hold of a group.
func (a *API) rollbackGroup(d *data, ref bucket.BudgetRef, body *wire.GiveBack) (answer, error) {
	views, err := a.service.RollbackGroup(d.ctx, bucket.RollbackRequest{Budget: ref,
		Group: body.Group, OnlyBy: d.onlyBy()})
	return answer{body: wire.HeldOf(body.Group, views)}, err
}

// holdList is the open holds of a budget as answered.
type holdList struct {
	Holds []holdView `json:"holds"`
}

// holdView is an open hold. Amount is in minor units.
type holdView struct {
	RequestID string    `json:"request_id"`
	Group     string    `json:"group,omitzero"`
	Amount    int64     `json:"amount"`
	Bucket    string    `json:"bucket"`
	HeldAt    time.Time `json:"held_at"`
	HoldUntil time.Time `json:"hold_until"`
}

// openHolds answers the open holds of a budget, those first that expire first.
func (a *API) openHolds(c *call) (answer, error) {
	query := c.query("tenant", "page_size")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	limit := c.pageSize(query)
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	list, err := a.service.HoldsOf(c.ctx, ref, limit)
	out := holdList{Holds: make([]holdView, len(list))}
	for i, h := range list {
		out.Holds[i] = holdView{h.RequestID, h.Group, h.Amount, h.BucketKey, wire.InUTC(h.At),
			wire.InUTC(h.Until)}
	}
	return answer{body: out}, err
}
