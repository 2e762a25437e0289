package hold_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// TestConfirmLate confirms holds after their expiry.
func TestConfirmLate(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(w *world, b fixture.Budget)
	}{
		{"refused by default", func(w *world, b fixture.Budget) {
			w.hold(b.Buckets[0], "h", "", 10, time.Hour)
			w.Clock.Advance(time.Hour)
			_, _, err := w.confirm(b, "h", 10)
			w.refused(err, budget.HoldExpired)
			w.columns(b.Buckets[0], 1, 40, 10, 0, 0)
		}},
		{"its units are still held", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.Clock.Advance(time.Hour)
			w.settles(b, "h", 17, 17, 17, 0, false)
			w.settles(b, "h", 17, 17, 17, 0, true)
			w.columns(b.Buckets[0], 1, 33, 0, 17, 0)
			_, _, err := w.confirm(b, "h", 10)
			w.refused(err, budget.RequestConflict)
		}},
		{"its units were given back", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.gives(b, "h", "part", 4, 4, false)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			for _, amount := range []int64{0, 6, 0} { // what was held when it expired
				d, _, err := w.confirm(b, "h", amount)
				if err != nil || !d.Late || d.State != ledger.StateUsed || d.Extra != 6 || d.Left() != 6 {
					w.Fatalf("confirm of %d: %+v, %v", amount, d, err)
				}
			}
			w.columns(b.Buckets[0], 1, 44, 0, 6, 0)
		}},
		{"less than was held", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.Clock.Advance(time.Hour)
			w.settles(b, "h", 3, 3, 3, 0, false)
			w.columns(b.Buckets[0], 1, 47, 0, 3, 0)
			_, _, err := w.confirm(b, "h", 0)
			w.refused(err, budget.RequestConflict)
		}},
		{"others have taken a part", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			w.Use(b.Buckets[0], "u", 48)
			w.hold(b.Buckets[1], "other", "", 47, time.Hour)
			w.settles(b, "h", 12, 5, 5, 7, false)
			w.settles(b, "h", 12, 5, 5, 7, true)
			w.gives(b, "h", "", 0, 15, false)
		}},
		{"others have taken all", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			w.Use(b.Buckets[0], "u", 50)
			w.hold(b.Buckets[1], "other", "", 50, time.Hour)
			w.settles(b, "h", 12, 0, 0, 12, false)
			w.settles(b, "h", 12, 0, 0, 12, true)
			if d, _, err := w.confirm(b, "h", 12); err != nil || !d.Late || d.State != ledger.StateExpired {
				w.Errorf("%+v, %v", d, err)
			}
			_, _, err := w.give(b, "h", "", 0)
			w.refused(err, budget.AlreadyRolledBack)
			w.columns(b.Buckets[1], 1, 0, 50, 0, 0)
		}},
		{"of other buckets, its epoch has ended", func(w *world, b fixture.Budget) {
			w.above(b.Buckets[0], "h", 10)
			w.OK(w.Renew(b, b.Buckets[0]))
			w.Clock.Advance(time.Hour)
			w.settles(b, "h", 95, 95, 95, 0, false)
			w.gives(b, "h", "part", 20, 30, false)
			w.cancel(b, "h")
		}},
		{"not after a rollback", func(w *world, b fixture.Budget) {
			for i, id := range []string{"before", "after"} {
				w.above(b.Buckets[0], id, 10)
				w.Clock.Advance(time.Duration(i) * time.Hour)
				w.gives(b, id, "", 0, 10, false)
				w.Clock.Advance(time.Hour)
				_, _, err := w.confirm(b, id, 10)
				w.refused(err, budget.AlreadyRolledBack)
			}
			w.above(b.Buckets[0], "cancelled", 10)
			w.cancel(b, "cancelled")
			_, _, err := w.confirm(b, "cancelled", 10)
			w.refused(err, budget.AlreadyRolledBack)
			w.above(b.Buckets[0], "expired", 10)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			if d := w.cancel(b, "expired"); d.State != ledger.StateRolledBack || d.RolledBack != 10 {
				w.Errorf("cancelled: %+v", d)
			}
			_, _, err = w.confirm(b, "expired", 10)
			w.refused(err, budget.AlreadyRolledBack)
			w.columns(b.Buckets[0], 1, 50, 0, 0, 0)
		}},
		{"one of a group", func(w *world, b fixture.Budget) {
			w.Deduct(fixture.Deduction{Bucket: b.Buckets[0], ID: "h", Amount: 10, Hold: time.Second, Group: "g",
				Above: ledger.AboveAvailable})
			w.hold(b.Buckets[0], "other", "g", 5, time.Hour)
			w.Clock.Advance(time.Second)
			_, err := w.group(hold.Confirm, b)
			w.refused(err, budget.HoldExpired)
			w.settles(b, "h", 10, 10, 10, 0, false)
			_, err = w.group(hold.Confirm, b)
			w.OK(err)
			w.columns(b.Buckets[0], 1, 35, 0, 15, 0)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEveryEngine(t, func(w *world) { c.run(w, w.Create("b", 100, 2)) })
		})
	}
}

