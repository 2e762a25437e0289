package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var limitRaceTests = []sqlTest{
	{"race/limits of one value", raceLimitOfOneValue},
	{"race/limits of many values in any order", func(w *sqlWorld) { raceLimitsOfManyValues(w) }},
	{"race/limits of many values in any order, one sliding", func(w *sqlWorld) {
		raceLimitsOfManyValues(w, sliding("mm", "user+device", time.Hour, time.Minute, 1_000))
	}},
	{"race/one id in two buckets with one left", raceLastOfOneID},
	{"race/limits changed against commits", raceLimitsChanged},
	{"race/a window loaded against rollbacks", raceLoadRollback},
}

// counting tells what commits of a test passed and refused.
type counting struct{ passed, refused atomic.Int64 }

// commit commits what a book has after a position and returns the next one. Safe for concurrent use: each
// book is one goroutine's.
func (c *counting) commit(w *sqlWorld, book *sqlBook, from int64) int64 {
	report, err := w.db.Commit(w.ctx, []ledger.Log{book.log(from)})
	if err != nil || report.Epochs[0].Err != nil {
		w.Errorf("commit: %v, %+v", err, report.Epochs)
		return from
	}
	for _, o := range report.Epochs[0].Outcomes {
		switch {
		case o.Duplicate == nil:
			c.passed.Add(1)
		case o.Duplicate.Reason == ledger.ReasonLimit:
			c.refused.Add(1)
		default:
			w.Errorf("%+v", o.Duplicate)
		}
	}
	return report.Epochs[0].Row.DrainedSeq
}

// raceLimitOfOneValue: of the calls of all buckets exactly the maximum pass, whatever the kind of window.
func raceLimitOfOneValue(w *sqlWorld) {
	const buckets, each, most = 8, 5, 17
	limits := []budget.Limit{daily("l", "user", most), lifetime("l", "user", most),
		sliding("l", "user", time.Hour, time.Minute, most), firstHit("l", "user", time.Hour, most)}
	w.noon()
	for i, l := range limits {
		b := w.limited(fmt.Sprint("b", i), buckets, l)
		var told counting
		together(buckets, func(n int) {
			book := w.book(b.Buckets[n].Ref())
			from := b.Buckets[n].Epoch.DrainedSeq
			for call := range each {
				book.askFor(fmt.Sprint(n, "/", call), 1, dims("user", "u"))
				from = told.commit(w, book, from)
			}
		})
		equal(w, string(l.Window.Kind)+" passed", told.passed.Load(), most)
		equal(w, string(l.Window.Kind)+" refused", told.refused.Load(), buckets*each-most)
		equal(w, string(l.Window.Kind)+" used", w.used(b.ID, "l", dims("user", "u")), most)
	}
}

// raceLimitsOfManyValues: transactions that touch the same values in different orders all get through, beside
// rollbacks of what they counted.
func raceLimitsOfManyValues(w *sqlWorld, others ...budget.Limit) {
	const buckets, rounds, values = 4, 6, 8
	b := w.limited("b", buckets, append(others, daily("zz", "user", 1_000), lifetime("aa", "device", 1_000_000))...)
	w.noon()
	var told counting
	var given atomic.Int64
	together(buckets, func(n int) {
		book := w.book(b.Buckets[n].Ref())
		from := b.Buckets[n].Epoch.DrainedSeq
		for round := range rounds {
			for v := range values {
				at := v
				if n%2 == 1 {
					at = values - 1 - v
				}
				book.askFor(fmt.Sprint(n, "/", round, "/", v), 2, dims("user", fmt.Sprint("u", at), "device", fmt.Sprint("d", values-at)))
			}
			from = told.commit(w, book, from)
			_, _, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: fmt.Sprint(n, "/", round, "/", 3)})
			if err != nil {
				w.Errorf("rollback: %v", err)
			}
			given.Add(1)
		}
	})
	equal(w, "passed", told.passed.Load(), buckets*rounds*values)
	used := int64(0)
	for v := range values {
		used += w.used(b.ID, "zz", dims("user", fmt.Sprint("u", v), "device", fmt.Sprint("d", values-v)))
	}
	equal(w, "counted", used, buckets*rounds*values-given.Load())
}

