package ledger

import "time"

// FeedKind is the kind of a feed entry.
type FeedKind string

// The kinds of feed entries.
const (
	// FeedDeduct means that units were deducted.
	FeedDeduct FeedKind = "deduct"
	// FeedRollback means that units of a deduction were given back.
	FeedRollback FeedKind = "rollback"
	// FeedConfirm means that held units were used; the rest of the hold was given back.
	FeedConfirm FeedKind = "confirm"
	// FeedExpire means that held units were given back because the hold expired.
	FeedExpire FeedKind = "expire"
	// FeedExtra means that a confirm asked for more than was held: Amount was taken, and Uncollected
	// the budget did not have.
	FeedExtra FeedKind = "extra"
	// FeedRelease means that the rest of what was held came back.
	FeedRelease FeedKind = "release"
)

// CancelID is the rollback id of a cancel. It contains a control character, so no caller's id can
// equal it.
const CancelID = "\x00cancel"

// FeedEntry is one event of a deduction as the feed shows it. (Bucket, Entry) identifies it
// permanently.
type FeedEntry struct {
	Kind FeedKind
	// Bucket is the bucket of the deduction. Entry numbers the bucket's entries from 1, in commit
	// order and without gaps.
	Bucket, Entry int64
	// Epoch is the deduction's.
	Epoch     int64
	RequestID string
	// RollbackID is the caller's, or CancelID for a cancel. It is "" for a rollback without an id, and
	// for other kinds.
	RollbackID string
	// Number is 0 for what a deduction took first, else the number of the extra that was taken or
	// given back; 0 also for an extra of which nothing was taken.
	Number int64
	// Amount is what was deducted or given back, in minor units. Uncollected is that of an extra.
	Amount, Uncollected int64
	// Held means that a deduct made a hold. It is false for other kinds.
	Held bool
	// Reference and Dimensions are the deduction's.
	Reference, Dimensions string
	// At is SQL's time of the commit. It does not order the entries: Entry does.
	At time.Time
}
