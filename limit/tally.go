package limit

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Row is a counter's row without its key.
type Row struct {
	// Counted is in calls or minor units; 0 in the head of a sliding limit.
	Counted int64
	// BeganMS is when a first_hit window began; 0: none.
	BeganMS int64
	// Version is the limit's ChangedVersion by which it was loaded; 0: not yet.
	Version int64
	// ExpiresMS is when it no longer counts; 0: never.
	ExpiresMS int64
}

// Event is a deduction that carries a value: when it was counted, and what is kept of it.
type Event struct{ AtMS, Kept int64 }

// settleMS is how far apart the clocks of two transactions that follow each other may be: a window
// that began later than this after a change was never counted in by what the limit was before.
const settleMS = int64(time.Minute / time.Millisecond)

// graceMS is how long a row is kept after it no longer counts, for clocks that step back.
const graceMS = int64(time.Hour / time.Millisecond)

// ExpiredBefore returns which rows may be removed: those that expire before it.
func ExpiredBefore(now time.Time) int64 { return now.UnixMilli() - graceMS }

// WindowAt names the row that is locked for deductions counted at an instant: the calendar window's
// first instant; 0 for others.
func (l *Limit) WindowAt(atMS int64) int64 {
	from, _ := l.span(atMS)
	if l.Window.Kind == budget.WindowCalendar {
		return from
	}
	return 0
}

// SlotAt names the slot of a sliding limit that holds an instant.
func (l *Limit) SlotAt(atMS int64) int64 { return atMS - ((atMS%l.slot)+l.slot)%l.slot }

// Sliding reports whether the limit has slots beside its head.
func (l *Limit) Sliding() bool { return l.Window.Kind == budget.WindowSliding }

// SlotsFrom names the first slot that counts at an instant: the first that overlaps the last
// Length, which excludes its oldest instant.
func (l *Limit) SlotsFrom(nowMS int64) int64 { return l.SlotAt(nowMS - l.length + 1) }

// span is what a deduction must have been counted in to count at an instant, to exclusive.
func (l *Limit) span(nowMS int64) (fromMS, toMS int64) {
	switch l.Window.Kind {
	case budget.WindowCalendar:
		if w := l.calendar.Load(); w != nil && nowMS >= w.from && nowMS < w.to {
			return w.from, w.to
		}
		from, to := calendarAt(l.Window, l.zone, time.UnixMilli(nowMS))
		l.calendar.Store(&calendarWindow{from.UnixMilli(), to.UnixMilli()})
		return from.UnixMilli(), to.UnixMilli()
	case budget.WindowSliding:
		return l.SlotsFrom(nowMS), math.MaxInt64
	case budget.WindowFirstHit:
		if l.ChangedVersion > createdVersion {
			return l.changedMS - l.length + 1, math.MaxInt64
		}
	}
	return math.MinInt64, math.MaxInt64
}

// loads reports whether a row of a window that began at an instant can have missed what the ledger
// has.
func (l *Limit) loads(beganMS, nowMS int64) bool {
	if l.ChangedVersion <= createdVersion {
		return false
	}
	if l.Window.Kind == budget.WindowFirstHit {
		beganMS = nowMS - l.length // whatever began before is over
	}
	return beganMS < l.changedMS+settleMS
}

// Additive reports whether what is counted at an instant can be added to the rows of all limits
// without reading them: none has a window that begins with a deduction or slides, and a row that is
// not there has missed nothing.
func (s *Set) Additive(nowMS int64) bool {
	for _, l := range s.List {
		if l.Window.Kind != budget.WindowCalendar && l.Window.Kind != budget.WindowLifetime {
			return false
		}
		if from, _ := l.span(nowMS); l.loads(from, nowMS) {
			return false
		}
	}
	return true
}

// Tally is what is counted of one value in one limit as of one instant, under the lock of its row.
type Tally struct {
	Limit *Limit
	Key   string
	// Values are a touch's, for whoever loads it.
	Values []string
	// WindowMS names the locked row, and Row is it; SlotMS the slot that holds now, and Slot its
	// row.
	WindowMS, SlotMS int64
	Row, Slot        Row
	// Loaded has the other slots as the ledger has them, where they were loaded.
	Loaded map[int64]Row

	nowMS, toMS  int64
	past, oldest int64  // what the other slots that count hold, and the first of them; 0: none
	others       []Slot // those slots, in no order
}

// NewTally returns an empty tally as of an instant.
func NewTally(l *Limit, key string, nowMS int64) Tally {
	t := Tally{Limit: l, Key: key, nowMS: nowMS}
	from, to := l.span(nowMS)
	t.toMS = to
	switch l.Window.Kind {
	case budget.WindowCalendar:
		t.WindowMS = from
	case budget.WindowSliding:
		t.SlotMS = l.SlotAt(nowMS)
	}
	return t
}

