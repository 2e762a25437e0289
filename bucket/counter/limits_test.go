package counter_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
)

// limited is a budget whose users may call twice a day and take 50 in all.
func limited(total int64) budget.Definition {
	d := promo("sale", total, 4)
	d.RoutingDimension = "user"
	d.Limits = &budget.Limits{List: []budget.Limit{
		{Name: "calls", Dimension: "user", Measure: budget.MeasureCount, Max: 2, Enforce: true,
			Window:    budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Day},
			Overrides: []budget.Override{{Value: "vip", Exempt: true}}},
		{Name: "units", Dimension: "user", Measure: budget.MeasureAmount, Max: 50, Enforce: true,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}},
	}}
	return d
}

// TestLimits checks that limits on the routing dimension are evaluated and counted together with
// the balance, also after a change of the limits.
func TestLimits(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(limited(1000))
		try := func(id, user string, amount int64, counts map[string]int64) (bucket.DeductAnswer, error) {
			return w.node.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(b), RequestID: id,
				Amount: amount, Dimensions: map[string]string{"user": user}, Counts: counts})
		}
		must := func(id, user string, amount int64) bucket.DeductAnswer {
			w.Helper()
			a, err := try(id, user, amount, nil)
			w.ok(err)
			return a
		}
		limit := func(err error, want string) *budget.Error {
			w.Helper()
			e, _ := err.(*budget.Error)
			if !budget.Is(err, budget.LimitExceeded) || e.Limit.Limit != want {
				w.Fatalf("%v, want the limit %s", err, want)
			}
			return e
		}
		a := must("1", "ann", 20)
		if len(a.Limits) != 2 || a.Limits[0].Used != 1 || a.Limits[1].Used != 20 ||
			a.Limits[1].Max != 50 ||
			a.Limits[0].ResetAt.IsZero() || !a.Limits[1].ResetAt.IsZero() {
			w.Errorf("limits: %+v", a.Limits)
		}
		_, err := try("2", "ann", 31, nil)
		if e := limit(err, "units"); e.Limit.Used != 20 {
			w.Errorf("%+v", e.Limit)
		}
		must("3", "ann", 20)
		_, err = try("4", "ann", 5, nil)
		limit(err, "calls")
		_, err = try("5", "ann", 1, map[string]int64{"calls": 0}) // counts no call
		w.ok(err)
		must("6", "bob", 50)
		for _, id := range []string{"7", "8", "9"} {
			must(id, "vip", 10)
		}
		_, err = try("10", "", 1, nil)
		if err == nil {
			w.Error("a deduction without the dimension was accepted")
		}
		v, err := w.node.Rollback(w.Context(), bucket.RollbackRequest{Budget: ref(b), RequestID: "3",
			Key: "ann"})
		w.ok(err)
		if v.RolledBack != 20 {
			w.Errorf("%+v", v)
		}
		must("4", "ann", 5) // the call and the units are free again
		list := limited(1).Limits.List
		list[1].Max = 31 // vip has taken 30
		_, err = w.defs.Change(w.Context(), b.ID, bucket.Change{Limits: &list})
		w.ok(err)
		w.clock.Advance(2 * time.Second) // at most a second old
		_, err = try("12", "vip", 2, nil)
		limit(err, "units")
		must("13", "vip", 1)
	})
}

// TestNextWindow checks that a calendar window begins empty, and that a lifetime goes on counting.
func TestNextWindow(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		d := limited(1000)
		d.Limits.List[0].Window.Every, d.Limits.List[0].Max = budget.Second, 1
		b := w.create(d)
		for i := range 3 {
			r := request(b, name(i), 10)
			r.Dimensions = map[string]string{"user": "ann"}
			a, err := w.node.Deduct(w.Context(), r)
			w.ok(err)
			if a.Limits[0].Used != 1 || a.Limits[1].Used != int64(10*(i+1)) {
				w.Errorf("window %d: %+v", i, a.Limits)
			}
			time.Sleep(time.Until(a.Limits[0].ResetAt))
		}
	})
}

