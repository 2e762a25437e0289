package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var recycleTests = []sqlTest{
	{"recycle: one at a time, after collects", recycleOne},
	{"recycle: begun once for each cause and time", recycleSince},
	{"recycle: taken over", recycleTaken},
	{"recycle: history", recycleHistory},
	{"recycle: begun by many at once", recycleRaces},
	{"renew: ends and opens in one", renewOpen},
	{"renew: an epoch that has ended", renewEnded},
	{"renew: what is not to be renewed", renewNot},
	{"renew: a close entry that does not agree", renewMismatch},
	{"renew: pending shrinks are kept", renewShrink},
	{"demand: the last deductions of each bucket", demandLast},
}

// order is a recycle of all buckets of a budget.
func (w *sqlWorld) order(b bucket.Budget, cause bucket.RecycleCause, holder string) bucket.RecycleOrder {
	o := bucket.RecycleOrder{Budget: b.ID, Cause: cause, Holder: holder, Before: bucket.Spread{Units: 30, Stranded: 7}}
	for i := range b.Buckets {
		o.Plan = append(o.Plan, bucket.Planned{Bucket: b.Buckets[i].ID, Epoch: b.Buckets[i].Epoch.Number})
	}
	return o
}

func recycleOne(w *sqlWorld) {
	b := w.create("b", 30, 2)
	o := w.order(b, bucket.OnDemand, "h1")
	first := must(w.db.BeginRecycle(w.ctx, o))(w)
	now := w.db.Now()
	equal(w, "first", describeRecycle(first), describeRecycle(bucket.Recycle{Budget: b.ID, Number: 1, Cause: bucket.OnDemand,
		Holder: "h1", Plan: o.Plan, Before: o.Before, BeganAt: now, TouchedAt: now}))
	second := must(w.db.BeginRecycle(w.ctx, w.order(b, bucket.OnSchedule, "h2")))(w)
	equal(w, "while it goes on", describeRecycle(second), describeRecycle(first))

	advance := func(step bucket.RecycleStep, wantOK, wantCollecting bool) {
		w.Helper()
		ok, collecting, err := w.db.AdvanceRecycle(w.ctx, step)
		w.ok(err)
		if ok != wantOK || collecting != wantCollecting {
			w.Errorf("%+v: ok %v, collecting %v", step, ok, collecting)
		}
	}
	step := bucket.RecycleStep{Budget: b.ID, Number: 1, Holder: "h1", Done: 1, Skipped: 1, Moved: 15}
	advance(step, true, false)
	advance(step, true, false) // again: counted once
	collect := must(w.db.BeginRun(w.ctx, bucket.Run{Budget: b.ID, Target: b.Buckets[0].Ref(), Units: 5}))(w)
	equal(w, "the collect's number", collect.Number, 2)
	step.Skipped, step.Moved = 0, 0
	advance(step, true, true)
	w.ok(w.db.EndRun(w.ctx, b.ID, collect.Number, 5))
	advance(step, true, false)
	for _, wrong := range []bucket.RecycleStep{
		{Budget: b.ID, Number: 1, Holder: "h2", Done: 2}, {Budget: b.ID, Number: 2, Holder: "h1", Done: 2},
		{Budget: b.ID, Number: 1, Holder: "h1", Done: 0},
	} {
		advance(wrong, false, false)
	}
	step.Done, step.Moved = 2, 14
	advance(step, true, false)
	after := bucket.Spread{Units: 29, Stranded: 1}
	equal(w, "another's end", must(w.db.EndRecycle(w.ctx, b.ID, 1, "h2", after))(w), false)
	equal(w, "end", must(w.db.EndRecycle(w.ctx, b.ID, 1, "h1", after))(w), true)
	equal(w, "end again", must(w.db.EndRecycle(w.ctx, b.ID, 1, "h1", bucket.Spread{}))(w), false)
	advance(step, false, false)
	list := must(w.db.RecycleHistory(w.ctx, b.ID, 0, 10))(w)
	if len(list) != 1 || list[0].Done != 2 || list[0].Skipped != 1 || list[0].Moved != 29 || list[0].After != after ||
		list[0].EndedAt.IsZero() {
		w.Errorf("history %+v", list)
	}
	equal(w, "the next one", must(w.db.BeginRecycle(w.ctx, w.order(b, bucket.OnDemand, "h3")))(w).Number, 3)
	_, err := w.db.BeginRecycle(w.ctx, bucket.RecycleOrder{Budget: b.ID + 1, Holder: "h"})
	w.refused(err, budget.BudgetNotFound)
}

