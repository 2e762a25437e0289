// Package bench puts load on a budgetd and measures it: throughput, latency, CPU time per
// deduction, and whether every unit is where the callers were told that it is.
//
// Each connection is a caller with request ids of its own. What it does next is drawn from the mix:
//
//	a rollback   of an accepted deduction, for RollbackShare of the accepted ones
//	a repeat     of an accepted deduction, for RepeatShare of the deductions: it must replay
//	a deduction  with a fresh id
//
// Everything about a deduction follows from its caller and its number, so a repeat has the same
// payload, and no more than the number has to be remembered.
//
// The exactness check: a caller's book has an id's units while the last it was told is "accepted"
// and no rollback was. What stayed unanswered, or was answered outcome_unknown, is settled after
// the load by the same request id: a deduct that is refused then is cancelled, because the earlier
// attempt may still be on its way. The books together must be what the budget says is used, and the
// audit must be ok. Nobody else may use the budget meanwhile.
package bench
