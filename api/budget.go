package api

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// AppendRequest changes a budget's total.
type AppendRequest struct {
	RequestID string `json:"request_id" check:"required id"`
	// Quantity is in minor units; negative to shrink.
	Quantity int64 `json:"quantity" check:"required -max..max"`
}

// Validate refuses a change by 0.
func (r *AppendRequest) Validate(o *Object) {
	if r.Quantity == 0 && !o.Has("quantity") {
		o.Invalid("quantity", "must not be 0: positive appends, negative shrinks")
	}
}

// Adjustment is an append or a shrink.
type Adjustment struct {
	RequestID string `json:"request_id"`
	// Quantity is in minor units; negative for a shrink.
	Quantity int64 `json:"quantity"`
	// State is "done".
	State string `json:"state"`
	// Replayed means that the request id was known and nothing was changed again.
	Replayed bool `json:"replayed"`
	// Budget is the budget after the change.
	Budget `json:",inline"`
}

// CreateRequest defines a budget. Zero fields are left out and take the service's defaults.
// Quantities are minor units, 1 … 9007199254740991.
type CreateRequest struct {
	Name string `json:"name" check:"required"`
	// Tenant defaults to the client's (WithTenant), and that to the service's "default".
	Tenant        string            `json:"tenant,omitzero"`
	GLCode        string            `json:"gl_code,omitzero"`
	Unit          budget.Unit       `json:"unit" check:"required"`
	Durability    budget.Durability `json:"durability,omitzero"`
	TotalQuantity int64             `json:"total_quantity,omitzero" check:"1..max"`
	Type          budget.Type       `json:"type,omitzero"`
	// Parent is the name of a budget of the tenant whose units become the total: see docs/API.md.
	Parent string `json:"parent,omitzero" check:"name"`
	// AtLeast accepts a smaller total if the parent has less than TotalQuantity; 0 accepts none.
	AtLeast int64 `json:"at_least,omitzero" check:"1..max"`
	// TTL ends a child so long after its start, or after its creation if that is later: "15m".
	TTL string `json:"ttl,omitzero" check:"hold_ttl"`
	// AlsoCharges are the budgets that each deduction is also taken from: see docs/API.md.
	AlsoCharges []string `json:"also_charges,omitempty" check:"most=charges name"`
	// BucketQuantity is the number of buckets; 0 is one per 1,000 units, or 1,000,000 of "amount".
	BucketQuantity int `json:"bucket_quantity,omitzero" check:"1..buckets"`
	// ShardingQuantity is the most that one apply may take; 0 means no bound.
	ShardingQuantity int64 `json:"sharding_quantity,omitzero" check:"0..max"`
	// AdjustCnt is how often one bucket may apply for units that no bucket had; 0 means no bound.
	AdjustCnt int       `json:"adjust_cnt,omitzero" check:"0..1000000000"`
	StartAt   time.Time `json:"start_at,omitzero"`
	EndAt     time.Time `json:"end_at,omitzero"`
	// TypeRule defines the periods of a daily budget, and what each of them gets.
	TypeRule *budget.Rule `json:"type_rule,omitzero"`
	// Timezone is the IANA zone of the periods; "" means UTC.
	Timezone string `json:"timezone,omitzero" check:"zone"`
	// LateRefund is the destination of a refund whose period is over: budget.ToTotal (the default),
	// budget.Next or budget.Forfeit.
	LateRefund budget.Where `json:"late_refund,omitzero" check:"word"`
	// Unlimited budgets have no total; only limits bound deductions. Type may then be left out.
	Unlimited bool `json:"unlimited,omitzero"`
	// RoutingDimension is the dimension whose value picks the bucket of a request without a key.
	RoutingDimension string `json:"routing_dimension,omitzero" check:"key"`
	// Limits bound what each value of a dimension may take.
	Limits []Limit `json:"limits,omitempty" check:"most=limits"`
	// OnLoss is the policy for units whose store lost its memory (store mode); "" means quarantine.
	OnLoss budget.OnLoss `json:"on_loss,omitzero" check:"word"`
	// AllowPast accepts an end that has passed.
	AllowPast bool `json:"allow_past,omitzero"`
	// DryRun creates nothing: the answer is the budget as it would be, and what Periods would get.
	DryRun bool `json:"dry_run,omitzero"`
	// Status budget.Paused makes a budget that is paused; "" means budget.Effective.
	Status budget.Status `json:"status,omitzero" check:"status"`
}

