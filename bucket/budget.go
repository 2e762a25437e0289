package bucket

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/ring"
)

// BudgetRef names a budget as a caller does: by id, or by name within a tenant.
type BudgetRef struct {
	Tenant string
	Name   string
	// ID is used when it is not 0.
	ID int64
}

// Budget is a definition with its buckets, as a node caches it.
type Budget struct {
	budget.Definition
	// ListVersion grows whenever a bucket comes online, goes offline or gets a new epoch.
	ListVersion int64
	// Period is the open or last period, without what it got; it changes with ListVersion.
	Period budget.Period
	// Buckets are ordered by ordinal, those that have retired at the end: see Ring.
	Buckets []Bucket

	// What Budgets prepares of one that it returns.
	limits   *limit.Set
	routes   *ring.Ring // over the ordinals of Ring
	allServe bool
}

// LimitSet returns the limits, ready to judge by; of a budget that Budgets returned.
func (b *Budget) LimitSet() *limit.Set { return b.limits }

// serves reports whether keys are sent to a bucket: it is online, and its epoch is not fenced.
func (b *Bucket) serves() bool { return b.Online && b.Epoch.Fenced == "" }

// Route returns the bucket of a routing key: the ring's choice among the buckets that are online
// and not fenced; nil where none is. Of a budget that Budgets returned.
func (b *Budget) Route(key string) *Bucket {
	if b.routes == nil {
		return nil
	}
	var offline func(int) bool
	if !b.allServe {
		offline = func(i int) bool { return !b.Buckets[i].serves() }
	}
	i := b.routes.LocateIndex(key, offline)
	if i < 0 {
		return nil
	}
	return &b.Buckets[i]
}

// Bucket returns the bucket of a number; nil where the budget has none.
func (b *Budget) Bucket(id int64) *Bucket {
	for i := range b.Buckets {
		if b.Buckets[i].ID == id {
			return &b.Buckets[i]
		}
	}
	return nil
}

// RouteKey returns what picks a request's bucket: its key, else its value of the budget's routing
// dimension, else its id.
func (b *Budget) RouteKey(r *DeductRequest) string {
	return cmp.Or(r.Key, r.Dimensions[b.RoutingDimension], r.RequestID)
}

// HasLimits reports whether deductions count against limits.
func (b *Budget) HasLimits() bool { return b.Limits != nil && len(b.Limits.List) > 0 }

// LimitsVersion returns the version of the limits; it is 0 for a budget that never had limits.
func (b *Budget) LimitsVersion() int64 {
	if b.Limits == nil {
		return 0
	}
	return b.Limits.Version
}

// InStoreMode reports whether the truth of the budget is in its stores.
func (b *Budget) InStoreMode() bool { return b.Durability == budget.Store }

// Ring returns the buckets that keys are spread over, by ordinal: all but those that have retired.
func (b *Budget) Ring() []Bucket {
	n := len(b.Buckets)
	for n > 0 && b.Buckets[n-1].OfflineBy == ByResize {
		n--
	}
	return b.Buckets[:n]
}

// Named returns the bucket of a key: `sale:bucket-1`, or `bucket-1` where the budget is known; nil
// where the budget has none.
func (b *Budget) Named(key string) *Bucket {
	ring := b.Ring()
	for i := range ring {
		if short := ring[i].Key[strings.LastIndexByte(ring[i].Key, ':')+1:]; ring[i].Key == key ||
			short == key {
			return &ring[i]
		}
	}
	return nil
}

// Definitions reads budgets from the ledger. Safe for concurrent use.
type Definitions interface {
	// Budget reads a budget with its limits and its buckets, each with its newest epoch. Errors:
	// BudgetNotFound, also where Ref.Tenant is not "" and names another tenant than the budget's;
	// Unavailable.
	Budget(ctx context.Context, ref BudgetRef) (Budget, error)
	// Versions reads the versions of budgets in one statement. A budget that does not exist is
	// missing. Error: Unavailable.
	Versions(ctx context.Context, ids []int64) (map[int64]Version, error)
}

// Bucket is a row of sharding_budget_management_bucket with its newest epoch.
type Bucket struct {
	ID      int64
	Ordinal int
	// Key is the public name: `<budget's name>:bucket-<ordinal>`.
	Key  string
	Lane Lane
	// Online says that the bucket is in the bucket list.
	Online bool
	// OfflineBy says who took it offline; "" while online.
	OfflineBy OfflineBy
	// OutQuantity is all that it ever got. OutCnt is how often it applied for units that no bucket had
	// (adjust_cnt bounds it), CollectCnt how often it got units of other buckets; both since its last
	// recycle or the beginning of its period.
	OutQuantity        int64
	OutCnt, CollectCnt int
	// Epoch is the newest epoch's row as of the read.
	Epoch     ledger.Epoch
	UpdatedAt time.Time
}

