package memstore

import (
	"iter"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Columns are the figures of a budget's rows as a transaction left them, as plain data. They are good
// until the Watch that was given them returns.
type Columns struct {
	Budget                              int64
	Total, Undistributed, PendingShrink int64
	Quarantined                         int64
	StoreMode                           bool
	// AdjustCnt is how often one bucket may apply in an epoch; 0: no bound.
	AdjustCnt int
	Buckets   iter.Seq[BucketColumns] // by ordinal
	Epochs    iter.Seq[EpochColumns]  // by (bucket's ordinal, number)
	// Counted reports whether a request id has a deduction; a tombstone is none.
	Counted func(requestID string) bool
	// Limits are those of the definition; nil: it never had any.
	Limits *budget.Limits
	// Fresh are the ledger's rows since Watch was last told of the budget, in the order in which they came.
	Fresh iter.Seq[FreshRow]
}

// FreshRow is a row that the ledger just got: a deduction, a rollback of it, or the end of its hold.
type FreshRow struct {
	Kind ledger.FeedKind
	// Deduction is the row of its request id as the transaction left it.
	Deduction *ledger.Deduction
	// RollbackID is that of a rollback.
	RollbackID string
	// Amount is what was deducted, given back, confirmed or has expired; Returned what the end of a hold
	// gave back.
	Amount, Returned int64
	At               time.Time
}

// BucketColumns are those of a row of sharding_budget_management_bucket that has not retired.
type BucketColumns struct {
	// ByOperator says that an operator took it offline.
	ByOperator bool
	OutCnt     int
}

// EpochColumns are those of a row of bucket_epoch.
type EpochColumns struct {
	Bucket, Number                     int64
	Outstanding, Held, Used, Returning int64
	// Quarantined is what is in quarantine of it still; Live: it has not ended.
	Quarantined int64
	Live        bool
}

// watch tells Watch of a budget that was just written. s.mu is held.
func (s *SQL) watch(b *sqlBudget) {
	s.Watch(&Columns{Budget: b.definition.ID, Total: b.definition.TotalQuantity, Undistributed: b.undistributed,
		PendingShrink: b.pendingShrink, Quarantined: b.quarantined,
		StoreMode: b.definition.Durability == budget.Store,
		AdjustCnt: b.definition.AdjustCnt, Buckets: b.bucketColumns, Epochs: b.epochColumns,
		Counted: b.counted, Limits: b.definition.Limits, Fresh: b.freshRows})
}

func (b *sqlBudget) freshRows(yield func(FreshRow) bool) {
	for _, r := range b.fresh {
		e := r.entry()
		row := FreshRow{Kind: e.Kind, Deduction: r.deduction, RollbackID: e.RollbackID, Amount: e.Amount, At: e.At}
		if r.holdEnd != nil {
			row.Returned = r.holdEnd.Returned
		}
		if !yield(row) {
			return
		}
	}
}

func (b *sqlBudget) counted(requestID string) bool {
	d := b.deductions[requestID]
	return d != nil && d.State != ledger.StateVoid
}

func (b *sqlBudget) bucketColumns(yield func(BucketColumns) bool) {
	for _, shard := range b.buckets {
		if shard.OfflineBy == bucket.ByResize {
			continue
		}
		if !yield(BucketColumns{ByOperator: shard.OfflineBy == bucket.ByOperator, OutCnt: shard.OutCnt}) {
			return
		}
	}
}

func (b *sqlBudget) epochColumns(yield func(EpochColumns) bool) {
	for _, shard := range b.buckets {
		for _, e := range shard.epochs {
			if !yield(EpochColumns{Bucket: e.Bucket, Number: e.Number, Outstanding: e.Outstanding, Held: e.Held,
				Used: e.Used, Returning: e.Returning, Quarantined: e.sums.Quarantined - e.sums.Released,
				Live: e.Status.Live()}) {
				return
			}
		}
	}
}

// Row returns the ledger's row of a request id as it is now. It asks no Hook.
func (s *SQL) Row(budgetID int64, requestID string) (ledger.Deduction, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.find(budgetID)
	if err != nil || b.deductions[requestID] == nil {
		return ledger.Deduction{}, false
	}
	return *b.deductions[requestID], true
}
