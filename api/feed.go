package api

import (
	"time"
)

// LedgerEntry is an event of one deduction. Bucket and Entry together identify it permanently. A
// reader that gets an entry twice, because it stored its cursor too late, recognises it by them, or
// by request id, kind, rollback id, Cancelled, OfGroup and Number.
type LedgerEntry struct {
	// Kind is "deduct", "rollback", or how a hold ended: "confirm", "expire"; "extra" is what a
	// confirm or a step asked for above the hold, "renew" what a step made used, "release" what came
	// back of what was held.
	Kind   string `json:"kind"`
	Bucket string `json:"bucket"`
	// Entry numbers the entries of the bucket, from 1, without gaps.
	Entry     int64  `json:"entry"`
	RequestID string `json:"request_id"`
	// OfSet means that the entry is about a leg of the set of the tenant with this request id, and
	// not about a deduction from the budget alone, which may have the same id.
	OfSet bool `json:"of_set,omitzero"`
	// RollbackID is the caller's; "" for the default one, that of a cancel (Cancelled), or of the
	// rollback of a whole group (OfGroup).
	RollbackID string `json:"rollback_id,omitzero"`
	Cancelled  bool   `json:"cancelled,omitzero"`
	OfGroup    bool   `json:"of_group,omitzero"`
	// Number is that of an extra, from 1 per request id, also in a rollback that gives it back; 0 for
	// what was deducted first, and for an extra of which the budget had nothing.
	Number int64 `json:"number,omitzero"`
	// Amount is what was deducted or given back, in minor units. Uncollected is what an extra asked
	// for and the budget did not have.
	Amount      int64 `json:"amount"`
	Uncollected int64 `json:"uncollected,omitzero"`
	// Held means that the units are held and not used.
	Held bool `json:"held"`
	// Dimensions and Reference are the deduction's.
	Dimensions map[string]string `json:"dimensions,omitempty"`
	Reference  string            `json:"reference,omitzero"`
	// At is when it was committed, by the database's clock.
	At time.Time `json:"at"`
}

// LedgerPage is a part of a budget's change feed.
type LedgerPage struct {
	Entries []LedgerEntry `json:"entries"`
	// Next resumes after these entries, even after an empty page.
	Next string `json:"next"`
}

// AuditReport is the conservation proof of one budget at one instant: the total is the sum of the
// other quantities except AtRisk, each recomputed from rows and entries. Quantities are minor
// units. An unlimited budget has no total, and the figures of what is left are nil.
type AuditReport struct {
	OK            bool   `json:"ok"`
	Total         *int64 `json:"total"`
	Undistributed *int64 `json:"undistributed"`
	NotFunded     *int64 `json:"not_funded"`
	InTransit     int64  `json:"in_transit"`
	InBuckets     *int64 `json:"in_buckets"`
	Held          int64  `json:"held"`
	Used          int64  `json:"used"`
	Quarantined   int64  `json:"quarantined"`
	Forfeited     int64  `json:"forfeited"`
	// WithChildren is the sum of the totals of its children.
	WithChildren int64 `json:"with_children,omitzero"`
	// AtRisk is what the loss of a store would quarantine now.
	AtRisk        int64         `json:"at_risk"`
	Discrepancies []Discrepancy `json:"discrepancies"`
	// Unchecked lists buckets whose store could not be read; their rows were checked.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Discrepancy is a figure that disagrees with its rows.
type Discrepancy struct {
	// Bucket is the bucket; "" means the budget as a whole.
	Bucket string `json:"bucket,omitzero"`
	Epoch  int64  `json:"epoch,omitzero"`
	// What names the figure, Recorded is its column, Counted the result of its rows.
	What     string `json:"what"`
	Recorded int64  `json:"recorded"`
	Counted  int64  `json:"counted"`
}
