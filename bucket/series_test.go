package bucket_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// sampling is quick, with samples.
func sampling(every time.Duration) bucket.Settings {
	set := quick
	set.Audit, set.KeepSeries, set.SampleEvery = 20*time.Millisecond, 192*time.Hour, every
	return set
}

// TestSamplesFollowTheFigures: whatever changes is sampled, through whichever node, and what does not
// change is not.
func TestSamplesFollowTheFigures(t *testing.T) { everywhere(t, samplesFollowTheFigures) }

func samplesFollowTheFigures(t *testing.T, w *world) {
	const every = 100 * time.Millisecond
	nodes := []*bucket.Service{w.node(sampling(every)), w.node(sampling(every))}
	ref, still := w.create(nodes[0], promo("used", 1000, 2)), w.create(nodes[0], promo("still", 50, 1))
	for i, used := range []int64{7, 15, 3} {
		if _, err := deduct(nodes[i%2], ref, fmt.Sprint("o", i), used); err != nil {
			t.Fatal(err)
		}
	}
	ctx, begin := context.Background(), time.Now().Add(-time.Hour)
	read := func(ref bucket.BudgetRef) []bucket.Sample {
		samples, err := w.sql.SamplesOf(ctx, ref.ID, begin, time.Now().Add(time.Hour), 10_000)
		if err != nil {
			t.Fatal(err)
		}
		return samples
	}
	latest := func(used, remaining int64) func() bool {
		return func() bool {
			all := read(ref)
			return len(all) > 0 && all[len(all)-1].Used == used && all[len(all)-1].Remaining == remaining
		}
	}
	w.until("a sample of what was used", latest(25, 975))
	w.until("a sample of the other budget", func() bool { return len(read(still)) > 0 })
	if _, err := nodes[1].Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "o1"}); err != nil {
		t.Fatal(err)
	}
	w.until("a sample of what was given back", func() bool {
		all := read(ref)
		last := all[len(all)-1]
		return last.Used == 10 && last.Available() == 990 && last.Total == 1000
	})
	before := w.sql.Now()
	w.until("some samples' time", func() bool { return w.sql.Now().Sub(before) > 5*every })
	for i, samples := range [][]bucket.Sample{read(ref), read(still)} {
		for j := range samples {
			if j > 0 && !samples[j].At.After(samples[j-1].At) {
				t.Errorf("budget %d: %+v after %+v", i, samples[j], samples[j-1])
			}
			if !samples[j].At.Truncate(every).Equal(samples[j].At) {
				t.Errorf("a sample at %v", samples[j].At)
			}
		}
	}
	// It was opening, then it was not; and two nodes that are slow may each add the same figures once.
	if samples := read(still); len(samples) > 6 {
		t.Errorf("%d samples of a budget that nobody uses", len(samples))
	}
	w.settled(nodes[0], ref, 10)
}

// looked is an observer that counts the looks through all budgets.
type looked struct {
	bucket.Observer
	looks atomic.Int64
}

func (l *looked) Budgets(shown []bucket.BudgetFigures, all ledger.Figures) {
	l.looks.Add(1)
	l.Observer.Budgets(shown, all)
}

// TestSeries: the points of a span, the present figures, the projection within the budget's end, and old
// samples are forgotten.
func TestSeries(t *testing.T) {
	w := newWorld(t)
	start := time.Date(2026, 5, 1, 12, 0, 10, 0, time.UTC)
	var offset atomic.Int64
	sqlNow := func() time.Time { return start.Add(time.Duration(offset.Load())) }
	w.model = memstore.NewSQL(sqlNow)
	w.sql = w.model
	looks := &looked{Observer: metrics.New("test")}
	w.observer = looks
	s := w.node(sampling(0)) // a minute
	d := promo("sale", 1000, 2)
	d.EndAt = start.Add(24 * time.Hour)
	ref, ctx := w.create(s, d), context.Background()
	samples := func() []bucket.Sample {
		all, err := w.sql.SamplesOf(ctx, ref.ID, start.Add(-time.Hour), start.Add(100*24*time.Hour), 1000)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	get := func(span series.Span) bucket.SeriesAnswer {
		t.Helper()
		answer, err := s.Series(ctx, bucket.SeriesRequest{Budget: ref, Span: span})
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	if a := get(series.Span{}); len(a.Points) != 0 || a.Projection.Outlook != series.NotKnown || a.Now.Remaining != 1000 {
		t.Errorf("before the first sample: %+v", a)
	}
	w.until("a look in the node's first minute", func() bool { return looks.looks.Load() > 0 })
	for i := range 3 { // 60 a minute
		offset.Store(int64(time.Duration(i+1) * time.Minute))
		w.until("a sample", func() bool { return len(samples()) == i+1 })
		if _, err := deduct(s, ref, fmt.Sprint("o", i), 60); err != nil {
			t.Fatal(err)
		}
	}
	at := func(minute int) time.Time {
		return start.Add(-10 * time.Second).Add(time.Duration(minute) * time.Minute)
	}
	a := get(series.Span{From: at(0)})
	used := func() (list []int64) {
		for _, p := range a.Points {
			list = append(list, p.Used)
		}
		return list
	}
	if !slices.Equal(used(), []int64{0, 60, 120}) || !a.Points[0].At.Equal(at(1)) || a.Now.Used != 180 {
		t.Errorf("%v, now %+v", used(), a.Now)
	}
	// 180 within 2 min 10 s; 820 left.
	const rate = 180.0 / 130
	if p := a.Projection; p.Outlook != series.Projected || p.Rate != rate ||
		p.ExhaustedAt.Sub(sqlNow()).Round(time.Second) != 592*time.Second {
		t.Errorf("%+v", p)
	}
	over := start.Add(10 * time.Minute)
	if _, err := s.Change(ctx, ref, bucket.Change{EndAt: &over}); err != nil {
		t.Fatal(err)
	}
	if p := get(series.Span{}).Projection; p.Outlook != series.NotBeforeEnd || !p.ExhaustedAt.IsZero() {
		t.Errorf("a budget that ends before: %+v", p)
	}
	_, err := s.Series(ctx, bucket.SeriesRequest{Budget: ref, Span: series.Span{Step: time.Second}})
	if !budget.Is(err, budget.Invalid) {
		t.Errorf("a step of a second: %v", err)
	}
	if _, err = s.Series(ctx, bucket.SeriesRequest{Budget: bucket.BudgetRef{ID: 99}}); !budget.Is(err, budget.BudgetNotFound) {
		t.Errorf("no budget: %v", err)
	}
	offset.Store(int64(9 * 24 * time.Hour))
	w.until("only the newest sample", func() bool {
		all := samples()
		return len(all) == 1 && all[0].Used == 180 && all[0].At.Equal(at(9*1440))
	})
}
