// Package ledger decides what ledger rows mean: how a repeated request is recognised, how much a
// rollback may give back, how a hold ends, what a feed entry contains, and which columns the audit
// compares.
//
// All functions are pure. A transaction reads rows, calls this package, and writes its answer, so
// all databases decide alike.
package ledger