// PatchRequest changes a budget; nil and "" leave a field unchanged.
type PatchRequest struct {
	// Status is budget.Paused or budget.Effective.
	Status budget.Status `json:"status,omitzero" check:"status"`
	// Name, GLCode and Unit correct what was given wrongly; GLCode may become "". A budget that is
	// renamed is another one to keys that are bound to names.
	Name   string      `json:"name,omitzero" check:"name"`
	GLCode *string     `json:"gl_code,omitzero"`
	Unit   budget.Unit `json:"unit,omitzero" check:"unit"`
	// StartAt is another start while the start is to come; the zero time is now.
	StartAt *time.Time `json:"start_at,omitzero" check:"null"`
	// Archived leaves a budget that is over out of lists, or shows it again.
	Archived *bool `json:"archived,omitzero"`
	// EndAt pointing to the zero time removes the end.
	EndAt *time.Time `json:"end_at,omitzero" check:"null"`
	// AllowPast accepts an end that has passed.
	AllowPast bool `json:"allow_past,omitzero"`
	// ShardingQuantity and AdjustCnt: 0 removes the bound.
	ShardingQuantity *int64 `json:"sharding_quantity,omitzero" check:"0..max"`
	AdjustCnt        *int   `json:"adjust_cnt,omitzero" check:"0..1000000000"`
	// BucketQuantity is the number of buckets, 1 to 1,024; nil leaves it unchanged.
	BucketQuantity *int `json:"bucket_quantity,omitzero" check:"1..buckets"`
	// TypeRule and Timezone are another rule of a daily budget and another zone. They end the open
	// period, unless it continues under the new rule from the same start and gets no less.
	TypeRule *budget.Rule `json:"type_rule,omitzero"`
	Timezone string       `json:"timezone,omitzero" check:"zone"`
	// LateRefund is budget.ToTotal, budget.Next or budget.Forfeit.
	LateRefund budget.Where `json:"late_refund,omitzero" check:"late_refund"`
	// AlsoCharges replace the budgets that are also charged: an empty list removes them, nil leaves
	// them unchanged.
	AlsoCharges []string `json:"also_charges,omitzero" check:"most=charges name"`
	// Limits replace all of the budget's: an empty list removes them, nil leaves them unchanged.
	Limits []Limit `json:"limits,omitzero" check:"most=limits"`
	// IfVersion applies the change only to that version of the budget, else returns
	// version_conflict; 0 means any version. It is sent as If-Match.
	IfVersion int64 `json:"-"`
}

// MarshalJSONTo implements json.MarshalerTo: null stands for the zero time.
func (r PatchRequest) MarshalJSONTo(out *jsontext.Encoder) error {
	type plain PatchRequest // without this method
	return json.MarshalEncode(out, struct {
		plain   `json:",inline"`
		StartAt *orNull `json:"start_at,omitzero"`
		EndAt   *orNull `json:"end_at,omitzero"`
	}{plain(r), (*orNull)(r.StartAt), (*orNull)(r.EndAt)})
}

// orNull is a time whose zero value is null.
type orNull time.Time

// MarshalJSONTo implements json.MarshalerTo.
func (at orNull) MarshalJSONTo(out *jsontext.Encoder) error {
	if time.Time(at).IsZero() {
		return out.WriteToken(jsontext.Null)
	}
	return json.MarshalEncode(out, time.Time(at))
}

