package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// LaneUse says that a node tells callers "accepted" on the word of a lane, in store mode, under one
// of its activations.
type LaneUse struct {
	Node       string
	Lane       Lane
	Activation int64
	// Over says that the lane has a later activation: the node has to report.
	Over bool
}

// LostOrder asks for the end of an epoch whose store lost its memory.
type LostOrder struct {
	Ref Ref
	// Force: nodes that have not reported are not waited for.
	Force bool
	// Drained: the log was drained to its end after every node had reported.
	Drained bool
}

// Settlement is how an epoch of a store-mode budget ended whose store lost its memory.
type Settlement struct {
	// Ended is false while the epoch waits for reports or for a drain, and when it had ended already.
	Ended bool
	// Beyond: all nodes have reported, and one acknowledged a position beyond the drained one: what is left of
	// the log has to be drained once more.
	Beyond bool
	// Returned units went to U: everything that any node acknowledged is in the ledger. Quarantined
	// ones went to Q.
	Returned, Quarantined int64
	// Unheard are the nodes that have not reported yet.
	Unheard []string
}

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

// ReleaseOrder is an operator's decision that quarantined units were not sold.
type ReleaseOrder struct {
	Budget    int64
	RequestID string
	// Quantity 0 asks for all that is in quarantine when it is carried out.
	Quantity int64
	// Reason and By are kept with the release: why, and who decided.
	Reason, By string
}

// Refusal is why so many units in quarantine are not enough for the order, AmountExceedsRemaining with what there is,
// or nil. All of nothing is refused too: a release without effect would not keep the request id, and its repeat would
// release what came later.
func (o *ReleaseOrder) Refusal(held int64) error {
	if held > 0 && o.Quantity <= held {
		return nil
	}
	e := budget.Refuse(budget.AmountExceedsRemaining, "release",
		"%d are in quarantine, %d were to be released", held, o.Quantity)
	if held == 0 {
		e.Message = "nothing is in quarantine"
	}
	e.Available = &held
	return e
}

// UseState is what became of a use that was to be noted.
type UseState int

const (
	// UseOver: the lane has another activation by now.
	UseOver UseState = iota
	// UseEnded: somebody ended the node's use of the activation, and it cannot have another one.
	UseEnded
	UseNoted
)

// Quarantines is what store mode needs of SQL beyond the ledger: who may have said "accepted" on the
// word of a lane, and what becomes of units whose store lost its memory (DESIGN 6, recover a lane).
// Errors as Ledger. Safe for concurrent use.
type Quarantines interface {
	// UseLane notes a use before the node's first "accepted" under that activation, and that the node
	// is alive: it may acknowledge for a lease from now on. Nothing is noted but for UseNoted. Idempotent.
	UseLane(ctx context.Context, node string, lane Lane, activation int64, lease time.Duration) (UseState, error)
	// SeeUses notes that a node is alive, as UseLane for all its uses, and lists those that are not ended.
	SeeUses(ctx context.Context, node string, lease time.Duration) ([]LaneUse, error)
	// SilentUses lists at most limit uses of present activations whose nodes' leases have been over for longer
	// than silence.
	SilentUses(ctx context.Context, silence time.Duration, limit int) ([]LaneUse, error)
	// EndSilent ends a use whose node is still silent: the caller has drained every log of the lane,
	// and the node no longer acknowledges what was deducted after that.
	EndSilent(ctx context.Context, use LaneUse, silence time.Duration) error
	// LaneUses lists the uses of a node that it has not reported.
	LaneUses(ctx context.Context, node string) ([]LaneUse, error)
	// ReportLane ends a use: the node says "accepted" no more under that activation, and what it said
	// so far reaches, per epoch, to these log positions. Idempotent.
	ReportLane(ctx context.Context, node string, lane Lane, activation int64, acknowledged map[Ref]int64) error
	// Unsettled lists at most limit live epochs of store-mode budgets on a lane whose activation is
	// older than this one.
	Unsettled(ctx context.Context, lane Lane, activation int64, limit int) ([]EpochOf, error)
	// EndLost ends a live epoch of a store-mode budget as lost, after what is left of its log was
	// drained. U += O if every node that used the lane under its activation has reported and none
	// acknowledged a position beyond the drained one. If one did, nothing is done but Beyond said, unless
	// order.Drained is set: then Q += O. While reports are missing nothing is done, unless order.Force is set: then
	// Q += O. An opening epoch's units return: nothing was ever deducted from it. Keeps I1, I2.
	EndLost(ctx context.Context, order LostOrder) (Settlement, error)
	// ReleaseProven moves units Q -> U of at most limit epochs whose nodes have all reported
	// meanwhile, none beyond the drained position. It returns the units.
	ReleaseProven(ctx context.Context, limit int) (int64, error)
	// Release moves units Q -> U as an operator decides. It returns the units, and whether it had been
	// done before. Errors: BudgetNotFound; RequestConflict for another quantity under the id;
	// AmountExceedsRemaining with what is in quarantine.
	Release(ctx context.Context, order ReleaseOrder) (units int64, replayed bool, err error)
	// Quarantined lists a budget's quarantines, those that are empty by now included, at most limit.
	Quarantined(ctx context.Context, budgetID int64, limit int) ([]Quarantine, error)
	// CancelKnown is Returns.Cancel under a condition: without a deduction the tombstone is made only
	// if known are the newest epochs of all the budget's buckets. stale: they are not, nothing was
	// done. Of an epoch that begins later, Voids says which ids are void.
	CancelKnown(ctx context.Context, budgetID int64, requestID string, known []Ref) (d ledger.Deduction, stale bool, err error)
	// Voids lists at most limit request ids of a budget for which CancelKnown made the tombstone, in the
	// order of the commits, from number after+1 on: they are numbered from 1. What was committed before
	// an epoch began is listed by every call that is made after somebody read that epoch.
	Voids(ctx context.Context, budgetID, after int64, limit int) ([]string, error)
}
