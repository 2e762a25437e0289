package hold_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/ledger"
)

// renewal is a step that holds for an hour.
func renewal(b fixture.Budget, id string, step, used, rest int64) hold.Order {
	return hold.Order{Kind: hold.Renew, Budget: b.ID, RequestID: id, Step: step, Used: used, Hold: rest,
		TTL: time.Hour}
}

// renews makes a step, and compares what was used in all, what is held, and what was uncollected.
// The same again changes nothing.
func (w *world) renews(o hold.Order, used, held, uncollected int64, isFinal bool) ledger.Deduction {
	w.Helper()
	d, replayed, err := w.execute(o)
	if err != nil || replayed || d.StepUsed != used || d.StepHeld != held || d.Uncollected != uncollected ||
		d.IsFinal != isFinal || d.Confirmed != used || d.Held() != held {
		w.Fatalf("%+v: %+v, replayed %v, %v; want %d used, %d held", o, d, replayed, err, used, held)
	}
	w.recorded(d)
	w.Check()
	open, err := w.part.HoldsOf(w.Ctx, d.Budget, 1000)
	if err != nil {
		w.Fatal(err)
	}
	for _, h := range open {
		if h.RequestID == d.RequestID && h.Amount != held {
			w.Errorf("%+v: the list of open holds has %d, want %d", o, h.Amount, held)
		}
	}
	if again, replayed, err := w.execute(o); err != nil || !replayed || again != d {
		w.Fatalf("%+v again: %+v, replayed %v, %v; want %+v", o, again, replayed, err, d)
	}
	return d
}

// TestRenew makes steps of streams.
func TestRenew(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(w *world, b fixture.Budget)
	}{
		{"uses and holds more", func(w *world, b fixture.Budget) {
			w.renews(renewal(b, "h", 1, 8, 20), 8, 20, 0, false)
			w.columns(b.Buckets[0], 1, 22, 20, 8, 0)
			d := w.renews(renewal(b, "h", 2, 20, 5), 28, 5, 0, false)
			if until := w.DB.Now().Add(time.Hour); !d.HoldUntil.Equal(until) {
				w.Errorf("held until %v, want %v", d.HoldUntil, until)
			}
			w.fed(b.Buckets[0], "deduct 10, extra 18, renew 8, extra 5, renew 20")
			w.ends(b, "h", 4, 32, 23, 0, false)
			w.columns(b.Buckets[0], 1, 18, 0, 32, 0)
		}},
		{"gives back", func(w *world, b fixture.Budget) {
			w.renews(renewal(b, "h", 1, 4, 20), 4, 20, 0, false)
			w.renews(renewal(b, "h", 2, 1, 3), 5, 3, 0, false)
			w.columns(b.Buckets[0], 1, 42, 3, 5, 0)
			w.fed(b.Buckets[0], "deduct 10, extra 14, renew 4, release 14, release 2, renew 1")
			w.renews(renewal(b, "h", 3, 2, 0), 7, 0, 0, false)
			w.columns(b.Buckets[0], 1, 43, 0, 7, 0)
			_, _, err := w.execute(renewal(b, "h", 4, 1, 1))
			w.refused(err, budget.NotHeld)
			w.gives(b, "h", "", 0, 24, false)
			w.columns(b.Buckets[0], 1, 50, 0, 0, 0)
		}},
		{"uses nothing and ends", func(w *world, b fixture.Budget) {
			if d := w.renews(renewal(b, "h", 1, 0, 0), 0, 0, 0, false); d.State != ledger.StateRolledBack {
				w.Errorf("%+v", d)
			}
		}},
		{"used above what was held", func(w *world, b fixture.Budget) {
			w.renews(renewal(b, "h", 1, 15, 10), 15, 10, 0, false)
			w.columns(b.Buckets[0], 1, 25, 10, 15, 0)
		}},
		{"not by default", func(w *world, b fixture.Budget) {
			w.hold(b.Buckets[1], "r", "", 5, time.Hour)
			_, _, err := w.execute(renewal(b, "r", 1, 6, 5))
			if e := w.refused(err, budget.AmountExceedsRemaining); *e.Available != 5 {
				w.Errorf("available %d", *e.Available)
			}
			w.renews(renewal(b, "r", 1, 5, 6), 5, 6, 0, false)
			w.Clock.Advance(time.Hour)
			_, _, err = w.execute(renewal(b, "r", 2, 1, 1))
			w.refused(err, budget.HoldExpired)
		}},
		{"of other buckets, and less than asked", func(w *world, b fixture.Budget) {
			w.renews(renewal(b, "h", 1, 10, 85), 10, 85, 0, false)
			w.renews(renewal(b, "h", 2, 85, 10), 95, 5, 0, true)
			w.renews(renewal(b, "h", 3, 9, 10), 100, 0, 4, true)
			w.gives(b, "h", "", 0, 100, false)
		}},
		{"a confirm after the last step", func(w *world, b fixture.Budget) {
			w.renews(renewal(b, "h", 1, 0, 100), 0, 100, 0, false)
			w.renews(renewal(b, "h", 2, 100, 10), 100, 0, 0, true)
			w.ends(b, "h", 3, 100, 90, 3, false)
			w.ends(b, "h", 3, 100, 90, 3, true)
		}},
		{"another body, a gap", func(w *world, b fixture.Budget) {
			w.renews(renewal(b, "h", 1, 1, 5), 1, 5, 0, false)
			_, _, err := w.execute(renewal(b, "h", 1, 2, 5))
			w.refused(err, budget.RequestConflict)
			for _, step := range []int64{3, 9} {
				_, _, err = w.execute(renewal(b, "h", step, 1, 5))
				w.refused(err, budget.StepConflict)
			}
			w.renews(renewal(b, "h", 2, 1, 5), 2, 5, 0, false)
			_, _, err = w.execute(renewal(b, "h", 1, 1, 5))
			w.refused(err, budget.StepConflict)
		}},
		{"after its expiry", func(w *world, b fixture.Budget) {
			w.renews(renewal(b, "h", 1, 4, 20), 4, 20, 0, false)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			w.columns(b.Buckets[0], 1, 46, 0, 4, 0)
			w.renews(renewal(b, "h", 2, 7, 3), 11, 3, 0, false)
			w.columns(b.Buckets[0], 1, 36, 3, 11, 0)
			w.Clock.Advance(time.Hour) // not swept
			w.renews(renewal(b, "h", 3, 1, 2), 12, 2, 0, false)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			w.ends(b, "h", 5, 17, 32, 0, false)
		}},
		{"after an expiry that counted as used", func(w *world, b fixture.Budget) {
			w.Exec([]any{"UPDATE hold SET expires_as = 'used'"})
			w.renews(renewal(b, "h", 1, 4, 20), 4, 20, 0, false)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			w.columns(b.Buckets[0], 1, 26, 0, 24, 0)
			w.renews(renewal(b, "h", 2, 5, 6), 9, 6, 0, false)
			w.columns(b.Buckets[0], 1, 35, 6, 9, 0)
		}},
		{"not after a rollback", func(w *world, b fixture.Budget) {
			w.renews(renewal(b, "h", 1, 4, 20), 4, 20, 0, false)
			w.gives(b, "h", "part", 22, 22, false)
			w.columns(b.Buckets[0], 1, 48, 0, 2, 0)
			_, _, err := w.execute(renewal(b, "h", 2, 1, 1))
			w.refused(err, budget.NotHeld)
			w.gives(b, "h", "", 0, 24, false)
			_, _, err = w.execute(renewal(b, "h", 2, 1, 1))
			w.refused(err, budget.AlreadyRolledBack)
		}},
		{"a paused budget gives no more", func(w *world, b fixture.Budget) {
			w.Exec([]any{"UPDATE budget_management_bucket SET is_paused = 1"})
			w.renews(renewal(b, "h", 1, 4, 20), 4, 6, 0, true)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEveryEngine(t, func(w *world) {
				b := w.Create("b", 100, 2)
				w.above(b.Buckets[0], "h", 10)
				c.run(w, b)
			})
		})
	}
}

