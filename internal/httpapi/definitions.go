package httpapi

import (
	"cmp"
	"strings"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/limit"
)

// creation is the body of a create.
type creation struct {
	api.CreateRequest `json:",inline"`
	definition        budget.Definition
}

// Validate fills in the defaults and checks the whole. It leaves a missing number of buckets to the
// service.
func (c *creation) Validate(o *api.Object) {
	switch {
	case !c.Unlimited:
		o.Require("type", "total_quantity")
	case o.Seen("total_quantity"):
		o.Invalid("total_quantity", "does not go together with unlimited: leave it out")
	}
	if c.Unlimited && !o.Seen("type") {
		c.Type = budget.Promo
	}
	if !o.Seen("tenant") && c.Tenant == "" {
		c.Tenant = budget.DefaultTenant
	}
	if !o.Seen("durability") {
		c.Durability = budget.Ledger
	}
	c.definition = definitionOf(&c.CreateRequest)
	whole := c.definition
	if !o.Seen("bucket_quantity") {
		whole.BucketQuantity = 1
	}
	if !c.Unlimited && whole.TotalQuantity == 0 && !o.Seen("total_quantity") {
		whole.TotalQuantity = 1
	}
	whole.Rule = judged(o, whole.Rule)
	mergeBelow(o, limit.CheckDefinition(whole))
	mergeBelow(o, allocation.CheckDefinition(whole))
}

func definitionOf(r *api.CreateRequest) budget.Definition {
	d := budget.Definition{
		Tenant:           r.Tenant,
		Name:             r.Name,
		GLCode:           r.GLCode,
		Unit:             r.Unit,
		Durability:       r.Durability,
		Type:             r.Type,
		ParentName:       r.Parent,
		AtLeast:          r.AtLeast,
		TTL:              lengthIn(r.TTL),
		AlsoCharges:      budget.Charges{Names: r.AlsoCharges},
		Rule:             r.TypeRule,
		Timezone:         r.Timezone,
		LateRefund:       r.LateRefund,
		OnLoss:           r.OnLoss,
		Unlimited:        r.Unlimited,
		RoutingDimension: r.RoutingDimension,
		TotalQuantity:    r.TotalQuantity,
		BucketQuantity:   r.BucketQuantity,
		ShardingQuantity: r.ShardingQuantity,
		AdjustCnt:        r.AdjustCnt,
		StartAt:          r.StartAt,
		EndAt:            r.EndAt,
		AllowPast:        r.AllowPast,
		DryRun:           r.DryRun,
		Paused:           r.Status == budget.Paused,
	}
	if list := limitsIn(r.Limits); len(list) > 0 {
		d.Limits = &budget.Limits{List: list}
	}
	return d
}

// patch is the body of a PATCH.
type patch struct {
	api.PatchRequest `json:",inline"`
	change           bucket.Change
}

// Validate checks what can be checked without the budget.
func (p *patch) Validate(o *api.Object) {
	p.change = changeOf(&p.PatchRequest)
	if p.EndAt != nil {
		o.Merge(budget.CheckSpan(time.Time{}, *p.EndAt))
	}
	if p.TypeRule != nil {
		o.Merge(allocation.CheckRule(*judged(o, p.TypeRule)))
	}
	if list := p.change.Limits; list != nil {
		mergeBelow(o, limit.CheckDefinition(budget.Definition{Limits: &budget.Limits{List: *list}}))
	}
	p.PatchRequest.Validate(o)
}

