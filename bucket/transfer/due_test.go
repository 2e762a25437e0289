package transfer_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// TestRollOverComesFirst checks that a movement of a budget whose period is over rolls it over before
// it does anything, in the same transaction, and that it moves nothing if none follows.
func TestRollOverComesFirst(t *testing.T) {
	everywhere(t, func(w *world) {
		for name, move := range map[string]func(b *bucket.Budget) error{
			"apply": func(b *bucket.Budget) error {
				_, err := w.part.Apply(w.ctx, b.ID, b.Buckets[1].ID, lacks(5))
				return err
			},
			"apply by an operator": func(b *bucket.Budget) error {
				_, err := w.part.ApplyTo(w.ctx, b.ID, b.Buckets[1].ID)
				return err
			},
			"offline": func(b *bucket.Budget) error {
				return w.offline(b.ID, b.Buckets[1].ID, bucket.ByService)
			},
			"online": func(b *bucket.Budget) error {
				_, err := w.online(b.ID, b.Buckets[0].ID)
				return err
			},
			"sweep": func(b *bucket.Budget) error {
				_, err := w.part.Sweep(w.ctx, []int64{b.ID})
				return err
			},
			"recycle": func(b *bucket.Budget) error {
				_, out, err := w.part.Recycle(w.ctx, b, transfer.Recycling{Cause: bucket.OnDemand})
				if err == nil {
					equal(w, "rolled over by a recycle", out.RolledOver.Done, true)
				}
				return err
			},
		} {
			b := w.daily(name, 1000, day(""), func(d *budget.Definition) { d.EndAt = start.Add(2 * dayLong) })
			w.use(b.Buckets[1].ID, "a", 4)
			w.giveBack(b.ID, "a", "r", 3, false)
			w.until(dayLong)
			w.ok(move(&b))
			equal(w, name+": period", w.read(b.ID).Period.Number, 2)
			f := w.figures(b.ID)
			equal(w, name+": of the second day", f.Undistributed+f.InBuckets, 40)
			w.conserved(b.ID)
			w.until(2 * dayLong)
			switch err := move(&b); name {
			case "online", "recycle", "apply by an operator":
				w.refused(err, budget.BudgetExpired)
				w.rollOver(b.ID)
			default:
				w.ok(err)
			}
			f = w.figures(b.ID)
			equal(w, name+": after the last day", f.Undistributed+f.InBuckets, 0)
			equal(w, name+": over", w.read(b.ID).Period.Over, true)
			w.conserved(b.ID)
		}
	})
}

// TestRollOverByAClockThatIsWrong checks that no period ends because of a clock that the server's does
// not agree with, and that nothing else is done in its place.
func TestRollOverByAClockThatIsWrong(t *testing.T) {
	w := newWorld(t, "mysql")
	b := w.daily("b", 1000, day(""))
	w.ok(w.db.Close())
	var err error
	w.db, err = engine.Open(w.ctx, engine.Config{Driver: "mysql", DSN: w.dsn, Clock: w.clock.Now})
	w.ok(err)
	w.defs, w.part = manage.NewLedger(w.db), transfer.NewLedger(w.db)
	w.until(dayLong)
	_, err = w.rolledOver(b.ID)
	w.refused(err, budget.Unavailable)
	_, _, err = w.part.Recycle(w.ctx, &b, transfer.Recycling{Cause: bucket.OnDemand})
	w.refused(err, budget.Unavailable)
	_, err = w.part.Apply(w.ctx, b.ID, b.Buckets[0].ID, lacks(5))
	w.refused(err, budget.Unavailable)
	equal(w, "period", w.read(b.ID).Period.Number, 1)
}

// TestNothingIsGivenAfterThePeriod checks that a distribution moves nothing of a period that is over
// until the rollover.
func TestNothingIsGivenAfterThePeriod(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.daily("b", 1000, day(""))
		w.ok(w.offline(b.ID, b.Buckets[0].ID, bucket.ByService)) // 20 in U
		second := b.Buckets[1].ID
		w.until(dayLong - time.Millisecond)
		equal(w, "before the end", w.apply(b.ID, second, 5), 5)
		w.until(dayLong)
		equal(w, "distributed", must(w.part.Distribute(w.ctx, b.ID))(w).Units, 0)
		w.lies("as before", b.ID, 0, 25)
		w.rollOver(b.ID)
		w.holds("rolled over", b.ID, [5]int64{960, 40, 0, 0, 0})
	})
}
