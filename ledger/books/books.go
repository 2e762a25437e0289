package books

import (
	"fmt"

	"github.com/budgetd/budgetd/limit"
)

// Books are the rows of one transaction. The zero value has no tables: see New.
type Books struct {
	// NowMS is the database's clock, in ms since 1970.
	NowMS int64
	// Applied is what buckets applied for in the open period of budgets whose adjust_cnt is bounded.
	Applied map[int64]int64
	// ClockMS is the database's clock once the locks were taken, if it was asked for: see
	// bookkeeper.Clock.
	ClockMS int64
	// Unlimited lists budgets without a total whose rows are not loaded: Check leaves them out.
	Unlimited map[int64]bool
	// UsedSince is what was used and is held since the instant of CountFrom; nil if it was not read.
	UsedSince *int64
	// Used is what buckets used recently, by bucket.
	Used map[int64]Used
	// Away are buckets in stores that do not answer: a recycle leaves them out.
	Away map[int64]bool
	// Unsure means that an earlier attempt of the same movement may have been committed.
	Unsure bool
	// Ended is what descendants of the budgets that have ended have left, if it was asked for.
	Ended []Left
	// Back is what came back of the loaded deductions.
	Back map[ID]int64
	// Bounds has the overrides of the values on whose limits extras count, and Events what those of
	// LimitsToLoad count in the ledger.
	Bounds limit.Bounds
	Events map[UsageID][]limit.Event

	Budgets     Set[Budget, int64]
	Limits      Set[Limit, [2]any]
	Overrides   Set[Override, OverrideID]
	Periods     Set[Period, [2]int64]
	Buckets     Set[Bucket, int64]
	Deductions  Set[Deduction, ID]
	Holds       Set[Hold, ID]
	Extras      Set[Extra, ExtraID]
	Values      Set[Value, Value]
	GiveBacks   Set[GiveBack, PartID]
	Groups      Set[Group, ID]
	Counters    Set[Counter, CounterID]
	Epochs      Set[Epoch, Position]
	Grants      Set[Grant, [3]int64]
	Adjustments Set[Adjustment, ID]
	Partitions  Set[Partition, PartitionID]
	Quarantines Set[Quarantine, Position]
	Releases    Set[Release, [4]any]
	Feeds       Set[Feed, [2]int64]
	Runs        Set[Run, [2]int64]
	// RemovedOverrides and GoneSeries are only added.
	RemovedOverrides Set[RemovedOverride, RemovedOverride]
	GoneSeries       Set[GoneSeries, [2]int64]
}

// New returns Books without rows.
func New(nowMS int64) *Books {
	return &Books{
		NowMS:     nowMS,
		Applied:   map[int64]int64{},
		Back:      map[ID]int64{},
		Events:    map[UsageID][]limit.Event{},
		Budgets:   newSet("budget_management_bucket", func(r *Budget) int64 { return r.ID }),
		Limits:    newSet("budget_limit", func(r *Limit) [2]any { return [2]any{r.Budget, r.Name} }),
		Overrides: newSet("limit_override", (*Override).ID),
		RemovedOverrides: newSet("limit_override_removed",
			func(r *RemovedOverride) RemovedOverride { return *r }),
		GoneSeries: newSet("limit_override_series",
			func(r *GoneSeries) [2]int64 { return [2]int64{r.Budget, r.Series} }),
		Periods: newSet("budget_period",
			func(r *Period) [2]int64 { return [2]int64{r.Budget, r.Number} }),
		Buckets:    newSet("sharding_budget_management_bucket", func(r *Bucket) int64 { return r.ID }),
		Deductions: newSet("deduction", (*Deduction).ID),
		Holds:      newSet("hold", func(r *Hold) ID { return ID{r.Budget, r.RequestID} }),
		Extras: newSet("extra",
			func(r *Extra) ExtraID { return ExtraID{ID{r.Budget, r.RequestID}, r.Number} }),
		Values:    newSet("deduction_value", func(r *Value) Value { return *r }),
		GiveBacks: newSet("give_back", (*GiveBack).id),
		Groups:    newSet("group_of_holds", func(r *Group) ID { return ID{r.Budget, r.Name} }),
		Counters: newSet("limit_counter",
			func(r *Counter) CounterID { return CounterID{r.Budget, r.Dimension, r.Value} }),
		Epochs: newSet("bucket_epoch", (*Epoch).Position),
		Grants: newSet("grant_log",
			func(r *Grant) [3]int64 { return [3]int64{r.Bucket, r.Epoch, r.Number} }),
		Adjustments: newSet("adjustment", func(r *Adjustment) ID { return ID{r.Budget, r.RequestID} }),
		Partitions:  newSet("store_partition", (*Partition).ID),
		Quarantines: newSet("quarantine", (*Quarantine).Position),
		Releases: newSet("quarantine_release", func(r *Release) [4]any {
			return [4]any{r.Budget, r.RequestID, r.Bucket, r.Epoch}
		}),
		Feeds: newSet("feed", func(r *Feed) [2]int64 { return [2]int64{r.Bucket, r.First} }),
		Runs:  newSet("recycle_run", func(r *Run) [2]int64 { return [2]int64{r.Budget, r.Number} }),
	}
}

