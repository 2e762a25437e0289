// Package auditlog defines the rows of the audit log, which record who did what, and the chain of
// hashes that detects a changed row, and stores the rows in SQL.
//
// # The chain
//
// Each row has a number, without gaps, and a hash that links it to the row before:
//
//	digest(n) = SHA-256("budgetd audit row 1" | columns of row n)
//	hash(n)   = SHA-256("budgetd audit link 1" | hash(n−1) | n | digest(n))
//
// The digest is known before the row has a number, so a server can compute the link while it
// commits. The first row follows a hash of zeros. The head, a row of its own, has the last number
// and hash. A Verifier recomputes the hashes: an edited, removed, added or exchanged row breaks the
// chain at that row. Someone who can write to the database can recompute the whole chain after an
// edit; only an Anchor, a number and a hash that were recorded elsewhere, reveals that. Old rows
// are removed only from the beginning. The head keeps the number and hash of the last removed row,
// and a later row records the removal: without that row the beginning counts as erased.
//
// # Who appends
//
// An administrative call carries an Entry in its context. The transaction that takes effect adds
// the states before and after, and appends the entry as its last statement. The head is locked from
// then until the commit, so the rows of several nodes form one chain in commit order, and a row
// exists if and only if its effect does. A server computes the link itself, in SQL. A call that was
// refused, or had nothing to do, is appended in a transaction of its own.
package auditlog