func changeOf(r *api.PatchRequest) bucket.Change {
	c := bucket.Change{
		IfVersion:        r.IfVersion,
		GLCode:           r.GLCode,
		Name:             given(r.Name),
		Unit:             given(r.Unit),
		StartAt:          r.StartAt,
		Archived:         r.Archived,
		ShardingQuantity: r.ShardingQuantity,
		AdjustCnt:        r.AdjustCnt,
		BucketQuantity:   r.BucketQuantity,
		EndAt:            r.EndAt,
		AllowPast:        r.AllowPast,
		Rule:             r.TypeRule,
		Timezone:         given(r.Timezone),
		LateRefund:       given(r.LateRefund),
	}
	if r.Status != "" {
		paused := r.Status == budget.Paused
		c.Paused = &paused
	}
	if r.AlsoCharges != nil {
		c.AlsoCharges = &budget.Charges{Names: r.AlsoCharges}
	}
	if r.Limits != nil {
		list := limitsIn(r.Limits)
		c.Limits = &list
	}
	return c
}

// given returns a text of a change, nil for "", which leaves it unchanged.
func given[T ~string](text T) *T {
	if text == "" {
		return nil
	}
	return &text
}

// limitsIn returns the limits of a body, with their defaults; nil for none.
func limitsIn(list []api.Limit) []budget.Limit {
	var out []budget.Limit
	for _, l := range list {
		w := &l.Window
		to := budget.Limit{
			Name:      l.Name,
			Dimension: l.Dimension,
			Optional:  l.Optional,
			Window: budget.LimitWindow{
				Kind:     w.Kind,
				Every:    w.Every,
				Anchor:   w.Anchor,
				Timezone: w.Timezone,
				Length:   lengthIn(w.Length),
				Slot:     lengthIn(w.Slot),
			},
			Max:     l.Max,
			Measure: l.Measure,
			Enforce: l.Enforce == nil || *l.Enforce,
		}
		if to.Measure == "" {
			to.Measure = budget.MeasureCount
		}
		to.Overrides = overridesIn(l.Overrides)
		out = append(out, to)
	}
	return out
}

// judged returns the rule to check with the rest of a definition. It makes a rule whose quantity
// could not be read differ from one without a quantity. nil stays nil.
func judged(o *api.Object, read *budget.Rule) *budget.Rule {
	if read == nil || !o.Has("type_rule.quantity") {
		return read
	}
	with := *read
	with.Quantity = 1
	return &with
}

// mergeBelow adds faults found elsewhere, except in members that could not be read or are missing.
func mergeBelow(o *api.Object, faults []budget.FieldError) {
	for _, fault := range faults {
		if !faultAbove(o, fault.Field) {
			o.Merge([]budget.FieldError{fault})
		}
	}
}

// faultAbove reports whether a field that contains this one has a fault.
func faultAbove(o *api.Object, field string) bool {
	for {
		cut := strings.LastIndexAny(field, ".[")
		if cut < 0 {
			return false
		}
		if field = field[:cut]; o.Has(field) {
			return true
		}
	}
}

// budgetOf returns the body that shows v. Members that do not apply are absent.
func budgetOf(v *bucket.View) api.Budget {
	d, f := &v.Definition, &v.Figures
	out := api.Budget{
		ID: d.ID, Tenant: d.Tenant, Name: d.Name, GLCode: d.GLCode, Unit: d.Unit,
		Durability: d.Durability, Type: d.Type, BucketQuantity: d.BucketQuantity,
		ShardingQuantity: d.ShardingQuantity, AdjustCnt: d.AdjustCnt,
		StartAt: inUTC(d.StartAt), EndAt: inUTC(d.EndAt),
		CreatedAt: inUTC(d.CreatedAt), UpdatedAt: inUTC(d.UpdatedAt),
		Status: v.Status, Archived: d.Archived, Version: d.Version, Timezone: d.Timezone,
		LateRefund: d.LateRefund, RoutingDimension: d.RoutingDimension, Unlimited: d.Unlimited,
		TotalQuantity: unless(d.Unlimited, f.Total), OutQuantity: unless(d.Unlimited, f.OutQuantity()),
		Undistributed: unless(d.Unlimited, f.Undistributed),
		NotFunded:     unless(d.Unlimited, f.Unfunded),
		PendingShrink: f.PendingShrink, Remaining: unless(d.Unlimited, v.Remaining),
		OpensAt: inUTC(v.OpensAt), InBuckets: unless(d.Unlimited, f.InBuckets),
		Held: f.Held, Used: f.Used,
		InTransit: f.InTransit(), Quarantined: f.Quarantined, Forfeited: f.Forfeited,
		Parent: d.ParentName, AlsoCharges: d.AlsoCharges.Names, Usable: v.Usable,
		Allocated: f.Allocated,
		Buckets: api.BucketCount{Online: f.Online, Offline: f.Offline, Unreachable: v.Away.Buckets,
			Stores: v.Away.Instances, UnreachableUnits: v.Away.Units},
		Serving: string(v.Serving), OutOfReach: unless(d.Unlimited, v.OutOfReach()),
		Until:  inUTC(v.Until()),
		Limits: limitsOf(d.Limits),
	}
	if out.EffectiveAt = out.StartAt; d.StartAt.IsZero() {
		out.EffectiveAt = out.CreatedAt
	}
	if d.Durability == budget.Store {
		out.OnLoss = cmp.Or(d.OnLoss, budget.Quarantine)
	}
	if d.Type == budget.Daily {
		addDaily(&out, v)
	}
	return out
}

