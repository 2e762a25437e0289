package limit_test

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// deduction is a counted deduction, as in the ledger.
type deduction struct {
	atMS               int64
	amount, rolledBack int64
	dimensions         map[string]string
	counts             map[string]int64
	// window is the number of the first_hit window of each limit in which it counts.
	window map[string]int
}

// reference computes each count from the list of all deductions, without the package under test. Two
// instants are in the same calendar window if their local times, or the days on which their windows
// began, have the same text.
type reference struct{ ledger []*deduction }

// carries reports whether a deduction counts in the limit for the same values as dimensions.
func carries(l budget.Limit, d *deduction, dimensions map[string]string) bool {
	for name := range strings.SplitSeq(l.Dimension, "+") {
		if v, ok := d.dimensions[name]; !ok || v != dimensions[name] {
			return false
		}
	}
	return asks(l, d.amount, d.counts) > 0
}

func asks(l budget.Limit, amount int64, counts map[string]int64) int64 {
	if n, own := counts[l.Name]; own {
		return n
	}
	if l.Measure == budget.MeasureCount {
		return 1
	}
	return amount
}

// keeps returns what a deduction still counts.
func keeps(l budget.Limit, d *deduction) int64 {
	n, left := asks(l, d.amount, d.counts), d.amount-d.rolledBack
	if left == 0 {
		return 0
	}
	if l.Measure == budget.MeasureCount {
		return n
	}
	return (n*left + d.amount - 1) / d.amount // small numbers
}

// sameWindow reports whether two instants are in the same calendar window.
func sameWindow(w budget.LimitWindow, a, b int64) bool {
	if apart := a - b; apart > 400*86_400_000 || apart < -400*86_400_000 {
		return false
	}
	text := func(ms int64) string {
		t := time.UnixMilli(ms).In(zones[w.Timezone])
		switch w.Every {
		case budget.Second:
			return t.Format("2006-01-02 15:04:05 -0700")
		case budget.Minute:
			return t.Format("2006-01-02 15:04 -0700")
		case budget.Hour:
			return t.Format("2006-01-02 15 -0700")
		}
		day := time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
		if t.Hour() < w.Anchor.Hour {
			day = day.AddDate(0, 0, -1)
		}
		for !begins(w, day) {
			day = day.AddDate(0, 0, -1)
		}
		return day.Format(time.DateOnly)
	}
	return text(a) == text(b)
}

// begins reports whether a calendar window of days, weeks, months or years begins on a day.
func begins(w budget.LimitWindow, day time.Time) bool {
	switch w.Every {
	case budget.Week:
		return strings.EqualFold(day.Weekday().String(), string(cmp.Or(w.Anchor.Weekday, "monday")))
	case budget.Month:
		last := day.AddDate(0, 0, 1).Day() == 1
		return day.Day() == max(w.Anchor.Day, 1) || last && day.Day() < w.Anchor.Day
	case budget.Year:
		return day.YearDay() == 1
	}
	return true
}

func (n *reference) used(l budget.Limit, dimensions map[string]string, now int64) (sum int64) {
	if l.Window.Kind == budget.WindowFirstHit {
		_, sum = n.firstHit(l, dimensions, now)
		return sum
	}
	length, slot := l.Window.Length.Milliseconds(), l.Window.Slot.Milliseconds()
	for _, d := range n.ledger {
		if !carries(l, d, dimensions) {
			continue
		}
		switch l.Window.Kind {
		case budget.WindowCalendar:
			if !sameWindow(l.Window, d.atMS, now) {
				continue
			}
		case budget.WindowSliding:
			first := d.atMS / slot * slot // what begins after every window that contains now does not count
			if first+slot-1 <= now-length || first >= now+length {
				continue
			}
		}
		sum += keeps(l, d)
	}
	return sum
}

// firstHit returns the number of the first_hit window that is open at an instant, and what it
// counts: it begins with the oldest of its deductions that still counts. If none is open, the number
// is that of the next one.
func (n *reference) firstHit(l budget.Limit, dimensions map[string]string, now int64) (number int, sum int64) {
	began := int64(-1)
	for _, d := range n.ledger {
		if at, in := d.window[l.Name]; in && carries(l, d, dimensions) {
			if at > number {
				number, began, sum = at, -1, 0
			}
			if at == number && keeps(l, d) > 0 && began < 0 {
				began = d.atMS
			}
			sum += keeps(l, d)
		}
	}
	if began < 0 || now >= began+l.Window.Length.Milliseconds() {
		return number + 1, 0
	}
	return number, sum
}

