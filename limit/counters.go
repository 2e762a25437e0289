package limit

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Counters are the counts of one value in all limits of one dimension: the contents of one row of
// limit_counter. Each limit keeps only its latest window, because earlier counts are not read
// again.
type Counters struct {
	// List is ordered by limit name.
	List []Counter
}

// Counter is the count of one limit for the value.
type Counter struct {
	Limit string
	// WindowMS is the first instant of a calendar limit's window, in ms; 0 for other limits.
	WindowMS int64
	Row      Row
	// AheadMS is the latest Row.ExpiresMS that there ever was, in ms. If the clock goes back, windows
	// that end before may have counts that only the ledger has.
	AheadMS int64
	// Slots are the slots of a sliding limit, or the deductions that a first_hit window counts, in
	// order.
	Slots []Slot
}

// Slot is the count of a sliding limit in one slot.
type Slot struct {
	// AtMS is the slot's first instant, or that of a deduction, in ms.
	AtMS int64
	// Counted is in calls or minor units.
	Counted int64
}

// countersFormat is the first byte of every packed row.
const countersFormat = 2

// Pack returns the column limit_counter.counts: a format number, then each limit's name, window,
// row and slots. Numbers are varints.
func (c *Counters) Pack() string {
	out := append(make([]byte, 0, 64), countersFormat)
	for i := range c.List {
		e := &c.List[i]
		out = append(binary.AppendUvarint(out, uint64(len(e.Limit))), e.Limit...)
		for _, n := range [...]int64{e.WindowMS, e.Row.Counted, e.Row.BeganMS, e.Row.Version,
			e.Row.ExpiresMS, e.AheadMS, int64(len(e.Slots))} {
			out = binary.AppendVarint(out, n)
		}
		before := int64(0)
		for _, slot := range e.Slots {
			out = binary.AppendVarint(binary.AppendVarint(out, slot.AtMS-before), slot.Counted)
			before = slot.AtMS
		}
	}
	return string(out)
}

// ReadCounters parses the result of Pack; "" has no counters. It returns an error for any other
// text.
func ReadCounters(packed string) (Counters, error) {
	var c Counters
	if packed == "" {
		return c, nil
	}
	p := packedReader{rest: []byte(packed[1:]), bad: packed[0] != countersFormat}
	for len(p.rest) > 0 && !p.bad {
		e := Counter{Limit: p.text()}
		for _, to := range [...]*int64{&e.WindowMS, &e.Row.Counted, &e.Row.BeganMS, &e.Row.Version,
			&e.Row.ExpiresMS, &e.AheadMS} {
			*to = p.number()
		}
		n := p.number()
		if p.bad = p.bad || n < 0 || n > int64(len(p.rest)); p.bad {
			break
		}
		if n > 0 {
			e.Slots = make([]Slot, n)
		}
		before := int64(0)
		for i := range e.Slots {
			e.Slots[i] = Slot{before + p.number(), p.number()}
			before = e.Slots[i].AtMS
		}
		c.List = append(c.List, e)
	}
	if p.bad {
		return Counters{}, fmt.Errorf("invalid limit counters: %x", packed)
	}
	return c, nil
}

// packedReader reads numbers and texts in sequence.
type packedReader struct {
	rest []byte
	bad  bool
}

func (p *packedReader) number() int64 {
	n, size := binary.Varint(p.rest)
	if size <= 0 {
		p.bad = true
		return 0
	}
	p.rest = p.rest[size:]
	return n
}

func (p *packedReader) text() string {
	n, size := binary.Uvarint(p.rest)
	if size <= 0 || n > uint64(len(p.rest)-size) {
		p.bad = true
		return ""
	}
	text := string(p.rest[size : size+int(n)]) //nolint:gosec // at most what is left
	p.rest = p.rest[size+int(n):]              //nolint:gosec // as above
	return text
}

// of returns the counter of a limit, or nil.
func (c *Counters) of(name string) *Counter {
	for i := range c.List {
		if c.List[i].Limit == name {
			return &c.List[i]
		}
	}
	return nil
}

// stepMS is how far the estimates of SQL's clock of two nodes may differ, in ms. A clock that goes
// back further has been set back.
const stepMS = int64(time.Second / time.Millisecond)

// Now returns the instant, in ms, at which a deduction is counted when a node takes it for nowMS:
// up to stepMS later if that is needed to count it after those counted already.
func (c *Counters) Now(nowMS int64) int64 {
	at := nowMS
	for i := range c.List {
		if latest := c.List[i].latest(); latest <= nowMS+stepMS {
			at = max(at, latest)
		}
	}
	return at
}

// latest returns the first instant of the latest window, slot or deduction, in ms.
func (e *Counter) latest() int64 {
	latest := max(e.WindowMS, e.Row.BeganMS)
	if n := len(e.Slots); n > 0 {
		latest = max(latest, e.Slots[n-1].AtMS)
	}
	return latest
}

