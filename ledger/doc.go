// Package ledger holds the rules of the books: how a repeated request is recognised, how much a
// rollback may give back, how a hold ends, what a feed entry contains, and the arithmetic of the
// audit.
//
// All functions are pure. Stores fetch the rows, ask this package, and write its answer, so SQLite,
// MySQL and memory decide alike.
package ledger