// TestExpiresAsUsed lets holds expire whose expiry confirms them, and corrects that.
func TestExpiresAsUsed(t *testing.T) {
	const id = "h"
	for _, c := range []struct {
		name string
		run  func(w *world, b fixture.Budget)
	}{
		{"used", func(w *world, b fixture.Budget) {
			if got := w.expire(5); got != (hold.Expired{Found: 1, Holds: 1}) {
				w.Errorf("expired %+v", got)
			}
			w.columns(b.Buckets[0], 1, 40, 0, 10, 0)
			equal(w, "holds that are found again", w.expire(5).Found, 0)
			w.fed(b.Buckets[0], "deduct 10, confirm 10")
		}},
		{"less, before it was swept", func(w *world, b fixture.Budget) {
			w.settles(b, id, 7, 7, 0, 0, false)
			w.settles(b, id, 7, 7, 0, 0, true)
			w.columns(b.Buckets[0], 1, 43, 0, 7, 0)
			w.fed(b.Buckets[0], "deduct 10, confirm 10, confirm 7")
		}},
		{"less", func(w *world, b fixture.Budget) {
			w.expire(5)
			w.settles(b, id, 7, 7, 0, 0, false)
			w.settles(b, id, 7, 7, 0, 0, true)
			w.columns(b.Buckets[0], 1, 43, 0, 7, 0)
			for _, other := range []int64{0, 6, 8} {
				_, _, err := w.confirm(b, id, other)
				w.refused(err, budget.RequestConflict)
			}
		}},
		{"all", func(w *world, b fixture.Budget) {
			w.expire(5)
			for _, amount := range []int64{0, 10} {
				d, again, err := w.confirm(b, id, amount)
				if err != nil || !d.Late || again != (amount > 0) || d.Confirmed != 10 || d.Left() != 10 {
					w.Fatalf("confirm of %d: %+v, %v", amount, d, err)
				}
			}
			w.columns(b.Buckets[0], 1, 40, 0, 10, 0)
		}},
		{"more is refused by default", func(w *world, b fixture.Budget) {
			_, _, err := w.confirm(b, id, 11)
			w.refused(err, budget.AmountExceedsRemaining)
			w.expire(5)
			_, _, err = w.confirm(b, id, 11)
			w.refused(err, budget.AmountExceedsRemaining)
			w.columns(b.Buckets[0], 1, 40, 0, 10, 0)
		}},
		{"more, of other buckets", func(w *world, b fixture.Budget) {
			w.Exec([]any{"UPDATE hold SET above = 'available'"})
			w.expire(5)
			w.settles(b, id, 95, 95, 85, 0, false)
			w.settles(b, id, 95, 95, 85, 0, true)
			w.gives(b, id, "", 0, 95, false)
		}},
		{"an extension sets it", func(w *world, b fixture.Budget) {
			w.hold(b.Buckets[1], "e", "", 5, 2*time.Hour)
			w.hold(b.Buckets[1], "g", "g", 5, 2*time.Hour)
			w.extended(b, "e", ledger.ExpiresUsed)
			w.extended(b, "e", "")
			_, err := w.part.ExecuteGroup(w.Ctx, hold.GroupOrder{Kind: hold.Extend, Budget: b.ID, Group: "g",
				TTL: time.Hour, ExpiresAs: ledger.ExpiresUsed})
			w.OK(err)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			w.columns(b.Buckets[1], 1, 40, 0, 10, 0)
		}},
		{"an extension takes it back", func(w *world, b fixture.Budget) {
			w.Deduct(fixture.Deduction{Bucket: b.Buckets[1], ID: "e", Amount: 5, Hold: 2 * time.Hour,
				ExpiresAs: ledger.ExpiresUsed})
			w.extended(b, "e", ledger.ExpiresReleased)
			w.Clock.Advance(time.Hour)
			w.expire(5)
			w.columns(b.Buckets[1], 1, 50, 0, 0, 0)
		}},
		{"a rollback gives it back", func(w *world, b fixture.Budget) {
			w.expire(5)
			w.gives(b, id, "", 0, 10, false)
			_, _, err := w.confirm(b, id, 5)
			w.refused(err, budget.NotHeld)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEveryEngine(t, func(w *world) {
				b := w.Create("b", 100, 2)
				w.Deduct(fixture.Deduction{Bucket: b.Buckets[0], ID: id, Amount: 10, Hold: time.Hour,
					ExpiresAs: ledger.ExpiresUsed})
				w.Clock.Advance(time.Hour)
				c.run(w, b)
			})
		})
	}
}

// fed compares the feed of a bucket.
func (w *world) fed(id int64, want string) {
	w.Helper()
	var bodies []struct {
		Body string `db:"body"`
	}
	w.OK(w.DB.Read(w.Ctx, "feed", func(read *engine.Reader) error {
		bodies = nil
		return read.List(&bodies, "SELECT body FROM feed WHERE bucket_id = ? ORDER BY first_entry", id)
	}))
	var got []string
	for _, row := range bodies {
		entries, err := ledger.ReadFeed(row.Body)
		w.OK(err)
		for _, e := range entries {
			got = append(got, fmt.Sprint(e.Kind, " ", e.Amount))
		}
	}
	equal(w, "the feed", strings.Join(got, ", "), want)
}

