package redisstore

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// The kinds of windows as numbered in lua/counters.lua.
const (
	luaCalendar = iota + 1
	luaLifetime
	luaFirstHit
	luaSliding
)

// kindOf returns the number of a kind of window.
func kindOf(kind budget.WindowKind) int64 {
	switch kind {
	case budget.WindowCalendar:
		return luaCalendar
	case budget.WindowFirstHit:
		return luaFirstHit
	case budget.WindowSliding:
		return luaSliding
	default:
		return luaLifetime
	}
}

// measureOf returns the number of a measure: 1 for calls, 2 for units.
func measureOf(measure budget.Measure) int64 {
	if measure == budget.MeasureCount {
		return 1
	}
	return 2
}

// tagOf identifies what a limit counts: a limit that counts something else has another tag and
// starts over.
func tagOf(l *bucket.LimitTerms) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.Name)) // a hash does not fail
	_, _ = h.Write(strconv.AppendInt([]byte{0}, l.Changed, 10))
	return h.Sum32()
}

// countOf returns what a deduction counts for limit i of its terms.
func countOf(d *bucket.StoreDeduction, i int) int64 {
	switch {
	case d.Counts != nil:
		return d.Counts[i]
	case d.Terms.Limits[i].Measure == budget.MeasureCount:
		return 1
	}
	return d.Amount
}

// maxOf returns the bound of limit i for a deduction's value.
func maxOf(d *bucket.StoreDeduction, i int) int64 {
	if d.Max != nil {
		return d.Max[i]
	}
	return d.Terms.Limits[i].Max
}

// window is one limit's part of a counter.
type window struct {
	began, counted float64
	slots          string // pairs of an instant and its count; empty unless sliding or first_hit
}

// usesOf returns the usage of limits by a counter: see lua/counters.lua. An unreadable one, and a
// limit that is not in it, have counted nothing.
func usesOf(uses []bucket.LimitUse, t *bucket.Terms, tags []uint32, raw string, now int64) {
	for l := range t.Limits {
		uses[l] = useOf(&t.Limits[l], window{}, now)
	}
	for raw = raw[min(8, len(raw)):]; len(raw) >= 20; {
		var w window
		var tag uint32
		tag, w, raw = nextWindow(raw)
		if l := slices.Index(tags, tag); l >= 0 {
			uses[l] = useOf(&t.Limits[l], w, now)
		}
	}
}

// nextWindow reads the first window of a counter. If it is unreadable, neither it nor anything
// after it counts.
func nextWindow(raw string) (tag uint32, w window, rest string) {
	tag = binary.LittleEndian.Uint32([]byte(raw[:4]))
	w, raw = window{began: double(raw[4:]), counted: double(raw[12:])}, raw[20:]
	if w.began < 0 {
		n := int(-w.began) - 1
		if n < 0 || len(raw) < 16*n {
			return tag, window{}, ""
		}
		w.slots, raw = raw[:16*n], raw[16*n:]
	}
	return tag, w, raw
}

// slotsOf returns what the slots of sliding limits count. Usage beyond the counter's previous state
// was counted by the call.
func slotsOf(uses []bucket.LimitUse, t *bucket.Terms, tags []uint32, raw string,
	now int64) [][]limit.Slot {
	out := make([][]limit.Slot, len(t.Limits))
	for raw = raw[min(8, len(raw)):]; len(raw) >= 20; {
		var w window
		var tag uint32
		tag, w, raw = nextWindow(raw)
		i := slices.Index(tags, tag)
		if i < 0 || t.Limits[i].Kind != budget.WindowSliding {
			continue
		}
		first := firstSlot(&t.Limits[i], now)
		for slots := w.slots; len(slots) >= 16; slots = slots[16:] {
			slot := limit.Slot{AtMS: int64(double(slots)), Counted: int64(double(slots[8:]))}
			if slot.AtMS >= first && slot.Counted > 0 {
				out[i] = append(out[i], slot)
			}
		}
	}
	for i := range out {
		l, rest := &t.Limits[i], uses[i].Used
		if l.Kind != budget.WindowSliding {
			continue
		}
		for _, slot := range out[i] {
			rest -= slot.Counted
		}
		present, last := now-now%l.SlotMS, len(out[i])-1
		switch {
		case rest == 0:
		case last >= 0 && out[i][last].AtMS >= present:
			out[i][last].Counted += rest
		default:
			out[i] = append(out[i], limit.Slot{AtMS: present, Counted: rest})
		}
	}
	return out
}

// firstSlot returns the first slot of a sliding window that counts at an instant.
func firstSlot(l *bucket.LimitTerms, now int64) int64 {
	first := now - l.LengthMS + 1
	return first - first%l.SlotMS
}

// double reads a number.
func double(raw string) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64([]byte(raw[:8])))
}

// near bounds how much earlier the window of a node with other zone data may have begun.
const near = 26 * time.Hour

// useOf returns the usage of a limit at an instant.
func useOf(l *bucket.LimitTerms, w window, nowMS int64) bucket.LimitUse {
	began, counted := int64(w.began), int64(w.counted)
	switch l.Kind {
	case budget.WindowCalendar:
		// lua/counters.lua says why: a window that began a little earlier is another node's.
		if l.FromMS-began > min((l.ToMS-l.FromMS)/2, near.Milliseconds()) {
			began, counted = l.FromMS, 0
		}
		return bucket.LimitUse{Used: counted, ResetMS: began + l.ToMS - l.FromMS}
	case budget.WindowFirstHit:
		if len(w.slots) < 16 {
			return bucket.LimitUse{ResetMS: nowMS + l.LengthMS}
		}
		if began = int64(double(w.slots)); double(w.slots[8:]) == 0 && len(w.slots) >= 32 {
			began = int64(double(w.slots[16:])) // the first pair counts nothing
		}
		if nowMS >= began+l.LengthMS {
			began, counted = nowMS, 0
		}
		return bucket.LimitUse{Used: counted, ResetMS: began + l.LengthMS}
	case budget.WindowSliding:
		first := firstSlot(l, nowMS)
		oldest, used := nowMS-nowMS%l.SlotMS, int64(0)
		for slots := w.slots; len(slots) >= 16; slots = slots[16:] {
			slot, counted := int64(double(slots)), int64(double(slots[8:]))
			if slot >= first && counted > 0 {
				oldest, used = min(oldest, slot), used+counted
			}
		}
		return bucket.LimitUse{Used: used, ResetMS: oldest + l.SlotMS - 1 + l.LengthMS}
	}
	return bucket.LimitUse{Used: counted}
}
