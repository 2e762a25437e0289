package bucket

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// feedFormat is the first byte of every cursor, so that a later format can be told.
const feedFormat = 1

// maxFeedCursorBytes is the length of the longest cursor as text: five numbers and one per bucket, of
// at most ten bytes each.
const maxFeedCursorBytes = (1+10*(5+budget.MaxBuckets)+crc32.Size)*4/3 + 1

// feedCursor is where a reader of a budget's feed stands. As text it is base64url of: feedFormat; as
// varints the budget, when it was made (ms since 1970), turn, the number of buckets, and the last
// entry read of each bucket by ordinal; CRC-32 of all that. It grows with the number of buckets only:
// 16 buckets take 40 to 120 characters.
type feedCursor struct {
	budget, made int64
	// turn is the ordinal of the bucket that is given a place first.
	turn int
	// read is the last entry read, by ordinal.
	read []int64
}

// startFeed returns where a reader stands: at its cursor, or before the oldest entries that are kept. Buckets
// that were added since the cursor was made are read from their first entry on: no bucket is ever removed.
// Errors: Invalid (field after), CursorExpired.
func startFeed(after string, budgetID int64, made time.Time, bounds []FeedBound) (feedCursor, error) {
	here := feedCursor{budget: budgetID, made: made.UnixMilli(), read: make([]int64, len(bounds))}
	if after == "" {
		for i, b := range bounds {
			here.read[i] = b.Archived
		}
		return here, nil
	}
	cursor, ok := parseFeedCursor(after)
	switch {
	case !ok:
		return cursor, invalidCursor("is not a cursor of this feed")
	case cursor.budget != here.budget || cursor.made != here.made || len(cursor.read) > len(bounds):
		return cursor, invalidCursor("is the cursor of another budget")
	}
	cursor.read = append(cursor.read, make([]int64, len(bounds)-len(cursor.read))...) // of buckets added since
	return cursor, cursor.check(bounds)
}

// check compares the cursor with the bounds of the buckets.
func (c *feedCursor) check(bounds []FeedBound) error {
	for i, b := range bounds {
		switch {
		case c.read[i] > b.Last:
			return invalidCursor("is ahead of the ledger: has its database been restored from a backup?")
		case c.read[i] < b.Archived:
			return budget.Refuse(budget.CursorExpired, "feed", "entries of bucket %s behind this cursor "+
				"are archived; read them in the archive, or begin anew without a cursor", b.Key)
		}
	}
	return nil
}

func invalidCursor(why string) error {
	return &budget.Error{Code: budget.Invalid, Op: "feed", Message: "the cursor cannot be used",
		Fields: []budget.FieldError{{Field: "after", Message: why}}}
}

// spans chooses what a page of at most limit entries reads, and whose turn it is afterwards.
func (c *feedCursor) spans(bounds []FeedBound, limit int) (spans []FeedSpan, turn int) {
	waiting := make([]int64, len(bounds))
	for i, b := range bounds {
		waiting[i] = b.Last - c.read[i]
	}
	shares, turn := feedShares(waiting, limit, c.turn)
	for i, units := range shares {
		if units > 0 {
			spans = append(spans, FeedSpan{Bucket: bounds[i].Bucket, After: c.read[i], UpTo: c.read[i] + units})
		}
	}
	return spans, turn
}

// text writes the cursor as callers get it.
func (c *feedCursor) text() string {
	out := []byte{feedFormat}
	for _, n := range [...]int64{c.budget, c.made, int64(c.turn), int64(len(c.read))} {
		out = binary.AppendUvarint(out, uint64(n)) //nolint:gosec // never negative
	}
	for _, n := range c.read {
		out = binary.AppendUvarint(out, uint64(n)) //nolint:gosec // never negative
	}
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	return base64.RawURLEncoding.EncodeToString(out)
}

// parseFeedCursor reads what text wrote; false for everything else.
func parseFeedCursor(text string) (feedCursor, bool) {
	var c feedCursor
	if len(text) > maxFeedCursorBytes {
		return c, false
	}
	in, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(in) < 1+crc32.Size || in[0] != feedFormat {
		return c, false
	}
	body, sum := in[:len(in)-crc32.Size], in[len(in)-crc32.Size:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum) {
		return c, false
	}
	body = body[1:]
	ok := true
	number := func() int64 {
		n, used := binary.Uvarint(body)
		if used <= 0 || n > uint64(budget.MaxAmount) {
			ok = false
			return 0
		}
		body = body[used:]
		return int64(n) //nolint:gosec // at most MaxAmount
	}
	c.budget, c.made = number(), number()
	turn, count := number(), number()
	if !ok || count > int64(len(body)) || turn >= max(count, 1) {
		return c, false
	}
	c.turn, c.read = int(turn), make([]int64, count)
	for i := range c.read {
		c.read[i] = number()
	}
	// The same bytes can be written in several ways, of which text makes one.
	return c, ok && len(body) == 0 && c.text() == text
}
