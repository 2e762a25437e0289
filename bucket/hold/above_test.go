package hold_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// above makes a hold of which more may be confirmed.
func (w *world) above(bucket int64, name string, amount int64) {
	w.Helper()
	w.Deduct(fixture.Deduction{Bucket: bucket, ID: name, Amount: amount, Hold: time.Hour,
		Above: ledger.AboveAvailable})
}

// once executes an order once.
func (w *world) once(o hold.Order) (ledger.Deduction, error) {
	got, err := w.part.Execute(w.Ctx, []hold.Order{o})
	if err != nil {
		return ledger.Deduction{}, err
	}
	return got[0].Deduction, got[0].Err
}

// settles confirms an amount, and compares what was used, what of it above the hold, and what the
// budget did not have.
func (w *world) settles(b fixture.Budget, id string, actual, used, extra, uncollected int64, again bool) {
	w.Helper()
	w.ends(b, id, actual, used, extra, uncollected, again)
	if used+uncollected != actual {
		w.Fatalf("%d used and %d uncollected are not %d", used, uncollected, actual)
	}
}

// ends confirms an amount, and compares what was used in all, what was taken above the hold and
// with steps, and what the budget did not have.
func (w *world) ends(b fixture.Budget, id string, actual, used, extra, uncollected int64, again bool) {
	w.Helper()
	d, replayed, err := w.confirm(b, id, actual)
	got := [3]int64{d.Confirmed, d.Extra, d.Uncollected}
	if want := [3]int64{used, extra, uncollected}; err != nil || got != want || replayed != again {
		w.Fatalf("confirm of %d of %q: used, extra and uncollected are %v, replayed %v, %v; want %v, %v",
			actual, id, got, replayed, err, want, again)
	}
	w.recorded(d)
	w.Check()
}

// TestConfirmAbove confirms more than is held.
func TestConfirmAbove(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(w *world, b fixture.Budget)
	}{
		{"refused by default", func(w *world, b fixture.Budget) {
			w.hold(b.Buckets[0], "h", "", 10, time.Hour)
			_, _, err := w.confirm(b, "h", 11)
			if e := w.refused(err, budget.AmountExceedsRemaining); *e.Available != 10 {
				w.Errorf("available is %d", *e.Available)
			}
			w.columns(b.Buckets[0], 1, 40, 10, 0, 0)
		}},
		{"from its bucket", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.settles(b, "h", 17, 17, 7, 0, false)
			w.settles(b, "h", 17, 17, 7, 0, true)
			w.columns(b.Buckets[0], 1, 33, 0, 17, 0)
			for _, other := range []int64{0, 10, 16, 18} {
				_, _, err := w.confirm(b, "h", other)
				w.refused(err, budget.RequestConflict)
			}
		}},
		{"from other buckets", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 45)
			w.settles(b, "h", 60, 60, 15, 0, false)
			w.settles(b, "h", 60, 60, 15, 0, true)
			w.columns(b.Buckets[0], 1, 0, 0, 60, 0)
			w.columns(b.Buckets[1], 1, 40, 0, 0, 0)
		}},
		{"what is not there is uncollected", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.hold(b.Buckets[1], "other", "", 30, time.Hour)
			w.settles(b, "h", 1000, 70, 60, 930, false)
			w.settles(b, "h", 1000, 70, 60, 930, true)
			w.columns(b.Buckets[1], 1, 0, 30, 0, 0)
			w.Use(b.Buckets[0], "nothing is left", 0)
		}},
		{"nothing is there", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 50)
			w.Use(b.Buckets[1], "u", 50)
			w.settles(b, "h", 51, 50, 0, 1, false)
			w.settles(b, "h", 51, 50, 0, 1, true)
			w.gives(b, "h", "", 0, 50, false)
		}},
		{"units on their way back are there", func(w *world, b fixture.Budget) {
			w.Use(b.Buckets[1], "u", 50)
			w.Offline(b, b.Buckets[1])
			w.gives(b, "u", "", 0, 50, false)
			w.above(b.Buckets[0], "h", 50)
			w.settles(b, "h", 90, 90, 40, 0, false)
		}},
		{"after its epoch has ended", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.OK(w.Renew(b, b.Buckets[0]))
			w.settles(b, "h", 60, 60, 50, 0, false)
			w.columns(b.Buckets[0], 1, 0, 0, 10, 0)
		}},
		{"a rollback gives the extra back first", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.OK(w.Renew(b, b.Buckets[0]))
			w.settles(b, "h", 16, 16, 6, 0, false)
			w.gives(b, "h", "a", 4, 4, false)
			w.columns(b.Buckets[0], 1, 0, 0, 10, 0)
			w.gives(b, "h", "b", 5, 9, false)
			w.gives(b, "h", "b", 5, 9, true)
			w.columns(b.Buckets[0], 1, 0, 0, 7, 3)
			_, _, err := w.give(b, "h", "c", 8)
			w.refused(err, budget.AmountExceedsRemaining)
			w.gives(b, "h", "", 0, 16, false)
			w.gives(b, "h", "", 0, 16, true)
			_, _, err = w.give(b, "h", "", 7)
			w.refused(err, budget.RequestConflict)
		}},
		{"after a part was given back", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.gives(b, "h", "a", 4, 4, false)
			w.settles(b, "h", 9, 9, 3, 0, false)
			if d := w.cancel(b, "h"); d.State != ledger.StateRolledBack || d.RolledBack != 13 {
				w.Errorf("cancelled: %+v", d)
			}
			w.columns(b.Buckets[0], 1, 50, 0, 0, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEveryEngine(t, func(w *world) { c.run(w, w.Create("b", 100, 2)) })
		})
	}
}

