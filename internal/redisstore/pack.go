package redisstore

import (
	"encoding/binary"
	"slices"
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

// with returns the table with the limits of one operation.
func (t limitTable) with(c *bucket.Counting) limitTable {
	for j := range c.Counts {
		if n := &c.Counts[j]; t.find(n, j) < 0 {
			t = append(t, limitOf{limit: n.Limit, changed: n.Changed, max: n.Max, window: n.Window, new: n.New})
		}
	}
	return t
}

// of reports whether a count is for the limit.
func (d *limitOf) of(n *bucket.Count) bool {
	return d.changed == n.Changed && d.max == n.Max && d.new == n.New && d.limit == n.Limit && d.window == n.Window
}

// find returns the place of a count's limit, -1 if it is not there. It is tried first where it was for others, mostly.
func (t limitTable) find(n *bucket.Count, likely int) int {
	if likely < len(t) && t[likely].of(n) {
		return likely
	}
	for i := range t {
		if t[i].of(n) {
			return i
		}
	}
	return -1
}

// windowKind is the kind of a window as limits.lua names it.
func windowKind(kind budget.WindowKind) byte {
	switch kind {
	case budget.WindowLifetime:
		return 'l'
	case budget.WindowFirstHit:
		return 'f'
	case budget.WindowSliding:
		return 's'
	default:
		return 'c'
	}
}

// inGenerations reports whether the caller is told when the window is over, as it does not know that itself.
func inGenerations(kind budget.WindowKind) bool {
	return kind == budget.WindowFirstHit || kind == budget.WindowSliding
}

// append adds what counts.parse_limits reads.
func (t limitTable) append(text []byte) []byte {
	text = binary.BigEndian.AppendUint32(text, uint32(len(t))) //nolint:gosec // of one call
	for i := range t {
		d := &t[i]
		text = append(append(text, byte(len(d.limit)+1), '@'), d.limit...)
		text = append8(append7(text, d.changed), d.max)
		begin, end := d.window.Begin, d.window.End
		if d.window.Length > 0 {
			begin, end = d.window.Length, d.window.Slot
		}
		text = append7(append7(append(text, windowKind(d.window.Kind)), begin), end)
		fresh := byte(0)
		if d.new {
			fresh = 1
		}
		text = append(text, fresh, 0)
		at := len(text)
		text = append(append(append(text, ':'), d.limit...), ':')
		text = append(strconv.AppendInt(text, d.changed, 10), ':')
		if inGenerations(d.window.Kind) {
			text = append(text, 'g')
		} else {
			text = strconv.AppendInt(text, begin, 10)
		}
		text[at-1] = byte(len(text) - at)
	}
	return text
}

// packing makes the arguments of a call; it may be used for one epoch after the other.
type packing struct {
	text []byte
	// limits are those of the last epoch, if it had any; spare is room for others.
	limits, spare limitTable

	// values are those of the epoch, each once; numbers are their places, from 1, once there are many.
	values  []string
	numbers map[string]uint32
	// loaded is what the ledger has of counts; places is how many counts there were, loads how many of loaded.
	loaded        []byte
	places, loads uint32
}

// addLimits adds the limits of an epoch's operations.
func (p *packing) addLimits(group []int, operations []bucket.Operation) {
	t := p.spare[:0]
	for _, i := range group {
		t = t.with(operations[i].Counting)
	}
	if slices.Equal(t, p.limits) {
		p.text, p.spare = limitTable(nil).append(p.text), t
		return
	}
	p.text, p.limits, p.spare = t.append(p.text), t, p.limits
}

// addCounts adds what an operation counts for; endCounts what counts.parse reads after the counts.
func (p *packing) addCounts(c *bucket.Counting) {
	for j := range c.Counts {
		n := &c.Counts[j]
		p.text = binary.BigEndian.AppendUint32(p.text, uint32(p.limits.find(n, j)+1)) //nolint:gosec // of one call
		p.text = binary.BigEndian.AppendUint32(p.text, p.numberOf(n.Value))
		p.text = append7(p.text, n.Add)
		p.places++
		if l := n.Loaded; l != nil {
			p.loads++
			p.loaded = append7(binary.BigEndian.AppendUint32(p.loaded, p.places), l.Mark)
			text := loadedText(n)
			p.loaded = binary.BigEndian.AppendUint32(p.loaded, uint32(len(text))) //nolint:gosec // of some slots
			p.loaded = append(p.loaded, text...)
		}
	}
}

// numberOf returns the number of a value, from 1.
func (p *packing) numberOf(value string) uint32 {
	n := len(p.values)
	switch {
	case n > 0 && p.values[n-1] == value: // of the operation's limit before
		return uint32(n) //nolint:gosec // of one call
	case n <= fewGroups:
		if at := slices.Index(p.values, value); at >= 0 {
			return uint32(at + 1) //nolint:gosec // of one call
		}
	default:
		if p.numbers == nil {
			p.numbers = make(map[string]uint32)
		}
		if len(p.numbers) == 0 {
			for at, known := range p.values {
				p.numbers[known] = uint32(at + 1) //nolint:gosec // of one call
			}
		}
		if at, known := p.numbers[value]; known {
			return at
		}
		p.numbers[value] = uint32(n + 1) //nolint:gosec // of one call
	}
	p.values = append(p.values, value)
	return uint32(n + 1) //nolint:gosec // of one call
}

func (p *packing) endCounts() {
	p.text = binary.BigEndian.AppendUint32(p.text, uint32(len(p.values))) //nolint:gosec // of one call
	for _, value := range p.values {
		p.text = appendText(p.text, fieldOf(value))
	}
	p.text = append(binary.BigEndian.AppendUint32(p.text, p.loads), p.loaded...)
	p.values, p.loaded, p.places, p.loads = p.values[:0], p.loaded[:0], 0, 0
	clear(p.numbers)
}
