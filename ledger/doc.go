// Package ledger holds the rules of the books: what an entry of a bucket's log is, how a request
// is told from another with the same id, what draining a log into the ledger changes, what a
// rollback may give back, and the arithmetic of the audit (DESIGN 3 and 5).
//
// Everything here is a function from values to values: no I/O, no clock. Stores fetch the rows,
// ask this package, and write what it answers, so SQLite, MySQL and memory decide alike.
package ledger
