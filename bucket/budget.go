package bucket

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/limit/overrides"
	"github.com/budgetd/budgetd/ring"
)

// BudgetRef names a budget by id, or by name within a tenant.
type BudgetRef struct {
	Tenant string
	Name   string
	// ID is used if it is not 0.
	ID int64
}

// IsTenant reports whether the reference names no budget, only the tenant of a set.
func (r BudgetRef) IsTenant() bool { return r.ID == 0 && r.Name == "" }

// Budget is a definition with its buckets, as a node caches it.
type Budget struct {
	budget.Definition
	// Ancestors are the ids of its ancestors, from the first one on, each between slashes.
	Ancestors string
	// ListVersion grows whenever a bucket goes online or offline or gets a new epoch.
	ListVersion int64
	// Period is the open or last period, without its units. It changes with ListVersion.
	Period budget.Period
	// Buckets are ordered by ordinal, with retired buckets at the end; see Ring.
	Buckets []Bucket

	// Set by Budgets.
	limits  *limit.Set
	own     *overrides.Copy // in store mode
	unknown *budget.Error   // limit.UnknownZone
	// begun says that a call came after the beginning of Period, which a clock that goes back does not
	// undo.
	begun    *atomic.Bool
	routes   *ring.Ring // over the ordinals of Ring
	allServe bool
}

// IsWithin reports whether the budget is one with an id, or below that one.
func (b *Budget) IsWithin(top int64) bool {
	return b.ID == top || strings.Contains(b.Ancestors, "/"+strconv.FormatInt(top, 10)+"/")
}

// LimitSet returns the compiled limits of a budget that Budgets returned. It has none while
// UnknownZone returns an error.
func (b *Budget) LimitSet() *limit.Set { return b.limits }

// Bound returns the bound of a value of a limit of a budget in store mode. The budget must come
// from Budgets. Error: Unavailable while the overrides are still being read.
func (b *Budget) Bound(l *limit.Limit, value string) (limit.Bound, error) {
	return b.own.Bound(b.Limits, l, value)
}

// UnknownZone returns Unavailable if nothing can be decided, because a time zone of the budget is
// unknown here, else nil. The budget must come from Budgets.
func (b *Budget) UnknownZone() error {
	if b.unknown == nil {
		return nil
	}
	return b.unknown
}

// serves reports whether keys are routed to the bucket: it is online, and its epoch is not halted.
func (b *Bucket) serves() bool { return b.Online && b.Epoch.Halted == "" }

// Route returns the bucket of a routing key: the ring's choice among the buckets that are online
// and not halted, or nil. The budget must come from Budgets.
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

// Bucket returns the bucket with an id, or nil if the budget does not have it.
func (b *Budget) Bucket(id int64) *Bucket {
	for i := range b.Buckets {
		if b.Buckets[i].ID == id {
			return &b.Buckets[i]
		}
	}
	return nil
}

// RouteKey returns what selects a request's bucket: its key, else its value of the budget's routing
// dimension, else its id.
func (b *Budget) RouteKey(r *DeductRequest) string {
	return cmp.Or(r.Key, r.Dimensions[b.RoutingDimension], r.RequestID)
}

// Routed returns the key by which a request is routed in the budget's mode, and the bucket to which
// it is routed now, or nil. The budget must come from Budgets.
func (b *Budget) Routed(r *DeductRequest) (key string, to *Bucket) {
	if b.InStoreMode() {
		key = b.HomeKey(r.Dimensions, r.Key, r.RequestID)
		return key, b.Home(key)
	}
	key = b.RouteKey(r)
	return key, b.Route(key)
}

// HasLimits reports whether deductions count against limits.
func (b *Budget) HasLimits() bool { return b.Limits != nil && len(b.Limits.List) > 0 }

// LimitsVersion returns the version of the limits, or 0 if the budget never had limits.
func (b *Budget) LimitsVersion() int64 {
	if b.Limits == nil {
		return 0
	}
	return b.Limits.Version
}

// InStoreMode reports whether stores decide for the budget.
func (b *Budget) InStoreMode() bool { return b.Durability == budget.Store }

// Ring returns the buckets that keys are spread over, by ordinal: all but retired ones.
func (b *Budget) Ring() []Bucket {
	n := len(b.Buckets)
	for n > 0 && b.Buckets[n-1].OfflineBy == ByResize {
		n--
	}
	return b.Buckets[:n]
}

// Named returns the bucket with a name, such as `sale:bucket-1` or its short form `bucket-1`, or
// nil if the budget does not have it.
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

// Definitions reads budgets from the ledger. Implementations are safe for concurrent use.
type Definitions interface {
	// Budget reads a budget with its limits and its buckets, each with its newest epoch. Errors:
	// BudgetNotFound, also if ref names a tenant other than the budget's; Unavailable.
	Budget(ctx context.Context, ref BudgetRef) (Budget, error)
	// Versions reads the versions of budgets in one statement. Budgets that do not exist are
	// omitted. Error: Unavailable.
	Versions(ctx context.Context, ids []int64) (map[int64]Version, error)
	// VersionSum returns how many of the budgets exist and the sums of their versions. Error:
	// Unavailable.
	VersionSum(ctx context.Context, ids []int64) (exist int, sum Version, err error)
}

// Bucket is a row of sharding_budget_management_bucket with its newest epoch.
type Bucket struct {
	ID      int64
	Ordinal int
	// Key is the public name: `<budget's name>:bucket-<ordinal>`.
	Key string
	// Partition is where the bucket lives in store mode. It is zero in ledger mode.
	Partition Partition
	// Online says that the bucket is in the bucket list.
	Online bool
	// OfflineBy says who took it offline. It is empty while the bucket is online.
	OfflineBy OfflineBy
	// OutQuantity is the sum of all units that it ever got. OutCnt counts its applications for
	// units that no bucket had (adjust_cnt bounds it), CollectCnt how often it got units of other
	// buckets. Both count since the last recycle or the start of the period.
	OutQuantity        int64
	OutCnt, CollectCnt int
	// Epoch is the row of the newest epoch as of the read.
	Epoch     ledger.Epoch
	UpdatedAt time.Time
}

