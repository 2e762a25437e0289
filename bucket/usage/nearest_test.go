package usage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

func window(name string, most int64, w budget.LimitWindow, overrides ...budget.Override) budget.Limit {
	return budget.Limit{Name: name, Dimension: "user", Max: most, Measure: budget.MeasureAmount, Enforce: true,
		Window: w, Overrides: overrides}
}

var (
	daily    = budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Day}
	sliding  = budget.LimitWindow{Kind: budget.WindowSliding, Length: time.Hour, Slot: time.Minute}
	firstHit = budget.LimitWindow{Kind: budget.WindowFirstHit, Length: time.Hour}
	ever     = budget.LimitWindow{Kind: budget.WindowLifetime}
)

// nearest asks for the values nearest their maximum and returns them as "value used/max".
func (w *world) nearest(b *bucket.Budget, limit string, most int) (texts []string, got bucket.Nearest) {
	w.Helper()
	got, err := w.s.Nearest(w.Ctx, bucket.NearestRequest{Budget: bucket.BudgetRef{ID: b.ID}, Limit: limit, Most: most})
	w.OK(err)
	for _, s := range got.Values {
		texts = append(texts, fmt.Sprintf("%s %d/%d", s.Value, s.Used, s.Max))
	}
	return texts, got
}

// sees compares the values nearest their maximum, how many were read and whether these were all.
func (w *world) sees(b *bucket.Budget, limit string, read int, complete bool, want ...string) {
	w.Helper()
	texts, got := w.nearest(b, limit, 20)
	if fmt.Sprint(texts) != fmt.Sprint(want) || got.Read != read || got.Complete != complete {
		w.Errorf("%s: %q of %d read, complete %v; want %q of %d, %v", limit, texts, got.Read, got.Complete, want, read,
			complete)
	}
}

// TestNearestOfEachWindow checks order, overrides, exempt values and instants in each kind of
// window, and that a window that is over counts nothing.
func TestNearestOfEachWindow(t *testing.T) {
	own := []budget.Override{{Value: "vip", Max: 1000}, {Value: "none", Exempt: true}, {Value: "poor", Max: 4}}
	each(t, func(w *world) {
		w.Clock.Advance(w.DB.Now().Truncate(24 * time.Hour).Add(34 * time.Hour).Sub(w.DB.Now())) // 10:00
		now := w.DB.Now()
		b := w.make("b", 10_000, limits(window("daily", 10, daily, own...), window("sliding", 10, sliding, own...),
			window("first", 10, firstHit, own...), window("ever", 10, ever, own...)))
		for i, d := range []struct {
			user   string
			amount int64
		}{{"a", 6}, {"b", 7}, {"vip", 500}, {"none", 900}, {"poor", 4}, {"c", 1}} {
			w.accepted(b, fmt.Sprint("d", i), d.amount, user(d.user))
		}
		want := []string{"poor 4/4", "b 7/10", "a 6/10", "vip 500/1000", "c 1/10"}
		for name, reset := range map[string]time.Time{"daily": now.Truncate(24 * time.Hour).Add(24 * time.Hour),
			"first": now.Add(time.Hour), "ever": {},
			"sliding": now.Truncate(time.Minute).Add(time.Hour + time.Minute - time.Millisecond)} {
			w.sees(b, name, 6, true, want...)
			if _, got := w.nearest(b, name, 20); !near(got.Values[0].ResetAt, reset) {
				t.Errorf("%s is reset at %v, want %v", name, got.Values[0].ResetAt, reset)
			}
			if texts, got := w.nearest(b, name, 2); fmt.Sprint(texts) != fmt.Sprint(want[:2]) || !got.Complete {
				t.Errorf("%s, 2 values: %q, complete %v", name, texts, got.Complete)
			}
		}
		w.Clock.Advance(25 * time.Hour)
		for _, name := range []string{"daily", "sliding", "first"} {
			w.sees(b, name, 6, true)
		}
		w.sees(b, "ever", 6, true, want...)
		w.accepted(b, "next", 2, user("c"))
		for _, name := range []string{"daily", "sliding", "first"} {
			w.sees(b, name, 6, true, "c 2/10")
		}
	})
}

