// Package hold gives back and ends deductions in ledger mode: rollback, cancel, confirm, extend,
// groups of holds, and the expiry of holds. What these do is in ledger/books (Books.Return); this
// package says which rows they load.
//
// Orders on single deductions that arrive during a transaction share the next one. A group has a
// transaction of its own.
//
// A deduction is its row, the row of its hold, and the sum of its give_back rows. All of them are
// written under the lock of the deduction's row. A transaction takes its locks in the order of
// schema.sql: deductions, group, limit rows, epochs. It locks no budget row, unless the budget has
// limits and the bucket is offline.
package hold
