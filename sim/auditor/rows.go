// Package auditor says what is wrong with a run of budgetd from two things only: the rows of the
// database as plain data, and what callers were told. It shares no code with the system and knows
// none of its types, so a mistake in the system's arithmetic is not repeated here.
//
// All quantities are minor units. The numbers I1 to I8 are those of docs/INVARIANTS.md.
package auditor

import "iter"

// Columns are the figures of a budget as a transaction left them.
type Columns struct {
	Budget                              int64
	Total, Undistributed, PendingShrink int64
	Quarantined                         int64
	// StoreMode: callers may be told "accepted" before the ledger has it.
	StoreMode bool
	// AdjustCnt is how often one bucket may apply in an epoch; 0: no bound.
	AdjustCnt int
	Buckets   iter.Seq[BucketColumns]
	Epochs    iter.Seq[EpochColumns]
	// Counted reports whether the ledger has a deduction of a request id.
	Counted func(id string) bool
	// LimitsVersion grows with each change of the limits; 0: it never had any.
	LimitsVersion int64
	Limits        func() []Limit
	// Fresh are the rows that the ledger got since the budget was last looked at, in order.
	Fresh iter.Seq[Fresh]
}

// Fresh is a row that the ledger got: a deduction, a rollback of it, or the end of its hold.
type Fresh struct {
	// Kind is deduct, rollback, confirm or expire.
	Kind, ID string
	// Amount is what was deducted, given back, confirmed or has expired; Returned what the end of a hold
	// gave back. In minor units.
	Amount, Returned int64
	// At and HoldUntil are in ms since 1970; HoldUntil is the hold's as it is now, 0: it is none.
	At, HoldUntil int64
	// Group is that of the hold; ByGroup: the rollback was of the whole group.
	Group   string
	ByGroup bool
	// Values reads the dimensions that it carries and its own amounts for single limits.
	Values func() (map[string]string, map[string]int64)
}

// Limit is what one value of a dimension, or of several, may take in a window.
type Limit struct {
	Name       string
	Dimensions []string
	// Kind is calendar, sliding, first_hit or lifetime. Every is of a calendar one, in UTC; Length and Slot
	// of the others: ms.
	Kind                string
	Every, Length, Slot int64
	// Max is in calls, or in minor units where it counts Amounts. Exempt are the first values that have none.
	Max     int64
	Amounts bool
	Exempt  map[string]bool
	// Enforce false: it refuses nobody.
	Enforce bool
	// Changed is since when it counts what it counts, in ms; 0: since its budget was made.
	Changed int64
}

// BucketColumns are those of a bucket.
type BucketColumns struct {
	// ByOperator: an operator took it offline.
	ByOperator bool
	// OutCnt is how often it has applied in its newest epoch.
	OutCnt int
}

// EpochColumns are those of one life of a bucket.
type EpochColumns struct {
	Bucket, Number                     int64
	Outstanding, Held, Used, Returning int64
	// Quarantined is what is in quarantine of it still; Live: it has not ended.
	Quarantined int64
	Live        bool
}

// releasable is what is undistributed if a bucket may apply for it, or could if an operator brought it online, else 0.
func (c *Columns) releasable() int64 {
	none := true
	for b := range c.Buckets {
		if !b.ByOperator && (c.AdjustCnt == 0 || b.OutCnt < c.AdjustCnt) {
			return c.Undistributed
		}
		none = none && b.ByOperator
	}
	if none {
		return c.Undistributed
	}
	return 0
}

// Budget is a budget with all its rows.
type Budget struct {
	ID                                  int64
	Total, Undistributed, PendingShrink int64
	Quarantined                         int64
	StoreMode                           bool
	Quarantines                         []Quarantine
	Adjustments                         []Adjustment
	Buckets                             []Bucket
	Rollbacks                           []Rollback
	Ends                                []HoldEnd
	// Rows are the deductions and tombstones by request id.
	Rows map[string]Row
}

// Quarantine is units that an epoch held when its store lost its memory, beyond what the ledger has.
type Quarantine struct {
	Bucket, Epoch, Quantity, Released int64
}

// Adjustment is an append or a shrink; the creation is the one without an id.
type Adjustment struct {
	ID, State string
	Quantity  int64
}

// Bucket is a bucket with its lives, by number.
type Bucket struct {
	ID     int64
	Epochs []Epoch
}

// Epoch is one life of a bucket with what was moved into and out of it.
type Epoch struct {
	Number                             int64
	Status, Fenced                     string
	Outstanding, Held, Used, Returning int64
	Closed, Swept, DrainedSeq          int64
	Grants                             []Grant
	Deductions                         []Row
	Duplicates                         []Duplicate
}

// Grant is units given to an epoch; Status is pending, applied or void.
type Grant struct {
	Amount int64
	Status string
}

// Row is what the ledger says of a request id; State is used, held, expired, rolled_back or void.
type Row struct {
	ID, State, Payload string
	Amount, RolledBack int64
	// Confirmed is what was confirmed of a hold; HoldUntil when it ends or ended, in ms; 0: it is none.
	Confirmed, HoldUntil int64
	Group                string
	Bucket, Epoch, Seq   int64
	Nonce                string
}

// Duplicate is an entry of a log that took no effect.
type Duplicate struct {
	ID     string
	Amount int64
	Seq    int64
}

// Rollback is units of a deduction given back.
type Rollback struct {
	ID, RollbackID string
	Amount         int64
}

// HoldEnd is how a hold ended; Kind is confirm or expire.
type HoldEnd struct {
	ID, Kind         string
	Amount, Returned int64
}