func recycleSince(w *sqlWorld) {
	b := w.create("b", 30, 2)
	o := w.order(b, bucket.OnSchedule, "h1")
	due := w.db.Now()
	o.Since = due
	equal(w, "first", must(w.db.BeginRecycle(w.ctx, o))(w).Holder, "h1")
	w.ok(second(w.db.EndRecycle(w.ctx, b.ID, 1, "h1", bucket.Spread{})))
	w.clock.Advance(time.Minute)
	o.Holder = "h2"
	again := must(w.db.BeginRecycle(w.ctx, o))(w)
	equal(w, "the same time", again.Holder, "h1")
	equal(w, "the same time: run", again.Number, 1)
	o.Cause = bucket.Automatic
	equal(w, "another cause", must(w.db.BeginRecycle(w.ctx, o))(w).Holder, "h2")
	w.ok(second(w.db.EndRecycle(w.ctx, b.ID, 2, "h2", bucket.Spread{})))
	o.Cause, o.Holder, o.Since = bucket.OnSchedule, "h3", w.db.Now()
	equal(w, "the next time", must(w.db.BeginRecycle(w.ctx, o))(w).Holder, "h3")
}

// second drops a result.
func second[T any](_ T, err error) error { return err }

func recycleTaken(w *sqlWorld) {
	b := w.create("b", 30, 2)
	first := must(w.db.BeginRecycle(w.ctx, w.order(b, bucket.OnDemand, "h1")))(w)
	open := must(w.db.Unfinished(w.ctx, 10))(w).Recycles
	if len(open) != 1 || open[0].Budget != b.ID || open[0].Number != 1 || !open[0].Since.Equal(first.TouchedAt) {
		w.Fatalf("unfinished %+v", open)
	}
	seen := open[0].Since
	w.ok(third(w.db.AdvanceRecycle(w.ctx, bucket.RecycleStep{Budget: b.ID, Number: 1, Holder: "h1", Done: 1})))
	if r := must(w.db.TakeRecycle(w.ctx, b.ID, 1, seen, "h2"))(w); r != nil {
		w.Errorf("taken although somebody went on with it: %+v", r)
	}
	seen = must(w.db.Unfinished(w.ctx, 10))(w).Recycles[0].Since
	taken := must(w.db.TakeRecycle(w.ctx, b.ID, 1, seen, "h2"))(w)
	if taken == nil || taken.Holder != "h2" || taken.Done != 1 || !slices.Equal(taken.Plan, first.Plan) {
		w.Fatalf("taken %+v", taken)
	}
	if r := must(w.db.TakeRecycle(w.ctx, b.ID, 1, seen, "h3"))(w); r != nil {
		w.Errorf("taken twice: %+v", r)
	}
	if ok, _, err := w.db.AdvanceRecycle(w.ctx, bucket.RecycleStep{Budget: b.ID, Number: 1, Holder: "h1", Done: 2}); ok || err != nil {
		w.Errorf("the node that was too slow went on: %v, %v", ok, err)
	}
	w.ok(second(w.db.EndRecycle(w.ctx, b.ID, 1, "h2", bucket.Spread{})))
	if open := must(w.db.Unfinished(w.ctx, 10))(w).Recycles; len(open) != 0 {
		w.Errorf("unfinished after the end: %+v", open)
	}
}

func third[A, B any](_ A, _ B, err error) error { return err }

func recycleHistory(w *sqlWorld) {
	b := w.create("b", 30, 2)
	other := w.create("other", 30, 1)
	must(w.db.BeginRecycle(w.ctx, w.order(other, bucket.OnDemand, "x")))(w)
	for i := range 3 {
		r := must(w.db.BeginRecycle(w.ctx, w.order(b, bucket.OnDemand, "h")))(w)
		w.ok(second(w.db.EndRecycle(w.ctx, b.ID, r.Number, "h", bucket.Spread{Units: int64(i)})))
		c := must(w.db.BeginRun(w.ctx, bucket.Run{Budget: b.ID, Target: b.Buckets[0].Ref(), Units: 1}))(w)
		w.ok(w.db.EndRun(w.ctx, b.ID, c.Number, 1))
	}
	numbers := func(before int64, limit int) (out []int64) {
		for _, r := range must(w.db.RecycleHistory(w.ctx, b.ID, before, limit))(w) {
			out = append(out, r.Number)
		}
		return out
	}
	for _, tc := range []struct {
		before int64
		limit  int
		want   []int64
	}{{0, 10, []int64{5, 3, 1}}, {0, 2, []int64{5, 3}}, {3, 2, []int64{1}}, {1, 2, nil}} {
		if got := numbers(tc.before, tc.limit); !slices.Equal(got, tc.want) {
			w.Errorf("before %d, %d: %v, want %v", tc.before, tc.limit, got, tc.want)
		}
	}
}

