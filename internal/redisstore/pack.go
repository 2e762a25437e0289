package redisstore

import (
	"encoding/binary"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// The binary arguments of scripts (deduct.lua, limits.lua): one for all operations of an epoch, because each argument
// costs a server about as much as reading a field of a hash. Numbers are big-endian.

// append7 adds a number of 0 … 2^56 - 1 in 7 bytes.
func append7(text []byte, n int64) []byte {
	return append(text, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// append8 adds a signed number in 8 bytes.
func append8(text []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(text, uint64(n)) //nolint:gosec // as two's complement
}

// appendText adds a text of up to 255 bytes after its length in one.
func appendText(text []byte, s string) []byte {
	return append(append(text, byte(len(s))), s...)
}

// appendNumberText adds a number in decimal as appendText does.
func appendNumberText(text []byte, n int64) []byte {
	at := len(text)
	text = strconv.AppendInt(append(text, 0), n, 10)
	text[at] = byte(len(text) - at - 1)
	return text
}

// limitOf is what the counts of several operations have in common.
type limitOf struct {
	limit        string
	changed, max int64
	window       bucket.CountWindow
	new          bool
}

// limitTable lists the limits that operations count for, each once.
type limitTable []limitOf

func limitsOf(group []int, operations []bucket.Operation) limitTable {
	var t limitTable
	for _, i := range group {
		t = t.with(operations[i].Counting)
	}
	return t
}

// with returns the table with the limits of one operation.
func (t limitTable) with(c *bucket.Counting) limitTable {
	for j := range c.Counts {
		if n := &c.Counts[j]; t.find(n, j) < 0 {
			t = append(t, commonOf(n))
		}
	}
	return t
}

func commonOf(n *bucket.Count) limitOf {
	return limitOf{limit: n.Limit, changed: n.Changed, max: n.Max, window: n.Window, new: n.New}
}

// find returns the place of a count's limit, -1 if it is not there. It is tried first where it was for others, mostly.
func (t limitTable) find(n *bucket.Count, likely int) int {
	common := commonOf(n)
	if likely < len(t) && t[likely] == common {
		return likely
	}
	for i := range t {
		if t[i] == common {
			return i
		}
	}
	return -1
}

var windowKinds = map[budget.WindowKind]byte{budget.WindowCalendar: 'c', budget.WindowLifetime: 'l',
	budget.WindowFirstHit: 'f', budget.WindowSliding: 's'}

// append adds what counts.parse_limits reads.
func (t limitTable) append(text []byte, ahead int64) []byte {
	text = append8(text, ahead)
	text = binary.BigEndian.AppendUint32(text, uint32(len(t))) //nolint:gosec // of one call
	for i := range t {
		d := &t[i]
		text = append8(append7(appendText(text, d.limit), d.changed), d.max)
		begin, end := d.window.Begin, d.window.End
		if d.window.Length > 0 {
			begin, end = d.window.Length, d.window.Slot
		}
		text = append7(append7(append(text, windowKinds[d.window.Kind]), begin), end)
		fresh := byte(0)
		if d.new {
			fresh = 1
		}
		text = append(text, fresh)
	}
	return text
}

// appendCounts adds what counts.parse reads of one operation.
func (t limitTable) appendCounts(text []byte, c *bucket.Counting) []byte {
	text = append(text, byte(len(c.Counts)))
	for j := range c.Counts {
		n := &c.Counts[j]
		text = binary.BigEndian.AppendUint32(text, uint32(t.find(n, j)+1)) //nolint:gosec // of one call
		text = append7(text, n.Add)
		if j > 0 && n.Value == c.Counts[j-1].Value {
			text = append(text, 0)
		} else {
			text = appendText(text, fieldOf(n.Value))
		}
		known := loadedText(n)
		text = binary.BigEndian.AppendUint32(text, uint32(len(known))) //nolint:gosec // of some slots
		text = append(text, known...)
	}
	return text
}
