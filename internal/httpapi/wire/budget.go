package wire

import (
	"cmp"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json/jsontext"
)

// BudgetView is the JSON form of a budget: its definition and its figures. Quantities are in minor
// units. Members that do not apply are absent.
type BudgetView struct {
	ID         int64             `json:"id"`
	Tenant     string            `json:"tenant"`
	Name       string            `json:"name"`
	GLCode     string            `json:"gl_code,omitzero"`
	Unit       budget.Unit       `json:"unit"`
	Durability budget.Durability `json:"durability"`
	Type       budget.Type       `json:"type"`
	// TypeRule is the rule of a daily budget, else nil.
	TypeRule   jsontext.Value `json:"type_rule,omitzero"`
	Timezone   string         `json:"timezone,omitzero"`
	LateRefund budget.Where   `json:"late_refund,omitzero"`
	// OnLoss is present for budgets in store mode.
	OnLoss           budget.OnLoss `json:"on_loss,omitzero"`
	BucketQuantity   int           `json:"bucket_quantity"`
	ShardingQuantity int64         `json:"sharding_quantity,omitzero"`
	AdjustCnt        int           `json:"adjust_cnt,omitzero"`
	RoutingDimension string        `json:"routing_dimension,omitzero"`
	// Unlimited means that the quantities left are null.
	Unlimited bool      `json:"unlimited,omitzero"`
	StartAt   time.Time `json:"start_at,omitzero"`
	EndAt     time.Time `json:"end_at,omitzero"`
	// EffectiveAt is the first instant at which units can be deducted: StartAt or the time of
	// creation.
	EffectiveAt time.Time `json:"effective_at,omitzero"`
	// NextResetAt is when the next period of a daily budget begins; absent if none follows.
	NextResetAt time.Time     `json:"next_reset_at,omitzero"`
	CreatedAt   time.Time     `json:"created_at,omitzero"`
	UpdatedAt   time.Time     `json:"updated_at,omitzero"`
	Status      budget.Status `json:"status"`
	Archived    bool          `json:"archived,omitzero"`
	Version     int64         `json:"version"`

	TotalQuantity *int64 `json:"total_quantity"`
	OutQuantity   *int64 `json:"out_quantity"`
	// Undistributed is F + U, what no bucket holds; NotFunded is the F of it.
	Undistributed *int64 `json:"undistributed"`
	NotFunded     *int64 `json:"not_funded"`
	PendingShrink int64  `json:"pending_shrink,omitzero"`
	// Remaining is what deductions can take now, InBuckets what lies in open buckets.
	Remaining *int64 `json:"remaining"`
	InBuckets *int64 `json:"in_buckets"`
	Held      int64  `json:"held"`
	Used      int64  `json:"used"`
	// InTransit is what came back after its bucket or its period had ended. Within a second it
	// reaches the total or the period that the rule names. In store mode it includes the units of
	// buckets that open or close.
	InTransit   int64 `json:"in_transit"`
	Quarantined int64 `json:"quarantined"`
	Forfeited   int64 `json:"forfeited"`

	Period *period `json:"period,omitzero"`
	// Periods lists the first periods and the last one, with their units. It is present only for a
	// dry run.
	Periods []planned   `json:"periods,omitempty"`
	Buckets bucketCount `json:"buckets"`
	Limits  []limitView `json:"limits"`
	// ExhaustedAt and Refusals are those of bucket.Ranked.
	ExhaustedAt time.Time `json:"exhausted_at,omitzero"`
	Refusals    *int      `json:"refusals,omitzero"`
}

// period is the open period of a daily budget or, if none is open, the next one, whose Start is in
// the future. Total is all that it got, Used what of that is used. Both count from its start, even
// if the rule was changed since.
type period struct {
	Number int64     `json:"number"`
	Start  time.Time `json:"start,omitzero"`
	End    time.Time `json:"end,omitzero"`
	Total  int64     `json:"total"`
	Used   int64     `json:"used"`
}

