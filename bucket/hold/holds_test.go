package hold_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

func TestConfirmOfTheWhole(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		id := b.Buckets[0]
		w.hold(id, "order", "", 30, time.Minute)
		w.columns(id, 1, 70, 30, 0, 0)
		w.Clock.Advance(time.Minute - time.Millisecond)
		d, replayed, err := w.confirm(b, "order", 0)
		w.OK(err)
		if d.State != ledger.StateUsed || d.Confirmed != 30 || replayed {
			t.Errorf("%+v, replayed %v", d, replayed)
		}
		w.recorded(d)
		w.columns(id, 1, 70, 0, 30, 0)
		w.Clock.Advance(time.Hour)
		w.unchanged(id, "a repeated confirm", func() {
			for _, amount := range []int64{0, 30} {
				again, replayed, err := w.confirm(b, "order", amount)
				w.OK(err)
				equal(w, "again", again, d)
				equal(w, "replayed", replayed, true)
			}
			_, _, err := w.confirm(b, "order", 29)
			w.refused(err, budget.RequestConflict)
			equal(w, "expired", w.expire(10), hold.Expired{})
		})
		w.gives(b, "order", "", 12, 12, false) // a confirmed one is used: it can be rolled back
		w.columns(id, 1, 82, 0, 18, 0)
		w.gives(b, "order", "rest", 0, 30, false)
		w.columns(id, 1, 100, 0, 0, 0)
	})
}

func TestConfirmOfAPart(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		id := b.Buckets[0]
		w.hold(id, "order", "", 30, time.Minute)
		w.gives(b, "order", "r", 5, 5, false)
		w.columns(id, 1, 75, 25, 0, 0)
		w.unchanged(id, "a confirm of too much", func() {
			_, _, err := w.confirm(b, "order", 26)
			if e := w.refused(err, budget.AmountExceedsRemaining); e.Available == nil || *e.Available != 25 {
				t.Errorf("available %v", e.Available)
			}
		})
		d, _, err := w.confirm(b, "order", 10)
		w.OK(err)
		w.recorded(d)
		if d.State != ledger.StateUsed || d.Confirmed != 10 || d.RolledBack != 20 {
			t.Errorf("%+v", d)
		}
		w.columns(id, 1, 90, 0, 10, 0)
		w.unchanged(id, "a repeated part", func() {
			_, replayed, err := w.confirm(b, "order", 10)
			w.OK(err)
			equal(w, "replayed", replayed, true)
			for _, amount := range []int64{0, 11, 25} {
				_, _, err := w.confirm(b, "order", amount)
				w.refused(err, budget.RequestConflict)
			}
		})
	})
}

func TestHoldsExpire(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 2)
		w.hold(b.Buckets[0], "first", "", 10, time.Minute)
		w.hold(b.Buckets[1], "second", "", 5, time.Minute)
		w.hold(b.Buckets[1], "later", "", 3, time.Hour)
		w.gives(b, "second", "part", 2, 2, false)
		w.Clock.Advance(time.Minute - time.Millisecond)
		equal(w, "expired", w.expire(10), hold.Expired{})
		n, err := w.part.OpenHolds(w.Ctx, 2)
		w.OK(err)
		equal(w, "open holds, up to 2", n, 2)
		w.Clock.Advance(time.Millisecond)
		_, _, err = w.confirm(b, "first", 0)
		w.refused(err, budget.HoldExpired)
		equal(w, "expired", w.expire(1), hold.Expired{Found: 1, Holds: 1, Units: 10})
		equal(w, "expired", w.expire(10), hold.Expired{Found: 1, Holds: 1, Units: 3})
		equal(w, "expired", w.expire(10), hold.Expired{})
		w.columns(b.Buckets[0], 1, 50, 0, 0, 0)
		w.columns(b.Buckets[1], 1, 47, 3, 0, 0)
		for _, id := range []string{"first", "second"} {
			_, _, err = w.confirm(b, id, 0)
			w.refused(err, budget.HoldExpired)
			_, _, err = w.give(b, id, "", 0)
			w.refused(err, budget.AlreadyRolledBack)
			equal(w, "cancelled", w.cancel(b, id).State, ledger.StateExpired)
		}
	})
}

