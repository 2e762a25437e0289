package storetest

import (
	"errors"
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

var moreRaceTests = []sqlTest{
	{"race/one id from several buckets", raceOneID},
	{"race/one log from several nodes", raceOneLog},
	{"race/commits over the same buckets in every order", raceCommits},
	{"race/applies for what is left", raceApply},
	{"race/hand-outs", raceHandOut},
	{"race/the last two buckets go offline", raceLast},
	{"race/reopen and run", raceReopen},
	{"race/close against lose", raceCloseLose},
	{"race/everything on one bucket", raceEverything},
}

func raceOneID(w *sqlWorld) {
	const buckets, rounds = 8, 15
	b := w.create("b", 10_000, buckets)
	for round := range rounds {
		id := fmt.Sprint("order-", round)
		var accepted, duplicates atomic.Int64
		logs := make([]ledger.Log, buckets)
		for i := range buckets {
			book := w.book(b.Buckets[i].Ref())
			from := w.epoch(book.ref).DrainedSeq
			book.deduct(id, 5)
			logs[i] = book.log(from)
		}
		together(buckets, func(i int) {
			report, err := w.db.Commit(w.ctx, logs[i:i+1])
			if err != nil || report.Epochs[0].Err != nil {
				w.Errorf("commit: %v, %+v", err, report)
				return
			}
			o := report.Epochs[0].Outcomes[0]
			if o.Duplicate == nil {
				accepted.Add(1)
				return
			}
			duplicates.Add(1)
			if o.Deduction == nil || o.Deduction.RequestID != id {
				w.Errorf("duplicate without the recorded row: %+v", o)
			}
		})
		equal(w, "accepted", accepted.Load(), 1)
		equal(w, "duplicates", duplicates.Load(), buckets-1)
	}
	f := w.figures(b.ID)
	equal(w, "used", f.Used, 5*rounds)
	equal(w, "returning", f.Returning, 5*rounds*(buckets-1))
}

func raceOneLog(w *sqlWorld) {
	b := w.create("b", 1000, 1)
	book := w.book(b.Buckets[0].Ref())
	for round := range 10 {
		from := w.epoch(book.ref).DrainedSeq
		for n := range 5 {
			book.deduct(fmt.Sprint(round, "-", n), 1)
		}
		var outcomes atomic.Int64
		together(8, func(i int) {
			log := book.log(from)
			log.Entries = log.Entries[:len(log.Entries)-i%4] // some read less
			report, err := w.db.Commit(w.ctx, []ledger.Log{log})
			if err != nil {
				w.Errorf("commit: %v", err)
				return
			}
			if err := report.Epochs[0].Err; err != nil && !errors.Is(err, ledger.ErrReadAgain) {
				w.Errorf("commit: %v", err)
			}
			outcomes.Add(int64(len(report.Epochs[0].Outcomes)))
		})
		equal(w, "outcomes", outcomes.Load(), 5)
	}
	equal(w, "used", w.figures(b.ID).Used, 50)
}

// raceCommits gives several committers overlapping sets of epochs and ids in different orders: the
// lock order must keep them from deadlocks, or they must be redone.
func raceCommits(w *sqlWorld) {
	const buckets, rounds, committers = 6, 5, 8
	b := w.create("b", 100_000, buckets)
	for round := range rounds {
		logs := make([]ledger.Log, buckets)
		for i := range buckets {
			book := w.book(b.Buckets[i].Ref())
			from := w.epoch(book.ref).DrainedSeq
			for n := range 20 {
				book.deduct(fmt.Sprintf("%d-%d", round, (n*7+i*5)%40), 1)
			}
			logs[i] = book.log(from)
		}
		together(committers, func(c int) {
			mine := make([]ledger.Log, 0, buckets)
			for i := range buckets {
				at := (i + c) % buckets
				if c%2 == 1 {
					at = (buckets - 1 - i + c) % buckets
				}
				mine = append(mine, logs[at])
			}
			report, err := w.db.Commit(w.ctx, mine)
			if err != nil {
				w.Errorf("commit: %v", err)
				return
			}
			for _, r := range report.Epochs {
				if r.Err != nil {
					w.Errorf("commit: %v", r.Err)
				}
			}
		})
		used := w.figures(b.ID).Used
		equal(w, "used", used, int64(40*(round+1)))
	}
}

func raceApply(w *sqlWorld) {
	b := w.withUndistributed("b", 1000, 4)
	var granted, applies atomic.Int64
	together(racers, func(i int) {
		want := bucket.Want{Ref: b.Buckets[i%4].Ref(), Need: 1, Units: 90}
		order, err := w.db.Apply(w.ctx, b.ID, want)
		if err != nil {
			w.Errorf("apply: %v", err)
		}
		if order != nil {
			granted.Add(order.Amount)
			applies.Add(1)
		}
	})
	equal(w, "granted", granted.Load(), 1000)
	equal(w, "applies", applies.Load(), 12)
	f := w.figures(b.ID)
	equal(w, "undistributed", f.Undistributed, 0)
	equal(w, "remaining", f.Remaining, 1004)
}

func raceHandOut(w *sqlWorld) {
	b := w.create("b", 40, 4)
	w.offline(b.ID, b.Buckets[2].Ref(), bucket.ByService, false, nil)
	must(w.append(b.ID, "more", 31))(w)
	var granted, opened atomic.Int64
	together(racers, func(int) {
		h, err := w.db.HandOut(w.ctx, b.ID)
		if err != nil {
			w.Errorf("hand out: %v", err)
		}
		for _, g := range h.Grants {
			granted.Add(g.Order.Amount)
		}
		opened.Add(int64(len(h.Opened)))
	})
	equal(w, "granted", granted.Load(), 41)
	equal(w, "opened", opened.Load(), 1)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 0)
}

