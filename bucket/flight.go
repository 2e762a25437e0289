package bucket

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Operation is one deduction on its way into the ledger.
type Operation struct {
	// Budget is the definition that the operation was judged by. A ledger whose definition is newer
	// answers Outdated.
	Budget *Budget
	// Bucket is the bucket that the ring chose. The units come from its present open epoch.
	Bucket  int64
	Request ledger.Request
	// Touches are what the deduction counts against limits, in the order of the limits. The slice
	// may be empty.
	Touches []limit.Touch
}

// Verdict is what a commit says of one operation.
type Verdict uint8

// The verdicts. Everything but Accepted has changed nothing (I6).
const (
	// Accepted means that the deduction is a committed row (I7).
	Accepted Verdict = iota + 1
	// Known means that a row of the id exists: Outcome.Deduction. It may be the call's own, by its
	// nonce, a repeat, a conflict, or a tombstone.
	Known
	// Short means that O of the bucket is below the amount: Outcome.Remaining.
	Short
	// Gone means that the bucket has no open epoch: it is offline, or has retired.
	Gone
	// Over means that the epoch's period has ended by SQL's clock.
	Over
	// Outdated means that the budget's definition is newer than Operation.Budget.
	Outdated
	// Limited means that a limit would be exceeded: Outcome.Refused.
	Limited
	// GroupClosed means that the group of holds takes no further member.
	GroupClosed
	// Exhausted means that everything the open period may still get, looked at under the locks of
	// all of it, is below the amount: Outcome.Cover. Only Gather answers it (I3).
	Exhausted
)

// Outcome is what a commit did with one operation.
type Outcome struct {
	Verdict Verdict
	// Deduction is the row: of Accepted and Known.
	Deduction ledger.Deduction
	// Remaining is O of the bucket after the commit, in minor units.
	Remaining int64
	// Limits is how far each limit is used after an accepted operation, in the order of Touches.
	Limits []budget.LimitState
	// Refused lists every limit that would be exceeded, for Limited.
	Refused []budget.LimitState
	// Cover is what the budget has, for Exhausted.
	Cover Cover
}

// Level is what a bucket holds after units came to it. A filter is told by Set; losing that call is
// harmless.
type Level struct {
	Bucket, Epoch int64
	Lane          Lane
	// Fill numbers the content; Outstanding is O. Added is by how much O grew under this fill; 0:
	// what a filter has of a smaller fill is to be replaced.
	Fill, Outstanding, Added int64
	// Open reports whether the epoch is open.
	Open bool
}