func recycleRaces(w *sqlWorld) {
	b := w.create("b", 30, 2)
	const racers = 8
	var all sync.WaitGroup
	var began atomic.Int64
	for i := range racers {
		holder := string(rune('a' + i))
		all.Go(func() {
			r, err := w.db.BeginRecycle(w.ctx, w.order(b, bucket.OnDemand, holder))
			if err != nil {
				w.Error(err)
			}
			if r.Number != 1 {
				w.Errorf("run %d", r.Number)
			}
			if r.Holder == holder {
				began.Add(1)
			}
		})
	}
	all.Wait()
	if began.Load() != 1 {
		w.Errorf("%d believe that they began it", began.Load())
	}
}

func renewOpen(w *sqlWorld) {
	b := w.create("b", 30, 2)
	ref := b.Buckets[0].Ref()
	w.use(ref, "order", 4)
	if !must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, true))(w) {
		w.Fatal("not ended")
	}
	closing := w.closing(ref)
	order := bucket.Renewal{Budget: b.ID, Ref: ref, Close: &closing, Units: 9}
	h := must(w.db.Renew(w.ctx, order))(w)
	next := bucket.Ref{Bucket: ref.Bucket, Epoch: 2, Activation: ref.Activation}
	if len(h.Opened) != 1 || h.Opened[0].Ref() != next || h.Opened[0].OutCnt != 1 || !h.Opened[0].Online ||
		len(h.Grants) != 1 || h.Grants[0].Order != (bucket.GrantOrder{Ref: next, Number: 1, Amount: 9}) {
		w.Errorf("handout %+v", h)
	}
	old, row := w.epoch(ref), w.epoch(next)
	if old.Status != ledger.Closed || old.Outstanding != 0 || row.Status != ledger.Opening || row.Outstanding != 9 ||
		row.NextEntry != old.NextEntry {
		w.Errorf("old %+v\nnew %+v", old, row)
	}
	f := w.figures(b.ID)
	equal(w, "undistributed", f.Undistributed, 2)
	equal(w, "online", f.Online, 2)
	w.unchanged(b.ID, "a second renewal", func() { equal(w, "again", len(must(w.db.Renew(w.ctx, order))(w).Opened), 0) })
	w.open(next)
	w.deliver()
	w.use(next, "later", 9)
	got := w.read(b.ID).Buckets[0]
	if got.OutCnt != 1 || got.OutQuantity != 24 || got.Epoch.Outstanding != 0 {
		w.Errorf("bucket %+v", got)
	}
}

// renewEnded: a bucket that the service took offline comes online; an operator's stays where it is.
func renewEnded(w *sqlWorld) {
	b := w.create("b", 30, 3)
	mine, theirs := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	w.offline(b.ID, mine, bucket.ByService, false, nil)
	w.offline(b.ID, theirs, bucket.ByOperator, false, nil)
	h := must(w.db.Renew(w.ctx, bucket.Renewal{Budget: b.ID, Ref: mine, Units: 1000}))(w)
	if len(h.Opened) != 1 || len(h.Grants) != 1 || h.Grants[0].Order.Amount != 20 {
		w.Errorf("handout %+v, want all that is undistributed", h)
	}
	if got := w.read(b.ID).Buckets[0]; !got.Online || got.OfflineBy != "" || got.Epoch.Number != 2 {
		w.Errorf("bucket %+v", got)
	}
	w.unchanged(b.ID, "a renewal of what an operator took offline", func() {
		if h := must(w.db.Renew(w.ctx, bucket.Renewal{Budget: b.ID, Ref: theirs, Units: 5}))(w); len(h.Opened)+len(h.Grants) > 0 {
			w.Errorf("handout %+v", h)
		}
	})
	// Without units to hand out the bucket gets an empty epoch.
	w.offline(b.ID, b.Buckets[2].Ref(), bucket.ByService, true, nil)
	h = must(w.db.Renew(w.ctx, bucket.Renewal{Budget: b.ID, Ref: b.Buckets[2].Ref()}))(w)
	if len(h.Opened) != 1 || len(h.Grants) != 0 || h.Opened[0].OutCnt != 0 {
		w.Errorf("handout %+v", h)
	}
}

