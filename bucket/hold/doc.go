// Package hold gives units of deductions back in ledger mode: rollback, cancel, confirm, extend,
// groups of holds, and the expiry of holds. It asks SQL only.
//
// Orders on single deductions that arrive while a transaction is under way share the next one. A
// group has a transaction of its own. After each commit the filters are told what their buckets
// hold; a lost call costs time and nothing else (I9).
package hold
