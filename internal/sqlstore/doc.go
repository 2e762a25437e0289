// Package sqlstore keeps the ledger in SQL: SQLite (embedded, one node) or MySQL and MariaDB, with
// one text per statement for all of them. It implements bucket.SQL, and bucket.Instance with
// bucket.Direct for buckets whose balances live in rows.
//
// Decisions are made by package ledger; this package fetches rows, asks, and writes.
//
//	write method = one transaction:  BEGIN, lock, read, decide, write, COMMIT
//
//	what fails                        what follows
//	deadlock, lock wait, 1062, busy   ROLLBACK, the whole transaction is done again, bounded
//	connection lost before COMMIT     certainly not done: again on another connection
//	connection lost at COMMIT         unknown: again, with the same keys; only when that cannot be
//	                                  done is the error OutcomeUnknown
//	caller's context over             before COMMIT: Unavailable; while it runs: OutcomeUnknown
//
// Doing it again is right because everything is keyed: rows by the request's id, positions by
// compare-and-set on drained_seq, statuses by compare-and-set on themselves. tx.unsure tells the
// few methods whose answer depends on it that an earlier attempt may have been committed.
//
// What a commit costs a server is mostly text to read, and entries in indexes. So it looks no id up
// where the primary key of deduction can tell (tx.guess), counts what limits are likely to allow before it asks them
// (limitBook.ahead), leaves columns out that have their default
// (insertDeductions), names rows by lists and not by conditions joined by OR, which are all compared
// with each row (countersOf), and keeps what few deductions have in tables of their own (insertHolds).
//
// Locks are taken in the order budget, epoch, deduction, each by primary key; a lane's row is only
// locked against its next activation, which waits for nothing else. Rows of
// buckets are only written under their budget's lock, so they need none. SQLite has one writer and
// needs no row locks at all.
//
// Texts that callers choose are bound as []byte. Words of this program (statuses, reasons, kinds)
// are literals or bound as string: the generated columns of schema.sql compare them with literals,
// and SQLite never finds a BLOB equal to a TEXT.
package sqlstore