// number puts a deduction into the windows of the first_hit limits for which it counts.
func (n *reference) number(limits []budget.Limit, d *deduction) {
	for _, l := range limits {
		if l.Window.Kind != budget.WindowFirstHit || !carries(l, d, d.dimensions) {
			continue
		}
		if d.window == nil {
			d.window = map[string]int{}
		}
		d.window[l.Name], _ = n.firstHit(l, d.dimensions, d.atMS)
	}
}

// recount puts the deductions of the past into the windows of a first_hit limit that has changed:
// those that still count.
func (n *reference) recount(l budget.Limit, ledger []*deduction) {
	n.ledger = nil
	for _, d := range ledger {
		delete(d.window, l.Name)
		early := l.ChangedVersion > 1 && d.atMS <= l.ChangedAt.UnixMilli()-l.Window.Length.Milliseconds()
		if !early && keeps(l, d) > 0 {
			n.number([]budget.Limit{l}, d)
		}
		n.ledger = append(n.ledger, d)
	}
}

// refuses returns the first limit that would be exceeded, or "".
func (n *reference) refuses(limits []budget.Limit, d *deduction) string {
	for _, l := range limits {
		add := asks(l, d.amount, d.counts)
		most, exempt := l.Max, !l.Enforce
		for _, o := range l.Overrides {
			if o.Value == d.dimensions[l.Dimension] {
				most, exempt = o.Max, exempt || o.Exempt
			}
		}
		if add > 0 && !exempt && n.used(l, d.dimensions, d.atMS)+add > most {
			return l.Name
		}
	}
	return ""
}

// table is the package under test with rows in memory. It changes them as a commit does.
type table struct {
	*testing.T
	limits *budget.Limits
	set    *limit.Set
	rows   map[rowKey]limit.Row
	// hits are the rows of first_hit limits.
	hits   map[rowKey]*limit.Counters
	ledger []*deduction
}

type rowKey struct {
	limit, value string
	window       int64
}

func (w *table) compile() {
	var err error
	if w.set, err = limit.Compile(w.limits); err != nil {
		w.Fatal(err)
	}
}

func (w *table) usage(charge limit.Charge, now int64) *limit.Usage {
	l := charge.Limit
	usage := limit.NewUsage(l, charge.Key, now)
	firstHit := l.Window.Kind == budget.WindowFirstHit
	if c := w.hits[rowKey{limit: l.Name, value: charge.Key}]; c != nil && firstHit {
		usage = c.Usage(l, charge.Key, now)
	}
	var bounds limit.Bounds
	for _, o := range l.Overrides {
		bounds.Put(limit.OverrideID{Series: l.OverrideSeries, Key: o.Value}, limit.BoundOf(o))
	}
	bounds.Apply(0, l, &usage)
	for key, row := range w.rows {
		if key.limit == l.Name && key.value == charge.Key && !firstHit {
			usage.Read(key.window, row)
		}
	}
	if from, to, stale := usage.Stale(); stale {
		var events []limit.Event
		for _, d := range w.ledger {
			kept, counted := l.Counted(d.amount, d.rolledBack, d.counts)
			if counted && d.atMS >= from && d.atMS < to && carriesValues(l, d, charge.Values) {
				events = append(events, limit.Event{AtMS: d.atMS, Kept: kept})
			}
		}
		usage.Load(events)
		w.write(&usage)
	}
	return &usage
}

func carriesValues(l *limit.Limit, d *deduction, values []string) bool {
	for i, name := range l.Dimensions() {
		if v, ok := d.dimensions[name]; !ok || v != values[i] {
			return false
		}
	}
	return true
}

// load counts the past of a changed limit for every value. Otherwise what is given back before the
// first call would decide where a window of the past begins.
func (w *table) load(name string, now int64) {
	for _, d := range w.ledger {
		charges, _ := w.set.Charges(d.amount, d.dimensions, d.counts)
		for _, charge := range charges {
			if charge.Limit.Name == name {
				w.usage(charge, now)
			}
		}
	}
}

