package limit

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Row is a counter row without its key.
type Row struct {
	// Counted is in calls or minor units; 0 in the head of a sliding limit.
	Counted int64
	// BeganMS is when a first_hit window began, in ms; 0 if none has.
	BeganMS int64
	// Version is the limit's ChangedVersion under which the row was loaded; 0 if it was not.
	Version int64
	// ExpiresMS is when the row no longer counts, in ms; 0 means never.
	ExpiresMS int64
}

// Event is a deduction that carries a value: when it was counted, and what is kept of it.
type Event struct{ AtMS, Kept int64 }

// skewMS bounds the clock difference between two successive transactions. A window that began
// more than skewMS after a change has no counts from before the change.
const skewMS = int64(time.Minute / time.Millisecond)

// graceMS is how long a row is kept after it no longer counts, in case clocks step back.
const graceMS = int64(time.Hour / time.Millisecond)

// WindowAt returns the key of the row to lock for deductions counted at an instant: the first
// instant of a calendar window; 0 for others.
func (l *Limit) WindowAt(atMS int64) int64 {
	from, _ := l.span(atMS)
	if l.Window.Kind == budget.WindowCalendar {
		return from
	}
	return 0
}

// SlotAt returns the first instant of the sliding limit's slot at an instant.
func (l *Limit) SlotAt(atMS int64) int64 { return atMS - ((atMS%l.slot)+l.slot)%l.slot }

// Sliding reports whether the limit has slots beside its head row.
func (l *Limit) Sliding() bool { return l.Window.Kind == budget.WindowSliding }

// SlotsFrom returns the first slot that counts at an instant: the first that overlaps the time of
// Length before it, excluding the oldest instant.
func (l *Limit) SlotsFrom(nowMS int64) int64 { return l.SlotAt(nowMS - l.length + 1) }

// span returns the span, to exclusive, of the deductions that count at an instant.
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

// loads reports whether a row whose window began at beganMS may lack deductions that are in the
// ledger.
func (l *Limit) loads(beganMS, nowMS int64) bool {
	if l.ChangedVersion <= createdVersion {
		return false
	}
	if l.Window.Kind == budget.WindowFirstHit {
		beganMS = nowMS - l.length // a window that began before is over
	}
	return beganMS < l.changedMS+skewMS
}

// Usage is the count of one value in one limit at one instant, under the lock of its row.
type Usage struct {
	Limit *Limit
	Key   string
	// Bound is the most that the value may take: the limit's, unless the value has an override.
	Bound Bound
	// Values are a charge's; loading the usage needs them.
	Values []string
	// WindowMS is the key of the locked row, Row. SlotMS is the key of the present slot, Slot.
	WindowMS, SlotMS int64
	Row, Slot        Row
	// Loaded holds the other slots if they were loaded from the ledger.
	Loaded map[int64]Row
	// hits are what a first_hit window counts.
	hits hits

	nowMS, toMS  int64
	goneBack     bool   // the clock: what counts is in the ledger
	others       []Slot // the other slots that count, in no order
	past, oldest int64  // their sum, and the first instant of the oldest
}

