package wire

import (
	"cmp"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json/jsontext"
)

// BudgetView is a budget as answered: definition and live view. Quantities are minor units; members
// that do not apply are left out.
type BudgetView struct {
	ID         int64             `json:"id"`
	Tenant     string            `json:"tenant"`
	Name       string            `json:"name"`
	GLCode     string            `json:"gl_code,omitzero"`
	Unit       budget.Unit       `json:"unit"`
	Durability budget.Durability `json:"durability"`
	Type       budget.Type       `json:"type"`
	// TypeRule is the rule of a daily budget, nil otherwise.
	TypeRule   jsontext.Value `json:"type_rule,omitzero"`
	Timezone   string         `json:"timezone,omitzero"`
	LateRefund budget.Where   `json:"late_refund,omitzero"`
	// OnLoss is of budgets in store mode.
	OnLoss           budget.OnLoss `json:"on_loss,omitzero"`
	BucketQuantity   int           `json:"bucket_quantity"`
	ShardingQuantity int64         `json:"sharding_quantity,omitzero"`
	AdjustCnt        int           `json:"adjust_cnt,omitzero"`
	RoutingDimension string        `json:"routing_dimension,omitzero"`
	// Unlimited: what is left is answered null.
	Unlimited bool      `json:"unlimited,omitzero"`
	StartAt   time.Time `json:"start_at,omitzero"`
	EndAt     time.Time `json:"end_at,omitzero"`
	// EffectiveAt is the first instant at which units can be deducted: StartAt, or when it was
	// made.
	EffectiveAt time.Time `json:"effective_at,omitzero"`
	// NextResetAt is when the next period of a daily budget begins; missing where none follows.
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
	Remaining     *int64 `json:"remaining"`
	Held          int64  `json:"held"`
	Used          int64  `json:"used"`
	// InTransit came back after its bucket or its period had ended, and reaches the total, or the
	// period that the rule names, within a second; in store mode also what buckets have that begin
	// or end.
	InTransit   int64 `json:"in_transit"`
	Quarantined int64 `json:"quarantined"`
	Forfeited   int64 `json:"forfeited"`

	Period *period `json:"period,omitzero"`
	// Periods are what the first ones and the last one would get; of a dry run only.
	Periods []planned   `json:"periods,omitempty"`
	Buckets bucketCount `json:"buckets"`
	Limits  []limitView `json:"limits"`
}

// period is the open period of a daily budget, or the next one, where none is open now: then Start
// is to come. Total is what it got in all, Used what of that is used; both since its start, also
// where a rule was changed within it.
type period struct {
	Number int64     `json:"number"`
	Start  time.Time `json:"start,omitzero"`
	End    time.Time `json:"end,omitzero"`
	Total  int64     `json:"total"`
	Used   int64     `json:"used"`
}

// planned is a period of a budget that was not made.
type planned struct {
	Number   int64     `json:"number"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Quantity int64     `json:"quantity"`
}

type bucketCount struct {
	Online  int `json:"online"`
	Offline int `json:"offline"`
	// Unreachable is how many are on stores that do not answer this node.
	Unreachable int `json:"unreachable,omitzero"`
}

// BudgetPage is a part of the list of budgets.
type BudgetPage struct {
	Budgets []BudgetView `json:"budgets"`
	// Total is how many budgets were found, and RankedAt how old the figures are that they are in the
	// order of; of a search or a sorted list only.
	Total         *int      `json:"total,omitzero"`
	RankedAt      time.Time `json:"ranked_at,omitzero"`
	NextPageToken string    `json:"next_page_token,omitzero"`
}

// Adjusted is what an append or shrink did, and the budget after it.
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
		PendingShrink: f.PendingShrink, Remaining: unless(d.Unlimited, f.Remaining), Held: f.Held,
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

// daily adds what only a daily budget has, with the defaults written out. There is no period once
// the last one is over.
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

// nextReset is when the period that follows the open one begins, or the open one, if that is to
// come; zero: none follows.
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

// unless is a quantity that an unlimited budget has not: null.
func unless(unlimited bool, units int64) *int64 {
	if unlimited {
		return nil
	}
	return &units
}

// InUTC keeps the zero time zero, so that it is left out.
func InUTC(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}
