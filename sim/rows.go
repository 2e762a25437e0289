package sim

import (
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/sim/auditor"
)

// watching hands every commit to the auditor, in its own words.
func watching(a *auditor.Auditor) func(*memstore.Columns) {
	return func(c *memstore.Columns) {
		a.Written(auditor.Columns{Budget: c.Budget, Total: c.Total, Undistributed: c.Undistributed,
			PendingShrink: c.PendingShrink, Quarantined: c.Quarantined, StoreMode: c.StoreMode,
			AdjustCnt: c.AdjustCnt, Counted: c.Counted,
			LimitsVersion: versionOf(c.Limits), Limits: func() []auditor.Limit { return limitsOf(c.Limits) },
			Fresh: func(yield func(auditor.Fresh) bool) {
				c.Fresh(func(r memstore.FreshRow) bool { return yield(freshOf(r)) })
			},
			Buckets: func(yield func(auditor.BucketColumns) bool) {
				c.Buckets(func(b memstore.BucketColumns) bool { return yield(auditor.BucketColumns(b)) })
			},
			Epochs: func(yield func(auditor.EpochColumns) bool) {
				c.Epochs(func(e memstore.EpochColumns) bool { return yield(auditor.EpochColumns(e)) })
			}})
	}
}

func freshOf(r memstore.FreshRow) auditor.Fresh {
	d := r.Deduction
	return auditor.Fresh{Kind: string(r.Kind), ID: d.RequestID, Amount: r.Amount, Returned: r.Returned,
		At: r.At.UnixMilli(), HoldUntil: untilOf(*d), Group: d.Group, ByGroup: r.RollbackID == ledger.GroupRollbackID,
		Values: func() (map[string]string, map[string]int64) {
			return ledger.ReadDimensions(d.Dimensions), ledger.ReadCounts(d.Counts)
		}}
}

func untilOf(d ledger.Deduction) int64 {
	if d.HoldUntil.IsZero() {
		return 0
	}
	return d.HoldUntil.UnixMilli()
}

func versionOf(limits *budget.Limits) int64 {
	if limits == nil {
		return 0
	}
	return limits.Version
}

func limitsOf(limits *budget.Limits) (out []auditor.Limit) {
	for _, from := range limits.List {
		l := auditor.Limit{Name: from.Name, Dimensions: strings.Split(from.Dimension, "+"),
			Kind: string(from.Window.Kind), Every: everyMS[from.Window.Every], Length: from.Window.Length.Milliseconds(),
			Slot: from.Window.Slot.Milliseconds(), Max: from.Max, Amounts: from.Measure == budget.MeasureAmount,
			Enforce: from.Enforce, Exempt: map[string]bool{}}
		for _, o := range from.Overrides {
			l.Exempt[append(o.Values, o.Value)[0]] = true // the plan makes no others
		}
		if from.ChangedVersion > 1 {
			l.Changed = from.ChangedAt.UnixMilli()
		}
		out = append(out, l)
	}
	return out
}

// everyMS are the calendar windows of the plan, in ms.
var everyMS = map[budget.Every]int64{budget.Second: 1000, budget.Minute: 60_000}

// row is the ledger's row of an id, for the auditor.
func (w *world) row(budgetID int64, id string) (auditor.Row, bool) {
	d, known := w.model.Row(budgetID, id)
	if !known {
		return auditor.Row{}, false
	}
	return rowOf(d), true
}

func rowOf(d ledger.Deduction) auditor.Row {
	return auditor.Row{ID: d.RequestID, State: string(d.State), Payload: d.Reference, Amount: d.Amount,
		RolledBack: d.RolledBack, Confirmed: d.Confirmed, HoldUntil: untilOf(d), Group: d.Group, Bucket: d.Position.Bucket, Epoch: d.Position.Epoch, Seq: d.Position.Seq}
}

// tables are all rows, for the auditor.
func (w *world) tables() []*auditor.Budget {
	var out []*auditor.Budget
	for _, from := range w.model.Tables().Budgets {
		b := &auditor.Budget{ID: from.Definition.ID, Total: from.Definition.TotalQuantity,
			Undistributed: from.Undistributed, PendingShrink: from.PendingShrink, Quarantined: from.Quarantined,
			StoreMode: from.Definition.Durability == budget.Store, Rows: map[string]auditor.Row{}}
		for _, q := range from.Quarantines {
			b.Quarantines = append(b.Quarantines, auditor.Quarantine{Bucket: q.Bucket, Epoch: q.Epoch,
				Quantity: q.Quantity, Released: q.Released})
		}
		for _, x := range from.Adjustments {
			b.Adjustments = append(b.Adjustments, auditor.Adjustment{ID: x.RequestID, State: string(x.State),
				Quantity: x.Quantity})
		}
		for _, r := range from.Rollbacks {
			b.Rollbacks = append(b.Rollbacks, auditor.Rollback{ID: r.RequestID, RollbackID: r.RollbackID,
				Amount: r.Amount})
		}
		for _, e := range from.HoldEnds {
			b.Ends = append(b.Ends, auditor.HoldEnd{ID: e.RequestID, Kind: string(e.Kind), Amount: e.Amount,
				Returned: e.Returned})
		}
		for id, d := range from.Deductions {
			b.Rows[id] = rowOf(d)
		}
		for _, shard := range from.Buckets {
			one := auditor.Bucket{ID: shard.Bucket.ID}
			for i := range shard.Epochs {
				one.Epochs = append(one.Epochs, epochOf(&shard.Epochs[i]))
			}
			b.Buckets = append(b.Buckets, one)
		}
		out = append(out, b)
	}
	return out
}

func epochOf(e *memstore.EpochRow) auditor.Epoch {
	out := auditor.Epoch{Number: e.Number, Status: string(e.Status), Fenced: e.Fenced,
		Outstanding: e.Outstanding,
		Held:        e.Held, Used: e.Used, Returning: e.Returning, Closed: e.Closed, Swept: e.Swept,
		DrainedSeq: e.DrainedSeq}
	for _, g := range e.Grants {
		out.Grants = append(out.Grants, auditor.Grant(g))
	}
	for _, d := range e.Deductions {
		out.Deductions = append(out.Deductions, rowOf(d))
	}
	for _, d := range e.Duplicates {
		out.Duplicates = append(out.Duplicates, auditor.Duplicate{ID: d.RequestID, Amount: d.Amount,
			Seq: d.Position.Seq})
	}
	return out
}
