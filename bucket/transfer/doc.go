// Package transfer moves a budget's units in ledger mode: apply, distribute, offline, online,
// recycle, rollover and sweep. It also lists the instances of store mode, and drains and rebalances
// them.
//
// Each movement of a budget is one SQL transaction, whatever the number of its buckets, and keeps
// I1. One packet locks the budget and its epochs and reads them, package ledger/books decides, and
// another packet writes what differs:
//
//	lock budget, lock epochs by (bucket, epoch)  ->  F, U, X, O, R  ->  COMMIT
//
// If the budget's period is over, its rollover is the first part of the movement.
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