// near reports whether two instants are within a minute: the clock of the test goes on.
func near(a, b time.Time) bool {
	return a.IsZero() == b.IsZero() && a.Sub(b).Abs() < time.Minute
}

// TestNearestOfCombinedValues checks that combined values are shown as such, and a hash as it is.
func TestNearestOfCombinedValues(t *testing.T) {
	each(t, func(w *world) {
		pair := window("pair", 10, ever)
		pair.Dimension = "user+ad"
		b := w.make("b", 1000, limits(pair))
		w.accepted(b, "a", 3, map[string]string{"user": "u:1", "ad": "a+2"})
		w.sees(b, "pair", 1, true, "u:1+a+2 3/10")
		long := make([]byte, 256)
		for i := range long {
			long[i] = 'x'
		}
		w.accepted(b, "b", 4, map[string]string{"user": string(long), "ad": string(long)})
		if texts, got := w.nearest(b, "pair", 1); len(texts) != 1 || len(got.Values[0].Value) != 65 ||
			got.Values[0].Value[0] != '#' || got.Values[0].Used != 4 {
			t.Errorf("%+v", got)
		}
	})
}

// TestNearestOfAChangedLimit checks that the answer is not complete while only the ledger has the
// counts of some values.
func TestNearestOfAChangedLimit(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 1000, limits(window("one", 10, daily)))
		w.accepted(b, "a", 6, user("a"))
		w.accepted(b, "b", 3, user("b"))
		b = w.change(b, window("one", 10, ever))
		w.sees(b, "one", 2, false)
		w.accepted(b, "c", 1, user("b"))
		w.sees(b, "one", 2, false, "b 4/10")
	})
}

// TestNearestReadsABound checks that at most 10,000 values are read, and that the answer says so.
func TestNearestReadsABound(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 1000, limits(window("one", 10, ever)))
		w.accepted(b, "last", 5, user("z"))
		w.sees(b, "one", 1, true, "z 5/10")
		w.copies("z", "u", 9_998)
		w.accepted(b, "first", 2, user("a"))
		w.accepted(b, "more", 4, user("z"))
		w.sees1(b, 10_000, true, "z 9/10")
		w.copies("a", "v", 1)
		w.sees1(b, 10_000, false, "u00000 5/10")
	})
}

// sees1 compares the value that is nearest its maximum.
func (w *world) sees1(b *bucket.Budget, read int, complete bool, want string) {
	w.Helper()
	texts, got := w.nearest(b, "one", 1)
	if len(texts) != 1 || texts[0] != want || got.Read != read || got.Complete != complete {
		w.Errorf("%q of %d read, complete %v; want %q of %d, %v", texts, got.Read, got.Complete, want, read, complete)
	}
}

// TestNearestOfNoLimit checks the refusals.
func TestNearestOfNoLimit(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 1000)
		for ref, want := range map[int64]budget.Code{b.ID: budget.Invalid, 4711: budget.BudgetNotFound} {
			_, err := w.s.Nearest(w.Ctx, bucket.NearestRequest{Budget: bucket.BudgetRef{ID: ref}, Limit: "x", Most: 1})
			if codeOf(err) != want {
				t.Errorf("budget %d: %v", ref, err)
			}
		}
	})
}

// change gives a budget other limits.
func (w *world) change(b *bucket.Budget, list ...budget.Limit) *bucket.Budget {
	w.Helper()
	_, err := w.defs.Change(w.Ctx, b.ID, bucket.Change{Limits: &list})
	w.OK(err)
	return w.find(b.ID)
}

// copies inserts counters like that of a value for as many other values.
func (w *world) copies(of, prefix string, count int) {
	w.Helper()
	const each = 500 // SQLite's bound of a compound SELECT
	for from := 0; from < count; from += each {
		var values []string
		for i := from; i < min(from+each, count); i++ {
			values = append(values, fmt.Sprintf("SELECT x'%x' AS v", fmt.Sprintf("%s%05d", prefix, i)))
		}
		w.Exec([]any{`INSERT INTO limit_counter (budget_id, dimension, value, version, counts, expires_ms)
			SELECT c.budget_id, c.dimension, n.v, 1, c.counts, 0 FROM limit_counter c, (` +
			strings.Join(values, " UNION ALL ") + `) n WHERE c.value = ?`, []byte(of)})
	}
}
