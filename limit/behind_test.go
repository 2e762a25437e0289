package limit_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestClockGoesBack counts one value while the clock goes back by two hours and comes again to where
// it was. No window by the clock's own times ever has more than the maximum, and what is refused
// fits after at most a window's length.
func TestClockGoesBack(t *testing.T) {
	const most, back = 2, 2 * time.Hour
	start := time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)
	for _, one := range []struct {
		name   string
		window budget.LimitWindow
		length time.Duration
	}{
		{"minute", budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Minute}, time.Minute},
		{"hour", budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Hour}, time.Hour},
		{"sliding", budget.LimitWindow{Kind: budget.WindowSliding, Length: time.Minute,
			Slot: time.Second}, time.Minute + time.Second},
		{"first hit", budget.LimitWindow{Kind: budget.WindowFirstHit, Length: time.Minute}, time.Minute},
	} {
		t.Run(one.name, func(t *testing.T) {
			set, err := limit.Compile(limit.Begin([]budget.Limit{{Name: "l", Dimension: "user", Max: most,
				Measure: budget.MeasureCount, Window: one.window, Enforce: true}}, start.AddDate(0, 0, -1)))
			if err != nil {
				t.Fatal(err)
			}
			w := &clocked{T: t, l: set.Limit("l"), length: one.length}
			for _, at := range []time.Time{start.Add(-back), start} {
				for w.try(at) {
				}
			}
			early := 0
			for at := start.Add(-back); at.Before(start.Add(5 * time.Minute)); at = at.Add(7 * time.Second) {
				if w.try(at) && at.Before(start) {
					early++
				}
			}
			if early < most {
				t.Errorf("%d were accepted before the clock was where it had been", early)
			}
			for _, e := range w.events {
				if n := w.within(e.AtMS); n > most {
					t.Errorf("%d in a window at %v", n, time.UnixMilli(e.AtMS).UTC())
				}
			}
		})
	}
}

// clocked is one value of a limit, with its row and the ledger.
type clocked struct {
	*testing.T
	l      *limit.Limit
	length time.Duration
	row    limit.Counters
	events []limit.Event
}

// try deducts 1 at an instant of the clock, as a flight does.
func (w *clocked) try(clock time.Time) (accepted bool) {
	w.Helper()
	row, err := limit.ReadCounters(w.row.Pack())
	if err != nil {
		w.Fatal(err)
	}
	now := row.Now(clock.UnixMilli())
	charges := []limit.Charge{{Limit: w.l, Values: []string{"u"}, Key: "u", Counts: 1}}
	usage := row.Usage(w.l, "u", now)
	if from, to, stale := usage.Stale(); stale {
		usage.Load(w.span(from, to))
	}
	if refused := limit.Exceeded(charges, []*limit.Usage{&usage}); refused != nil {
		if wait := refused[0].ResetAt.Sub(clock); wait <= 0 || wait > w.length {
			w.Errorf("at %v: wait %v", clock, wait)
		}
		return false
	}
	limit.Count(charges, []*limit.Usage{&usage})
	row.Put(&usage)
	w.row, w.events = row, append(w.events, limit.Event{AtMS: now, Kept: 1})
	return true
}

// span returns the events from one instant to another, exclusive, in the order of time.
func (w *clocked) span(from, to int64) (out []limit.Event) {
	for _, e := range w.events {
		at := len(out)
		for at > 0 && out[at-1].AtMS > e.AtMS {
			at--
		}
		if e.AtMS >= from && e.AtMS < to {
			out = append(out[:at], append([]limit.Event{e}, out[at:]...)...)
		}
	}
	return out
}

// within counts the events of the window that ends with an instant, or contains it.
func (w *clocked) within(at int64) (n int) {
	for _, e := range w.events {
		calendar := w.l.Window.Kind == budget.WindowCalendar
		if calendar && w.l.WindowAt(e.AtMS) == w.l.WindowAt(at) ||
			!calendar && e.AtMS <= at && e.AtMS > at-w.l.Window.Length.Milliseconds() {
			n++
		}
	}
	return n
}