// addDaily adds the members of a daily budget, with the defaults written out. Period is absent once
// the last period is over.
func addDaily(b *api.Budget, v *bucket.View) {
	if rule := v.Definition.Rule; rule != nil {
		shown := allocation.Written(*rule)
		b.TypeRule = &shown
	}
	b.Timezone = cmp.Or(b.Timezone, "UTC")
	b.LateRefund = cmp.Or(b.LateRefund, budget.ToTotal)
	for _, p := range v.Plan {
		b.Periods = append(b.Periods, api.Planned{Number: p.Number, Start: inUTC(p.Start),
			End: inUTC(p.End), Quantity: p.Quantity})
	}
	if p := &v.Period; !p.Over {
		b.Period = &api.Period{Number: p.Number, Start: inUTC(p.Start), End: inUTC(p.End),
			Total: v.Figures.PeriodUnits + v.Figures.PeriodBefore,
			Used:  v.Figures.PeriodUsed + v.Figures.PeriodBefore}
		b.NextResetAt = nextReset(v)
	}
}

// nextReset returns when the period after the open one begins, or the open one if it is in the
// future. Zero means that none follows, or that the zone is unknown here.
func nextReset(v *bucket.View) time.Time {
	if v.Status == budget.Pending {
		return inUTC(v.Period.Start)
	}
	next, ok := allocation.Next(v.Definition, v.Period, v.Period.Start)
	if !ok || v.Period.End.IsZero() {
		return time.Time{}
	}
	return inUTC(next.Start)
}

// unless returns a quantity, or nil (null) for an unlimited budget.
func unless(unlimited bool, units int64) *int64 {
	if unlimited {
		return nil
	}
	return &units
}

// limitsOf returns limits as a body shows them. They may be sent back unchanged.
func limitsOf(limits *budget.Limits) []api.Limit {
	if limits == nil {
		return []api.Limit{}
	}
	views := make([]api.Limit, len(limits.List))
	for i, l := range limits.List {
		w := l.Window
		if w.Kind == budget.WindowCalendar {
			w.Timezone = cmp.Or(w.Timezone, "UTC")
		}
		views[i] = api.Limit{Name: l.Name, Dimension: l.Dimension, Optional: l.Optional, Max: l.Max,
			Measure: l.Measure, Enforce: &l.Enforce, OverrideCount: l.OverrideCount,
			Window: api.Window{Kind: w.Kind, Every: w.Every, Anchor: w.Anchor, Timezone: w.Timezone,
				Length: lengthOf(w.Length), Slot: lengthOf(w.Slot)}}
	}
	return views
}

// lengthOf formats a length of time, "" for none.
func lengthOf(length time.Duration) string {
	if length == 0 {
		return ""
	}
	return strictjson.FormatDuration(length)
}
