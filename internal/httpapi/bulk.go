package httpapi

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// bulk makes the same change to many budgets, one after the other, each as its single call does and
// with a row of its own in the audit log. It stops after auditTime or when the node shuts down.
// Repeated with the same request id, it goes on: a budget that is as asked stays as it is, and an
// append takes effect once per request id and budget. Errors: VersionConflict if the filter selects
// another number of budgets than the caller expects; then nothing was changed.
func (a *API) bulk(c *call) (answer, error) {
	c.query()
	var body api.BulkRequest
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	if body.Action == api.BulkThresholds && a.alerts == nil {
		c.faults.Invalid("action", "this service has no thresholds")
	}
	tenant := body.Filter.Tenant
	switch tenant {
	case "":
		tenant = c.tenant(nil)
	case everyTenant:
		tenant = c.principal.Scope.Tenant // "" means all tenants
	default:
		if why := budget.CheckName(tenant); why != "" {
			c.faults.Invalid("filter.tenant", "%s", why)
		}
	}
	err := c.onTenant(tenant)
	if err == nil {
		err = c.faults.Err(c.route.op)
	}
	if err != nil {
		return answer{}, err
	}
	c.target(tenant, "", body.RequestID)
	found := a.dashboard.Rank(c.selected(tenant, &body.Filter))
	if int64(found.Total) != body.Expected {
		return answer{}, budget.Refuse(budget.VersionConflict, c.route.op,
			"the filter selects %d budgets, not %d; nothing was changed", found.Total, body.Expected)
	}
	asked := body
	asked.Filter.Budgets = nil // their rows name them
	text, err := json.Marshal(asked)
	if err != nil {
		return answer{}, err
	}
	c.entry.Change(tenant, "", nil, text)
	c.allow(auditTime)
	ctx, cancel := context.WithTimeout(c.work, auditTime)
	defer cancel()
	out := api.BulkAnswer{RequestID: body.RequestID, Left: found.Total, Rows: []api.BulkRow{}}
	for _, one := range found.Budgets {
		if ctx.Err() != nil || a.leaving.Load() {
			break
		}
		row := c.bulkOne(ctx, &body, one)
		switch row.Outcome {
		case api.BulkDone:
			out.Done++
		case api.BulkUnchanged:
			out.Unchanged++
		default:
			out.Failed++
		}
		out.Left--
		out.Rows = append(out.Rows, row)
	}
	return answer{body: out}, nil
}

// selected returns the selection of a filter within the caller's scope.
func (c *call) selected(tenant string, f *api.BulkFilter) bucket.Selection {
	listed := slices.Clone(f.Budgets)
	slices.Sort(listed)
	return bucket.Selection{Tenant: tenant, Type: budget.Type(f.Type), Search: f.Search,
		By: bucket.ByName, Size: api.MaxBulk,
		Covers: func(tenant, name string) bool {
			if len(listed) > 0 {
				if _, ok := slices.BinarySearch(listed, tenant+"/"+name); !ok {
					return false
				}
			}
			return c.principal.Scope.Covers(tenant, name)
		}}
}

// bulkOne changes one budget, and records that as the single call does.
func (c *call) bulkOne(ctx context.Context, body *api.BulkRequest,
	one bucket.Ranked) (row api.BulkRow) {
	entered, _ := c.entry.End(auditlog.Done)
	entered.Tenant, entered.Target = one.Tenant, one.Name
	entered.Before, entered.After = nil, nil
	entered.Op = map[string]string{api.BulkPause: "change", api.BulkResume: "change",
		api.BulkAppend: "append", api.BulkThresholds: "set thresholds"}[body.Action]
	entry := auditlog.NewEntry(entered)
	ctx, cancel := context.WithTimeout(auditlog.NewContext(ctx, entry), c.api.limits.RequestTimeout)
	defer cancel()
	row = api.BulkRow{Tenant: one.Tenant, Budget: one.Name, Outcome: api.BulkDone}
	ref := bucket.BudgetRef{Tenant: one.Tenant, ID: one.ID}
	changed, err := c.api.changeOne(ctx, body, ref)
	if err == nil {
		if !changed {
			row.Outcome = api.BulkUnchanged
		}
		return row
	}
	e := errorOf(err, entered.Op, true)
	c.api.logError(ctx, entered.Op, e)
	row.Outcome, row.Detail = string(e.Code), e.Message
	if c.api.admission.log != nil {
		refused, _ := entry.End(row.Outcome)
		c.appendRow(refused)
	}
	return row
}

// changeOne makes the change that a bulk asks for to one budget. changed is false if the budget was
// so before. Errors: those of the single call.
func (a *API) changeOne(ctx context.Context, body *api.BulkRequest, ref bucket.BudgetRef) (
	changed bool, err error) {
	switch body.Action {
	case api.BulkAppend:
		view, err := a.service.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: body.RequestID,
			Quantity: body.Quantity})
		return !view.Replayed, err
	case api.BulkThresholds:
		want := thresholdsIn(*body.Thresholds)
		has, own, err := a.alerts.Thresholds(ctx, ref)
		if err != nil || own && slices.Equal[[]alert.Threshold](has, want) {
			return false, err
		}
		return true, a.alerts.SetThresholds(ctx, ref, want)
	}
	pause := body.Action == api.BulkPause
	view, err := a.service.View(ctx, ref)
	if err != nil || view.Definition.Paused == pause {
		return false, err
	}
	_, err = a.service.Change(ctx, ref, bucket.Change{Paused: &pause})
	return true, err
}