// Validate refuses a change of nothing.
func (r *PatchRequest) Validate(o *Object) {
	if len(o.Members) == 0 {
		o.Invalid("", "names nothing to change")
	}
}

// Budget is a budget's definition and its live view. Quantities are minor units.
type Budget struct {
	ID         int64             `json:"id"`
	Tenant     string            `json:"tenant"`
	Name       string            `json:"name"`
	GLCode     string            `json:"gl_code,omitzero"`
	Unit       budget.Unit       `json:"unit"`
	Durability budget.Durability `json:"durability"`
	Type       budget.Type       `json:"type"`
	// Parent is the name of the budget that it was carved out of.
	Parent string `json:"parent,omitzero"`
	// AlsoCharges are the budgets that each deduction is also taken from.
	AlsoCharges []string `json:"also_charges,omitempty"`
	// TypeRule, Timezone and LateRefund belong to daily budgets, with defaults written out.
	TypeRule   *budget.Rule `json:"type_rule,omitzero"`
	Timezone   string       `json:"timezone,omitzero"`
	LateRefund budget.Where `json:"late_refund,omitzero"`
	// OnLoss belongs to budgets in store mode.
	OnLoss           budget.OnLoss `json:"on_loss,omitzero"`
	BucketQuantity   int           `json:"bucket_quantity"`
	ShardingQuantity int64         `json:"sharding_quantity,omitzero"`
	AdjustCnt        int           `json:"adjust_cnt,omitzero"`
	RoutingDimension string        `json:"routing_dimension,omitzero"`
	// Unlimited means that there is no total; the figures of what is left are then nil.
	Unlimited bool      `json:"unlimited,omitzero"`
	StartAt   time.Time `json:"start_at,omitzero"`
	EndAt     time.Time `json:"end_at,omitzero"`
	// EffectiveAt is the first instant at which units can be deducted, NextResetAt the beginning of
	// the next period of a daily budget; zero means none.
	EffectiveAt time.Time     `json:"effective_at,omitzero"`
	NextResetAt time.Time     `json:"next_reset_at,omitzero"`
	CreatedAt   time.Time     `json:"created_at,omitzero"`
	UpdatedAt   time.Time     `json:"updated_at,omitzero"`
	Status      budget.Status `json:"status"`
	// Archived budgets are over, and lists leave them out.
	Archived bool `json:"archived,omitzero"`
	// Version increases with every change of the definition.
	Version int64 `json:"version"`

	// TotalQuantity is the sum of Undistributed, NotFunded, InTransit, InBuckets, Held, Used,
	// Quarantined, Forfeited and Allocated.
	TotalQuantity *int64 `json:"total_quantity"`
	// OutQuantity is what was handed out: total − not funded − undistributed − forfeited.
	OutQuantity *int64 `json:"out_quantity"`
	// Undistributed is what a period has and no bucket, NotFunded what no period has received.
	Undistributed *int64 `json:"undistributed"`
	NotFunded     *int64 `json:"not_funded"`
	// PendingShrink is what pending shrinks still wait for.
	PendingShrink int64 `json:"pending_shrink,omitzero"`
	// Remaining is what deductions can take now. It is 0 unless the budget is effective, and before
	// its window opens at OpensAt, which is zero otherwise.
	Remaining *int64    `json:"remaining"`
	OpensAt   time.Time `json:"opens_at,omitzero"`
	// InBuckets is what open buckets hold.
	InBuckets *int64 `json:"in_buckets"`
	Held      int64  `json:"held"`
	Used      int64  `json:"used"`
	// InTransit is on the way back to the total.
	InTransit   int64 `json:"in_transit"`
	Quarantined int64 `json:"quarantined"`
	Forfeited   int64 `json:"forfeited"`
	// Usable is the least that the budget and those that it also charges have left; nil if all are
	// unlimited, and of a budget that charges none. Lists do not have it.
	Usable *int64 `json:"usable,omitzero"`
	// Allocated is the sum of the totals of its children.
	Allocated int64 `json:"allocated,omitzero"`
	// Serving is "full"; "partly" if some buckets are offline or out of reach; "period_exhausted" or
	// "budget_exhausted"; "store_down" if what is left is on stores that do not answer; or the status
	// of a budget that is not effective.
	Serving string `json:"serving"`
	// OutOfReach is what is neither used nor held and cannot be deducted now; nil if Unlimited.
	OutOfReach *int64 `json:"out_of_reach"`
	// Until is when it serves again by itself; zero if that is not known.
	Until time.Time `json:"until,omitzero"`
	// Calls are those of the last minute. A single budget and lists with a Search, Sort or Skip have
	// them, otherwise and without any it is nil.
	Calls *Calls `json:"calls,omitzero"`
	// Period is the open one of a daily budget, or the next if none is open; nil after the last.
	Period *Period `json:"period,omitzero"`
	// Periods are the first ones and the last one, for a dry run only.
	Periods []Planned   `json:"periods,omitempty"`
	Buckets BucketCount `json:"buckets"`
	Limits  []Limit     `json:"limits"`

	// ExhaustedAt is when the last unit is used at the recent rate, zero if there is no such instant.
	// Only lists with a Search, Sort or Skip have it.
	ExhaustedAt time.Time `json:"exhausted_at,omitzero"`
	// Refusals is how many deductions the server refused in the last 8 to 15 minutes. Only lists
	// sorted by refusals have it, otherwise it is nil.
	Refusals *int `json:"refusals,omitzero"`
}

