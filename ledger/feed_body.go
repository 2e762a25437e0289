package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
)

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
	5: FeedExtra, 6: FeedRelease}

// BeginFeed begins the body of a feed row.
func BeginFeed(body []byte) []byte { return append(body, feedFormat) }

// AppendFeed adds an entry to a body that BeginFeed began. It stores Kind, Held, Amount, RequestID,
// Number, for a rollback RollbackID, and for an extra Uncollected. A reader gets the other fields
// from the feed row and from `deduction`.
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
	case FeedExtra:
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
		if ok && e.Kind == FeedExtra {
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
