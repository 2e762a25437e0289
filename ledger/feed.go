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
	// Reference and Dimensions are the deduction's; "" also once it is archived.
	Reference, Dimensions string
	// At is SQL's time of the commit. It does not order the entries: Entry does.
	At time.Time
}

// Archivable counts the first entries of a bucket that can be archived together: older than before,
// of an epoch up to ended, of which nothing can be committed any more, and of one day in UTC.
// entries are consecutive.
func Archivable(entries []FeedEntry, ended int64, before time.Time) int {
	for i := range entries {
		e := &entries[i]
		if e.Epoch > ended || !e.At.Before(before) || Day(e.At) != Day(entries[0].At) {
			return i
		}
	}
	return len(entries)
}

// Day is an instant's day in UTC, as 2006-01-02.
func Day(at time.Time) string { return at.UTC().Format(time.DateOnly) }
