// Package trail is the audit trail: who did what, in rows that nobody changes unnoticed. It is
// pure; internal/sqlstore/trail keeps the rows.
//
// # The chain
//
// Each row has a number, without gaps, and the SHA-256 of the hash before it and of its own
// columns:
//
//	hash(n) = SHA-256("budgetd audit log 1" | hash(n−1) | columns of row n)
//
// The first row follows a hash of zeros. The head, a row of its own, has the last number and hash.
// Verify recomputes everything: an edited, removed, added or exchanged row breaks the chain at that
// row. Someone who can write to the database can recompute the whole chain behind an edit; only an
// Anchor, a number and a hash that were written down elsewhere, shows that. Old rows are removed
// from the beginning only, up to a number and a hash that the head keeps and a later row attests.
//
// # Who appends
//
// An administrative call carries an Entry in its context. The transaction that takes effect
// completes it with what was before and after, and appends it as its last statement. The head is
// locked from then until the commit, so that the rows of several nodes form one chain in the order
// of their commits. A call that was refused, or had nothing to do, is appended in a transaction of
// its own.
package trail