func renewNot(w *sqlWorld) {
	b, other := w.create("b", 30, 2), w.create("other", 30, 1)
	ref := b.Buckets[0].Ref()
	closing := ledger.Entry{}
	for name, order := range map[string]bucket.Renewal{
		"open, without a close entry": {Budget: b.ID, Ref: ref, Units: 5},
		"open, with one":              {Budget: b.ID, Ref: ref, Close: &closing, Units: 5},
		"another budget's bucket":     {Budget: other.ID, Ref: ref, Units: 5},
		"a bucket that is not there":  {Budget: b.ID, Ref: bucket.Ref{Bucket: 1 << 40, Epoch: 1}, Units: 5},
		"an epoch that is not there":  {Budget: b.ID, Ref: bucket.Ref{Bucket: ref.Bucket, Epoch: 2}, Units: 5},
	} {
		w.unchanged(b.ID, name, func() {
			if h := must(w.db.Renew(w.ctx, order))(w); len(h.Opened)+len(h.Grants) > 0 {
				w.Errorf("%s: %+v", name, h)
			}
		})
	}
	_, err := w.db.Renew(w.ctx, bucket.Renewal{Budget: other.ID + 1, Ref: ref})
	w.refused(err, budget.BudgetNotFound)
}

func renewMismatch(w *sqlWorld) {
	b := w.create("b", 30, 2)
	ref := b.Buckets[0].Ref()
	must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, true))(w)
	closing := w.closing(ref)
	closing.Amount++
	w.unchanged(b.ID, "a wrong close entry", func() {
		_, err := w.db.Renew(w.ctx, bucket.Renewal{Budget: b.ID, Ref: ref, Close: &closing, Units: 5})
		var wrong *ledger.Mismatch
		if !errors.As(err, &wrong) {
			w.Errorf("%v, want a mismatch", err)
		}
	})
}

func renewShrink(w *sqlWorld) {
	b := w.create("b", 30, 2)
	ref := b.Buckets[0].Ref()
	state, _, err := w.db.Adjust(w.ctx, w.adjustment(b, "less", -10))
	if err != nil || state != bucket.AdjustmentPending {
		w.Fatalf("shrink: %v, %v", state, err)
	}
	must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, true))(w)
	closing := w.closing(ref)
	h := must(w.db.Renew(w.ctx, bucket.Renewal{Budget: b.ID, Ref: ref, Close: &closing, Units: 1000}))(w)
	if len(h.Grants) != 1 || h.Grants[0].Order.Amount != 5 {
		w.Errorf("granted %+v of 15 while 10 are to leave", h.Grants)
	}
}

func demandLast(w *sqlWorld) {
	b := w.create("b", 600, 3)
	ref := b.Buckets[0].Ref()
	if got := must(w.db.Demand(w.ctx, b.ID))(w); len(got) != 0 {
		w.Errorf("of nothing: %v", got)
	}
	w.use(ref, "early", 50)
	w.clock.Advance(time.Minute)
	since := w.db.Now()
	book := w.book(ref)
	for i := range bucket.LastDeductions {
		book.deduct("o"+string(rune('0'+i/10))+string(rune('0'+i%10)), 1)
	}
	w.commit(book)
	w.use(b.Buckets[1].Ref(), "there", 7)
	got := must(w.db.Demand(w.ctx, b.ID))(w)
	if len(got) != 2 || got[ref.Bucket].Units != bucket.LastDeductions || got[ref.Bucket].Since.Before(since) ||
		got[ref.Bucket].Largest != 1 || got[b.Buckets[1].ID].Units != 7 || got[b.Buckets[1].ID].Largest != 7 {
		w.Errorf("demand %+v, since %v", got, since)
	}
	// A rollback's row is none of the deductions, and what an epoch sold counts on in the next one.
	if _, _, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "o00"}); err != nil {
		w.Fatal(err)
	}
	w.offline(b.ID, ref, bucket.ByService, true, nil)
	must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w)
	if got := must(w.db.Demand(w.ctx, b.ID))(w)[ref.Bucket].Units; got != bucket.LastDeductions-1 {
		w.Errorf("demand %d after a rollback, in the next epoch", got)
	}
}

// describeRecycle renders a recycle so that two can be compared.
func describeRecycle(r bucket.Recycle) string {
	r.BeganAt, r.TouchedAt, r.EndedAt = r.BeganAt.UTC(), r.TouchedAt.UTC(), r.EndedAt.UTC()
	return fmt.Sprintf("%+v", r)
}
