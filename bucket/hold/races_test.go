package hold_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
)

const racers = 8

// together runs calls concurrently.
func together(n int, call func(i int)) {
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() { call(i) })
	}
	done.Wait()
}

// try is execute for calls that race: it reports whether the order changed something.
func (w *world) try(o hold.Order) (did bool, err error) {
	got, err := w.part.Execute(w.Ctx, []hold.Order{o})
	if err != nil {
		w.Errorf("%v", err)
		return false, err
	}
	return got[0].Err == nil && !got[0].Replayed, got[0].Err
}

// TestRollbacksRace checks that concurrent partial rollbacks never exceed the deduction, and that
// one rollback id takes effect once.
func TestRollbacksRace(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 1000, 2)
		for round := range 4 {
			id := fmt.Sprint("order-", round)
			w.Use(b.Buckets[round%2], id, 10)
			var back atomic.Int64
			together(racers, func(i int) {
				o := hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: id, Amount: 4,
					RollbackID: fmt.Sprint("part-", i/2)}
				if did, _ := w.try(o); did {
					back.Add(4)
				}
			})
			equal(w, "given back", back.Load(), 8)
			d := w.cancel(b, id)
			equal(w, "rolled back in the end", d.RolledBack, 10)
		}
		w.columns(b.Buckets[0], 1, 500, 0, 0, 0)
	})
}

// TestEverythingRaces checks that rollbacks, confirms, expiries and cancels of the same holds,
// beside new deductions and epochs that end, never lose or create a unit.
func TestEverythingRaces(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const n = 12
		b := w.Create("b", 3000, 3)
		for i := range n {
			w.hold(b.Buckets[i%3], fmt.Sprint("order-", i), "", 6, time.Duration(i%2)*time.Minute+time.Millisecond)
		}
		w.Clock.Advance(time.Second)
		together(racers, func(i int) {
			for j := range n {
				id := fmt.Sprint("order-", (j+i)%n)
				switch i % 4 {
				case 0:
					_, _ = w.try(hold.Order{Kind: hold.Confirm, Budget: b.ID, RequestID: id, Amount: 4})
				case 1:
					_, _ = w.try(hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: id, Amount: 3,
						RollbackID: fmt.Sprint(i)})
				case 2:
					if _, err := w.part.ExpireHolds(w.Ctx, 3, 0); err != nil {
						w.Errorf("expire: %v", err)
					}
				default:
					if j%4 == 0 {
						_, _ = w.try(hold.Order{Kind: hold.Cancel, Budget: b.ID, RequestID: id})
					}
					if err := w.TryDeduct(fixture.Deduction{Bucket: b.Buckets[j%3],
						ID: fmt.Sprint("new-", i, "-", j), Amount: 1}); err != nil {
						w.Errorf("deduct: %v", err)
					}
				}
			}
		})
		w.Check()
		for i := range n {
			w.cancel(b, fmt.Sprint("order-", i))
		}
		used := int64(0)
		for _, id := range b.Buckets {
			used += w.Newest(id).Used
		}
		equal(w, "used", used, 2*n)
	})
}

// TestRollbacksBesideNewEpochs checks that entry numbers stay unique when a bucket gets its next
// epoch while deductions of the previous one are rolled back.
func TestRollbacksBesideNewEpochs(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const n = 24
		b := w.Create("b", 1000, 1)
		for i := range n {
			w.Use(b.Buckets[0], fmt.Sprint("order-", i), 2)
		}
		together(3, func(i int) {
			if i == 0 {
				for range 4 {
					if err := w.Renew(b, b.Buckets[0]); err != nil {
						w.Errorf("renew: %v", err)
					}
				}
				return
			}
			for j := range n / 2 {
				_, err := w.try(hold.Order{Kind: hold.Rollback, Budget: b.ID,
					RequestID: fmt.Sprint("order-", 2*j+i-1)})
				if err != nil {
					w.Errorf("rollback: %v", err)
				}
			}
		})
		w.Check()
		equal(w, "next entry", w.Newest(b.Buckets[0]).NextEntry, 2*n+1)
	})
}

// TestConfirmsRace checks that one of many confirms takes effect, its repeats replay, and other
// amounts conflict.
func TestConfirmsRace(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 1000, 1)
		for round := range 4 {
			id := fmt.Sprint("order-", round)
			w.hold(b.Buckets[0], id, "", 10, time.Hour)
			var done, replayed, conflicts atomic.Int64
			together(racers, func(i int) {
				did, err := w.try(hold.Order{Kind: hold.Confirm, Budget: b.ID, RequestID: id,
					Amount: int64(4 + i%2)})
				switch {
				case budget.Is(err, budget.RequestConflict):
					conflicts.Add(1)
				case err != nil:
					w.Errorf("confirm: %v", err)
				case did:
					done.Add(1)
				default:
					replayed.Add(1)
				}
			})
			equal(w, "done", done.Load(), 1)
			equal(w, "replayed", replayed.Load(), racers/2-1)
			equal(w, "conflicts", conflicts.Load(), racers/2)
		}
	})
}

// TestGroupRaces checks that a late member is either confirmed with its group or refused, never
// held beside it.
func TestGroupRaces(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const rounds, late = 4, 4
		b := w.Create("b", 10_000, late+1)
		for round := range rounds {
			name := fmt.Sprint("g", round)
			w.hold(b.Buckets[late], fmt.Sprint("first-", round), name, 3, time.Hour)
			together(late+2, func(i int) {
				if i < late {
					err := w.TryDeduct(fixture.Deduction{Bucket: b.Buckets[i], Amount: 3, Hold: time.Hour,
						ID: fmt.Sprint("late-", round, "-", i), Group: name})
					if err != nil && !errors.Is(err, fixture.ErrGroupClosed) {
						w.Errorf("deduct: %v", err)
					}
					return
				}
				_, err := w.part.ExecuteGroup(w.Ctx, hold.GroupOrder{Kind: hold.Confirm, Budget: b.ID,
					Group: name})
				if err != nil {
					w.Errorf("confirm: %v", err)
				}
			})
			for _, id := range b.Buckets {
				equal(w, "held beside a confirmed group", w.Newest(id).Held, 0)
			}
		}
	})
}
