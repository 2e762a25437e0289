package bucket

import (
	"time"

	"github.com/budgetd/budgetd/allocation"
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
	// Counts are own amounts for single limits, by their names: 0 … budget.MaxAmount, 0 counts
	// nothing.
	Counts    map[string]int64
	Reference string
	// HoldTTL makes a hold of it, which expires that long after its commit unless it is confirmed;
	// whole milliseconds, budget.MinHoldTTL … budget.MaxHoldTTL; 0: used at once.
	HoldTTL time.Duration
	// Group names the holds that are confirmed, extended or rolled back together; "": none. Only
	// holds.
	Group string
	// By is the principal that deducts; "" on a server that authenticates nobody. Ledger mode keeps
	// it. A repeat may come from another principal.
	By string
}

// DeductAnswer is an accepted deduction.
type DeductAnswer struct {
	RequestID string
	Amount    int64
	State     ledger.State
	// Bucket is the key of the bucket it was deducted from.
	Bucket string
	// Remaining is what that bucket held right after, in minor units; on a replay, what it holds by
	// the ledger. It is omitted where RemainingUnknown: a replay could not read it in time.
	Remaining        int64
	RemainingUnknown bool
	// BudgetRemaining is what the whole budget still covers: at most 1 s old, and without this
	// deduction. It is omitted where FiguresUnknown.
	BudgetRemaining int64
	// FiguresUnknown says that BudgetRemaining and PeriodRemaining could not be read in time.
	FiguresUnknown bool
	// PeriodRemaining is what the open period of a daily budget still covers; nil for promo.
	PeriodRemaining *int64
	// Unlimited: the budget has no total, and what remains is no figure for callers.
	Unlimited bool
	// Limits are those that the deduction counts for, after it; on a replay none.
	Limits []budget.LimitState
	// HoldUntil is when a hold expires; zero for other deductions and, in store mode, until the
	// ledger knows it.
	HoldUntil time.Time
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
	// Confirmed is what was confirmed of a hold; HoldUntil when it expires, or would have; zero: no
	// hold.
	Confirmed int64
	HoldUntil time.Time
	// Group is the hold's, "": none.
	Group      string
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
	// Group is for RollbackGroup, without a request id, a rollback id and an amount; "" otherwise.
	Group string
	// Amount 0 asks for all that is left.
	Amount int64
	// Receipt is the deduction's, if the caller kept it.
	Receipt string
	// OnlyBy refuses, with Forbidden, what another principal than this one deducted; "": it may be
	// anybody's. Store mode does not know who deducted, and refuses whatever names a principal here.
	OnlyBy string
	// Key is the deduction's routing key. In store mode ids are unique per key, so the key or the
	// receipt names the record; neither is needed where the deduction had none.
	Key string
}

// ConfirmRequest asks for held units to be used: of one hold, or of all holds of a group.
type ConfirmRequest struct {
	Budget BudgetRef
	// Exactly one of RequestID and Group is given.
	RequestID, Group string
	// Amount 0 confirms the whole; less than is held returns the rest. Always 0 with a group.
	Amount int64
	// Receipt is the deduction's, if the caller kept it: see RollbackRequest.
	Receipt string
}

// ExtendRequest asks for a hold, or all holds of a group, to last HoldTTL from now.
type ExtendRequest struct {
	Budget BudgetRef
	// Exactly one of RequestID and Group is given.
	RequestID, Group string
	// HoldTTL is in whole milliseconds, budget.MinHoldTTL … budget.MaxHoldTTL.
	HoldTTL time.Duration
	Receipt string
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
	// Period is the open or last one, without what it got: that is in Figures.
	Period budget.Period
	// Replayed says that a create or an adjustment had been done before.
	Replayed bool
	// Unreachable is how many of its buckets are on stores that this node does not reach; of a view
	// of one budget only.
	Unreachable int
	// Plan is what the first periods and the last one would get; of a dry run only.
	Plan []allocation.Planned
}

// BucketView is a bucket as shown to operators.
type BucketView struct {
	Bucket
	// Remaining is O: what it holds by the ledger, in minor units.
	Remaining int64
	// Problem says why its store does not answer this node; "": it does.
	Problem string
}

// AuditReport is the proof of I1 for a budget.
type AuditReport struct {
	OK      bool
	Figures ledger.Figures
	// AtRisk is what would be quarantined if every store were lost now: 0 in ledger mode, else ΣO
	// of the live epochs.
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
	// Draining says that its buckets move to other lanes.
	Draining bool
	// Buckets is how many it has; nil: SQL could not be asked.
	Buckets *int
}
