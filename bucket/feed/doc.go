// Package feed reads the change feed of budgets in ledger mode: what happened to their deductions,
// in the commit order of each bucket (I7).
//
// A flight, a rollback or an expiry writes one feed row per bucket that it touches. The entries in
// it have consecutive numbers, which are reserved on the bucket's newest epoch row under its lock;
// between rows numbers may be missing. When that lock is released, number and row are visible.
//
// A page is read in two steps. The first reads how far each bucket's feed reaches, which guarantees
// that the transactions that reserved those numbers have ended. A later statement reads the rows up
// to there. One statement would not suffice: MariaDB may show a commit without the previous one.
//
// A reader's position is a list of buckets with the last entry read of each. It travels as an
// opaque cursor, so the service stores nothing about its readers.
package feed
