// Package commit is the part of the database that ledger-mode deductions go through.
//
// A flight is a transaction of up to 1,000 operations in up to 512 buckets. It has two forms.
//
// The fast form is one packet of statements, sent on a connection that accepts packets and has
// autocommit off:
//
//	ROLLBACK
//	INSERT rows: deduction, hold, deduction_value
//	INSERT group and limit rows, or UPDATE them if they are as they were read
//	UPDATE the epochs: O, S, H and next_entry
//	INSERT the feed rows, with the numbers that the UPDATE has reserved
//	SELECT what the epochs hold now
//	COMMIT
//
// It assumes that the ids are new, that the epochs are open and hold enough, and that limits are as
// a read without locks has shown. If an assumption is wrong, a statement violates a constraint, and
// the server skips the rest of the packet. The writes of the packet then stay in the open
// transaction, and closing the connection rolls them back.
//
// The locking form, the only one on SQLite, locks ids, groups, limit rows and epochs in this order,
// in one packet, judges each operation by the locked rows, and writes the accepted ones in another.
//
// A packet whose answer is lost may have been committed. The node asks the server until it no
// longer knows the connection. Then the locking form finds out, because a row holds the nonce of
// the call that wrote it.
//
// Bring is a locking form that also locks the budget and all its epochs. It commits operations that
// wait in the fullest bucket, into which it brings units.
package commit
