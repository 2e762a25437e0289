package storetest

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

func overGivesNothing(w *sqlWorld) {
	b := w.daily("b", 1000, day(""))
	ref := b.Buckets[1].Ref()
	w.offline(b.ID, b.Buckets[0].Ref(), bucket.ByService, false, nil) // 20 in U
	apply := func() bool {
		return must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: ref, Need: 1, Units: 5, Unbounded: true}))(w) != nil
	}
	w.until(dayLong - time.Millisecond)
	equal(w, "granted before the end", apply(), true)
	w.deliver()
	w.until(dayLong)
	w.unchanged(b.ID, "units of a period that is over", func() {
		equal(w, "applied", apply(), false)
		equal(w, "handed out", len(must(w.db.HandOut(w.ctx, b.ID))(w).Grants), 0)
		h := must(w.db.Settle(w.ctx, []int64{b.ID}))(w)
		equal(w, "settled", len(h.Grants)+len(h.Opened), 0)
	})
	book := w.book(ref)
	book.deduct("too late", 3)
	r := w.commit(book)[0]
	if len(r.Outcomes) != 1 || r.Outcomes[0].Duplicate == nil {
		w.Errorf("an entry of a period that is over: %+v", r.Outcomes)
	}
	if _, found := w.recorded(b.ID, "too late"); found {
		w.Error("its id is used up")
	}
	w.holds("over", b.ID, 960, 37, 3, 0, 0)
	must(w.db.Sweep(w.ctx, b.ID))(w)
	w.rollOver(b.ID)
	w.holds("rolled over", b.ID, 960, 40, 0, 0, 0)
	w.use(w.read(b.ID).Buckets[0].Ref(), "too late", 3) // the id was free
}

func (w *sqlWorld) giveBack(id int64, request, rollback string, amount int64) {
	w.Helper()
	_, replayed, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: id, RequestID: request,
		RollbackID: rollback, Amount: amount})
	if err != nil || replayed {
		w.Fatalf("rollback of %s: replayed %v, %v", request, replayed, err)
	}
}

// periodReturns: what came back before the end is not used, and goes by `unused`; what comes later goes by
// late_refund, also where nobody has rolled the budget over yet.
func periodReturns(w *sqlWorld) {
	type figures struct{ unfunded, left, forfeited int64 }
	for _, tc := range []struct {
		unused, late budget.Where
		want         figures // with 10 of 40 used, of which 1 came back in time and 2 + 4 late
	}{
		{budget.Spread, budget.ToTotal, figures{957, 40, 0}},
		{budget.Spread, budget.Next, figures{951, 46, 0}},
		{budget.Spread, budget.Forfeit, figures{951, 40, 6}},
		{budget.Next, budget.ToTotal, figures{926, 71, 0}},
		{budget.Next, budget.Forfeit, figures{920, 71, 6}},
		{budget.Forfeit, budget.ToTotal, figures{926, 40, 31}},
		{budget.Forfeit, budget.Next, figures{920, 46, 31}},
	} {
		name := string(tc.unused) + "-" + string(tc.late)
		b := w.daily(name, 1000, day(tc.unused), late(tc.late))
		w.use(b.Buckets[0].Ref(), "a", 10)
		w.until(dayLong - time.Millisecond)
		w.giveBack(b.ID, "a", "in time", 1)
		w.until(dayLong)
		w.giveBack(b.ID, "a", "before the roll-over", 2)
		equal(w, "late", w.epoch(b.Buckets[0].Ref()).Late, 2)
		equal(w, "swept while the roll-over is due", must(w.db.Sweep(w.ctx, b.ID))(w), 0)
		w.until(dayLong - time.Millisecond) // by the clock of another node
		equal(w, "swept by a clock that is behind", must(w.db.Sweep(w.ctx, b.ID))(w), 0)
		w.until(dayLong)
		w.rollOver(b.ID)
		w.giveBack(b.ID, "a", "after it", 4)
		equal(w, "returning", must(w.db.Figures(w.ctx, b.ID))(w).Returning, 7)
		equal(w, "swept", must(w.db.Sweep(w.ctx, b.ID))(w), 7)
		equal(w, "late, swept", w.epoch(b.Buckets[0].Ref()).Late, 0)
		w.holds(name, b.ID, tc.want.unfunded, tc.want.left, 0, 3, tc.want.forfeited)
		w.until(2 * dayLong)
		w.giveBack(b.ID, "a", "when another roll-over is due", 3)
		equal(w, "swept while another roll-over is due", must(w.db.Sweep(w.ctx, b.ID))(w), 0)
		w.rollOver(b.ID)
		equal(w, "swept after it", must(w.db.Sweep(w.ctx, b.ID))(w), 3)
		carried := int64(0)
		if tc.late == budget.Next {
			carried = 3
		}
		equal(w, "carried into the period that is open then", w.period(b.ID, 3).Carried-w.period(b.ID, 2).Passed, carried)
	}
	b := w.daily("over", 1000, day(budget.Next), late(budget.Next), endsAfter(1))
	w.use(b.Buckets[0].Ref(), "a", 10)
	w.until(dayLong)
	w.rollOver(b.ID)
	w.giveBack(b.ID, "a", "nobody can get it", 4)
	must(w.db.Sweep(w.ctx, b.ID))(w)
	w.holds("no period is open", b.ID, 994, 0, 0, 6, 0)
}