// Read puts a row into the tally: the locked one, or, of a sliding limit, one of its slots. Slots
// that do not count, or that another definition counted, are passed over.
func (t *Tally) Read(windowMS int64, row Row) {
	switch {
	case windowMS == t.WindowMS:
		t.Row = row
	case !t.Limit.Sliding() || row.Version != t.Limit.ChangedVersion:
	case windowMS == t.SlotMS:
		t.Slot = row
	case windowMS >= t.Limit.SlotsFrom(t.nowMS):
		t.addPast(windowMS, row.Counted)
	}
}

func (t *Tally) addPast(slotMS, counted int64) {
	if counted <= 0 {
		return
	}
	if t.past == 0 || slotMS < t.oldest {
		t.oldest = slotMS
	}
	t.past = Plus(t.past, counted)
	t.others = append(t.others, Slot{slotMS, counted})
}

// Restore puts into an empty tally what a store counted: how much counts, when the window ends or
// its oldest slot leaves it, and the slots of a sliding one, as far as they are known.
func (t *Tally) Restore(used, endsMS int64, slots []Slot) {
	t.Row = Row{Counted: used, Version: t.Limit.ChangedVersion}
	switch t.Limit.Window.Kind {
	case budget.WindowCalendar:
		t.toMS = endsMS
	case budget.WindowFirstHit:
		t.Row.BeganMS = endsMS - t.Limit.length
	case budget.WindowSliding:
		if len(slots) == 0 {
			slots = []Slot{{endsMS - t.Limit.slot + 1 - t.Limit.length, used}}
		}
		for _, slot := range slots {
			t.addPast(slot.AtMS, slot.Counted)
		}
	}
}

// Stale returns the span of the ledger from which the tally has to be loaded before it is judged:
// its row was made, or last loaded, under another definition of the limit, and its window began
// before that was changed. ok is false where the row is as good as the ledger; a row of another
// definition is emptied then.
func (t *Tally) Stale() (fromMS, toMS int64, ok bool) {
	l := t.Limit
	if t.Row.Version == l.ChangedVersion {
		return 0, 0, false
	}
	from, to := l.span(t.nowMS)
	if l.loads(from, t.nowMS) {
		return from, to, true
	}
	t.Row = Row{Version: l.ChangedVersion, ExpiresMS: t.Row.ExpiresMS}
	return 0, 0, false
}

// Load makes the tally from the ledger: events are all of the value, sorted by instant; those
// outside the span that Stale names are passed over.
func (t *Tally) Load(events []Event) {
	l := t.Limit
	from, to := l.span(t.nowMS)
	t.Row, t.Slot, t.Loaded = Row{Version: l.ChangedVersion}, Row{}, nil
	t.past, t.others = 0, nil
	for _, e := range events {
		switch {
		case e.AtMS < from || e.AtMS >= to:
		case l.Sliding():
			t.loadSlot(l.SlotAt(e.AtMS), e.Kept)
		case l.Window.Kind == budget.WindowFirstHit:
			if t.Row.BeganMS == 0 || e.AtMS >= t.Row.BeganMS+l.length {
				t.Row.BeganMS, t.Row.Counted = e.AtMS, 0
			}
			t.Row.Counted = Plus(t.Row.Counted, e.Kept)
		default:
			t.Row.Counted = Plus(t.Row.Counted, e.Kept)
		}
	}
	t.Row.ExpiresMS = t.expires()
	for slot, row := range t.Loaded {
		t.addPast(slot, row.Counted)
	}
}

func (t *Tally) loadSlot(slot, kept int64) {
	if slot == t.SlotMS {
		t.Slot = t.slotRow(slot, Plus(t.Slot.Counted, kept))
		return
	}
	if t.Loaded == nil {
		t.Loaded = map[int64]Row{}
	}
	t.Loaded[slot] = t.slotRow(slot, Plus(t.Loaded[slot].Counted, kept))
}

func (t *Tally) slotRow(slot, counted int64) Row {
	return Row{Counted: counted, Version: t.Limit.ChangedVersion, ExpiresMS: slot + t.Limit.slot +
		t.Limit.length}
}

// ExpiresMS is when its row would expire if nothing more was counted in it.
func (t *Tally) ExpiresMS() int64 { return t.expires() }

// SlotsFrom names the first slot that counts.
func (t *Tally) SlotsFrom() int64 { return t.Limit.SlotsFrom(t.nowMS) }

// expires is when the locked row no longer counts.
func (t *Tally) expires() int64 {
	switch l := t.Limit; l.Window.Kind {
	case budget.WindowCalendar:
		return t.toMS
	case budget.WindowFirstHit:
		return max(t.Row.BeganMS, t.nowMS) + l.length
	case budget.WindowSliding:
		return max(t.Row.ExpiresMS, t.SlotMS+l.slot+l.length)
	}
	return 0
}

