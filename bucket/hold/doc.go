// Package hold gives back and ends deductions in ledger mode: rollback, cancel, confirm, extend,
// groups of holds, and the expiry of holds.
//
// Orders on single deductions that arrive during a transaction share the next one. A group has a
// transaction of its own.
package hold