// Period is a span of time whose units are handed out within it.
type Period struct {
	// Number counts the budget's periods from 1.
	Number int64 `json:"number"`
	// Start is its first instant, End the first one after it; zero means unbounded.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Total is what it got, Used the used part of it.
	Total int64 `json:"total"`
	Used  int64 `json:"used"`
}

// Planned is a period of a budget that was not created, and what it would get, in minor units.
type Planned struct {
	Number   int64     `json:"number"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Quantity int64     `json:"quantity"`
}

// BucketCount is how many of a budget's buckets serve, and how many do not.
type BucketCount struct {
	Online  int `json:"online"`
	Offline int `json:"offline"`
	// Unreachable is how many online ones are on stores that the server cannot reach, Stores the
	// names of those, and UnreachableUnits what the ledger has there, in minor units.
	Unreachable      int      `json:"unreachable,omitzero"`
	Stores           []string `json:"stores,omitempty"`
	UnreachableUnits int64    `json:"unreachable_units,omitzero"`
}

// Calls is how many deductions of a budget a node answered in the last minute.
type Calls struct {
	Accepted int64 `json:"accepted"`
	// Refused is for a cause of the caller: a limit of its own, or an amount that can never be
	// deducted. Unserved is for any other cause. Invalid requests are not counted.
	Refused  int64 `json:"refused"`
	Unserved int64 `json:"unserved"`
}

// Page is a part of the list of budgets.
type Page struct {
	Budgets []Budget `json:"budgets"`
	// Total is how many budgets were found, Tenants how many of each tenant that the caller may see,
	// whether or not the list is restricted to one, and RankedAt when the server last looked at all
	// budgets for their order. They are only for a Search, Sort or Skip.
	Total    *int           `json:"total,omitzero"`
	Tenants  map[string]int `json:"tenants,omitempty"`
	RankedAt time.Time      `json:"ranked_at,omitzero"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}

// Gauge is what a budget has left, as a node knows it.
type Gauge struct {
	// Remaining is what can be deducted now, in minor units; nil for an unlimited budget.
	Remaining *int64 `json:"remaining"`
	// Serving is as in Budget.
	Serving string `json:"serving"`
	// AsOf is when the figures were read, by the clock of the database.
	AsOf time.Time `json:"as_of"`
}