// TestConfirmsAboveTogether confirms more than there is, from eight callers at once: all units are
// used, what is used and uncollected is what was asked for, and no other hold has changed.
func TestConfirmsAboveTogether(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const each = 6
		b := w.Create("b", 3000, 3)
		for i := range racers * each {
			w.above(b.Buckets[i%3], fmt.Sprint("h", i), 10)
			w.hold(b.Buckets[(i+1)%3], fmt.Sprint("other", i), "", 10, time.Hour)
		}
		used, uncollected := make([]int64, racers), make([]int64, racers)
		together(racers, func(i int) {
			for j := range each {
				o := hold.Order{Kind: hold.Confirm, Budget: b.ID, RequestID: fmt.Sprint("h", i*each+j), Amount: 75}
				d, err := w.once(o)
				for budget.Is(err, budget.Unavailable) { // it lost its races
					d, err = w.once(o)
				}
				if err != nil {
					w.Errorf("%v", err)
				}
				used[i] += d.Confirmed
				uncollected[i] += d.Uncollected
			}
		})
		w.Check()
		sum, missing := int64(0), int64(0)
		for i := range racers {
			sum, missing = sum+used[i], missing+uncollected[i]
		}
		equal(w, "used", sum, 3000-10*racers*each)
		equal(w, "used and uncollected", sum+missing, 75*racers*each)
		for i := range racers * each {
			d, _, err := w.confirm(b, fmt.Sprint("other", i), 0)
			if err != nil || d.Confirmed != 10 {
				w.Errorf("another hold: %+v, %v", d, err)
			}
		}
	})
}

// TestLostConfirmsAbove loses replies of confirms above the hold, and of last steps, before and after
// its expiry, including that of COMMIT, and repeats each: it is done once, and every repeat has its
// figures.
func TestLostConfirmsAbove(t *testing.T) {
	for name, later := range map[string]time.Duration{"held": 0, "late": time.Hour} {
		for _, kind := range []hold.Kind{hold.Confirm, hold.Renew} {
			t.Run(fmt.Sprint(name, " ", kind), func(t *testing.T) { loseConfirmsAbove(t, kind, later) })
		}
	}
}

func loseConfirmsAbove(t *testing.T, kind hold.Kind, later time.Duration) {
	t.Parallel()
	server := testservers.SharedMariaDB(t)
	dsn := server.NewDatabase(t)
	proxy := testservers.NewProxy(t, server.Addr())
	disturbed := strings.Replace(dsn, server.Addr(), proxy.Addr(), 1)
	fixture.On(t, engine.Config{Driver: "mysql", DSN: dsn}, func(fw *fixture.World) {
		db, err := engine.Open(t.Context(), engine.Config{Driver: "mysql", DSN: disturbed,
			Clock: fw.Clock.Now})
		fw.OK(err)
		defer db.Close()
		w := &world{fw, hold.NewLedger(db)}
		const n, actual = 30, 40
		b := w.Create("b", 900, 3)
		for i := range n {
			w.above(b.Buckets[0], fmt.Sprint("h", i), 10)
		}
		w.Clock.Advance(later)
		used, uncollected, unknown := int64(0), int64(0), 0
		for i := range n {
			o := hold.Order{Kind: kind, Budget: b.ID, RequestID: fmt.Sprint("h", i)}
			if kind == hold.Confirm {
				o.Amount = actual
			} else {
				o.Step, o.Used = 1, actual
			}
			w.OK(proxy.Set(testservers.Rule{Disturbance: testservers.CutReply, OneIn: 8}))
			for range i / 2 % 8 {
				_, err := w.part.OpenHolds(w.Ctx, 1)
				w.OK(err)
			}
			d, err := w.once(o)
			for budget.Is(err, budget.OutcomeUnknown) || budget.Is(err, budget.Unavailable) {
				unknown++
				d, err = w.once(o)
			}
			w.OK(err)
			w.OK(proxy.Set(testservers.Rule{Disturbance: testservers.Pass}))
			if again, err := w.once(o); err != nil || again != d {
				t.Errorf("order %d: %+v, and repeated %+v, %v", i, d, again, err)
			}
			used, uncollected = used+d.Confirmed, uncollected+d.Uncollected
			w.Check()
		}
		t.Logf("%d of %d confirms were repeated", unknown, n)
		equal(w, "used", used, 900)
		equal(w, "used and uncollected", used+uncollected, n*actual)
	})
}
