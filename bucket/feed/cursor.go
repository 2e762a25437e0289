package feed

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/budgetd/budgetd/budget"
)

// cursorFormat is the first byte of every cursor, so that later formats can be distinguished.
const cursorFormat = 2

// maxCursorBytes is the length of the longest cursor as text: four numbers and two per bucket,
// of at most ten bytes each.
const maxCursorBytes = (1+10*(4+2*budget.MaxBuckets)+crc32.Size)*4/3 + 1

// cursor is a reader's position in a budget's feed. As text it is base64url of: cursorFormat; as
// varints the budget, its creation (ms since 1970), turn, the number of buckets, and the position
// in each bucket by ordinal; CRC-32 of all that. 16 buckets take 40 to 120 characters.
type cursor struct {
	budget, made int64
	// turn is the ordinal of the bucket that gets the first place.
	turn int
	// read is by ordinal.
	read []position
}

// position is a reader's position in one bucket.
type position struct {
	// entry is the last entry read; 0 for none.
	entry int64
	// within is the number of entries read of a partially read row; 0 if a row ended.
	within int64
}

// start returns a reader's position: its cursor, or before the first entry if that is "". Buckets
// added since the cursor are read from their first entry on; none is ever removed. It returns
// Invalid (field after) for a bad cursor.
func start(after string, budgetID, made int64, bounds []bound) (cursor, error) {
	here := cursor{budget: budgetID, made: made, read: make([]position, len(bounds))}
	if after == "" {
		return here, nil
	}
	c, ok := parse(after)
	switch {
	case !ok:
		return c, invalid("after", "is not a cursor of this feed")
	case c.budget != here.budget || c.made != here.made || len(c.read) > len(bounds):
		return c, invalid("after", "is the cursor of another budget")
	}
	c.read = append(c.read, make([]position, len(bounds)-len(c.read))...)
	for i, b := range bounds {
		if c.read[i].entry > b.Last {
			return c, invalid("after",
				"is ahead of the ledger: has its database been restored from a backup?")
		}
	}
	return c, nil
}

func invalid(field, why string) error {
	return &budget.Error{Code: budget.Invalid, Op: "feed", Message: field + " " + why,
		Fields: []budget.FieldError{{Field: field, Message: why}}}
}

// spans chooses what a page of at most limit entries reads, and whose turn follows.
func (c *cursor) spans(bounds []bound, limit int) (spans []span, turn int) {
	waiting := make([]int64, len(bounds))
	for i, b := range bounds {
		waiting[i] = b.Last - c.read[i].entry
	}
	given, turn := shares(waiting, limit, c.turn)
	for i, n := range given {
		if at := c.read[i]; n > 0 {
			spans = append(spans, span{Bucket: bounds[i].Bucket, From: at.entry + 1 - at.within,
				After: at.entry, UpTo: at.entry + n})
		}
	}
	return spans, turn
}

// shares gives each bucket its part of a page; waiting is the number of its entries, by ordinal.
// The places are distributed evenly; if fewer places than waiting buckets remain, they go to the
// buckets from the ordinal turn on. next is the turn of the following page.
//
// Waiting 5, 0, 1, 9 and limit 8 gives 4, 0, 1, 3 if turn is 0.
func shares(waiting []int64, limit, turn int) (given []int64, next int) {
	given = make([]int64, len(waiting))
	left := int64(limit)
	for left > 0 {
		open := int64(0)
		for i := range waiting {
			if waiting[i] > given[i] {
				open++
			}
		}
		if open == 0 {
			return given, turn
		}
		each := left / open
		if each == 0 {
			break
		}
		for i := range waiting {
			n := min(each, waiting[i]-given[i])
			given[i] += n
			left -= n
		}
	}
	for k := 0; left > 0; k++ {
		i := (turn + k) % len(waiting)
		if waiting[i] > given[i] {
			given[i]++
			left--
			next = (i + 1) % len(waiting)
		}
	}
	return given, next
}

// text encodes the cursor for callers. The lowest bit of a bucket's number says whether a second
// number follows: how many entries of a row were read.
func (c *cursor) text() string {
	out := []byte{cursorFormat}
	number := func(n int64) {
		out = binary.AppendUvarint(out, uint64(n)) //nolint:gosec // never negative
	}
	for _, n := range [...]int64{c.budget, c.made, int64(c.turn), int64(len(c.read))} {
		number(n)
	}
	for _, at := range c.read {
		if at.within == 0 {
			number(at.entry << 1)
			continue
		}
		number(at.entry<<1 | 1)
		number(at.within)
	}
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	return base64.RawURLEncoding.EncodeToString(out)
}

// parse decodes the result of text; ok is false for everything else.
func parse(text string) (c cursor, ok bool) {
	if len(text) > maxCursorBytes {
		return c, false
	}
	in, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(in) < 1+crc32.Size || in[0] != cursorFormat {
		return c, false
	}
	body, sum := in[:len(in)-crc32.Size], in[len(in)-crc32.Size:]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(sum) {
		return c, false
	}
	body, ok = body[1:], true
	number := func() int64 {
		n, used := binary.Uvarint(body)
		if used <= 0 || n > uint64(budget.MaxAmount)<<1|1 {
			ok = false
			return 0
		}
		body = body[used:]
		return int64(n) //nolint:gosec // below 2^54
	}
	c.budget, c.made = number(), number()
	turn, count := number(), number()
	if !ok || count > int64(len(body)) || turn >= max(count, 1) {
		return c, false
	}
	c.turn, c.read = int(turn), make([]position, count)
	for i := range c.read {
		n := number()
		c.read[i].entry = n >> 1
		if n&1 == 1 {
			c.read[i].within = number()
			ok = ok && c.read[i].within > 0 && c.read[i].within <= c.read[i].entry
		}
	}
	// Several texts decode to the same bytes, of which text produces one.
	return c, ok && len(body) == 0 && c.text() == text
}
