package bucket

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// DeductRequest asks for units. The caller has validated the texts (budget.CheckRequestID,
// budget.CheckKey) and the amount.
type DeductRequest struct {
	Budget    BudgetRef
	RequestID string
	// Amount is in minor units, 1 … budget.MaxAmount.
	Amount int64
	// Key routes to a bucket; "" means the request id.
	Key        string
	Dimensions map[string]string
	Reference  string
}

// DeductAnswer is an accepted deduction.
type DeductAnswer struct {
	RequestID string
	Amount    int64
	State     ledger.State
	// Bucket is the key of the bucket it was deducted from.
	Bucket string
	// Remaining is what that bucket held right after, in minor units; on a replay, what it holds by
	// the ledger.
	Remaining int64
	// BudgetRemaining is what the whole budget still covers, at most 1 s old.
	BudgetRemaining int64
	// Receipt locates the deduction: opaque to callers.
	Receipt string
	// Replayed says that an earlier call with this id did it.
	Replayed bool
}

// DeductionView is the ledger's row of a request id, as shown to callers.
type DeductionView struct {
	RequestID  string
	State      ledger.State
	Amount     int64
	RolledBack int64
	Bucket     string
	Reference  string
	Dimensions string
	CountedAt  time.Time
	Receipt    string
	// Replayed says that the call that answers this was a repetition.
	Replayed bool
}

// RollbackRequest asks for units of a deduction to be given back.
type RollbackRequest struct {
	Budget     BudgetRef
	RequestID  string
	RollbackID string
	// Amount 0 asks for all that is left.
	Amount int64
}

// AdjustRequest is an append (positive) or a shrink (negative quantity).
type AdjustRequest struct {
	Budget    BudgetRef
	RequestID string
	Quantity  int64
}

// View is a budget as of one snapshot.
type View struct {
	Definition budget.Definition
	Status     budget.Status
	Figures    ledger.Figures
	// Replayed says that a create or an adjustment had been done before.
	Replayed bool
}

// BucketView is a bucket as shown to operators.
type BucketView struct {
	Bucket
	// Remaining is O: what it holds by the ledger, in minor units.
	Remaining int64
}

// AuditReport is the proof of I1 for a budget (DESIGN 3).
type AuditReport struct {
	OK      bool
	Figures ledger.Figures
	// AtRisk is what a lost store could cost: 0 in ledger mode.
	AtRisk        int64
	Discrepancies []ledger.Discrepancy
	// Unchecked lists buckets whose store could not be read just now; their rows were checked.
	Unchecked []string
}

// LaneView is a lane as shown to operators.
type LaneView struct {
	Lane       Lane
	Activation int64
	// Reachable says whether the last attempt reached it; Problem why not.
	Reachable bool
	Problem   string
}