// extended extends a hold by an hour.
func (w *world) extended(b fixture.Budget, id string, as ledger.ExpiresAs) {
	w.Helper()
	d, _, err := w.execute(hold.Order{Kind: hold.Extend, Budget: b.ID, RequestID: id, TTL: time.Hour,
		ExpiresAs: as})
	w.OK(err)
	w.recorded(d)
}

// account is a hold in the reference of TestRandomSettlements.
type account struct {
	held, used, back, uncollected, actual int64
	until                                 time.Time
	above, isHeld, expired, settled       bool
}

// TestRandomSettlements compares random sequences with a reference that knows one number, what is
// free: a confirm takes what it asks for above the hold, or after the expiry all of it, as far as
// that goes.
func TestRandomSettlements(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const total, steps = 400, 150
		seed := rand.Uint64()
		w.Logf("seed %d", seed)
		draw := rand.New(rand.NewPCG(seed, 0))
		b := w.Create("b", total, 3)
		free, all := int64(total), []*account{}
		for step := range steps {
			n := draw.IntN(len(all) + 1)
			id := fmt.Sprint("h", n)
			switch what := draw.IntN(10); {
			case what < 3 || n == len(all):
				a := &account{held: 1 + draw.Int64N(20), above: draw.IntN(4) > 0, isHeld: true,
					until: w.DB.Now().Add(time.Duration(1+draw.IntN(9)) * time.Second)}
				d := fixture.Deduction{Bucket: b.Buckets[draw.IntN(3)], ID: fmt.Sprint("h", len(all)), Amount: a.held,
					Hold: a.until.Sub(w.DB.Now())}
				if a.above {
					d.Above = ledger.AboveAvailable
				}
				if w.TryDeduct(d) == nil { // its bucket has the units
					free, all = free-a.held, append(all, a)
				}
			case what < 7:
				amount := 1 + draw.Int64N(45)
				free += all[n].confirm(w, b, id, amount, free)
			case what < 8:
				a := all[n]
				units := a.held + a.used - a.back
				if d, _, err := w.give(b, id, "", 0); units > 0 && a.back == 0 && err == nil {
					free += units
					a.back, a.isHeld = units, false
				} else if units > 0 && a.back == 0 {
					w.Fatalf("step %d: rollback of %q: %+v, %v, reference %+v", step, id, d, err, *a)
				}
			case what < 9:
				w.Clock.Advance(time.Duration(draw.IntN(4)) * time.Second)
				w.expire(100)
				for _, a := range all {
					free += a.expire(w.DB.Now())
				}
			default:
				w.OK(w.Renew(b, b.Buckets[draw.IntN(3)]))
			}
			w.Check()
		}
		used, charged, uncollected, actual := int64(0), int64(0), int64(0), int64(0)
		for _, a := range all {
			used += a.held + a.used - a.back
			if a.settled {
				charged, uncollected, actual = charged+a.used, uncollected+a.uncollected, actual+a.actual
			}
		}
		equal(w, "used, held and free", used+free, total)
		equal(w, "charged and uncollected", charged+uncollected, actual)
	})
}

// expire ends a hold that is due, and returns what it gives back.
func (a *account) expire(now time.Time) (units int64) {
	if !a.isHeld || now.Before(a.until) {
		return 0
	}
	units = a.held
	a.held, a.isHeld, a.expired = 0, false, true
	return units
}

// confirm confirms an amount of a hold, compares the answer with what the reference allows, and
// returns by how much what is free changes.
func (a *account) confirm(w *world, b fixture.Budget, id string, amount, free int64) (change int64) {
	w.Helper()
	d, replayed, err := w.confirm(b, id, amount)
	again := false
	late := a.expired || a.isHeld && !w.DB.Now().Before(a.until)
	switch {
	case a.settled && amount != a.actual:
		w.refused(err, budget.RequestConflict)
		return 0
	case a.settled:
		again = true
	case a.back > 0 && a.above:
		w.refused(err, budget.AlreadyRolledBack)
		return 0
	case a.back > 0:
		w.refused(err, budget.NotHeld)
		return 0
	case late && !a.above:
		w.refused(err, budget.HoldExpired)
		return 0
	case !late && amount > a.held && !a.above:
		w.refused(err, budget.AmountExceedsRemaining)
		return 0
	default:
		used := min(amount, free+a.held)
		change = a.held - used
		a.used, a.uncollected, a.actual = used, amount-used, amount
		a.held, a.isHeld, a.settled, a.expired = 0, false, true, false
	}
	if got := d.Confirmed; err != nil || got != a.used || d.Uncollected != a.uncollected || replayed != again {
		w.Fatalf("confirm of %d of %q with %d free: %+v, %v; want %+v", amount, id, free, d, err, *a)
	}
	return change
}