// TestLimitRefusals checks that a refusal lists every exceeded limit, with the amount asked for and
// when it fits, whatever the order of definition. The refusal is final if the amount never fits.
func TestLimitRefusals(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		units := budget.Limit{Dimension: "user", Measure: budget.MeasureAmount, Max: 3, Enforce: true}
		day, life, slide := units, units, units
		day.Name, day.Window = "day", budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Day}
		life.Name, life.Window = "life", budget.LimitWindow{Kind: budget.WindowLifetime}
		life.Max = 9
		slide.Name, slide.Window = "slide", budget.LimitWindow{Kind: budget.WindowSliding,
			Length: 10 * time.Second, Slot: time.Second}
		for i, list := range [][]budget.Limit{{slide}, {day, life}, {life, day}} {
			d := promo(name(i), 1000, 2)
			d.RoutingDimension, d.Limits = "user", &budget.Limits{List: list}
			b := w.create(d)
			try := func(id string, amount int64) *budget.Error {
				_, err := w.node.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(b), RequestID: id,
					Amount: amount, Dimensions: map[string]string{"user": "ann"}})
				e, _ := err.(*budget.Error)
				return e
			}
			if e := try("too much", 10); e == nil || !e.Never || e.RetryAfter != 0 || e.Limit.Asked != 10 {
				w.Fatalf("%d: asks for more than ever: %+v", i, e)
			}
			if e := try("one", 1); e != nil {
				w.Fatal(e)
			}
			if i == 0 {
				time.Sleep(2 * time.Second)
			}
			if e := try("two", 2); e != nil {
				w.Fatal(e)
			}
			one, three := try("one more", 1), try("three more", 3)
			switch {
			case one == nil || three == nil || one.Never || three.Never || one.RetryAfter <= 0:
				w.Errorf("%d: %+v, %+v", i, one, three)
			case i == 0 && three.Limit.ResetAt.Sub(one.Limit.ResetAt) < 2*time.Second:
				w.Errorf("1 fits at %s, 3 at %s", one.Limit.ResetAt, three.Limit.ResetAt)
			case i > 0 && (len(one.Limits) != 1 || one.Limit.Limit != "day" || one.Limits[0].Asked != 1):
				w.Errorf("%d: %+v", i, one.Limits)
			}
			if i == 0 {
				continue
			}
			if all := try("seven", 7); len(all.Limits) != 2 || !all.Never || all.Limit.Limit != "day" {
				w.Errorf("%d: %+v, %+v", i, all, all.Limits)
			}
		}
	})
}

// TestPeriods checks that the end of a period closes its epochs, that their units go where the rule
// says, and that nothing is deducted from the old period.
func TestPeriods(t *testing.T) {
	for _, driver := range []string{"sqlite", "mariadb"} {
		t.Run(driver, func(t *testing.T) {
			w := onRedis(t, driver, 2)
			d := promo("daily", 100, 2)
			d.Type = budget.Daily
			d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 30,
				Unused: budget.Forfeit}
			b := w.create(d)
			a := w.deduct(b, "one", 10)
			if a.PeriodRemaining == nil || *a.PeriodRemaining != 20 || a.BudgetRemaining != 90 {
				t.Errorf("%+v", a)
			}
			if e := w.refused(b, "two", 21, budget.PeriodExhausted); e.RetryAfter <= 0 {
				t.Errorf("%+v", e)
			}
			w.settled(b, books{T: 100, F: 70, O: 20, S: 10})
			w.clock.Advance(24 * time.Hour)
			time.Sleep(time.Second) // the clock of the stores goes on with it
			w.settled(b, books{T: 100, F: 70, O: 20, S: 10})
			w.deduct(b, "three", 15)
			got := w.books(b.ID)
			if got.F != 40 || got.X != 20 || got.U+got.O+got.S != 40 {
				t.Errorf("%+v", got)
			}
			w.deduct(b, "four", 15)
			w.refused(b, "five", 1, budget.PeriodExhausted)
			w.settled(b, books{T: 100, F: 40, S: 40, X: 20})
			w.clock.Advance(24 * time.Hour)
			w.run("store rollover")
			w.settled(b, books{T: 100, F: 10, O: 30, S: 40, X: 20})
			w.deduct(b, "six", 30)
		})
	}
}

// halfDown is a store of whose partition 0 no epoch can be closed.
type halfDown struct{ bucket.Entries }

func (h halfDown) Close(ctx context.Context, m bucket.Memory, refs []bucket.Ref, moving bool) (
	[]bucket.Entry, error) {
	if m.Partition.Index == 0 {
		return nil, budget.Refuse(budget.Unavailable, "close", "it is down")
	}
	return h.Entries.Close(ctx, m, refs, moving)
}

// TestPeriodStoreDown checks that a partition that is down does not keep the budget in its old
// period, and that the units of its epochs go where the rule says once it is back.
func TestPeriodStoreDown(t *testing.T) {
	w := onRedis(t, "sqlite", 2)
	d := promo("daily", 100, 2)
	d.Type = budget.Daily
	d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 30,
		Unused: budget.Forfeit}
	b := w.create(d)
	up := w.stores["m"].Entries
	w.stores["m"].Entries = halfDown{up}
	w.clock.Advance(24*time.Hour + time.Second)
	w.run("store rollover")
	if got, want := w.books(b.ID), (books{T: 100, F: 40, O: 45, X: 15}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	w.deduct(b, idsOn(w, w.read(b.ID), 1, 1)[0], 30)
	w.stores["m"].Entries = up
	w.settled(b, books{T: 100, F: 40, S: 30, X: 30})
}