// Ref names the newest epoch of the bucket.
func (b *Bucket) Ref() Ref {
	return Ref{Bucket: b.ID, Epoch: b.Epoch.Number, Activation: b.Epoch.Activation}
}

// OfflineBy says who took a bucket offline.
type OfflineBy string

// Who takes buckets offline.
const (
	// ByOperator: it stays offline until an operator brings it online.
	ByOperator OfflineBy = "operator"
	// ByResize: the budget has fewer buckets by now, and this one has retired: it is in no list and
	// no ring, and comes back only when the budget gets that many again.
	ByResize OfflineBy = "resize"
	// ByService: it was empty or collected; it comes online again when there are units for it.
	ByService OfflineBy = "service"
)

// Version is how a node sees that what it cached of a budget has changed.
type Version struct{ Definition, List int64 }

// Change is an operator's change of a definition; nil leaves a field as it is.
type Change struct {
	// IfVersion must be the current version when it is not 0, else VersionConflict.
	IfVersion int64
	Paused    *bool
	// GLCode, Name, Unit and StartAt correct what was given wrongly; StartAt only while the start is
	// to come, and zero means now. Other nodes know the budget by its former name for a second.
	GLCode, Name *string
	Unit         *budget.Unit
	StartAt      *time.Time
	// Archived leaves a budget that is over out of lists, or shows it again.
	Archived         *bool
	ShardingQuantity *int64
	AdjustCnt        *int
	// BucketQuantity is noted as what Resize brings the budget to.
	BucketQuantity *int
	// EndAt pointing to the zero time removes the end.
	EndAt *time.Time
	// AllowPast accepts an EndAt that has passed.
	AllowPast bool
	// Rule is another application rule of a daily budget.
	Rule *budget.Rule
	// LateRefund is where refunds go whose period is over.
	LateRefund *budget.Where
	// Limits replaces all limits; an empty list removes them. What counts the same as before goes
	// on.
	Limits *[]budget.Limit
}

// Of returns a definition after the change; versions and instants are the caller's: limit.Change
// has those of limits.
func (c *Change) Of(d budget.Definition) budget.Definition {
	set(&d.Paused, c.Paused)
	set(&d.ShardingQuantity, c.ShardingQuantity)
	set(&d.AdjustCnt, c.AdjustCnt)
	set(&d.GLCode, c.GLCode)
	set(&d.Name, c.Name)
	set(&d.Unit, c.Unit)
	set(&d.StartAt, c.StartAt)
	set(&d.Archived, c.Archived)
	set(&d.EndAt, c.EndAt)
	set(&d.LateRefund, c.LateRefund)
	if c.Rule != nil {
		d.Rule = c.Rule
	}
	if c.Limits != nil {
		d.Limits = &budget.Limits{List: *c.Limits}
	}
	return d
}

// set writes a value where there is one.
func set[T any](into, value *T) {
	if value != nil {
		*into = *value
	}
}

// Page selects a part of the list of budgets, in the order of their ids.
type Page struct {
	// Tenant "" means every tenant.
	Tenant string
	Type   budget.Type
	Status budget.Status
	// IDs, if any, are the only ones.
	IDs []int64
	// AfterID is the last id of the page before; Size is 1 … 1,000.
	AfterID int64
	Size    int
	// Archived shows archived budgets too.
	Archived bool
}

// ID names a request within a budget.
type ID struct {
	Budget    int64
	RequestID string
}

// Cover is I3's sum, from one statement: all that the budget can still hand to anybody.
type Cover struct {
	// Undistributed is U where some bucket may apply for it, else 0; pending shrinks are not
	// subtracted.
	Undistributed int64
	// Outstanding and Returning are ΣO and ΣR over all epochs, as far as the open period may get
	// them.
	Outstanding, Returning int64
	// Later is what only a later period may get: what is not funded, and ΣO and ΣR of older periods
	// that goes there. It is no part of the sum.
	Later int64
}

// Sum is what I3 compares with the amount.
func (c Cover) Sum() int64 { return c.Undistributed + c.Outstanding + c.Returning }

// NameOf returns the name of a budget that this node remembers, however old; "" for another one. It
// asks nobody.
func (c *Budgets) NameOf(id int64) string {
	if entry, known := c.lookUp(BudgetRef{ID: id}); known {
		if b := entry.value.Load(); b != nil {
			return b.Name
		}
	}
	return ""
}