// NewUsage returns an empty usage at an instant, with the limit's own bound.
func NewUsage(l *Limit, key string, nowMS int64) Usage {
	t := Usage{Limit: l, Key: key, Bound: Bound{Max: l.Max}, nowMS: nowMS}
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

// Read adds a row to the usage: the locked one or, for a sliding limit, one of its slots. It
// ignores slots that no longer count or were counted under another definition.
func (t *Usage) Read(windowMS int64, row Row) {
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

func (t *Usage) addPast(slotMS, counted int64) {
	if counted <= 0 || slotMS >= t.nowMS+t.Limit.length { // after every window that contains now
		return
	}
	if t.past == 0 || slotMS < t.oldest {
		t.oldest = slotMS
	}
	t.past = Plus(t.past, counted)
	t.others = append(t.others, Slot{slotMS, counted})
}

// Restore fills an empty usage with a store's count: the count, the end of the window or the time
// at which its oldest slot leaves it, and the known slots of a sliding window.
func (t *Usage) Restore(used, endsMS int64, slots []Slot) {
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

// Stale returns the span of the ledger to load before judging. ok is true if the row was created or
// loaded under another definition of the limit and its window began before the change. Otherwise
// the row agrees with the ledger, and Stale clears a row of another definition.
func (t *Usage) Stale() (fromMS, toMS int64, ok bool) {
	l := t.Limit
	from, to := t.LedgerSpan()
	if t.goneBack {
		return from, to, true
	}
	if t.Row.Version == l.ChangedVersion {
		return 0, 0, false
	}
	if l.loads(from, t.nowMS) {
		return from, to, true
	}
	t.Row, t.hits = Row{Version: l.ChangedVersion, ExpiresMS: t.Row.ExpiresMS}, nil
	return 0, 0, false
}

// LedgerSpan returns the span, to exclusive, of the deductions that count in the usage. Load needs
// all of them.
func (t *Usage) LedgerSpan() (fromMS, toMS int64) {
	if t.goneBack && t.Limit.Window.Kind == budget.WindowFirstHit {
		return t.nowMS - t.Limit.length + 1, t.nowMS + t.Limit.length
	}
	return t.Limit.span(t.nowMS)
}

// Load builds the usage from the ledger. events are those of the value, sorted by instant; those
// outside the span of Stale are ignored.
func (t *Usage) Load(events []Event) {
	l := t.Limit
	from, to := t.LedgerSpan()
	t.Row, t.Slot, t.Loaded = Row{Version: l.ChangedVersion}, Row{}, nil
	t.past, t.others, t.hits = 0, nil, nil
	for _, e := range events {
		switch {
		case e.AtMS < from || e.AtMS >= to || e.Kept <= 0: // what was given back begins no window
		case l.Sliding():
			t.loadSlot(l.SlotAt(e.AtMS), e.Kept)
		case l.Window.Kind == budget.WindowFirstHit && t.goneBack && t.Row.BeganMS != 0:
			t.Row.Counted = Plus(t.Row.Counted, e.Kept)
			t.hits = t.hits.add(Slot{e.AtMS, e.Kept}, l.length)
		case l.Window.Kind == budget.WindowFirstHit:
			t.hit(e.AtMS, e.Kept)
		default:
			t.Row.Counted = Plus(t.Row.Counted, e.Kept)
		}
	}
	t.Row.ExpiresMS = t.expires()
	for slot, row := range t.Loaded {
		t.addPast(slot, row.Counted)
	}
}

func (t *Usage) loadSlot(slot, kept int64) {
	if slot == t.SlotMS {
		t.Slot = t.slotRow(slot, Plus(t.Slot.Counted, kept))
		return
	}
	if t.Loaded == nil {
		t.Loaded = map[int64]Row{}
	}
	t.Loaded[slot] = t.slotRow(slot, Plus(t.Loaded[slot].Counted, kept))
}

func (t *Usage) slotRow(slot, counted int64) Row {
	return Row{Counted: counted, Version: t.Limit.ChangedVersion, ExpiresMS: slot + t.Limit.slot +
		t.Limit.length}
}

// SlotsFrom returns the first slot that counts.
func (t *Usage) SlotsFrom() int64 { return t.Limit.SlotsFrom(t.nowMS) }

// expires returns when the locked row no longer counts.
func (t *Usage) expires() int64 {
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

// Used returns the present count and when the window ends or, if it slides, its oldest slot leaves
// it, in ms; 0 means never. A first_hit window that has not begun would begin now.
func (t *Usage) Used() (used, resetMS int64) {
	l := t.Limit
	switch l.Window.Kind {
	case budget.WindowSliding:
		oldest := t.SlotMS
		if t.past > 0 {
			oldest = min(oldest, t.oldest)
		}
		return Plus(t.past, t.Slot.Counted), oldest + l.slot - 1 + l.length
	case budget.WindowFirstHit:
		if t.between() {
			return 0, t.nowMS + l.length
		}
		return t.Row.Counted, min(t.Row.BeganMS, t.nowMS) + l.length
	case budget.WindowCalendar:
		return t.Row.Counted, t.toMS
	}
	return t.Row.Counted, 0
}

// fits returns the first instant, in ms, at which a count fits under a bound if nothing else is
// counted until then; 0 means never.
func (t *Usage) fits(counts, most int64) int64 {
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
			return min(slot.AtMS, t.SlotMS) + t.Limit.slot - 1 + t.Limit.length
		}
	}
	return reset
}

// between reports whether the first_hit window has not begun or has ended.
func (t *Usage) between() bool { return t.betweenAt(t.nowMS) }

func (t *Usage) betweenAt(atMS int64) bool {
	return t.Row.BeganMS == 0 || atMS >= t.Row.BeganMS+t.Limit.length
}

// hit counts n in the first_hit window at an instant, which begins the window if none is open.
func (t *Usage) hit(atMS, n int64) {
	if t.betweenAt(atMS) {
		t.Row.BeganMS, t.Row.Counted, t.hits = atMS, 0, nil
	}
	t.Row.Counted = Plus(t.Row.Counted, n)
	t.hits = t.hits.add(Slot{atMS, n}, t.Limit.length)
}

func (t *Usage) count(n int64) {
	l := t.Limit
	t.Row.Version = l.ChangedVersion
	switch l.Window.Kind {
	case budget.WindowSliding:
		t.Slot = t.slotRow(t.SlotMS, Plus(t.Slot.Counted, n))
	case budget.WindowFirstHit:
		t.hit(t.nowMS, n)
		t.Row.BeganMS = min(t.Row.BeganMS, t.nowMS)
	default:
		t.Row.Counted = Plus(t.Row.Counted, n)
	}
	t.Row.ExpiresMS = t.expires()
}

// Plus adds and saturates at math.MaxInt64.
func Plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// GivenBack returns the row after the count of a deduction was lowered by less. For a sliding limit
// row is the deduction's slot and head its head; for others both are the same row. changed is false
// if the row was not loaded under the present definition.
func (l *Limit) GivenBack(head, row Row, less int64) (after Row, changed bool) {
	switch {
	case head.Version != l.ChangedVersion || row.Version != l.ChangedVersion || less <= 0:
		return row, false
	}
	row.Counted = max(row.Counted-less, 0)
	return row, true
}

// Keeps reports whether the row in which a deduction was counted may still exist at an instant.
// mayLoad reports whether a transaction may be about to load that row from the ledger; changing the
// deduction then requires the row's lock, even if the row is missing.
func (l *Limit) Keeps(countedMS, nowMS int64) (keeps, mayLoad bool) {
	from, end := l.span(countedMS)
	switch l.Window.Kind {
	case budget.WindowSliding:
		from = l.SlotAt(countedMS)
		end = from + l.slot + l.length
	case budget.WindowFirstHit:
		// Without it, the window begins with a later deduction of the window.
		from, end = countedMS, countedMS+2*l.length
	}
	if end != math.MaxInt64 && end+graceMS < nowMS {
		return false, false
	}
	return true, l.ChangedVersion > createdVersion && from < l.changedMS+skewMS
}
