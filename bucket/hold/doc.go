// Package hold gives back and ends deductions in ledger mode: rollback, cancel, confirm, extend,
// groups of holds, and the expiry of holds. It uses SQL only.
//
// Orders on single deductions that arrive during a transaction share the next one. A group has a
// transaction of its own. After each commit the package sends the levels of the buckets to the
// filters. A lost call costs time and nothing else (I9).
package hold
