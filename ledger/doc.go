// Package ledger holds the rules of the books: what an entry of a bucket's log is, how a repeated
// request is recognised, what draining a log into the ledger changes, how much a rollback may give
// back, and the arithmetic of the audit.
//
// All functions are pure. Stores fetch the rows, ask this package, and write its answer, so SQLite,
// MySQL and memory decide alike.
package ledger
