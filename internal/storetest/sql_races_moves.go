package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var raceMoveTests = []sqlTest{
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