// stream is a hold in the reference of TestStreams.
type stream struct {
	id               string
	step, used, held int64
	uncollected      int64
	isOver           bool
}

var steps = flag.Int("hold.steps", 1000, "how many steps TestStreams makes")

// TestStreams makes the steps of streams, of which a twentieth are sent again and a hundredth are
// the last thing that is heard of their stream. A reference knows one number, what is free.
func TestStreams(t *testing.T) {
	const streams, first = 100, 10
	onEveryEngine(t, func(w *world) {
		seed := rand.Uint64()
		w.Logf("seed %d", seed)
		draw := rand.New(rand.NewPCG(seed, 0))
		total := int64(*steps) * 9 // a step uses 9.5 units on average: the last ones find nothing
		b := w.Create("b", total, 4)
		free, list := total, []*stream{}
		begin := func() *stream {
			s := &stream{id: fmt.Sprint("s", len(list)), held: first}
			s.isOver = w.TryDeduct(fixture.Deduction{Bucket: b.Buckets[len(list)%4], ID: s.id, Amount: first,
				Hold: time.Hour, Above: ledger.AboveAvailable}) != nil
			if s.isOver { // its bucket lacks the units
				s.held = 0
			}
			free -= s.held
			list = append(list, s)
			return s
		}
		live := make([]*stream, streams)
		for i := range live {
			live[i] = begin()
		}
		finals := 0
		for range *steps {
			i := draw.IntN(streams)
			s := live[i]
			if s.isOver {
				continue
			}
			s.step++
			o := renewal(b, s.id, s.step, draw.Int64N(20), 1+draw.Int64N(15))
			used := min(o.Used, free+s.held)
			free += s.held - used
			s.held, s.used = min(o.Hold, free), s.used+used
			s.uncollected += o.Used - used
			free -= s.held
			d, replayed, err := w.execute(o)
			if err != nil || replayed || d.StepUsed != s.used || d.StepHeld != s.held ||
				d.Uncollected != s.uncollected || d.IsFinal != (s.held < o.Hold) {
				w.Fatalf("%+v: %+v, replayed %v, %v; want %+v", o, d, replayed, err, *s)
			}
			if draw.IntN(20) == 0 {
				if again, replayed, err := w.execute(o); err != nil || !replayed || again != d {
					w.Fatalf("%+v again: %+v, %v, %v", o, again, replayed, err)
				}
			}
			if d.IsFinal {
				finals++
			}
			if draw.IntN(100) == 0 {
				live[i] = begin()
			}
		}
		w.Check()
		w.Clock.Advance(time.Hour)
		w.expire(len(list))
		used, row := int64(0), int64(0)
		for _, s := range list {
			used += s.used
		}
		for _, id := range b.Buckets {
			e := w.Newest(id)
			row += e.Used
			equal(w, "held", e.Held, 0)
		}
		equal(w, "used", row, used)
		w.Logf("%d used, %d final", used, finals)
		w.Check()
	})
}