// TestExpiryByAWrongClock checks that a node whose clock is ahead of the server's ends nothing.
func TestExpiryByAWrongClock(t *testing.T) {
	t.Parallel()
	config := engine.Config{Driver: "mysql", DSN: testservers.SharedMariaDB(t).NewDatabase(t),
		ClockTolerance: time.Minute}
	fixture.On(t, config, func(fw *fixture.World) {
		w := &world{fw, hold.NewLedger(fw.DB)}
		b := w.Create("b", 100, 1)
		w.hold(b.Buckets[0], "order", "", 10, time.Hour)
		w.Clock.Advance(2 * time.Hour)
		_, err := w.part.ExpireHolds(w.Ctx, 1, 0)
		if budget.CodeOf(err) != budget.Unavailable {
			t.Errorf("%v", err)
		}
		w.columns(b.Buckets[0], 1, 90, 10, 0, 0)
	})
}

func TestManyHoldsExpireInSteps(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const n = 45
		b := w.Create("b", 900, 3)
		for i := range n {
			w.hold(b.Buckets[i%3], fmt.Sprint("order-", i), "", int64(1+i%4), time.Duration(i+1)*time.Millisecond)
		}
		w.Clock.Advance(time.Second)
		units := int64(0)
		for _, want := range []int{20, 20, 5, 0} {
			got := w.expire(20)
			equal(w, "holds", got.Holds, want)
			units += got.Units
		}
		equal(w, "units", units, 11*(1+2+3+4)+1)
		w.columns(b.Buckets[0], 1, 300, 0, 0, 0)
	})
}

func TestExtend(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		w.hold(b.Buckets[0], "order", "", 30, time.Minute)
		extend := func(ttl time.Duration) (ledger.Deduction, error) {
			d, _, err := w.execute(hold.Order{Kind: hold.Extend, Budget: b.ID, RequestID: "order", TTL: ttl})
			return d, err
		}
		for _, ttl := range []time.Duration{time.Hour, time.Hour, time.Second} {
			d, err := extend(ttl)
			w.OK(err)
			equal(w, "until", d.HoldUntil, w.DB.Now().Add(ttl))
			w.recorded(d)
		}
		w.Clock.Advance(time.Second)
		_, err := extend(time.Minute)
		w.refused(err, budget.HoldExpired)
		equal(w, "expired", w.expire(1).Holds, 1)
		_, err = extend(time.Minute)
		w.refused(err, budget.HoldExpired)
		w.hold(b.Buckets[0], "other", "", 3, time.Minute)
		_, _, err = w.confirm(b, "other", 0)
		w.OK(err)
		_, _, err = w.execute(hold.Order{Kind: hold.Extend, Budget: b.ID, RequestID: "other", TTL: time.Hour})
		w.refused(err, budget.NotHeld)
	})
}

func TestWhatIsNoHold(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		id := b.Buckets[0]
		w.Use(id, "used", 30)
		w.hold(id, "back", "", 5, time.Minute)
		w.gives(b, "back", "", 0, 5, false)
		w.cancel(b, "void")
		w.unchanged(id, "what is no hold", func() {
			for _, test := range []struct {
				budget int64
				id     string
				code   budget.Code
			}{
				{b.ID, "used", budget.NotHeld}, {b.ID, "back", budget.NotHeld}, {b.ID, "void", budget.RequestVoid},
				{b.ID, "absent", budget.DeductionNotFound}, {b.ID + 70, "used", budget.BudgetNotFound},
			} {
				for _, kind := range []hold.Kind{hold.Confirm, hold.Extend} {
					_, _, err := w.execute(hold.Order{Kind: kind, Budget: test.budget, RequestID: test.id,
						TTL: time.Hour})
					w.refused(err, test.code)
				}
			}
			for _, kind := range []hold.Kind{hold.Confirm, hold.Extend, hold.Rollback} {
				_, err := w.part.ExecuteGroup(w.Ctx, hold.GroupOrder{Kind: kind, Budget: b.ID, Group: "g"})
				w.refused(err, budget.DeductionNotFound)
				_, err = w.part.ExecuteGroup(w.Ctx, hold.GroupOrder{Kind: kind, Budget: b.ID + 70, Group: "g"})
				w.refused(err, budget.BudgetNotFound)
			}
		})
	})
}

// TestHoldsOfAnEndedEpoch checks that holds end on their own epoch's row, while the newest one
// numbers the entries.
func TestHoldsOfAnEndedEpoch(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		id := b.Buckets[0]
		for i, name := range []string{"confirmed", "expired", "part"} {
			w.hold(id, name, "", int64(i+5), time.Minute)
		}
		w.Offline(b, id)
		w.Online(b, id, 20)
		for name, amount := range map[string]int64{"confirmed": 0, "part": 2} {
			_, _, err := w.confirm(b, name, amount)
			w.OK(err)
		}
		w.Clock.Advance(time.Minute)
		equal(w, "expired", w.expire(5).Units, 6)
		w.columns(id, 1, 0, 0, 7, 11)
		w.columns(id, 2, 20, 0, 0, 0)
		equal(w, "next entry", w.Newest(id).NextEntry, 7)
	})
}

