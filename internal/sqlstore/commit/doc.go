// Package commit is the part of the database that deductions of ledger mode go through.
//
// A flight is a transaction of up to 1,000 operations in up to 64 buckets. It has two forms.
//
// The fast form is one packet of statements, sent on connections that take packets and have no
// autocommit:
//
//	ROLLBACK
//	INSERT rows: deduction, hold, deduction_value
//	INSERT group and limit rows, or write them if they are as they were read
//	UPDATE the epochs: O, S, H and next_entry
//	INSERT the feed rows, with the numbers that the UPDATE has reserved
//	SELECT what the epochs hold now
//	COMMIT
//
// It takes for granted that the ids are new, that the epochs are open and have enough, and that
// limits are as a read without locks has shown. Where one of these is not so, a statement violates
// a constraint, and the server skips the rest of the packet. What the packet wrote stays in the
// open transaction then; the connection is closed, which rolls it back.
//
// The locking form (on SQLite the only one) locks ids, groups, limit rows and epochs in this order,
// judges each operation by what is locked, and writes what is accepted.
//
// A packet whose answer is lost may have been committed. The server is asked until it no longer
// knows the connection; then the locking form tells, because a row has the nonce of the call that
// wrote it.
//
// Gather is a locking form that locks the budget and all its epochs as well, and brings units into
// the bucket that operations wait for.
package commit
