// Package transfer moves a budget's units and buckets in ledger mode: apply, hand-out, offline,
// online, recycle, rollover, sweep, drain and rebalance.
//
// Each movement is one SQL transaction under the budget's row lock and the row locks of at most 64
// epochs. A movement of more buckets is a series of such transactions. Each of them keeps I1, and
// any node can continue the series. A movement that raises O of a bucket returns the bucket's
// Level. The service sends the level to the bucket's store after the commit:
//
//	lock budget, lock epochs by (bucket, epoch)  ->  F, U, X, O, R, fill  ->  COMMIT  ->  Filter.Set
//
// Losing the last step costs one stale take (I9), so nothing waits for it and nothing repeats it.
//
// # Periods
//
// A rollover closes the epochs of the period that is over, sends what they hold to where `unused`
// says, funds the next period, and opens the next epochs. SQL's clock decides when. A loop and
// requests that meet an ended epoch call it; concurrent calls for one budget share one rollover.
//
//	open --end of the period--> closed, O + R's share -> F | U | X
//	                            next epoch open, U -> O
//
// # Loops
//
// Each loop is a small struct whose RunOnce does a bounded amount of work. Every node runs every
// loop. The row locks and the conditions under them make that safe; random starts make it cheap.
package transfer