// TestRefill checks that a bucket applies for at most sharding_quantity at a time, and gets what it
// needs.
func TestRefill(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	d := promo("free", 1000, 2)
	d.Type = budget.Daily
	d.Rule = &budget.Rule{Kind: budget.Free}
	d.ShardingQuantity = 50
	b := w.create(d)
	for i := range 10 {
		w.deduct(b, name(i), 60)
	}
	w.deduct(b, "rest", 400)
	w.refused(b, "more", 1, budget.BudgetExhausted)
	w.settled(b, books{T: 1000, S: 1000})
}

// TestApplicationsUsedUp checks that units that were never applied for are refused if adjust_cnt
// allows no bucket another application. Units that other buckets hold, or may still apply for,
// reach the bucket that needs them.
func TestApplicationsUsedUp(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		for i, test := range []struct{ buckets, applications, want int }{
			{1, 1, 10}, {1, 2, 20}, {2, 1, 10}, {2, 2, 30},
		} {
			d := promo(name(i), 100, test.buckets)
			d.AdjustCnt, d.ShardingQuantity, d.Type = test.applications, 10, budget.Daily
			d.Rule = &budget.Rule{Kind: budget.Free}
			b := w.create(d)
			taken := int64(0)
			var last error
			for i := range 100 {
				a, err := w.node.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(b), RequestID: name(i),
					Amount: 1, Key: "one bucket"})
				if last = err; err != nil {
					break
				}
				taken += a.Amount
			}
			e, _ := last.(*budget.Error)
			if e == nil || e.Code != budget.BudgetExhausted || taken != int64(test.want) || e.Available == nil || *e.Available != 0 {
				w.Errorf("%+v: %d taken: %v", test, taken, last)
			}
			w.settled(b, books{T: 100, U: 100 - taken, S: taken})
		}
	})
}

// TestCollectsAreCounted checks that units of other buckets come by collects, which adjust_cnt does
// not bound and out_cnt does not count. Without a bound a refill may apply for what is left.
func TestCollectsAreCounted(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		for i, applications := range []int{0, 2} {
			d := promo(name(i), 12, 2)
			d.AdjustCnt = applications
			b := w.create(d)
			for i := range 12 {
				_, err := w.node.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(b), RequestID: name(i),
					Amount: 1, Key: "one bucket"})
				w.ok(err)
			}
			applied, collected := 0, 0
			for _, one := range w.read(b.ID).Buckets {
				applied, collected = applied+one.OutCnt, collected+one.CollectCnt
			}
			if collected == 0 || applications > 0 && applied != 2 {
				w.Errorf("adjust_cnt %d: %d applications, %d collects; want one application of each bucket",
					applications, applied, collected)
			}
		}
	})
}

// TestReplayHasNoOlderFigures checks that the figures of a repeated answer are from after its
// deduction, or omitted.
func TestReplayHasNoOlderFigures(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		b := w.create(promo("replay", 100, 1))
		for range 2 {
			a, err := w.node.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(b), RequestID: "a", Amount: 5})
			w.ok(err)
			if !a.RemainingUnknown && a.BucketRemaining > 95 || !a.FiguresUnknown && a.BudgetRemaining > 95 {
				w.Errorf("after 5 of 100: %+v", a)
			}
		}
	})
}

// TestOverridesOfTwoNodes checks that an override that one node changes holds on another within a
// second, that counts stay, and that a new node judges nobody by the limit's own maximum first.
func TestOverridesOfTwoNodes(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(limited(1000))
		other, _ := w.newNode(func(*counter.Config) {})
		user, n := "ann", 0
		try := func(node *node, amount int64, want budget.Code) {
			w.Helper()
			n++
			w.codes(node, b, fmt.Sprint("r", n), user, amount, want)
		}
		override := func(set []budget.Override, remove ...string) {
			w.Helper()
			_, err := w.defs.Override(w.Context(), b.ID, bucket.OverrideRequest{Limit: "calls", Set: set, Remove: remove})
			w.ok(err)
			w.ok(w.node.Push(w.Context(), b.ID))
			time.Sleep(time.Second) // the clock of the stores goes on with it
		}
		try(w.node, 5, "")
		try(other, 5, "")
		try(other, 5, budget.LimitExceeded)
		override([]budget.Override{{Value: "ann", Max: 3}})
		try(other, 5, "")
		try(other, 5, budget.LimitExceeded)
		override([]budget.Override{{Value: "ann", Exempt: true}})
		try(other, 5, "")
		override(nil, "ann")
		try(other, 5, budget.LimitExceeded)
		user = "vip"
		third, _ := w.newNode(func(*counter.Config) {})
		for range 4 {
			try(third, 5, "")
		}
		a, err := third.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(b), RequestID: "state", Amount: 1,
			Dimensions: map[string]string{"user": user}})
		w.ok(err)
		if s := a.Limits[0]; s.Used != 5 || !s.Exempt || s.Max != 0 {
			w.Errorf("%+v", s)
		}
	})
}
