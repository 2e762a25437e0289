package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/series"
)

var sampleTests = []sqlTest{
	{"samples/of a span, and the one before", samplesOfSpan},
	{"samples/one that is there stays as it is", samplesOnce},
	{"samples/several nodes at once", samplesAtOnce},
	{"samples/the newest of each budget", samplesNewest},
	{"samples/old ones are dropped, so many at a time", samplesDropped},
	{"samples/what epochs hold", samplesHoldings},
}

// sampleOf is a sample with a figure in every column, all different.
func (w *sqlWorld) sampleOf(budgetID int64, minute int, used int64) bucket.Sample {
	const most = budget.MaxAmount
	return bucket.Sample{Budget: budgetID, Point: series.Point{At: w.minute(minute), Figures: series.Figures{
		Total: most, Undistributed: 2, Quarantined: 3, Forfeited: 4, Remaining: 5, InTransit: 6, Held: 7, Used: used,
		Stranded: 9}}}
}

func (w *sqlWorld) minute(n int) time.Time {
	return time.Date(2026, 5, 1, 12, n, 0, 0, time.UTC)
}

// reads checks the samples of a span, by budget, minute and used.
func (w *sqlWorld) reads(budgetID int64, from, to time.Time, limit int, want ...bucket.Sample) {
	w.Helper()
	got := must(w.db.SamplesOf(w.ctx, budgetID, from, to, limit))(w)
	for i := range got {
		got[i].At = got[i].At.UTC()
	}
	if !slices.Equal(got, want) {
		w.Errorf("samples of %d from %v to %v:\n%v\nwant\n%v", budgetID, from, to, got, want)
	}
}

func samplesOfSpan(w *sqlWorld) {
	w.ok(w.db.AddSamples(w.ctx, nil))
	s := make([]bucket.Sample, 6)
	for i := range s {
		s[i] = w.sampleOf(1, i, int64(i))
	}
	w.ok(w.db.AddSamples(w.ctx, []bucket.Sample{s[4], s[0], s[2], w.sampleOf(2, 2, 99)}))
	w.ok(w.db.AddSamples(w.ctx, []bucket.Sample{s[3], s[1]}))
	second := time.Second
	w.reads(1, w.minute(2), w.minute(4), 100, s[2], s[3], s[4])
	w.reads(1, w.minute(2).Add(second), w.minute(4).Add(-second), 100, s[2], s[3])
	w.reads(1, w.minute(2).Add(-time.Millisecond), w.minute(3), 100, s[1], s[2], s[3])
	w.reads(1, w.minute(-9), w.minute(0), 100, s[0])
	w.reads(1, w.minute(-9), w.minute(-1), 100)
	w.reads(1, w.minute(9), w.minute(10), 100, s[4])
	w.reads(1, w.minute(0), w.minute(9), 2, s[0], s[1], s[2])
	w.reads(3, w.minute(0), w.minute(9), 100)
}

func samplesOnce(w *sqlWorld) {
	w.ok(w.db.AddSamples(w.ctx, []bucket.Sample{w.sampleOf(1, 0, 1), w.sampleOf(1, 0, 2)}))
	w.ok(w.db.AddSamples(w.ctx, []bucket.Sample{w.sampleOf(1, 0, 3), w.sampleOf(1, 1, 4), w.sampleOf(2, 0, 5)}))
	w.reads(1, w.minute(0), w.minute(9), 100, w.sampleOf(1, 0, 1), w.sampleOf(1, 1, 4))
	w.reads(2, w.minute(0), w.minute(9), 100, w.sampleOf(2, 0, 5))
}

func samplesAtOnce(w *sqlWorld) {
	const nodes, budgets = 4, 20
	var all sync.WaitGroup
	for node := range nodes {
		all.Go(func() {
			for minute := range 3 {
				var samples []bucket.Sample
				for b := range int64(budgets) {
					samples = append(samples, w.sampleOf(b+1, minute, int64(node)))
				}
				if err := w.db.AddSamples(w.ctx, samples); err != nil {
					w.Error(err)
				}
			}
		})
	}
	all.Wait()
	for b := range int64(budgets) {
		got := must(w.db.SamplesOf(w.ctx, b+1, w.minute(0), w.minute(9), 100))(w)
		if len(got) != 3 {
			w.Errorf("budget %d has %d samples, want 3", b+1, len(got))
		}
	}
}

func samplesNewest(w *sqlWorld) {
	var ids []int64
	for i := range 4 {
		ids = append(ids, w.create(fmt.Sprint("b", i), 10, 1).ID)
	}
	w.ok(w.db.AddSamples(w.ctx, []bucket.Sample{w.sampleOf(ids[0], 3, 1), w.sampleOf(ids[0], 1, 2),
		w.sampleOf(ids[1], 2, 3),
		w.sampleOf(ids[3], 9, 4)}))
	got := must(w.db.LastSamples(w.ctx, ids[0], ids[2]))(w)
	if len(got) != 2 || got[ids[0]].Used != 1 || !got[ids[0]].At.Equal(w.minute(3)) || got[ids[1]].Used != 3 ||
		got[ids[0]].Budget != ids[0] {
		w.Errorf("%+v", got)
	}
	equal(w, "of none", len(must(w.db.LastSamples(w.ctx, ids[2], ids[2]))(w)), 0)
}

func samplesDropped(w *sqlWorld) {
	drop := func(before time.Time, limit, want int) {
		w.Helper()
		equal(w, "dropped", must(w.db.DropSamples(w.ctx, before, limit))(w), want)
	}
	drop(w.minute(9), 100, 0)
	var all []bucket.Sample
	for i := range 5 {
		all = append(all, w.sampleOf(2, i, 1), w.sampleOf(1, i, 1))
	}
	w.ok(w.db.AddSamples(w.ctx, all))
	drop(w.minute(0), 100, 0)
	drop(w.minute(3), 2, 2)
	w.reads(1, w.minute(-1), w.minute(9), 100, w.sampleOf(1, 1, 1), w.sampleOf(1, 2, 1), w.sampleOf(1, 3, 1),
		w.sampleOf(1, 4, 1))
	drop(w.minute(3), 100, 4)
	drop(w.minute(3), 100, 0)
	for _, id := range []int64{1, 2} {
		w.reads(id, w.minute(-1), w.minute(9), 100, w.sampleOf(id, 3, 1), w.sampleOf(id, 4, 1))
	}
}

func samplesHoldings(w *sqlWorld) {
	a, b := w.create("a", 30, 3), w.create("b", 5, 1)
	w.ok(w.db.Fence(w.ctx, a.Buckets[1].Ref(), "tampered"))
	if !must(w.db.Ending(w.ctx, a.ID, a.Buckets[2].Ref(), bucket.ByOperator, false))(w) {
		w.Fatal("not ended")
	}
	want := []bucket.Holding{
		{Budget: a.ID, Lane: laneOf(0), Outstanding: 10, Open: true},
		{Budget: a.ID, Lane: laneOf(1), Outstanding: 10, Open: true, Fenced: true},
		{Budget: a.ID, Lane: laneOf(2), Outstanding: 10},
	}
	if got := must(w.db.Holdings(w.ctx, a.ID, a.ID))(w); !slices.Equal(got, want) {
		w.Errorf("%+v\nwant\n%+v", got, want)
	}
	w.use(b.Buckets[0].Ref(), "all", 5)
	equal(w, "of one that holds nothing", len(must(w.db.Holdings(w.ctx, b.ID, b.ID))(w)), 0)
	equal(w, "of both", len(must(w.db.Holdings(w.ctx, a.ID, b.ID))(w)), 3)
}