// periodEndMoves: units that were given back after the end are of the period again when its end moves on, and stay
// late when it does not.
func periodEndMoves(w *sqlWorld) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		b := w.daily(string(durability), 1000, day(budget.Forfeit), late(budget.ToTotal), func(d *budget.Definition) {
			d.Durability, d.EndAt = durability, diffStart.Add(12*time.Hour)
		})
		w.use(b.Buckets[0].Ref(), "a", 10)
		w.until(12 * time.Hour)
		w.giveBack(b.ID, "a", "after the end", 4)
		w.until(12*time.Hour - time.Millisecond) // by the clock of another node
		less := day(budget.Forfeit)
		less.Quantity = 39
		must(w.db.Change(w.ctx, b.ID, bucket.Change{Rule: &less}))(w)
		equal(w, "late after a rule that ends the period", w.epoch(b.Buckets[0].Ref()).Late, 4)
		equal(w, "swept", must(w.db.Sweep(w.ctx, b.ID))(w), 0)
		end := diffStart.Add(14 * time.Hour)
		must(w.db.Change(w.ctx, b.ID, bucket.Change{EndAt: &end}))(w)
		equal(w, "late before an end to come", w.epoch(b.Buckets[0].Ref()).Late, 0)
		equal(w, "swept", must(w.db.Sweep(w.ctx, b.ID))(w), 4)
		w.holds(string(durability), b.ID, 960, 34, 0, 6, 0)
	}
}

func periodQuarantine(w *sqlWorld) {
	for _, tc := range []struct {
		unused                    budget.Where
		unfunded, left, forfeited int64
	}{{budget.Spread, 960, 40, 0}, {budget.Next, 920, 80, 0}, {budget.Forfeit, 920, 40, 40}} {
		name := string(tc.unused)
		b := w.daily(name, 1000, day(tc.unused), inStore)
		refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref()}
		equal(w, "used", w.uses("n-"+name, laneOf(0), refs[0].Activation), bucket.UseNoted)
		w.until(dayLong)
		w.rollOver(b.ID)
		lost := must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: refs[0], Force: true}))(w)
		equal(w, "quarantined", lost.Quarantined, 20)
		lost = must(w.db.EndLost(w.ctx, bucket.LostOrder{Ref: refs[1]}))(w)
		equal(w, "returned", lost.Returned, 20)
		units, _, err := w.db.Release(w.ctx, bucket.ReleaseOrder{Budget: b.ID, RequestID: "all", Reason: "r", By: "op"})
		if err != nil || units != 20 {
			w.Fatalf("released %d, %v", units, err)
		}
		w.holds(name, b.ID, tc.unfunded, tc.left, 0, 0, tc.forfeited)
		equal(w, "quarantined", must(w.db.Figures(w.ctx, b.ID))(w).Quarantined, 0)
	}
}

