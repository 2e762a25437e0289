package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

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
	// FeedExtra means that a confirm or a step asked for more than was held: Amount was taken, and
	// Uncollected the budget did not have.
	FeedExtra FeedKind = "extra"
	// FeedRenew means that a step made Amount used, and that the budget did not have Uncollected. What
	// it took is a FeedExtra before it.
	FeedRenew FeedKind = "renew"
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

// feedFormat is the first byte of every feed row's body.
const feedFormat = 1

// The first byte of an entry is its kind. heldBit marks a deduct that made a hold, numberBit an
// entry with a number: of an extra, or of a rollback of one.
const (
	heldBit   = 0x80
	numberBit = 0x40
)

// feedKinds maps the numbers in a body to kinds.
var feedKinds = [...]FeedKind{1: FeedDeduct, 2: FeedRollback, 3: FeedConfirm, 4: FeedExpire,
	5: FeedExtra, 6: FeedRelease, 7: FeedRenew}

// BeginFeed begins the body of a feed row.
func BeginFeed(body []byte) []byte { return append(body, feedFormat) }

// AppendFeed adds an entry to a body that BeginFeed began. It stores Kind, Held, Amount, RequestID,
// Number, for a rollback RollbackID, and for an extra and a step Uncollected. A reader gets the
// other fields from the feed row and from `deduction`.
func AppendFeed(body []byte, e FeedEntry) []byte {
	kind := byte(0)
	for i, known := range feedKinds {
		if e.Kind == known {
			kind = byte(i)
		}
	}
	if e.Held {
		kind |= heldBit
	}
	if e.Number > 0 {
		kind |= numberBit
	}
	body = append(body, kind)
	body = binary.AppendUvarint(body, uint64(e.Amount)) //nolint:gosec // amounts are at least 0
	body = append(binary.AppendUvarint(body, uint64(len(e.RequestID))), e.RequestID...)
	if e.Number > 0 {
		body = binary.AppendUvarint(body, uint64(e.Number)) //nolint:gosec // above 0
	}
	switch e.Kind {
	case FeedRollback:
		body = append(binary.AppendUvarint(body, uint64(len(e.RollbackID))), e.RollbackID...)
	case FeedExtra, FeedRenew:
		body = binary.AppendUvarint(body, uint64(e.Uncollected)) //nolint:gosec // at least 0
	}
	return body
}

// ReadFeed parses a body: its entries in order, with the fields that AppendFeed stores. It returns
// an error for any other text.
func ReadFeed(body string) ([]FeedEntry, error) {
	if body == "" || body[0] != feedFormat {
		return nil, errors.New("feed: body of unknown format")
	}
	var out []FeedEntry
	for rest := body[1:]; rest != ""; {
		kind := rest[0]
		e := FeedEntry{Held: kind&heldBit != 0}
		numbered := kind&numberBit != 0
		if kind &^= heldBit | numberBit; kind == 0 || int(kind) >= len(feedKinds) {
			return nil, fmt.Errorf("feed: entry of unknown kind %d", kind)
		}
		e.Kind = feedKinds[kind]
		amount, rest2, ok := cutUvarint(rest[1:])
		if ok {
			e.RequestID, rest2, ok = cutText(rest2)
		}
		number, uncollected := uint64(0), uint64(0)
		if ok && numbered {
			number, rest2, ok = cutUvarint(rest2)
		}
		if ok && e.Kind == FeedRollback {
			e.RollbackID, rest2, ok = cutText(rest2)
		}
		if ok && (e.Kind == FeedExtra || e.Kind == FeedRenew) {
			uncollected, rest2, ok = cutUvarint(rest2)
		}
		if !ok {
			return nil, errors.New("feed: truncated body")
		}
		e.Amount, e.Number = int64(amount), int64(number) //nolint:gosec // 63 bits
		e.Uncollected, rest = int64(uncollected), rest2   //nolint:gosec // 63 bits
		out = append(out, e)
	}
	return out, nil
}
