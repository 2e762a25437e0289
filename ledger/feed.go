package ledger

import "time"

// FeedKind says what an entry of the feed records.
type FeedKind string

// The kinds of entries of the feed.
const (
	// FeedDeduct: units were deducted.
	FeedDeduct FeedKind = "deduct"
	// FeedRollback: units of a deduction were given back.
	FeedRollback FeedKind = "rollback"
	// FeedConfirm: held units were used; what was held beyond the amount was given back.
	FeedConfirm FeedKind = "confirm"
	// FeedExpire: held units were given back, as nobody confirmed them in time.
	FeedExpire FeedKind = "expire"
)

// CancelID is the rollback id under which a cancel gives back what is left: no caller's id, as
// those hold no control characters.
const CancelID = "\x00cancel"

// FeedEntry is a row of the ledger as readers of the feed get it. (Bucket, Entry) names it for
// good.
type FeedEntry struct {
	Kind FeedKind
	// Bucket is the bucket of the deduction; Entry numbers its entries from 1, in the order of their
	// commits and without gaps.
	Bucket, Entry int64
	// Epoch is the deduction's.
	Epoch     int64
	RequestID string
	// RollbackID is the caller's, CancelID for a cancel; "" for the whole, and beside FeedDeduct.
	RollbackID string
	// Amount is what was deducted or given back, in minor units.
	Amount int64
	// Held says that a deduct made a hold; false beside other kinds.
	Held bool
	// Reference and Dimensions are the deduction's.
	Reference, Dimensions string
	// At is SQL's time of the commit. It does not order the entries: Entry does.
	At time.Time
}
