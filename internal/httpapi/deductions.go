package httpapi

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/ledger"
)

// DataPath is the part of the service that data calls use. Each method runs on the goroutine of the
// caller's connection. It returns when the outcome is known, at the latest soon after ctx's
// deadline. The service may keep the texts and maps of a request. Waiting for ctx.Done costs a
// timer per call; ctx.Deadline costs nothing.
type DataPath interface {
	Deductions
	Holds
	Checks
}

// Deductions is the part of the service that makes deductions and gives them back. Errors are
// *budget.Error; the outcome of any other error is unknown.
type Deductions interface {
	Deduct(ctx context.Context, request bucket.DeductRequest) (bucket.DeductAnswer, error)
	// DeductAll calls Deduct for each request. Requests with the same id and budget run one after
	// the other in the order given, others concurrently. The results are in the order given.
	DeductAll(ctx context.Context, requests []bucket.DeductRequest) []bucket.DeductResult
	// DryRun returns what Deduct would answer now. It changes nothing.
	DryRun(ctx context.Context, request bucket.DeductRequest) (bucket.CheckAnswer, error)
	Rollback(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
	// Cancel uses Budget, RequestID, Key and Receipt of a request.
	Cancel(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
}

// Lookups is the part of the service that finds the outcome of a request id.
type Lookups interface {
	Deduction(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
}

func (a *API) deduct(d *data) (answer, error) {
	one := &d.deduct
	body, request, got := &one.body, &one.request, &one.got
	ref, err := d.budget(d.query("tenant"))
	if err == nil {
		err = d.read(body)
	}
	*request = requestOf(ref, &body.DeductRequest, d.by())
	if err == nil && body.DryRun {
		return a.dryRun(d.ctx, *request)
	}
	if err == nil {
		*got, err = a.service.Deduct(d.ctx, *request)
	}
	a.observeDeduction(d.ctx, request, got, err)
	one.made = a.acceptedOf(got, request.HoldTTL)
	return answer{body: &one.made}, err
}

// deductWork holds what a deduct needs, in one allocation.
type deductWork struct {
	body    api.DeductBody
	request bucket.DeductRequest
	got     bucket.DeductAnswer
	made    api.DeductAnswer
}

// requestOf returns what a body asks for.
func requestOf(ref bucket.BudgetRef, r *api.DeductRequest, by string) bucket.DeductRequest {
	return bucket.DeductRequest{
		Budget:     ref,
		RequestID:  r.RequestID,
		Amount:     r.Amount,
		Key:        r.Key,
		Dimensions: r.Dimensions,
		Counts:     r.Counts,
		Reference:  r.Reference,
		HoldTTL:    lengthIn(r.HoldTTL),
		Group:      r.Group,
		Above:      aboveIn(r.Above),
		ExpiresAs:  expiresAsIn(r.ExpiresAs),
		By:         by,
	}
}

// aboveIn returns what a checked text means: the default is "".
func aboveIn(text string) ledger.Above {
	if above := ledger.Above(text); above != ledger.AboveRefuse {
		return above
	}
	return ""
}

// expiresAsIn returns what a checked text of a deduct means: the default is "".
func expiresAsIn(text string) ledger.ExpiresAs {
	if as := ledger.ExpiresAs(text); as != ledger.ExpiresReleased {
		return as
	}
	return ""
}

// lengthIn returns the length of time that a checked text means, 0 for "".
func lengthIn(text string) time.Duration {
	if text == "" {
		return 0
	}
	length, _ := strictjson.ParseDuration(text)
	return length
}

// observeDeduction counts the outcome of a deduct. ctx has its span, if any. request is nil if it
// could not be read.
func (a *API) observeDeduction(ctx context.Context, request *bucket.DeductRequest,
	got *bucket.DeductAnswer, err error) {
	traced := ""
	if a.tracer != nil {
		traced = recorded(trace.SpanFromContext(ctx))
	}
	var refused *budget.Error
	if err == nil {
		a.observer.Deduction("", got.Replayed, traced)
	} else {
		refused = errorOf(err, "deduct", true)
		a.observer.Deduction(refused.Code, false, traced)
	}
	if a.dashboard != nil {
		a.dashboard.Deducted(request, refused)
	}
}

func (a *API) rollback(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.RollbackRequest
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	request := bucket.RollbackRequest{
		Budget:     ref,
		RequestID:  body.RequestID,
		RollbackID: body.RollbackID,
		Group:      body.Group,
		Amount:     body.Amount,
		Receipt:    body.Receipt,
		OnlyBy:     d.onlyBy(),
		Key:        body.Key,
		NoKey:      body.NoKey,
		Dimensions: body.Dimensions,
	}
	if body.Group != "" {
		views, err := a.service.RollbackGroup(d.ctx, request)
		return answer{body: a.heldOf(body.Group, views, 0)}, err
	}
	view, err := a.service.Rollback(d.ctx, request)
	return answer{body: a.deductionOf(&view, 0)}, err
}

func (a *API) cancel(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.CancelRequest
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	view, err := a.service.Cancel(d.ctx, bucket.RollbackRequest{Budget: ref,
		RequestID: body.RequestID, Receipt: body.Receipt, OnlyBy: d.onlyBy(), Key: body.Key,
		NoKey: body.NoKey, Dimensions: body.Dimensions})
	return answer{body: a.deductionOf(&view, 0)}, err
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
	request.NoKey = query.Has("key") && request.Key == ""
	if why := strictjson.CheckOptionalKey(request.Key); why != "" {
		c.faults.Invalid("key", "%s", why)
	}
	if why := budget.CheckKey(request.Receipt); query.Has("receipt") && why != "" {
		c.faults.Invalid("receipt", "%s", why)
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	view, err := a.service.Deduction(c.ctx, request)
	return answer{body: a.deductionOf(&view, 0)}, err
}

// Holds is the part of the service that acts on the hold of a request id, or on a group of holds.
// It returns one view, or one per hold of the group, sorted by request id. Errors are those of
// Deductions.
type Holds interface {
	Confirm(ctx context.Context, request bucket.ConfirmRequest) ([]bucket.DeductionView, error)
	Extend(ctx context.Context, request bucket.ExtendRequest) ([]bucket.DeductionView, error)
	RollbackGroup(ctx context.Context, request bucket.RollbackRequest) ([]bucket.DeductionView, error)
	Renew(ctx context.Context, request bucket.RenewRequest) (bucket.Renewal, error)
	// HoldsOf lists at most limit open holds of a budget, those that expire first at the beginning.
	HoldsOf(ctx context.Context, ref bucket.BudgetRef, limit int) ([]bucket.OpenHold, error)
}

func (a *API) confirm(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.ConfirmRequest
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	views, err := a.service.Confirm(d.ctx, bucket.ConfirmRequest{Budget: ref,
		RequestID: body.RequestID, Group: body.Group, Amount: body.Amount, Receipt: body.Receipt,
		OnlyBy: d.onlyBy()})
	return answer{body: a.heldOf(body.Group, views, 0)}, err
}

func (a *API) extend(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.ExtendRequest
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	ttl := lengthIn(body.HoldTTL)
	views, err := a.service.Extend(d.ctx, bucket.ExtendRequest{Budget: ref, RequestID: body.RequestID,
		Group: body.Group, HoldTTL: ttl, ExpiresAs: ledger.ExpiresAs(body.ExpiresAs),
		Receipt: body.Receipt, OnlyBy: d.onlyBy()})
	return answer{body: a.heldOf(body.Group, views, ttl)}, err
}

func (a *API) renew(d *data) (answer, error) {
	ref, err := d.budget(d.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.RenewRequest
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	ttl := lengthIn(body.HoldTTL)
	r, err := a.service.Renew(d.ctx, bucket.RenewRequest{Budget: ref, RequestID: body.RequestID,
		Step: body.Step, Used: body.Used, Hold: body.Hold, HoldTTL: ttl, Receipt: body.Receipt,
		OnlyBy: d.onlyBy()})
	if err != nil {
		return answer{}, err
	}
	return answer{body: api.Renewal{RequestID: r.RequestID, Step: r.Step, UsedTotal: r.UsedTotal,
		Held: r.Held, Final: r.IsFinal, Uncollected: r.Uncollected, OverLimit: r.OverLimit,
		HoldUntil: inUTC(r.HoldUntil), ExpiresIn: *a.expiresIn(r.HoldUntil, r.State, ttl),
		Replayed: r.Replayed}}, nil
}

// openHolds answers the open holds of a budget, those that expire first at the beginning.
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
	out := api.HoldList{Holds: make([]api.OpenHold, len(list))}
	for i, h := range list {
		out.Holds[i] = api.OpenHold{RequestID: h.RequestID, Group: h.Group, Amount: h.Amount,
			Bucket: h.BucketKey, HeldAt: inUTC(h.At), HoldUntil: inUTC(h.Until),
			ExpiresIn: a.secondsUntil(h.Until)}
	}
	return answer{body: out}, err
}

// secondsUntil returns the seconds until an instant by the database's clock, rounded down to
// milliseconds; 0 if it has passed.
func (a *API) secondsUntil(end time.Time) float64 {
	left := end.Sub(a.sqlNow())
	return float64(max(0, left.Milliseconds())) / 1000
}

// expiresIn returns how long a hold lasts from now, and nil if a deduction never was a hold. ttl,
// unless it is 0, is the most: this node knows the database's clock only to some milliseconds, and
// the hold was given ttl just now.
func (a *API) expiresIn(until time.Time, state ledger.State, ttl time.Duration) *float64 {
	if until.IsZero() {
		return nil
	}
	var left float64
	if state == ledger.StateHeld {
		left = a.secondsUntil(until)
	}
	if ttl > 0 {
		left = min(left, float64(ttl.Milliseconds())/1000)
	}
	return &left
}

// acceptedOf returns the body that shows d, which asked for a hold of ttl, or 0. It shares d's
// figures.
func (a *API) acceptedOf(d *bucket.DeductAnswer, ttl time.Duration) api.DeductAnswer {
	if d.Replayed { // it may have been extended
		ttl = 0
	}
	out := api.DeductAnswer{
		RequestID: d.RequestID, Outcome: "accepted", Amount: d.Amount, State: string(d.State),
		Bucket: d.Bucket, PeriodRemaining: d.PeriodRemaining, Unlimited: d.Unlimited,
		HoldUntil: inUTC(d.HoldUntil), ExpiresIn: a.expiresIn(d.HoldUntil, d.State, ttl),
		Limits: statesOf(d.Limits), Receipt: d.Receipt, Replayed: d.Replayed,
	}
	for i := range d.Legs {
		out.Legs = append(out.Legs, api.ChargedLeg{Budget: d.Legs[i].Budget, Amount: d.Legs[i].Amount})
	}
	if d.Unlimited {
		return out
	}
	if !d.RemainingUnknown {
		out.BucketRemaining = &d.BucketRemaining
	}
	if d.FiguresUnknown {
		out.PeriodRemaining = nil
	} else {
		out.BudgetRemaining = &d.BudgetRemaining
	}
	return out
}

// deductionOf returns the body that shows d, which was just extended by ttl, or 0.
func (a *API) deductionOf(d *bucket.DeductionView, ttl time.Duration) api.Deduction {
	return api.Deduction{
		RequestID: d.RequestID, State: string(d.State), Amount: d.Amount, RolledBack: d.RolledBack,
		Confirmed: d.Confirmed, Above: string(d.Above), ExpiresAs: string(d.ExpiresAs), Extra: d.Extra,
		Uncollected: d.Uncollected, OverLimit: d.OverLimit, Late: d.Late,
		HoldUntil: inUTC(d.HoldUntil),
		ExpiresIn: a.expiresIn(d.HoldUntil, d.State, ttl), Group: d.Group,
		Bucket: d.Bucket, Dimensions: dimensionsIn(d.Dimensions), Reference: d.Reference,
		CountedAt: inUTC(d.CountedAt), Receipt: d.Receipt, Replayed: d.Replayed,
	}
}

// dimensionsIn reads stored dimensions. The API accepts no others, but other programs could write
// into the database: what cannot be read is nil.
func dimensionsIn(text string) map[string]string {
	if text == "" {
		return nil
	}
	var dimensions map[string]string
	if err := json.Unmarshal([]byte(text), &dimensions); err != nil {
		return nil
	}
	return dimensions
}

// heldOf returns the body that shows one deduction, or those of a group, extended by ttl, or 0.
func (a *API) heldOf(group string, views []bucket.DeductionView, ttl time.Duration) any {
	if group == "" && len(views) == 1 {
		return a.deductionOf(&views[0], ttl)
	}
	out := api.Group{Group: group, Deductions: make([]api.Deduction, len(views))}
	for i := range views {
		out.Deductions[i] = a.deductionOf(&views[i], ttl)
	}
	return out
}
