package bucket

import (
	"time"
)

// Quarantine is what an epoch held, beyond what the ledger has, when its store lost its memory: how
// much of it was sold is not known.
type Quarantine struct {
	Bucket int64
	Key    string
	Epoch  int64
	// Quantity went into quarantine, Released left it since. Minor units.
	Quantity, Released int64
	Cause              string
	At                 time.Time
}

// Held is what is in quarantine still, in minor units.
func (q Quarantine) Held() int64 { return q.Quantity - q.Released }

// ReleaseRequest is an operator's decision on quarantined units.
type ReleaseRequest struct {
	Budget    BudgetRef
	RequestID string
	// Quantity 0 asks for all that is in quarantine.
	Quantity   int64
	Reason, By string
}

// ReleaseAnswer is what a release did.
type ReleaseAnswer struct {
	Released, Quarantined int64
	Replayed              bool
}