// Written is a Set as a writer sees it.
type Written interface {
	Table() *Table
	Changes() (added, changed, removed []Change, err error)
}

// Sets returns the tables in the order in which they are written: the lock order of schema.sql.
func (b *Books) Sets() []Written {
	return []Written{&b.Budgets, &b.Limits, &b.Overrides, &b.RemovedOverrides, &b.GoneSeries,
		&b.Periods, &b.Buckets, &b.Deductions, &b.Holds, &b.Extras, &b.Values, &b.GiveBacks,
		&b.Groups, &b.Counters, &b.Epochs, &b.Grants, &b.Adjustments, &b.Partitions, &b.Quarantines,
		&b.Releases, &b.Feeds, &b.Runs}
}

// Check compares what was changed with the accounting, from the rows in memory alone: that no
// account is below 0, each budget's equation (I1), and that the columns of each epoch follow from
// its grants and releases, and from the new rows of deductions and of what came back of them. It
// sets what was handed out of each budget. A movement that fails must not be saved. The equation
// and the columns do not apply to unlimited budgets, whose T, F, U and O are 0.
func (b *Books) Check() error {
	off := map[int64]int64{}    // by budget: how much T changed, less all other terms
	family := map[int64]int64{} // by budget: how much T of its children changed, less A
	for i, now := range b.Budgets.now {
		was := orZero(b.Budgets.was[i])
		if min(now.Total, now.Unfunded, now.Undistributed, now.Quarantined, now.Forfeited,
			now.Allocated, now.PendingShrink) < 0 {
			return fmt.Errorf("budget %d: an account is below 0", now.ID)
		}
		now.Out = now.Total - now.Unfunded - now.Undistributed - now.Forfeited
		off[now.ID] += now.Total - was.Total
		off[now.ID] -= now.Unfunded - was.Unfunded
		off[now.ID] -= now.Undistributed - was.Undistributed
		off[now.ID] -= now.Quarantined - was.Quarantined
		off[now.ID] -= now.Forfeited - was.Forfeited
		off[now.ID] -= now.Allocated - was.Allocated
		family[now.ID] -= now.Allocated - was.Allocated
		if now.Parent != 0 {
			family[now.Parent] += now.Total - was.Total
		}
	}
	granted := map[Position]int64{}
	for i, g := range b.Grants.now {
		if b.Grants.was[i] == nil {
			granted[Position{g.Bucket, g.Epoch}] += g.Amount
		}
	}
	for i, r := range b.Releases.now {
		if b.Releases.was[i] == nil && r.GoesTo == ToUsed {
			granted[Position{r.Bucket, r.Epoch}] += r.Quantity
		}
	}
	for i, now := range b.Epochs.now {
		was := orZero(b.Epochs.was[i])
		if min(now.Outstanding, now.Held, now.Used, now.Late, now.Returning-now.Late, now.Closed,
			now.Swept) < 0 {
			return fmt.Errorf("epoch %v: an account is below 0", now.Position())
		}
		if b.isUnlimited(now.Budget) {
			delete(granted, now.Position())
			continue
		}
		moved := now.Outstanding - was.Outstanding
		moved += now.Held - was.Held
		moved += now.Used - was.Used
		moved += now.Returning - was.Returning
		off[now.Budget] -= moved
		explained := granted[now.Position()] - (now.Closed - was.Closed) - (now.Swept - was.Swept)
		if moved != explained {
			return fmt.Errorf("epoch %v: its accounts changed by %d, its rows explain %d",
				now.Position(), moved, explained)
		}
		delete(granted, now.Position())
	}
	for at := range granted {
		return fmt.Errorf("epoch %v has a grant and was not loaded", at)
	}
	for id, units := range off {
		if units != 0 {
			return fmt.Errorf("budget %d: the equation is off by %d", id, units)
		}
	}
	for id, units := range family {
		if units != 0 {
			return fmt.Errorf("budget %d: T of its children changed by %d more than A", id, units)
		}
	}
	return b.checkDeductions()
}

func (b *Books) isUnlimited(id int64) bool {
	u := b.Budgets.Get(id)
	return u != nil && u.Unlimited == 1 || b.Unlimited[id]
}

// orZero returns a row, or the zero one for a row that was not there.
func orZero[R any](row *R) (zero R) {
	if row == nil {
		return zero
	}
	return *row
}