func (w *table) write(t *limit.Usage) {
	if t.Limit.Window.Kind == budget.WindowFirstHit {
		key := rowKey{limit: t.Limit.Name, value: t.Key}
		if w.hits[key] == nil {
			w.hits[key] = &limit.Counters{}
		}
		w.hits[key].Put(t)
		return
	}
	w.rows[rowKey{t.Limit.Name, t.Key, t.WindowMS}] = t.Row
	for slot, row := range t.Loaded {
		w.rows[rowKey{t.Limit.Name, t.Key, slot}] = row
	}
	if t.Limit.Sliding() && t.Slot.Version != 0 {
		w.rows[rowKey{t.Limit.Name, t.Key, t.SlotMS}] = t.Slot
	}
}

func (w *table) deduct(d *deduction) (states []budget.LimitState, refused string) {
	charges, missing := w.set.Charges(d.amount, d.dimensions, d.counts)
	if missing != nil {
		w.Fatalf("%s is missing", missing.Name)
	}
	usages := make([]*limit.Usage, len(charges))
	for i, charge := range charges {
		usages[i] = w.usage(charge, d.atMS)
	}
	if refusal := limit.Exceeded(charges, usages); refusal != nil {
		return nil, refusal[0].Limit
	}
	states = limit.Count(charges, usages)
	for _, usage := range usages {
		w.write(usage)
	}
	w.ledger = append(w.ledger, d)
	return states, ""
}

func (w *table) rollBack(d *deduction, units, now int64) {
	before := d.rolledBack
	d.rolledBack += units
	charges, _ := w.set.Charges(d.amount, d.dimensions, d.counts)
	for _, charge := range charges {
		l := charge.Limit
		keeps, _ := l.Keeps(d.atMS, now)
		less := l.Kept(charge.Counts, d.amount, before) - l.Kept(charge.Counts, d.amount, d.rolledBack)
		if c := w.hits[rowKey{limit: l.Name, value: charge.Key}]; c != nil && l.Window.Kind == budget.WindowFirstHit {
			if keeps {
				c.GivenBack(l, d.atMS, less)
			}
			continue
		}
		head, ok := w.rows[rowKey{l.Name, charge.Key, l.WindowAt(d.atMS)}]
		if !keeps || !ok {
			continue
		}
		at := rowKey{l.Name, charge.Key, l.WindowAt(d.atMS)}
		if l.Sliding() {
			at.window = l.SlotAt(d.atMS)
		}
		if row, lower := l.GivenBack(head, w.rows[at], less); lower {
			w.rows[at] = row
		}
	}
}

func (w *table) expire(now int64) {
	maps.DeleteFunc(w.hits, func(_ rowKey, c *limit.Counters) bool {
		return c.ExpiresMS() > 0 && c.ExpiresMS() < now-time.Hour.Milliseconds()
	})
	maps.DeleteFunc(w.rows, func(_ rowKey, row limit.Row) bool {
		return row.ExpiresMS > 0 && row.ExpiresMS < now-time.Hour.Milliseconds()
	})
}

// TestCalendarAgainstReference compares which pairs of instants are in one calendar window, for every
// length, anchor and zone.
func TestCalendarAgainstReference(t *testing.T) {
	random, same := rand.New(rand.NewPCG(2, 0)), 0 //nolint:gosec // reproducible
	const pairs = 40_000
	for range pairs {
		l := budget.Limit{Name: "l", Dimension: "user", Max: 1, Measure: budget.MeasureCount, Window: drawCalendar(random)}
		set, err := limit.Compile(limit.Begin([]budget.Limit{l}, starts[0]))
		if err != nil {
			t.Fatal(err)
		}
		a := starts[random.IntN(len(starts))].UnixMilli() + random.Int64N(35*86_400_000)
		b := a + steps[random.IntN(len(steps))]*random.Int64N(9)
		want := sameWindow(l.Window, a, b)
		if want {
			same++
		}
		if compiled := set.Limit("l"); (compiled.WindowAt(a) == compiled.WindowAt(b)) != want {
			t.Fatalf("%v and %v in one window: want %v\n%+v", time.UnixMilli(a).UTC(), time.UnixMilli(b).UTC(), want, l.Window)
		}
	}
	if same < pairs/4 || same > pairs*3/4 {
		t.Errorf("%d of %d pairs are in one window", same, pairs)
	}
}