func raceLast(w *sqlWorld) {
	for round := range 5 {
		b := w.create(fmt.Sprintf("b%d", round), 40, 4)
		var ended, last atomic.Int64
		together(4, func(i int) {
			ok, err := w.db.Ending(w.ctx, b.ID, b.Buckets[i].Ref(), bucket.ByService, false)
			switch {
			case ok && err == nil:
				ended.Add(1)
			case budget.Is(err, budget.LastBucket):
				last.Add(1)
			default:
				w.Errorf("ending: %v, %v", ok, err)
			}
		})
		equal(w, "ended", ended.Load(), 3)
		equal(w, "the last", last.Load(), 1)
		equal(w, "online", w.figures(b.ID).Online, 1)
	}
}

func raceReopen(w *sqlWorld) {
	b := w.create("b", 40, 2)
	ref := b.Buckets[0].Ref()
	w.offline(b.ID, ref, bucket.ByOperator, false, nil)
	var opened atomic.Int64
	runs := make([]bucket.Run, racers)
	together(racers, func(i int) {
		h, err := w.db.Reopen(w.ctx, b.ID, ref.Bucket)
		if err != nil {
			w.Errorf("reopen: %v", err)
		}
		opened.Add(int64(len(h.Opened)))
		runs[i], err = w.db.BeginRun(w.ctx, bucket.Run{Budget: b.ID, Target: ref, Units: int64(i)})
		if err != nil {
			w.Errorf("run: %v", err)
		}
	})
	equal(w, "opened", opened.Load(), 1)
	equal(w, "newest epoch", w.read(b.ID).Buckets[0].Epoch.Number, 2)
	for _, run := range runs {
		equal(w, "run", run, runs[0])
	}
}

func raceCloseLose(w *sqlWorld) {
	for round := range 8 {
		b := w.create(fmt.Sprintf("b%d", round), 40, 2)
		ref := b.Buckets[0].Ref()
		must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, false))(w)
		entry := w.closing(ref)
		var closed, lost atomic.Int64
		together(6, func(i int) {
			if i%2 == 0 {
				_, err := w.db.CloseEpoch(w.ctx, b.ID, ref, entry, nil)
				switch {
				case err == nil:
					closed.Add(1)
				case !errors.Is(err, ledger.ErrEnded):
					w.Errorf("close: %v", err)
				}
				return
			}
			ok, err := w.db.Lose(w.ctx, ref)
			if err != nil {
				w.Errorf("lose: %v", err)
			}
			if ok {
				lost.Add(1)
			}
		})
		equal(w, "ended once", closed.Load()+lost.Load(), 1)
		equal(w, "undistributed", w.figures(b.ID).Undistributed, 20)
	}
}

// raceEverything lets every kind of writer meet on the rows of one bucket.
func raceEverything(w *sqlWorld) {
	b := w.withUndistributed("b", 1_000, 2)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 500, Units: 500})
	w.deliver()
	for i := range 20 {
		w.use(ref, fmt.Sprint("used-", i), 5)
	}
	from := w.epoch(ref).DrainedSeq
	for i := range 40 {
		book.deduct(fmt.Sprint("new-", i), 3)
	}
	end := w.db.Now().Add(1_000_000_000_000)
	calls := []func(i int) error{
		func(int) error {
			report, err := w.db.Commit(w.ctx, []ledger.Log{book.log(from)})
			if err == nil {
				err = report.Epochs[0].Err
			}
			return err
		},
		func(i int) error { _, _, err := w.give(b.ID, fmt.Sprint("used-", i), "", 0); return err },
		func(i int) error { _, err := w.db.Cancel(w.ctx, b.ID, fmt.Sprint("new-", i)); return err },
		func(int) error { _, err := w.db.Sweep(w.ctx, b.ID); return err },
		func(int) error {
			_, err := w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: ref, Need: 1, Units: 3})
			return err
		},
		func(i int) error { _, err := w.append(b.ID, fmt.Sprint("more-", i), 2); return err },
		func(int) error { _, err := w.db.HandOut(w.ctx, b.ID); return err },
		func(int) error {
			_, err := w.db.Change(w.ctx, b.ID, bucket.Change{EndAt: &end})
			return err
		},
	}
	together(4*len(calls), func(i int) {
		if err := calls[i%len(calls)](i / len(calls)); err != nil {
			w.Errorf("call %d: %v", i%len(calls), err)
		}
	})
	f := w.figures(b.ID)
	equal(w, "total", f.Total, 1010)
	equal(w, "used", f.Used, 20*5+40*3-4*5-4*3)
}