// Ref returns the reference of the bucket's newest epoch.
func (b *Bucket) Ref() Ref {
	return Ref{Bucket: b.ID, Epoch: b.Epoch.Number, Incarnation: b.Epoch.Incarnation}
}

// OfflineBy says who took a bucket offline.
type OfflineBy string

// Who takes buckets offline.
const (
	// ByOperator means that it stays offline until an operator brings it online.
	ByOperator OfflineBy = "operator"
	// ByResize means that the bucket has retired because the budget has fewer buckets now. It is in
	// no list and no ring, and returns only if the budget gets that many buckets again.
	ByResize OfflineBy = "resize"
	// ByService means that it was empty or collected. It goes online again when there are units for
	// it.
	ByService OfflineBy = "service"
)

// Version tells a node whether what it cached about a budget has changed. Both numbers only grow.
type Version struct{ Definition, List int64 }

// Change is an operator's change of a definition. A nil field stays as it is.
type Change struct {
	// IfVersion, unless it is 0, must be the current version; otherwise the call returns
	// VersionConflict.
	IfVersion int64
	Paused    *bool
	// GLCode, Name, Unit and StartAt correct wrong values. StartAt can be changed only before the
	// start; zero means now. Other nodes may use the former name for a second.
	GLCode, Name *string
	Unit         *budget.Unit
	StartAt      *time.Time
	// Archived hides a budget that is over from lists, or shows it again.
	Archived         *bool
	ShardingQuantity *int64
	AdjustCnt        *int
	// BucketQuantity records the number of buckets that Resize establishes.
	BucketQuantity *int
	// EndAt pointing to the zero time removes the end.
	EndAt *time.Time
	// AllowPast accepts an EndAt that has passed.
	AllowPast bool
	// Rule is the new application rule of a daily budget.
	Rule *budget.Rule
	// Timezone is the new zone of the periods. Limits keep theirs.
	Timezone *string
	// LateRefund says where late refunds go: units of a period that is over.
	LateRefund *budget.Where
	// AlsoCharges replaces the budgets that are also charged; an empty list removes them.
	AlsoCharges *budget.Charges
	// Limits replaces all limits; an empty list removes them. A limit that counts the same as
	// before keeps its counters.
	Limits *[]budget.Limit
}

// Of returns a definition after the change. The caller sets versions and instants; limit.Change
// sets those of limits.
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
	set(&d.Timezone, c.Timezone)
	set(&d.AlsoCharges, c.AlsoCharges)
	if c.Rule != nil {
		d.Rule = c.Rule
	}
	if c.Limits != nil {
		d.Limits = &budget.Limits{List: *c.Limits}
	}
	return d
}

// set copies value to into unless value is nil.
func set[T any](into, value *T) {
	if value != nil {
		*into = *value
	}
}

// Page selects a part of the list of budgets, in the order of tenants and names.
type Page struct {
	// Tenant restricts the list to one tenant, unless it is empty.
	Tenant string
	Type   budget.Type
	Status budget.Status
	// Subtree restricts the list to the budget with this id and those below it, unless it is 0.
	Subtree int64
	// Parent restricts the list to the children of the budgets with this name, unless it is empty.
	Parent string
	// IDs restricts the list to these ids, unless it is empty.
	IDs []int64
	// After has the tenant and name of the last budget of the previous page. Size is 1 … 1,000.
	After BudgetRef
	Size  int
	// Archived includes archived budgets.
	Archived bool
}

// ID names a request within a budget.
type ID struct {
	Budget    int64
	RequestID string
}

// NameOf returns the name of a cached budget, however old the entry is, and "" for any other. It
// reads nothing from the database.
func (c *Budgets) NameOf(id int64) string {
	if entry, known := c.lookUp(BudgetRef{ID: id}); known {
		if b := entry.value.Load(); b != nil {
			return b.Name
		}
	}
	return ""
}

// Home returns the bucket of a routing key in store mode: the ring's first choice among all
// buckets, because the records of its ids are there whatever its status is. It is nil if the budget
// has no buckets. The budget must come from Budgets.
func (b *Budget) Home(key string) *Bucket {
	if b.routes == nil {
		return nil
	}
	i := b.routes.LocateIndex(key, nil)
	if i < 0 {
		return nil
	}
	return &b.Buckets[i]
}

// HomeKey returns what selects a request's bucket in store mode: its value of the budget's routing
// dimension, else its key, else its id.
func (b *Budget) HomeKey(dimensions map[string]string, key, id string) string {
	return cmp.Or(dimensions[b.RoutingDimension], key, id)
}

// NeedsRows returns LedgerModeOnly if a budget is in store mode. It names the call and what to use
// instead.
func (b *Budget) NeedsRows(call, instead string) error {
	if !b.InStoreMode() {
		return nil
	}
	return budget.Refuse(budget.LedgerModeOnly, call,
		"%s needs the rows of ledger mode, and this budget has durability store; %s", call, instead)
}

// InsteadOfHold is what to use instead of a hold where there are no rows: see NeedsRows.
const InsteadOfHold = "deduct at once and roll back what is not needed"

// InsteadOfSet is what to use instead of a set where there are no rows: see NeedsRows.
const InsteadOfSet = "deduct from one budget after the other, and cancel all if one refuses"
