package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// The races give each goroutine a barrier to start from and judge the sum of what all were told.

const racers = 16

var raceTests = []sqlTest{
	{"race/one create", raceCreate},
	{"race/creates of many budgets", raceCreates},
	{"race/one append and one shrink", raceAdjust},
	{"race/rollbacks of one id", raceRollback},
	{"race/parts of one deduction", raceParts},
	{"race/cancel against commit", raceCancelCommit},
	{"race/sweeps against rollbacks", raceSweep},
	{"race/lane made and activated", raceLane},
}

// together runs n calls at once and waits for all of them.
func together(n int, call func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-start
			call(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

func raceCreate(w *sqlWorld) {
	d := definition("same", 1000, 4)
	lanes := w.lanes(4)
	var made atomic.Int64
	ids := make([]int64, racers)
	together(racers, func(i int) {
		b, created, err := w.db.Create(w.ctx, d, lanes)
		if err != nil {
			w.Errorf("create: %v", err)
			return
		}
		if created {
			made.Add(1)
		}
		ids[i] = b.ID
		equal(w, "buckets", len(b.Buckets), 4)
	})
	equal(w, "made", made.Load(), 1)
	for _, id := range ids {
		equal(w, "id", id, ids[0])
	}
	w.budgets = append(w.budgets, ids[0])
	equal(w, "figures", w.figures(ids[0]), ledger.Figures{Total: 1000, Unsettled: 1000, Online: 4})
}

func raceCreates(w *sqlWorld) {
	lanes := w.lanes(3)
	made := make([]bucket.Budget, racers)
	together(racers, func(i int) {
		b, created, err := w.db.Create(w.ctx, definition(fmt.Sprintf("b%d", i), 30, 3), lanes)
		if err != nil || !created {
			w.Errorf("create %d: created %v, %v", i, created, err)
		}
		made[i] = b
	})
	budgets, buckets := map[int64]bool{}, map[int64]bool{}
	for _, b := range made {
		budgets[b.ID] = true
		w.budgets = append(w.budgets, b.ID)
		for i := range b.Buckets {
			buckets[b.Buckets[i].ID] = true
		}
	}
	equal(w, "budgets", len(budgets), racers)
	equal(w, "buckets", len(buckets), 3*racers)
}

func raceAdjust(w *sqlWorld) {
	b := w.create("b", 100, 2)
	for _, quantity := range []int64{50, -20} {
		a := w.adjustment(b, fmt.Sprint("id", quantity), quantity)
		var done, replayed atomic.Int64
		together(racers, func(int) {
			state, again, err := w.db.Adjust(w.ctx, a)
			switch {
			case err != nil || state != bucket.AdjustmentDone:
				w.Errorf("adjust %d: %s, %v", quantity, state, err)
			case again:
				replayed.Add(1)
			default:
				done.Add(1)
			}
		})
		equal(w, "done", done.Load(), 1)
		equal(w, "replayed", replayed.Load(), racers-1)
	}
	equal(w, "total", w.figures(b.ID).Total, 130)
}

func raceRollback(w *sqlWorld) {
	b := w.create("b", 100, 1)
	for round := range 4 {
		id := fmt.Sprint("order-", round)
		w.use(b.Buckets[0].Ref(), id, 10)
		var done, replayed atomic.Int64
		together(racers, func(int) {
			d, again, err := w.give(b.ID, id, "", 0)
			switch {
			case err != nil || d.RolledBack != 10 || d.State != ledger.StateRolledBack:
				w.Errorf("rollback: %+v, %v", d, err)
			case again:
				replayed.Add(1)
			default:
				done.Add(1)
			}
		})
		equal(w, "done", done.Load(), 1)
		equal(w, "replayed", replayed.Load(), racers-1)
		equal(w, "returning", w.figures(b.ID).Returning, int64(round+1)*10)
	}
}

func raceParts(w *sqlWorld) {
	b := w.create("b", 1000, 1)
	w.use(b.Buckets[0].Ref(), "order", 100)
	var given, refused atomic.Int64
	together(racers, func(i int) {
		if i%4 == 3 {
			if _, err := w.db.Sweep(w.ctx, b.ID); err != nil {
				w.Errorf("sweep: %v", err)
			}
			return
		}
		_, _, err := w.give(b.ID, "order", fmt.Sprint("part-", i), 13)
		switch {
		case err == nil:
			given.Add(13)
		case budget.Is(err, budget.AmountExceedsRemaining):
			refused.Add(1)
		default:
			w.Errorf("part: %v", err)
		}
	})
	equal(w, "given", given.Load(), 7*13)
	equal(w, "refused", refused.Load(), racers*3/4-7)
	d, _ := w.recorded(b.ID, "order")
	equal(w, "rolled back", d.RolledBack, 7*13)
	must(w.db.Sweep(w.ctx, b.ID))(w)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 7*13)
}

// raceCancelCommit: whichever is first, the id has no effect in the end.
func raceCancelCommit(w *sqlWorld) {
	b := w.create("b", 1000, 2)
	book := w.book(b.Buckets[0].Ref())
	for round := range 20 {
		id := fmt.Sprint("order-", round)
		log := book.log(w.epoch(book.ref).DrainedSeq)
		log.Entries = append(log.Entries, book.deduct(id, 5))
		var outcome ledger.Outcome
		var cancelled ledger.Deduction
		together(2, func(i int) {
			var err error
			if i == 0 {
				var report bucket.CommitReport
				if report, err = w.db.Commit(w.ctx, []ledger.Log{log}); err == nil {
					if err = report.Epochs[0].Err; err == nil {
						outcome = report.Epochs[0].Outcomes[0]
					}
				}
			} else {
				cancelled, err = w.db.Cancel(w.ctx, b.ID, id)
			}
			if err != nil {
				w.Errorf("round %d: %v", round, err)
			}
		})
		want := ledger.StateVoid
		if outcome.Duplicate == nil {
			want = ledger.StateRolledBack
		}
		equal(w, "state", cancelled.State, want)
	}
	f := w.figures(b.ID)
	equal(w, "used", f.Used, 0)
	equal(w, "returning", f.Returning, 100)
}

func raceSweep(w *sqlWorld) {
	b := w.create("b", 1000, 4)
	for i := range racers {
		w.use(b.Buckets[i%4].Ref(), fmt.Sprint("order-", i), 10)
	}
	var moved atomic.Int64
	together(2*racers, func(i int) {
		if i < racers {
			if _, _, err := w.give(b.ID, fmt.Sprint("order-", i), "", 0); err != nil {
				w.Errorf("rollback: %v", err)
			}
			return
		}
		n, err := w.db.Sweep(w.ctx, b.ID)
		if err != nil {
			w.Errorf("sweep: %v", err)
		}
		moved.Add(n)
	})
	moved.Add(must(w.db.Sweep(w.ctx, b.ID))(w))
	equal(w, "moved", moved.Load(), racers*10)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, racers*10)
}

func raceLane(w *sqlWorld) {
	lane := bucket.Lane{Instance: "new", Index: 0}
	rows := make([]bucket.LaneRow, racers)
	together(racers, func(i int) {
		row, err := w.db.Lane(w.ctx, lane, fmt.Sprint("run-", i))
		if err != nil {
			w.Errorf("lane: %v", err)
		}
		rows[i] = row
	})
	for _, row := range rows {
		equal(w, "row", row, rows[0])
	}
	var moved atomic.Int64
	together(racers, func(i int) {
		identity := fmt.Sprint("next-", i)
		row, err := w.db.NextActivation(w.ctx, lane, 1, identity)
		if err != nil || row.Activation != 2 {
			w.Errorf("next activation: %+v, %v", row, err)
		}
		if row.Identity == identity {
			moved.Add(1)
		}
	})
	equal(w, "moved by", moved.Load(), 1)
}
