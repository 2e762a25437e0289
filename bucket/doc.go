// Package bucket runs the protocol of budgetd: units move between a budget's total in SQL and its
// buckets in stores, deductions are admitted by a store and counted by the ledger, and whatever is
// left half done is finished from its status by any node.
//
// # Who decides
//
// SQL is the safety kernel: what its transactions have committed is what happened. A store is an
// admission filter and a sequencer: it says quickly and in which order which requests a bucket can
// cover, and keeps the log that SQL drains. Losing a store in ledger mode therefore costs nothing;
// what was never committed was never acknowledged.
//
// # The life of a bucket
//
//	          Create, HandOut, Reopen           MarkOpen                Ending
//	(none) ─────────────────────────▶ opening ───────────▶ open ──────────────────▶ closing
//	                                     │                   │                         │
//	                                     │ Lose              │ Lose                    │ CloseEpoch
//	                                     ▼                   ▼                         ▼
//	                                   lost ◀────────────────┴──────── Lose ─────── closed
//
// A new life is a new epoch with a greater number; it starts empty. Every message to a store carries
// bucket, epoch and activation, and every commit compares drained_seq and its chain value, so a
// message or a committer that is late, repeated or out of date changes nothing. No time-out fences
// anything.
//
// # A deduction in ledger mode
//
//	caller ─▶ Deduct ─▶ lane queue ─▶ store: balance ≥ amount? append entry, subtract
//	                                     │
//	          answer ◀─ outcome ◀─ committer: read log, ONE transaction for many buckets:
//	                                     id new → deduction row, O −= a, S += a
//	                                     id known or void, period over → duplicate row, O −= a, R += a
//
// An instance whose rows are in the ledger's own database (Direct) does both in one transaction.
//
// # Where a unit is
//
// In exactly one of U (undistributed), O (outstanding: granted to an epoch and not yet counted), H
// (held), S (used), R (returning), Q (quarantined) and X (forfeited). Every transaction moves equal
// and opposite amounts, whatever stops between two of them: docs/INVARIANTS.md, I1.
//
// # When the answer is no
//
// BudgetExhausted is said only from one statement that shows U + ΣO + ΣR below the amount (I3). If
// the sum covers the amount, the units are looked for: apply, the next online bucket, a collect; and
// if they cannot be brought together before the deadline the answer is Unavailable, not "no". If a
// step of the attempt was never answered, it is OutcomeUnknown.
package bucket