// planned is a period of a budget that a dry run did not create.
type planned struct {
	Number   int64     `json:"number"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Quantity int64     `json:"quantity"`
}

type bucketCount struct {
	Online  int `json:"online"`
	Offline int `json:"offline"`
	// Unreachable is the number of buckets whose stores do not answer this node.
	Unreachable int `json:"unreachable,omitzero"`
}

// BudgetPage is a part of the list of budgets.
type BudgetPage struct {
	Budgets []BudgetView `json:"budgets"`
	// Total is the number of budgets found. RankedAt is the time of the figures by which they are
	// sorted. Both are present only for a search or a sorted list.
	Total         *int      `json:"total,omitzero"`
	RankedAt      time.Time `json:"ranked_at,omitzero"`
	NextPageToken string    `json:"next_page_token,omitzero"`
}

// Adjusted is the result of an append or shrink, and the budget after it.
type Adjusted struct {
	RequestID  string                 `json:"request_id"`
	Quantity   int64                  `json:"quantity"`
	State      bucket.AdjustmentState `json:"state"`
	Replayed   bool                   `json:"replayed"`
	BudgetView `json:",inline"`
}

// BudgetOf returns the body that shows v.
func BudgetOf(v *bucket.View) BudgetView {
	d, f := &v.Definition, &v.Figures
	out := BudgetView{
		ID: d.ID, Tenant: d.Tenant, Name: d.Name, GLCode: d.GLCode, Unit: d.Unit,
		Durability: d.Durability, Type: d.Type, BucketQuantity: d.BucketQuantity,
		ShardingQuantity: d.ShardingQuantity, AdjustCnt: d.AdjustCnt,
		StartAt: InUTC(d.StartAt), EndAt: InUTC(d.EndAt),
		CreatedAt: InUTC(d.CreatedAt), UpdatedAt: InUTC(d.UpdatedAt),
		Status: v.Status, Archived: d.Archived, Version: d.Version, Timezone: d.Timezone,
		LateRefund: d.LateRefund, RoutingDimension: d.RoutingDimension, Unlimited: d.Unlimited,
		TotalQuantity: unless(d.Unlimited, f.Total), OutQuantity: unless(d.Unlimited, f.OutQuantity()),
		Undistributed: unless(d.Unlimited, f.Unfunded+f.Undistributed),
		NotFunded:     unless(d.Unlimited, f.Unfunded),
		PendingShrink: f.PendingShrink, Remaining: unless(d.Unlimited, v.Remaining),
		InBuckets: unless(d.Unlimited, f.InBuckets), Held: f.Held,
		Used:      f.Used,
		InTransit: f.InTransit(), Quarantined: f.Quarantined, Forfeited: f.Forfeited,
		Buckets: bucketCount{f.Online, f.Offline, v.Unreachable}, Limits: limitsOf(d.Limits),
	}
	if out.EffectiveAt = out.StartAt; d.StartAt.IsZero() {
		out.EffectiveAt = out.CreatedAt
	}
	if d.Durability == budget.Store {
		out.OnLoss = cmp.Or(d.OnLoss, budget.Quarantine)
	}
	if d.Type == budget.Daily {
		out.daily(v)
	}
	return out
}

// daily adds the members of a daily budget, with the defaults written out. Period is absent once
// the last period is over.
func (b *BudgetView) daily(v *bucket.View) {
	if v.Definition.Rule != nil {
		b.TypeRule = jsontext.Value(allocation.Canonical(*v.Definition.Rule))
	}
	b.Timezone = cmp.Or(b.Timezone, "UTC")
	b.LateRefund = cmp.Or(b.LateRefund, budget.ToTotal)
	for _, p := range v.Plan {
		b.Periods = append(b.Periods, planned{p.Number, InUTC(p.Start), InUTC(p.End), p.Quantity})
	}
	if p := &v.Period; !p.Over {
		b.Period = &period{Number: p.Number, Start: InUTC(p.Start), End: InUTC(p.End),
			Total: v.Figures.PeriodUnits + v.Figures.PeriodBefore,
			Used:  v.Figures.PeriodUsed + v.Figures.PeriodBefore}
		b.NextResetAt = nextReset(v)
	}
}

// nextReset returns when the period after the open one begins, or the open one if it is in the
// future. Zero means that none follows, or that the zone is unknown here.
func nextReset(v *bucket.View) time.Time {
	if v.Status == budget.Pending {
		return InUTC(v.Period.Start)
	}
	next, ok := allocation.Next(v.Definition, v.Period, v.Period.Start)
	if !ok || v.Period.End.IsZero() {
		return time.Time{}
	}
	return InUTC(next.Start)
}

// unless returns a quantity, or nil (null) for an unlimited budget.
func unless(unlimited bool, units int64) *int64 {
	if unlimited {
		return nil
	}
	return &units
}

// InUTC converts a time to UTC. The zero time stays zero, so that it is left out.
func InUTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