// periodJudge: the sum has what the open period may get; what only a later one may get is Later.
func periodJudge(w *sqlWorld) {
	for _, tc := range []struct {
		unused, late budget.Where
		want         bucket.Cover
	}{
		// 20 are in a fenced epoch of yesterday; of 10 used yesterday 3 came back in time, 4 late.
		{budget.Spread, budget.ToTotal, bucket.Cover{Outstanding: 40, Later: 920 + 10 + 7}},
		{budget.Next, budget.ToTotal, bucket.Cover{Outstanding: 50, Returning: 3, Later: 920 + 4}},
		{budget.Spread, budget.Next, bucket.Cover{Outstanding: 40, Returning: 4, Later: 920 + 10 + 3}},
		{budget.Next, budget.Next, bucket.Cover{Outstanding: 50, Returning: 7, Later: 920}},
	} {
		b := w.daily(string(tc.unused)+"-"+string(tc.late), 1000, day(tc.unused), late(tc.late))
		ref := b.Buckets[0].Ref()
		w.use(ref, "a", 10)
		w.until(dayLong - time.Millisecond)
		w.giveBack(b.ID, "a", "in time", 3)
		w.ok(w.db.Fence(w.ctx, ref, "broken"))
		w.until(dayLong)
		w.giveBack(b.ID, "a", "late", 4)
		w.rollOver(b.ID)
		j := must(w.db.Judge(w.ctx, b.ID, []string{"a"}))(w)
		want := tc.want
		if tc.unused == budget.Next { // the second bucket's 20 of yesterday
			want.Outstanding += 20
		} else {
			want.Later += 20
		}
		equal(w, "open", j.Period, w.read(b.ID).Period)
		f := must(w.db.Figures(w.ctx, b.ID))(w)
		got := j.Cover
		got.Outstanding, got.Undistributed = got.Outstanding+got.Undistributed, 0 // the fenced bucket gets nothing
		equal(w, b.Name, got, want)
		equal(w, "all of it", got.Sum()+got.Later, f.Total-f.Used-f.Forfeited)
	}
}

func periodAdjust(w *sqlWorld) {
	b := w.daily("b", 100, day(budget.Next), endsAfter(10))
	w.use(b.Buckets[0].Ref(), "a", 10)
	w.until(dayLong)
	w.rollOver(b.ID) // 30 carried, 40 of 60 funded
	w.holds("the second day", b.ID, 20, 70, 0, 10, 0)
	shrink := func(id string, units int64) bucket.AdjustmentState {
		state, _, err := w.db.Adjust(w.ctx, bucket.Adjustment{Budget: b.ID, RequestID: id, Quantity: -units,
			Deadline: w.db.Now().Add(time.Hour)})
		w.ok(err)
		return state
	}
	equal(w, "of what is not funded", shrink("s1", 15), bucket.AdjustmentDone)
	w.gone("the open day keeps its units", b.ID, 2, [5]int64{40, 30, 0, 0, 0})
	equal(w, "beyond it", shrink("s2", 60), bucket.AdjustmentPending)
	for i := range w.read(b.ID).Buckets {
		w.offline(b.ID, w.read(b.ID).Buckets[i].Ref(), bucket.ByService, true, nil)
	}
	equal(w, "releasable", len(must(w.db.HandOut(w.ctx, b.ID))(w).Grants), 0)
	equal(w, "taken back", shrink("s2", 60), bucket.AdjustmentDone)
	// 5 of F, all 40 that the day got of it, 15 of what the first day left to it.
	w.gone("the open day", b.ID, 2, [5]int64{0, 30, 15, 0, 0})
	w.holds("shrunk", b.ID, 0, 15, 0, 10, 0)
	_, _, err := w.db.Adjust(w.ctx, bucket.Adjustment{Budget: b.ID, RequestID: "s3", Quantity: -16})
	if e := w.refused(err, budget.AmountExceedsRemaining); e.Available == nil || *e.Available != 15 {
		w.Errorf("%v", e)
	}
	must(w.append(b.ID, "a1", 25))(w)
	w.gone("an append tops the day up", b.ID, 2, [5]int64{25, 30, 15, 0, 0})
	must(w.append(b.ID, "a2", 100))(w)
	w.gone("up to its quantity", b.ID, 2, [5]int64{40, 30, 15, 0, 0})
	w.holds("appended", b.ID, 85, 55, 0, 10, 0)
}
