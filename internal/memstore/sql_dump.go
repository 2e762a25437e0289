package memstore

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Tables are the rows of all tables as they are at one moment, as plain data: a test counts them with
// arithmetic of its own.
type Tables struct {
	Budgets []BudgetRow // by id
	Lanes   map[bucket.Lane]bucket.LaneRow
	// Uncleared has the newest epoch of each bucket that left a lane and whose keys are there still.
	Uncleared map[bucket.Lane][]bucket.Ref
	Uses      []bucket.LaneUse // those that are not ended
}

// BudgetRow is a row of budget_management_bucket with all rows that belong to it.
type BudgetRow struct {
	Definition                   budget.Definition
	Undistributed, PendingShrink int64
	Quarantined                  int64
	Unfunded, Forfeited          int64
	Period                       budget.Period
	RollOver                     time.Time              // when one is due; zero: never
	Periods                      []ledger.PeriodFigures // by number
	Buckets                      []BucketRow            // by ordinal
	Adjustments                  []AdjustmentRow        // by request id; the creation is ""
	Deductions                   map[string]ledger.Deduction
	Rollbacks                    []ledger.Rollback // by (request id, rollback id)
	HoldEnds                     []ledger.HoldEnd  // by request id
	Groups                       map[string]ledger.GroupState
	Run                          *bucket.Run         // the open collect
	Recycles                     []bucket.Recycle    // by number
	Quarantines                  []bucket.Quarantine // by (bucket, epoch), empty ones included
	Releases                     []ReleaseRow        // as they were made
}

// ReleaseRow is a row of quarantine_release; one of ReleaseProven has no RequestID.
type ReleaseRow struct {
	RequestID string
	Quantity  int64
}

// BucketRow is a row of sharding_budget_management_bucket.
type BucketRow struct {
	Bucket bucket.Bucket // without its Epoch
	Epochs []EpochRow    // by number
}

// Newest is the row of the bucket's newest epoch.
func (b *BucketRow) Newest() *EpochRow { return &b.Epochs[len(b.Epochs)-1] }

// EpochRow is a row of bucket_epoch with its grants and what was drained.
type EpochRow struct {
	ledger.Epoch
	Closed, Swept int64
	Grants        []GrantRow         // by number
	Deductions    []ledger.Deduction // by seq
	Duplicates    []ledger.Duplicate // by seq
}

// GrantRow is a row of grant_log; Status is pending, applied or void.
type GrantRow struct {
	Amount int64
	Status string
}

// AdjustmentRow is a row of adjustment.
type AdjustmentRow struct {
	bucket.Adjustment
	State bucket.AdjustmentState
}

// Tables copies all rows. It asks no Hook.
func (s *SQL) Tables() Tables {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Tables{Lanes: map[bucket.Lane]bucket.LaneRow{}, Uncleared: map[bucket.Lane][]bucket.Ref{}}
	for _, d := range s.left {
		if !d.cleared {
			out.Uncleared[d.lane] = append(out.Uncleared[d.lane], d.ref)
		}
	}
	for lane, row := range s.lanes {
		out.Lanes[lane] = *row
	}
	for _, u := range s.uses {
		if !u.reported {
			out.Uses = append(out.Uses, bucket.LaneUse{Node: u.node, Lane: u.lane, Activation: u.activation,
				Over: s.lanes[u.lane].Activation > u.activation})
		}
	}
	for _, b := range s.budgets {
		out.Budgets = append(out.Budgets, b.dump())
	}
	return out
}

func (b *sqlBudget) dump() BudgetRow {
	out := BudgetRow{Definition: b.definition, Undistributed: b.undistributed,
		PendingShrink: b.pendingShrink, Quarantined: b.quarantined, Run: copied(b.run),
		Unfunded: b.unfunded, Forfeited: b.forfeited, Period: b.period, RollOver: b.rollOver, Periods: b.periodRows(),
		Deductions: make(map[string]ledger.Deduction, len(b.deductions))}
	for _, id := range slices.Sorted(maps.Keys(b.adjustments)) {
		a := b.adjustments[id]
		out.Adjustments = append(out.Adjustments, AdjustmentRow{a.Adjustment, a.state})
	}
	for _, r := range b.recycles {
		out.Recycles = append(out.Recycles, *r)
	}
	for _, q := range b.sorted() {
		out.Quarantines = append(out.Quarantines, q.Quarantine)
	}
	for _, r := range b.releases {
		out.Releases = append(out.Releases, ReleaseRow{r.requestID, r.quantity})
	}
	for id, d := range b.deductions {
		out.Deductions[id] = *d
	}
	for _, r := range b.rollbacks {
		out.Rollbacks = append(out.Rollbacks, *r)
	}
	slices.SortFunc(out.Rollbacks, func(x, y ledger.Rollback) int {
		return cmp.Or(cmp.Compare(x.RequestID, y.RequestID), cmp.Compare(x.RollbackID, y.RollbackID))
	})
	for _, id := range slices.Sorted(maps.Keys(b.holdEnds)) {
		out.HoldEnds = append(out.HoldEnds, *b.holdEnds[id])
	}
	out.Groups = maps.Clone(b.groups)
	for _, shard := range b.buckets {
		row := BucketRow{Bucket: shard.Bucket}
		for _, e := range shard.epochs {
			row.Epochs = append(row.Epochs, e.dump())
		}
		out.Buckets = append(out.Buckets, row)
	}
	return out
}

func (e *sqlEpoch) dump() EpochRow {
	out := EpochRow{Epoch: e.Epoch, Closed: e.closed, Swept: e.Swept}
	for _, g := range e.grants {
		out.Grants = append(out.Grants, GrantRow{Amount: g.amount, Status: string(g.status)})
	}
	for _, seq := range slices.Sorted(maps.Keys(e.deductions)) {
		out.Deductions = append(out.Deductions, *e.deductions[seq])
	}
	for _, seq := range slices.Sorted(maps.Keys(e.duplicates)) {
		out.Duplicates = append(out.Duplicates, e.duplicates[seq])
	}
	return out
}