// TestAgainstReference compares the package with sums over the list of all deductions, for every kind
// of window, with clock changes, rollbacks, changed limits and expired rows. They must agree
// exactly, and no sliding window, to the millisecond, may exceed its maximum.
func TestAgainstReference(t *testing.T) {
	worlds, calls, accepted, refused, loads, back := 60, 0, 0, 0, 0, 0
	// 1,200 worlds make 218,000 calls and take one or two minutes.
	if text := os.Getenv("BUDGETD_LIMIT_WORLDS"); text != "" {
		worlds, _ = strconv.Atoi(text)
	}
	for seed := range worlds {
		random := rand.New(rand.NewPCG(1, uint64(seed))) //nolint:gosec // reproducible
		// In every fourth world the clock steps back, by less than the clocks of two nodes may
		// differ. These worlds have no first_hit windows, because such a window could then begin
		// with another deduction than in the ledger.
		stepsBack := seed%4 == 0
		w := &table{T: t, rows: map[rowKey]limit.Row{}, hits: map[rowKey]*limit.Counters{}}
		now := starts[random.IntN(len(starts))].UnixMilli() + random.Int64N(3_600_000)
		latest := now
		w.limits = limit.Begin(steady(drawLimits(random), stepsBack), time.UnixMilli(now))
		if random.IntN(4) == 0 {
			w.limits = nil
		}
		w.compile()
		oracle := &reference{}
		for range 240 {
			now += steps[random.IntN(len(steps))] * random.Int64N(3)
			if latest = max(latest, now); stepsBack && random.IntN(10) == 0 {
				const most = 50_000
				now, back = latest-random.Int64N(most), back+1
			}
			switch n := random.IntN(40); {
			case n == 0:
				w.limits = limit.Change(w.limits, steady(changed(random, w.limits), stepsBack), time.UnixMilli(now))
				w.compile()
				for _, l := range w.limits.List {
					if l.ChangedVersion == w.limits.Version && l.Window.Kind == budget.WindowFirstHit {
						oracle.recount(l, w.ledger)
						w.load(l.Name, now)
					}
				}
				loads++
			case n == 1:
				w.expire(now)
			case n < 10 && len(w.ledger) > 0:
				d := w.ledger[max(0, len(w.ledger)-1-random.IntN(20))]
				if left := d.amount - d.rolledBack; left > 0 {
					w.rollBack(d, 1+random.Int64N(left), now)
				}
			default:
				d := draw(random, now)
				oracle.ledger = w.ledger
				var list []budget.Limit
				if w.limits != nil {
					list = w.limits.List
				}
				want := oracle.refuses(list, d)
				states, got := w.deduct(d)
				if got != want {
					t.Fatalf("seed %d at %d: refused by %q, want %q\n%+v\n%+v", seed, now, got, want, d, w.limits)
				}
				if calls++; got != "" {
					refused++
					continue
				}
				accepted++
				oracle.number(list, d)
				oracle.ledger = w.ledger
				w.compare(oracle, seed, states, d)
			}
		}
	}
	if calls < 170*worlds || accepted < 60*worlds || refused < 40*worlds || loads < 5*worlds {
		t.Errorf("%d calls, %d accepted, %d refused, %d changes are too few", calls, accepted, refused, loads)
	}
	t.Logf("%d calls, %d accepted, %d refused, %d changes of limits, %d steps back", calls, accepted, refused, loads, back)
}

// compare checks the figures after an accepted deduction.
func (w *table) compare(oracle *reference, seed int, states []budget.LimitState, d *deduction) {
	w.Helper()
	for _, s := range states {
		l := w.set.Limit(s.Limit)
		if want := oracle.used(l.Limit, d.dimensions, d.atMS); s.Used != want {
			w.Fatalf("seed %d at %d: %s counts %d, want %d\n%+v", seed, d.atMS, s.Limit, s.Used, want, l.Limit)
		}
		if !s.ResetAt.IsZero() && s.ResetAt.UnixMilli() <= d.atMS {
			w.Fatalf("seed %d at %d: %s ends at %v, in the past", seed, d.atMS, s.Limit, s.ResetAt)
		}
		if !l.Sliding() || !l.Enforce || s.Exempt {
			continue
		}
		sum := int64(0)
		for _, e := range w.ledger {
			if carries(l.Limit, e, d.dimensions) && e.atMS > d.atMS-l.Window.Length.Milliseconds() {
				sum += keeps(l.Limit, e)
			}
		}
		if sum > s.Max {
			w.Fatalf("seed %d at %d: %d in the window of %s to the millisecond, maximum %d", seed, d.atMS, sum, s.Limit, s.Max)
		}
	}
}
