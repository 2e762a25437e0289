package httpapi

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json/jsontext"
)

// DataPath is what data calls ask of the service. Each method runs on the goroutine of the caller's
// connection and returns when it is known what became of the call, soon after ctx's deadline at the latest.
// The texts and maps of a request are the service's to keep. Waiting for ctx.Done costs a timer for each call;
// ctx.Deadline costs nothing.
type DataPath interface {
	Deductions
	Holds
	Checks
}

// Deductions are the service's verbs on deductions. Errors are *budget.Error; any other one may have
// happened.
type Deductions interface {
	Deduct(ctx context.Context, request bucket.DeductRequest) (bucket.DeductAnswer, error)
	// DeductAll is Deduct for each request: those of one id of a budget one after the other in the order given, others
	// side by side. The results are in the order given.
	DeductAll(ctx context.Context, requests []bucket.DeductRequest) []bucket.DeductResult
	// DryRun answers what Deduct would be answered now, and changes nothing.
	DryRun(ctx context.Context, request bucket.DeductRequest) (bucket.CheckAnswer, error)
	Rollback(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
	Cancel(ctx context.Context, ref bucket.BudgetRef, requestID string) (bucket.DeductionView, error)
}

// Lookups finds what became of a request id.
type Lookups interface {
	Deduction(ctx context.Context, ref bucket.BudgetRef, requestID string) (bucket.DeductionView, error)
}

func (a *API) deduct(d *data) (answer, error) {
	one := &d.deduct
	body, got := &one.body, &one.got
	ref, err := d.budget(d.query("tenant"))
	if err == nil {
		err = d.read(body)
	}
	body.request.Budget = ref
	if err == nil && body.dryRun {
		return a.dryRun(d.ctx, body.request)
	}
	if err == nil {
		*got, err = a.service.Deduct(d.ctx, body.request)
	}
	a.observeDeduction(got, err)
	one.made = acceptedOf(got)
	return answer{body: &one.made}, err
}

// deductWork is all that is needed of a deduct, at once.
type deductWork struct {
	body deduction
	got  bucket.DeductAnswer
	made accepted
}

// observeDeduction counts what became of a deduct.
func (a *API) observeDeduction(got *bucket.DeductAnswer, err error) {
	if err == nil {
		a.observer.Deduction("", got.Replayed)
		return
	}
	a.observer.Deduction(settle(err, "deduct", true).Code, false)
}

func (a *API) rollback(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body giveBack
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	if body.group != "" {
		return a.rollbackGroup(d.ctx, ref, &body)
	}
	view, err := a.service.Rollback(d.ctx, bucket.RollbackRequest{Receipt: body.receipt,
		Budget: ref, RequestID: body.requestID, RollbackID: body.rollbackID, Amount: body.amount,
	})
	return answer{body: deductionOf(&view)}, err
}

func (a *API) cancel(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	body := giveBack{whole: true}
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	view, err := a.service.Cancel(d.ctx, ref, body.requestID)
	return answer{body: deductionOf(&view)}, err
}

func (a *API) deduction(c *call) (answer, error) {
	query := c.query("tenant", "request_id")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	id := query.Get("request_id")
	if why := budget.CheckRequestID(id); why != "" {
		c.faults.Invalid("request_id", "%s", why)
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	view, err := a.service.Deduction(c.ctx, ref, id)
	return answer{body: deductionOf(&view)}, err
}

// deduction is the body of a deduct.
type deduction struct {
	request bucket.DeductRequest
	dryRun  bool
}

func (d *deduction) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "request_id":
		r.Text(name, &d.request.RequestID, budget.CheckRequestID)
	case "amount":
		r.Amount(name, &d.request.Amount)
	case "key":
		r.Text(name, &d.request.Key, budget.CheckKey)
	case "dimensions":
		r.Texts(name, &d.request.Dimensions, budget.MaxDimensions, budget.CheckKey)
	case "reference":
		r.Text(name, &d.request.Reference, budget.CheckKey)
	case "dry_run":
		r.Bool(name, &d.dryRun)
	case "counts":
		readCounts(r, name, &d.request.Counts)
	case "hold_ttl":
		readHold(r, name, &d.request.HoldTTL)
	case "group":
		r.Text(name, &d.request.Group, budget.CheckRequestID)
	default:
		return false
	}
	return true
}

