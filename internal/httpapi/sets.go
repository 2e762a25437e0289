package httpapi

import (
	"strconv"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// deductSet deducts from several budgets of a tenant, all or none.
func (a *API) deductSet(d *data) (answer, error) {
	tenant, err := d.ofTenant()
	if err != nil {
		return answer{}, err
	}
	var body api.SetRequest
	if err := d.read(&body); err != nil {
		return answer{}, err
	}
	ttl := lengthIn(body.HoldTTL)
	request := bucket.DeductRequest{Budget: bucket.BudgetRef{Tenant: tenant},
		RequestID: body.RequestID, Reference: body.Reference, HoldTTL: ttl,
		ExpiresAs: expiresAsIn(body.ExpiresAs), By: d.by(),
		Legs: make([]bucket.DeductRequest, len(body.Legs))}
	for i := range body.Legs {
		if request.Legs[i], err = d.legIn(tenant, i, &body.Legs[i]); err != nil {
			return answer{}, err
		}
	}
	if body.DryRun {
		return a.dryRunSet(d, request)
	}
	got, err := a.service.Deduct(d.ctx, request)
	a.observeDeduction(d.ctx, nil, &got, err)
	return answer{body: a.setOf(&got, ttl)}, err
}

// legIn returns the leg of a request with an index. The caller's scope must cover its budgets.
func (d *data) legIn(tenant string, i int, leg *api.SetLeg) (out bucket.DeductRequest, err error) {
	out = bucket.DeductRequest{Amount: leg.Amount, Key: leg.Key, Dimensions: leg.Dimensions,
		Counts: leg.Counts, Whole: leg.Split != nil && !*leg.Split}
	name := "legs[" + strconv.Itoa(i) + "]"
	if leg.From == nil {
		out.Budget, err = d.budgetOf(tenant, name+".budget", leg.Budget)
		return out, err
	}
	out.From = make([]bucket.BudgetRef, len(leg.From))
	for j, text := range leg.From {
		field := name + ".from[" + strconv.Itoa(j) + "]"
		if out.From[j], err = d.budgetOf(tenant, field, text); err != nil {
			return out, err
		}
	}
	return out, nil
}

// budgetOf returns the budget that a field names, which the caller's scope must cover.
func (d *data) budgetOf(tenant, field, text string) (bucket.BudgetRef, error) {
	ref, err := refOf(d.route.op, tenant, text)
	if err == nil {
		ref, err = d.within(d.route.op, ref)
	}
	if err == nil {
		return ref, nil
	}
	e := *errorOf(err, "deduct", false)
	if e.Code == budget.BudgetNotFound {
		e.Fields = []budget.FieldError{{Field: field, Message: "there is no such budget"}}
	}
	return ref, &e
}

// ofTenant returns the tenant of the query, which the caller's scope must cover.
func (d *data) ofTenant() (string, error) {
	tenant := d.tenant(d.query("tenant"))
	return tenant, d.onTenant(tenant)
}

// setOf returns the body that shows a set, which asked for a hold of ttl, or 0.
func (a *API) setOf(got *bucket.DeductAnswer, ttl time.Duration) api.SetAnswer {
	if got.Replayed {
		ttl = 0
	}
	out := api.SetAnswer{RequestID: got.RequestID, Outcome: "accepted", State: string(got.State),
		HoldUntil: inUTC(got.HoldUntil), ExpiresIn: a.expiresIn(got.HoldUntil, got.State, ttl),
		Replayed: got.Replayed, Legs: make([]api.SetLegAnswer, len(got.Legs))}
	for i := range got.Legs {
		l := &got.Legs[i]
		out.Legs[i] = api.SetLegAnswer{Budget: l.Budget, Amount: l.Amount, Bucket: l.Bucket,
			Unlimited: l.Unlimited, Charged: l.IsCharged, Limits: statesOf(l.Limits),
			BudgetRemaining: unless(l.Unlimited || l.FiguresUnknown, l.BudgetRemaining)}
		if !l.FiguresUnknown {
			out.Legs[i].PeriodRemaining = l.PeriodRemaining
		}
		for j := range l.Parts {
			out.Legs[i].Parts = append(out.Legs[i].Parts, api.SourcePart{Budget: l.Parts[j].Budget,
				Amount: l.Parts[j].Amount, Limits: statesOf(l.Parts[j].Limits)})
		}
	}
	return out
}

// dryRunSet answers a set with dry_run.
func (a *API) dryRunSet(d *data, request bucket.DeductRequest) (answer, error) {
	got, err := a.service.DryRun(d.ctx, request)
	if err == nil {
		err = got.Err
	}
	if err != nil {
		return answer{}, errorOf(err, "deduct", false)
	}
	if got.Recorded != nil {
		return answer{body: a.setOf(got.Recorded, 0)}, nil
	}
	out := api.SetAnswer{RequestID: request.RequestID, Outcome: "would_be_accepted",
		Legs: make([]api.SetLegAnswer, len(got.Legs))}
	for i := range got.Legs {
		l := &got.Legs[i]
		out.Legs[i] = api.SetLegAnswer{Budget: l.Budget, Amount: l.Amount, Unlimited: l.Unlimited,
			BudgetRemaining: unless(l.Unlimited || l.Legs != nil, l.BudgetRemaining),
			PeriodRemaining: l.PeriodRemaining, Limits: statesOf(l.Limits)}
		for j := range l.Legs {
			out.Legs[i].Parts = append(out.Legs[i].Parts,
				api.SourcePart{Budget: l.Legs[j].Budget, Amount: l.Legs[j].Amount})
		}
	}
	return answer{body: out}, nil
}

func (a *API) rollbackSet(d *data) (answer, error) {
	var body api.SetRollback
	return a.onSet(d, &body, func(ref bucket.BudgetRef, by string) ([]bucket.DeductionView, error) {
		view, err := a.service.Rollback(d.ctx, bucket.RollbackRequest{Budget: ref,
			RequestID: body.RequestID, RollbackID: body.RollbackID, Amounts: body.Amounts, OnlyBy: by})
		return []bucket.DeductionView{view}, err
	})
}

func (a *API) cancelSet(d *data) (answer, error) {
	var body api.SetCancel
	return a.onSet(d, &body, func(ref bucket.BudgetRef, by string) ([]bucket.DeductionView, error) {
		view, err := a.service.Cancel(d.ctx,
			bucket.RollbackRequest{Budget: ref, RequestID: body.RequestID, OnlyBy: by})
		return []bucket.DeductionView{view}, err
	})
}

func (a *API) confirmSet(d *data) (answer, error) {
	var body api.SetConfirm
	return a.onSet(d, &body, func(ref bucket.BudgetRef, by string) ([]bucket.DeductionView, error) {
		return a.service.Confirm(d.ctx, bucket.ConfirmRequest{Budget: ref, RequestID: body.RequestID,
			Amounts: body.Amounts, OnlyBy: by})
	})
}

func (a *API) extendSet(d *data) (answer, error) {
	var body api.SetExtend
	return a.onSet(d, &body, func(ref bucket.BudgetRef, by string) ([]bucket.DeductionView, error) {
		return a.service.Extend(d.ctx, bucket.ExtendRequest{Budget: ref, RequestID: body.RequestID,
			HoldTTL: lengthIn(body.HoldTTL), ExpiresAs: ledger.ExpiresAs(body.ExpiresAs), OnlyBy: by})
	})
}

// onSet reads the body of a verb and acts on a set of the tenant. A key for some budgets of the
// tenant acts on the sets that it made, and learns nothing of others.
func (a *API) onSet(d *data, body any,
	act func(ref bucket.BudgetRef, by string) ([]bucket.DeductionView, error)) (answer, error) {
	tenant, err := d.ofTenant()
	if err != nil {
		return answer{}, err
	}
	if err := d.read(body); err != nil {
		return answer{}, err
	}
	by, limited := d.setsBy()
	views, err := act(bucket.BudgetRef{Tenant: tenant}, by)
	if limited && (budget.Is(err, budget.Forbidden) || budget.Is(err, budget.DeductionNotFound)) {
		err = budget.Refuse(budget.DeductionNotFound, d.route.op, "this key has made no such set")
	}
	if err != nil {
		return answer{}, err
	}
	return answer{body: a.recordedSet(&views[0])}, nil
}

// setsBy returns the principal whose sets the caller may act on; "" means anybody's. limited says
// that its scope has only some budgets.
func (d *data) setsBy() (by string, limited bool) {
	if d.principal != nil &&
		(len(d.principal.Scope.Budgets) > 0 || d.principal.Scope.Subtree != 0) {
		return d.principal.Name, true
	}
	return d.onlyBy(), false
}

// findSet answers what is recorded of a set.
func (a *API) findSet(c *call) (answer, error) {
	query := c.query("tenant", "request_id")
	tenant := c.tenant(query)
	if err := c.onTenant(tenant); err != nil {
		return answer{}, err
	}
	id := query.Get("request_id")
	if why := budget.CheckRequestID(id); why != "" {
		c.faults.Invalid("request_id", "%s", why)
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	request := bucket.RollbackRequest{Budget: bucket.BudgetRef{Tenant: tenant}, RequestID: id}
	if by, limited := c.setsBy(); limited {
		request.OnlyBy = by
	}
	view, err := a.service.Deduction(c.ctx, request)
	return answer{body: a.recordedSet(&view)}, err
}

// recordedSet returns the body that shows what is recorded of a set.
func (a *API) recordedSet(v *bucket.DeductionView) api.Set {
	out := api.Set{RequestID: v.RequestID, State: string(v.State), HoldUntil: inUTC(v.HoldUntil),
		ExpiresIn: a.expiresIn(v.HoldUntil, v.State, 0), ExpiresAs: string(v.ExpiresAs),
		Reference: v.Reference,
		CountedAt: inUTC(v.CountedAt), Replayed: v.Replayed, Legs: make([]api.SetPart, len(v.Legs))}
	for i := range v.Legs {
		out.Legs[i] = partOf(&v.Legs[i])
	}
	return out
}

func partOf(l *bucket.DeductionView) api.SetPart {
	out := api.SetPart{Budget: l.Budget, State: string(l.State), Amount: l.Amount,
		RolledBack: l.RolledBack, Confirmed: l.Confirmed, Bucket: l.Bucket,
		Dimensions: dimensionsIn(l.Dimensions)}
	for i := range l.Parts {
		out.Parts = append(out.Parts, partOf(&l.Parts[i]))
	}
	return out
}