// group executes an order on the group g, and lists its members as texts.
func (w *world) group(kind hold.Kind, b fixture.Budget) ([]string, error) {
	w.Helper()
	got, err := w.part.ExecuteGroup(w.Ctx, hold.GroupOrder{Kind: kind, Budget: b.ID, Group: "g",
		TTL: time.Hour})
	var out []string
	for _, s := range got {
		w.recorded(s.Deduction)
		out = append(out, fmt.Sprint(s.Deduction.RequestID, " ", s.Deduction.State, " ",
			s.Deduction.Confirmed, " ", s.Replayed))
	}
	return out, err
}

func (w *world) wantGroup(kind hold.Kind, b fixture.Budget, want ...string) {
	w.Helper()
	got, err := w.group(kind, b)
	w.OK(err)
	if !slices.Equal(got, want) {
		w.Errorf("%q, want %q", got, want)
	}
}

func TestConfirmOfAGroup(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 2)
		first, second := b.Buckets[0], b.Buckets[1]
		w.hold(first, "b", "g", 5, time.Minute)
		w.hold(second, "a", "g", 7, time.Minute)
		w.hold(second, "c", "g", 3, time.Minute)
		w.hold(second, "other", "G", 2, time.Minute)
		w.wantGroup(hold.Extend, b, "a held 0 false", "b held 0 false", "c held 0 false")
		w.gives(b, "c", "", 0, 3, false)
		w.Clock.Advance(time.Minute)
		w.wantGroup(hold.Confirm, b, "a used 7 false", "b used 5 false", "c rolled_back 0 false")
		w.columns(first, 1, 45, 0, 5, 0)
		w.columns(second, 1, 41, 2, 7, 0)
		w.wantGroup(hold.Confirm, b, "a used 7 true", "b used 5 true", "c rolled_back 0 true")
		err := w.TryDeduct(fixture.Deduction{Bucket: first, ID: "late", Amount: 4, Hold: time.Minute, Group: "g"})
		if err == nil {
			t.Error("a late member was held")
		}
		w.wantGroup(hold.Rollback, b, "a rolled_back 7 false", "b rolled_back 5 false", "c rolled_back 0 false")
		w.columns(first, 1, 50, 0, 0, 0)
	})
}

func TestGroupOfWhichOneExpired(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 2)
		w.hold(b.Buckets[0], "a", "g", 5, time.Minute)
		w.hold(b.Buckets[1], "b", "g", 7, time.Second)
		for _, swept := range []bool{false, true} {
			w.Clock.Advance(time.Second)
			if swept {
				equal(w, "expired", w.expire(5).Holds, 1)
			}
			w.unchanged(b.Buckets[0], "a group of which one has expired", func() {
				for _, kind := range []hold.Kind{hold.Confirm, hold.Extend} {
					_, err := w.group(kind, b)
					w.refused(err, budget.HoldExpired)
				}
			})
		}
		w.hold(b.Buckets[0], "c", "g", 1, time.Minute) // nothing has closed it
		w.columns(b.Buckets[0], 1, 44, 6, 0, 0)
		w.wantGroup(hold.Rollback, b, "a rolled_back 0 false", "b expired 0 false", "c rolled_back 0 false")
		w.columns(b.Buckets[0], 1, 50, 0, 0, 0)
	})
}

func TestRollbackOfAGroup(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 2)
		w.hold(b.Buckets[0], "a", "g", 5, time.Minute)
		w.hold(b.Buckets[1], "b", "g", 7, time.Minute)
		_, _, err := w.confirm(b, "a", 2)
		w.OK(err)
		w.wantGroup(hold.Rollback, b, "a rolled_back 2 false", "b rolled_back 0 false")
		w.columns(b.Buckets[0], 1, 50, 0, 0, 0)
		w.columns(b.Buckets[1], 1, 50, 0, 0, 0)
		w.unchanged(b.Buckets[0], "a repeated rollback", func() {
			w.wantGroup(hold.Rollback, b, "a rolled_back 2 true", "b rolled_back 0 true")
			_, err := w.group(hold.Confirm, b)
			w.refused(err, budget.NotHeld)
		})
	})
}