// Used is what counts now, and ResetMS when the window is over, or, sliding, when the oldest slot
// leaves it; 0: never. A first_hit window that has not begun would begin now.
func (t *Tally) Used() (used, resetMS int64) {
	l := t.Limit
	switch l.Window.Kind {
	case budget.WindowSliding:
		oldest := t.SlotMS
		if t.past > 0 {
			oldest = min(oldest, t.oldest)
		}
		return Plus(t.past, t.Slot.Counted), oldest + l.slot - 1 + l.length
	case budget.WindowFirstHit:
		if t.over() {
			return 0, t.nowMS + l.length
		}
		return t.Row.Counted, min(t.Row.BeganMS, t.nowMS) + l.length
	case budget.WindowCalendar:
		return t.Row.Counted, t.toMS
	}
	return t.Row.Counted, 0
}

// fits returns the first instant, in ms, at which a count fits under a bound if nothing else is
// counted until then; 0: it never does. A sliding window is left by one slot after the other.
func (t *Tally) fits(counts, most int64) int64 {
	used, reset := t.Used()
	switch {
	case counts > most || t.Limit.Window.Kind == budget.WindowLifetime:
		return 0
	case t.Limit.Window.Kind != budget.WindowSliding:
		return reset
	}
	slots := append(slices.Clone(t.others), Slot{t.SlotMS, t.Slot.Counted})
	slices.SortFunc(slots, func(a, b Slot) int { return cmp.Compare(a.AtMS, b.AtMS) })
	for _, slot := range slots {
		if used -= slot.Counted; used <= most-counts {
			return slot.AtMS + t.Limit.slot - 1 + t.Limit.length
		}
	}
	return reset
}

// over reports whether no first_hit window has begun that lasts until now.
func (t *Tally) over() bool { return t.Row.BeganMS == 0 || t.nowMS >= t.Row.BeganMS+t.Limit.length }

// count adds to the window.
func (t *Tally) count(n int64) {
	l := t.Limit
	t.Row.Version = l.ChangedVersion
	switch l.Window.Kind {
	case budget.WindowSliding:
		t.Slot = t.slotRow(t.SlotMS, Plus(t.Slot.Counted, n))
	case budget.WindowFirstHit:
		if t.over() {
			t.Row.BeganMS, t.Row.Counted = t.nowMS, 0
		}
		t.Row.BeganMS = min(t.Row.BeganMS, t.nowMS)
		t.Row.Counted = Plus(t.Row.Counted, n)
	default:
		t.Row.Counted = Plus(t.Row.Counted, n)
	}
	t.Row.ExpiresMS = t.expires()
}

// Mark is what Judge changes in a tally.
type Mark struct{ row, slot Row }

// Mark returns what Reset needs to take back whatever Judge counts from here on.
func (t *Tally) Mark() Mark { return Mark{t.Row, t.Slot} }

// Reset makes the tally what it was at a mark.
func (t *Tally) Reset(to Mark) { t.Row, t.Slot = to.row, to.slot }

// Plus adds without passing what a counter can hold.
func Plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Slots lists the slots that have to be written with the tally, in order.
func (t *Tally) Slots() []int64 {
	var out []int64
	for slot := range t.Loaded {
		out = append(out, slot)
	}
	if t.Limit.Sliding() && t.Slot.Version != 0 {
		out = append(out, t.SlotMS)
	}
	slices.Sort(out)
	return out
}

// SlotRow is the row of one of the Slots.
func (t *Tally) SlotRow(slot int64) Row {
	if slot == t.SlotMS {
		return t.Slot
	}
	return t.Loaded[slot]
}

// GivenBack is the row after a deduction that it may have counted keeps less: of a sliding limit
// the deduction's slot, head its head. changed is false where the row does not hold the deduction:
// its window was another one, or it was never loaded under the present definition.
func (l *Limit) GivenBack(head, row Row, countedMS, less int64) (after Row, changed bool) {
	switch {
	case head.Version != l.ChangedVersion || row.Version != l.ChangedVersion || less <= 0:
		return row, false
	case l.Window.Kind == budget.WindowFirstHit &&
		(countedMS < row.BeganMS || countedMS >= row.BeganMS+l.length):
		return row, false
	}
	row.Counted = max(row.Counted-less, 0)
	return row, true
}

// Keeps reports whether the row in which a deduction was counted may still be there at an instant,
// and MayLoad whether somebody may be about to load it from the ledger: whoever changes the
// deduction has to lock it then, though it be missing.
func (l *Limit) Keeps(countedMS, nowMS int64) (keeps, mayLoad bool) {
	from, end := l.span(countedMS)
	switch l.Window.Kind {
	case budget.WindowSliding:
		from = l.SlotAt(countedMS)
		end = from + l.slot + l.length
	case budget.WindowFirstHit:
		from, end = countedMS, countedMS+l.length
	}
	if end != math.MaxInt64 && end+graceMS < nowMS {
		return false, false
	}
	return true, l.ChangedVersion > createdVersion && from < l.changedMS+settleMS
}