// raceLastOfOneID: one id is in the logs of two buckets, and its limit lets one more pass. One entry is counted; the
// other is refused, by its id or by the limit that the first used up: then the ledger has the id, as soon as the commit
// that says so has ended. A figure of a limit is no answer for an id before that was looked for.
func raceLastOfOneID(w *sqlWorld) {
	const rounds = 20
	b := w.limited("b", 2, lifetime("l", "user", 1))
	from := [2]int64{b.Buckets[0].Epoch.DrainedSeq, b.Buckets[1].Epoch.DrainedSeq}
	var byLimit atomic.Int64
	for round := range rounds {
		id, user := fmt.Sprint("o", round), dims("user", fmt.Sprint("u", round))
		var passed atomic.Int64
		together(2, func(n int) {
			book := w.book(b.Buckets[n].Ref())
			book.askFor(id, 1, user)
			report, err := w.db.Commit(w.ctx, []ledger.Log{book.log(from[n])})
			if err != nil || report.Epochs[0].Err != nil || len(report.Epochs[0].Outcomes) != 1 {
				w.Errorf("commit: %v, %+v", err, report.Epochs)
				return
			}
			from[n] = report.Epochs[0].Row.DrainedSeq
			switch d := report.Epochs[0].Outcomes[0].Duplicate; {
			case d == nil:
				passed.Add(1)
			case d.Reason == ledger.ReasonLimit:
				byLimit.Add(1)
				if got, err := w.db.Recorded(w.ctx, []bucket.ID{{Budget: b.ID, RequestID: id}}); err != nil || len(got) != 1 {
					w.Errorf("refused by a limit, and not recorded: %+v, %v", got, err)
				}
			case d.Reason != ledger.ReasonDuplicate:
				w.Errorf("%+v", d)
			}
		})
		equal(w, id+" passed", passed.Load(), 1)
		equal(w, id+" counted", w.used(b.ID, "l", user), 1)
	}
	equal(w, "used", w.figures(b.ID).Used, rounds)
	w.Logf("%d of %d were refused by the limit", byLimit.Load(), rounds)
}

// raceLimitsChanged: what is committed after a change is judged by it.
func raceLimitsChanged(w *sqlWorld) {
	const buckets, each = 4, 12
	b := w.limited("b", buckets, lifetime("l", "user", 1_000))
	w.noon()
	var told counting
	var changed sync.WaitGroup
	changed.Go(func() {
		for i := range 8 {
			l := lifetime("l", "user", 1_000)
			if i%2 == 0 {
				l = daily("l", "user", 1_000)
			}
			if _, err := w.db.Change(w.ctx, b.ID, bucket.Change{Limits: &[]budget.Limit{l}}); err != nil {
				w.Errorf("change: %v", err)
			}
		}
		if _, err := w.db.Change(w.ctx, b.ID, bucket.Change{Limits: &[]budget.Limit{daily("l", "user", 0)}}); err != nil {
			w.Errorf("change: %v", err)
		}
	})
	together(buckets, func(n int) {
		book := w.book(b.Buckets[n].Ref())
		from := b.Buckets[n].Epoch.DrainedSeq
		for call := range each {
			if call == each/2 {
				changed.Wait()
			}
			book.askFor(fmt.Sprint(n, "/", call), 1, dims("user", "u"))
			before := told.passed.Load()
			from = told.commit(w, book, from)
			if call >= each/2 && told.passed.Load() != before {
				w.Errorf("call %d of bucket %d passed a maximum of 0", call, n)
			}
		}
	})
	passed := told.passed.Load()
	equal(w, "used", w.used(b.ID, "l", dims("user", "u")), passed)
	w.change(b.ID, lifetime("l", "user", passed+1))
	w.passes(b.Buckets[0].Ref(), "last", 1, dims("user", "u"))
	w.stopped(b.Buckets[1].Ref(), "more", 1, dims("user", "u"))
}

// raceLoadRollback: a counter that is loaded while what it counts comes back loses nothing and keeps nothing.
func raceLoadRollback(w *sqlWorld) {
	const calls = 12
	b := w.limited("b", 2, daily("first", "user", 1_000))
	w.noon()
	u := dims("user", "u")
	for i := range calls {
		w.passes(b.Buckets[0].Ref(), fmt.Sprint("a", i), 1, u)
	}
	for round := range 4 {
		w.change(b.ID, lifetime("l", "user", 1_000), sliding(fmt.Sprint("s", round), "user", time.Hour, time.Minute, 1_000))
		book := w.book(b.Buckets[1].Ref())
		from := w.epoch(book.ref).DrainedSeq
		book.askFor(fmt.Sprint("b", round), 1, u)
		var told counting
		together(4, func(n int) {
			if n == 0 {
				told.commit(w, book, from)
				return
			}
			if _, err := w.db.Cancel(w.ctx, b.ID, fmt.Sprint("a", round*3+n-1)); err != nil {
				w.Errorf("cancel: %v", err)
			}
		})
		want := int64(calls - (round+1)*3 + round + 1)
		equal(w, "lifetime", w.used(b.ID, "l", u), want)
		equal(w, "sliding", w.used(b.ID, fmt.Sprint("s", round), u), want)
		w.change(b.ID, daily("first", "user", 1_000))
	}
}