func (d *deduction) Check(r *strictjson.Reader) {
	r.Require("request_id", "amount")
	if r.Seen("group") && !r.Seen("hold_ttl") {
		r.Invalid("group", `needs "hold_ttl": it names holds that are confirmed or rolled back together`)
	}
}

// giveBack is the body of a rollback, or of a cancel, which is always of the whole.
type giveBack struct {
	whole                 bool
	requestID, rollbackID string
	receipt, group        string
	amount                int64
}

func (d *giveBack) Member(r *strictjson.Reader, name string) bool {
	switch {
	case name == "request_id":
		r.Text(name, &d.requestID, budget.CheckRequestID)
	case name == "receipt":
		r.Text(name, &d.receipt, budget.CheckKey)
	case d.whole:
		return false
	case name == "rollback_id":
		r.Text(name, &d.rollbackID, budget.CheckRequestID)
	case name == "amount":
		r.Amount(name, &d.amount)
	case name == "group":
		r.Text(name, &d.group, budget.CheckRequestID)
	default:
		return false
	}
	return true
}

func (d *giveBack) Check(r *strictjson.Reader) { (&whom{}).check(r, "amount", "rollback_id") }

// accepted is the answer to a deduct. Quantities are minor units.
type accepted struct {
	RequestID       string       `json:"request_id"`
	Outcome         string       `json:"outcome"`
	Amount          int64        `json:"amount"`
	State           ledger.State `json:"state"`
	Bucket          string       `json:"bucket"`
	Remaining       *int64       `json:"remaining"`
	BudgetRemaining *int64       `json:"budget_remaining"`
	PeriodRemaining *int64       `json:"period_remaining,omitzero"`
	Unlimited       bool         `json:"unlimited,omitzero"`
	HoldUntil       time.Time    `json:"hold_until,omitzero"`
	Limits          []limitState `json:"limits"`
	Receipt         string       `json:"receipt"`
	Replayed        bool         `json:"replayed"`
}

// acceptedOf shares d's figures.
func acceptedOf(d *bucket.DeductAnswer) accepted {
	a := accepted{
		RequestID: d.RequestID, Outcome: "accepted", Amount: d.Amount, State: d.State, Bucket: d.Bucket,
		PeriodRemaining: d.PeriodRemaining, Unlimited: d.Unlimited, HoldUntil: inUTC(d.HoldUntil),
		Limits: statesOf(d.Limits), Receipt: d.Receipt, Replayed: d.Replayed,
	}
	if !d.Unlimited {
		a.Remaining, a.BudgetRemaining = &d.Remaining, &d.BudgetRemaining
	}
	return a
}

// deductionView is what is recorded of a request id. A tombstone has neither amount nor bucket.
type deductionView struct {
	RequestID  string         `json:"request_id"`
	State      ledger.State   `json:"state"`
	Amount     int64          `json:"amount"`
	RolledBack int64          `json:"rolled_back"`
	Confirmed  int64          `json:"confirmed,omitzero"`
	HoldUntil  time.Time      `json:"hold_until,omitzero"`
	Group      string         `json:"group,omitzero"`
	Bucket     string         `json:"bucket,omitzero"`
	Dimensions jsontext.Value `json:"dimensions,omitzero"`
	Reference  string         `json:"reference,omitzero"`
	CountedAt  time.Time      `json:"counted_at,omitzero"`
	Receipt    string         `json:"receipt,omitzero"`
	Replayed   bool           `json:"replayed"`
}

func deductionOf(d *bucket.DeductionView) *deductionView {
	v := &deductionView{
		RequestID: d.RequestID, State: d.State, Amount: d.Amount, RolledBack: d.RolledBack,
		Confirmed: d.Confirmed, HoldUntil: inUTC(d.HoldUntil), Group: d.Group,
		Bucket: d.Bucket, Reference: d.Reference,
		CountedAt: inUTC(d.CountedAt), Receipt: d.Receipt, Replayed: d.Replayed,
	}
	if d.Dimensions != "" {
		v.Dimensions = jsontext.Value(d.Dimensions)
	}
	return v
}
