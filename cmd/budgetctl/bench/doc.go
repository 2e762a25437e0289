// Package bench puts load on a budgetd and measures throughput, latency and CPU time per deduction.
// It then checks that the budgets agree with every answer.
//
// Each connection is a caller with its own request ids. It draws its next call from a mix:
//
//	a rollback   of an accepted deduction, for RollbackShare of the accepted ones
//	a repeat     of an accepted deduction, for RepeatShare of the deductions: it must replay
//	a deduction  with a fresh id
//
// The caller and the number of a deduction determine its payload, so a caller remembers only the
// numbers of the deductions that it may repeat.
//
// The check of exactness: a caller's book has the units of each id that was accepted and not rolled
// back. After the load, calls without an answer and calls answered outcome_unknown are repeated
// with the same request id. A deduction that is refused then is cancelled, because the earlier
// attempt may still arrive. The sum of the books must equal what the budget says is used, and its
// audit must be ok. No other program may use the budget during a run.
package bench