// Usage returns the count of a limit at an instant; see Now. If Usage.Stale reports that it is
// stale, load it from the ledger before judging.
func (c *Counters) Usage(l *Limit, key string, nowMS int64) Usage {
	t := NewUsage(l, key, nowMS)
	e := c.of(l.Name)
	if e == nil {
		return t
	}
	if t.goneBack = t.behind(e); t.goneBack {
		return t
	}
	if t.overlaps(e) {
		e = &Counter{WindowMS: t.WindowMS, Row: e.Row}
	}
	t.Read(e.WindowMS, e.Row)
	if l.Window.Kind == budget.WindowFirstHit {
		t.hits = slices.Clone(e.Slots)
		return t
	}
	for _, slot := range e.Slots {
		t.Read(slot.AtMS, Row{Counted: slot.Counted, Version: e.Row.Version})
	}
	return t
}

// overlaps reports whether a counter is of another calendar window than the usage's that is not
// over when that begins: a node with other zone data counted it. Its count stays, in the usage's
// window, because the deductions may belong to both.
func (t *Usage) overlaps(e *Counter) bool {
	from, _ := t.Limit.span(t.nowMS)
	return t.Limit.Window.Kind == budget.WindowCalendar && e.WindowMS != t.WindowMS &&
		e.Row.Version == t.Limit.ChangedVersion && e.Row.ExpiresMS > from && e.WindowMS < t.toMS
}

// behind reports whether SQL's clock has gone back, so that a counter may lack deductions that were
// counted before in what is the present window again.
func (t *Usage) behind(e *Counter) bool {
	l := t.Limit
	switch {
	case e.Row.Version != l.ChangedVersion:
		return false
	case l.Window.Kind == budget.WindowCalendar:
		return e.WindowMS != t.WindowMS && t.WindowMS < e.AheadMS && !t.overlaps(e)
	case l.Sliding():
		return t.nowMS+stepMS < e.latest()
	case l.Window.Kind == budget.WindowFirstHit:
		return t.nowMS+stepMS < e.AheadMS-l.length ||
			e.Row.ExpiresMS < e.AheadMS && t.nowMS < e.AheadMS
	}
	return false
}

// Put stores the count of a usage and drops slots that no longer count.
func (c *Counters) Put(t *Usage) {
	e := c.of(t.Limit.Name)
	if e == nil {
		at, _ := slices.BinarySearchFunc(c.List, t.Limit.Name, func(e Counter, name string) int {
			return cmp.Compare(e.Limit, name)
		})
		c.List = slices.Insert(c.List, at, Counter{Limit: t.Limit.Name})
		e = &c.List[at]
	}
	switch {
	case t.Limit.Sliding():
		e.Slots = t.slots(e)
	case t.Limit.Window.Kind == budget.WindowFirstHit:
		e.Slots = t.hits
	}
	e.WindowMS, e.Row = t.WindowMS, t.Row
	e.AheadMS = max(e.AheadMS, e.Row.ExpiresMS)
}

// slots returns the slots of a sliding limit that count now: those of the previous counter e, or
// those that the usage loaded, and the usage's own slot.
func (t *Usage) slots(e *Counter) []Slot {
	var out []Slot
	switch {
	case t.Loaded != nil || e.Row.Version != t.Limit.ChangedVersion:
		for at, row := range t.Loaded {
			out = append(out, Slot{at, row.Counted})
		}
	default:
		for _, slot := range e.Slots {
			if slot.AtMS != t.SlotMS {
				out = append(out, slot)
			}
		}
	}
	if t.Slot.Version != 0 {
		out = append(out, Slot{t.SlotMS, t.Slot.Counted})
	}
	out = slices.DeleteFunc(out, func(s Slot) bool { return s.AtMS < t.SlotsFrom() })
	slices.SortFunc(out, func(a, b Slot) int { return cmp.Compare(a.AtMS, b.AtMS) })
	return out
}

// GivenBack lowers the window in which a deduction was counted by less, in calls or minor units.
// changed is false if that window is no longer kept, or was counted under another definition of the
// limit.
func (c *Counters) GivenBack(l *Limit, countedMS, less int64) (changed bool) {
	e := c.of(l.Name)
	if e == nil || e.WindowMS != l.WindowAt(countedMS) {
		return false
	}
	if l.Window.Kind == budget.WindowFirstHit {
		if !hits(e.Slots).has(countedMS, l.length) {
			return false
		}
		if e.Row, changed = l.GivenBack(e.Row, e.Row, less); changed {
			e.Slots = hits(e.Slots).less(countedMS, less)
			e.Row.BeganMS = hits(e.Slots).began()
		}
		return changed
	}
	if !l.Sliding() {
		e.Row, changed = l.GivenBack(e.Row, e.Row, less)
		return changed
	}
	for i := range e.Slots {
		slot := &e.Slots[i]
		if slot.AtMS != l.SlotAt(countedMS) {
			continue
		}
		row := Row{Counted: slot.Counted, Version: e.Row.Version}
		row, changed = l.GivenBack(e.Row, row, less)
		slot.Counted = row.Counted
		return changed
	}
	return false
}

// ExpiresMS returns when the row no longer counts, in ms; 0 means never.
func (c *Counters) ExpiresMS() int64 {
	latest := int64(0)
	for i := range c.List {
		if c.List[i].Row.ExpiresMS == 0 {
			return 0
		}
		latest = max(latest, c.List[i].Row.ExpiresMS, c.List[i].AheadMS)
	}
	return latest
}