// RemainingList has what budgets have left, by name. A name is nil until the node has read it,
// which takes a second, and for a name that the caller has no budget of.
type RemainingList struct {
	Budgets map[string]*Gauge `json:"budgets"`
}

// MaxBulk is the most budgets that a BulkRequest may change.
const MaxBulk = 10_000

// BulkFilter selects budgets that are not archived. Members that are left out do not restrict it,
// except Tenant.
type BulkFilter struct {
	// Tenant is a tenant, or `*` for all that the caller may see. It defaults to the client's
	// (WithTenant), and that to the service's "default".
	Tenant string `json:"tenant,omitzero" check:"key"`
	// Search is a part of the name, or of `tenant/name`.
	Search string `json:"q,omitzero" check:"key"`
	// Type is promo or daily.
	Type string `json:"type,omitzero" check:"word"`
	// Budgets restricts the selection to these, each written `tenant/name`.
	Budgets []string `json:"budgets,omitempty" check:"most=bulk key"`
}

// BulkRequest makes the same change to many budgets.
type BulkRequest struct {
	// RequestID identifies the change. Repeated with the same id, it goes on with what is not done.
	RequestID string     `json:"request_id" check:"required id"`
	Filter    BulkFilter `json:"filter" check:"required"`
	// Expected is how many budgets the filter selects, as the caller knows it.
	Expected int64 `json:"expected" check:"required 1..bulk"`
	// Reason is for the audit log.
	Reason string `json:"reason,omitzero" check:"key"`
	// Action is pause, resume, append or thresholds.
	Action string `json:"action" check:"required word"`
	// Quantity is what append adds to each budget, in its minor units.
	Quantity int64 `json:"quantity,omitzero" check:"1..max"`
	// Thresholds are what thresholds gives to each budget; an empty list leaves it none.
	Thresholds *[]Threshold `json:"thresholds,omitzero" check:"most=thresholds"`
}

// The actions of a BulkRequest, and the outcomes of a BulkRow without an error.
const (
	BulkPause      = "pause"
	BulkResume     = "resume"
	BulkAppend     = "append"
	BulkThresholds = "thresholds"
	BulkDone       = "done"
	BulkUnchanged  = "unchanged"
)

// Validate refuses an action that does not exist, and members that belong to another action.
func (r *BulkRequest) Validate(o *Object) {
	if r.Filter.Type != "" && r.Filter.Type != "promo" && r.Filter.Type != "daily" {
		o.Invalid("filter.type", `must be "promo" or "daily"`)
	}
	switch r.Action {
	case BulkPause, BulkResume, BulkAppend, BulkThresholds:
	default:
		if !o.Has("action") {
			o.Invalid("action", `must be "pause", "resume", "append" or "thresholds"`)
		}
		return
	}
	for member, action := range map[string]string{"quantity": BulkAppend,
		"thresholds": BulkThresholds} {
		if given := o.Seen(member); given != (r.Action == action) && !o.Has(member) {
			o.Invalid(member, "must be present with action %q, and only then", action)
		}
	}
}

// BulkRow is what became of a change to one budget.
type BulkRow struct {
	Tenant string `json:"tenant"`
	Budget string `json:"budget"`
	// Outcome is "done", "unchanged" if it was so before, or the code of an error.
	Outcome string `json:"outcome"`
	// Detail explains an error.
	Detail string `json:"detail,omitzero"`
}

// BulkAnswer is what became of a change to many budgets.
type BulkAnswer struct {
	RequestID string `json:"request_id"`
	// Done, Unchanged and Failed count the rows. Left counts the budgets without a row, which were not
	// changed: repeat the call with the same request id.
	Done      int       `json:"done"`
	Unchanged int       `json:"unchanged"`
	Failed    int       `json:"failed"`
	Left      int       `json:"left"`
	Rows      []BulkRow `json:"rows"`
}
