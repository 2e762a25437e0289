package sample

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/audit"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/series"
)

// world is a database with samplers of two nodes.
type world struct {
	*fixture.World
	books *audit.Service
	s     *Service
	a, b  *Sampler
}

func each(t *testing.T, run func(w *world)) {
	fixture.OnEveryEngine(t, func(f *fixture.World) {
		defs := manage.NewLedger(f.DB)
		budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: defs, Size: 100})
		f.OK(err)
		s := New(Config{DB: f.DB, Budgets: budgets, Figures: defs.Figures, Keep: 2 * time.Hour})
		w := &world{World: f, books: audit.New(audit.Config{DB: f.DB}), s: s, a: &Sampler{Service: s},
			b: &Sampler{Service: s}}
		w.Clock.Advance(time.Minute - time.Duration(w.DB.Now().UnixNano()%int64(time.Minute)))
		run(w)
	})
}

// pass passes over all budgets, two at a time.
func (w *world) pass(k *Sampler) {
	w.Helper()
	k.Begin()
	for after := int64(0); ; {
		books, err := w.books.Snapshots(w.Ctx, after, 2)
		w.OK(err)
		w.OK(k.Page(w.Ctx, books))
		if len(books) < 2 {
			break
		}
		after = books[1].ID
	}
	k.End()
}

func (w *world) series(b fixture.Budget, span series.Span) bucket.SeriesAnswer {
	w.Helper()
	got, err := w.s.Series(w.Ctx, bucket.SeriesRequest{Budget: bucket.BudgetRef{ID: b.ID}, Span: span})
	w.OK(err)
	return got
}

// kept reads the samples of a budget.
func (w *world) kept(b fixture.Budget) []series.Point {
	w.Helper()
	got, err := w.s.samplesOf(w.Ctx, b.ID, time.Time{}, w.DB.Now())
	w.OK(err)
	return got
}

// TestSamples checks for one sample a minute if something has changed, by the first node.
func TestSamples(t *testing.T) {
	each(t, func(w *world) {
		budgets := []fixture.Budget{w.Create("a", 100, 2), w.Create("b", 100, 2), w.Create("c", 100, 2)}
		w.pass(w.a)
		w.pass(w.b)
		if got := w.kept(budgets[0]); len(got) != 0 {
			t.Errorf("a node that has just begun takes %v", got)
		}
		begin := w.DB.Now().Truncate(time.Minute)
		for minute := range 4 {
			w.Clock.Advance(time.Minute)
			w.pass(w.a)
			w.pass(w.b)
			if minute < 2 {
				w.Use(budgets[0].Buckets[0], []string{"x", "y"}[minute], 10)
			}
			w.pass(w.a)
		}
		for i, want := range []int{3, 1, 1} {
			if got := w.kept(budgets[i]); len(got) != want || !got[0].At.Equal(begin.Add(time.Minute)) {
				t.Errorf("budget %d: %v", i, got)
			}
		}
		got := w.kept(budgets[0])[2]
		if !got.At.Equal(begin.Add(3*time.Minute)) || got.Used != 20 || got.InBuckets != 80 || got.Total != 100 {
			t.Errorf("%+v", got)
		}
		answer := w.series(budgets[0], series.Span{From: begin, To: begin.Add(4 * time.Minute),
			Step: time.Minute})
		var used []int64
		for _, p := range answer.Points {
			used = append(used, p.Used)
		}
		if len(used) != 4 || used[0] != 0 || used[1] != 10 || used[2] != 20 || used[3] != 20 ||
			answer.Now.Used != 20 || answer.Projection.Outlook != series.Projected {
			t.Errorf("%v, %+v", used, answer.Projection)
		}
	})
}

// TestRemaining checks that a series has what deductions could take then: nothing before the window opens.
func TestRemaining(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 100, 2)
		w.pass(w.a)
		opens := w.DB.Now().Truncate(time.Minute).Add(2 * time.Minute)
		w.Exec([]any{`UPDATE budget_management_bucket SET period_start_ms = ? WHERE id = ?`, opens.UnixMilli(), b.ID})
		if now := w.series(b, series.Span{}).Now; now.Remaining != 0 || now.InBuckets != 100 {
			t.Errorf("before the window opens: %+v", now)
		}
		for range 3 {
			w.Clock.Advance(time.Minute)
			w.pass(w.a)
		}
		got := w.kept(b)
		if len(got) != 2 || got[0].Remaining != 0 || got[1].Remaining != 100 || !got[1].At.Equal(opens) ||
			w.series(b, series.Span{}).Now.Remaining != 100 {
			t.Errorf("%+v", got)
		}
	})
}

// TestStranded checks that halted units and fragments of a total count as stranded.
func TestStranded(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 400, 4)
		if got := w.series(b, series.Span{}).Now.Stranded; got != 0 {
			t.Errorf("%d units are stranded", got)
		}
		w.Use(b.Buckets[0], "most", 95)
		w.Exec([]any{`UPDATE bucket_epoch SET halted = ? WHERE bucket_id = ?`, []byte("why"), b.Buckets[1]})
		if got := w.series(b, series.Span{}).Now.Stranded; got != 5+100 {
			t.Errorf("%d units are stranded", got)
		}
		// What buckets of an unlimited budget hold in store mode is part of no total.
		w.Exec([]any{`UPDATE budget_management_bucket SET unlimited = 1, total_quantity = 0,
			out_quantity = 0 WHERE id = ?`,
			b.ID})
		if got := w.series(b, series.Span{}).Now.Stranded; got != 0 {
			t.Errorf("%d units of an unlimited budget are stranded", got)
		}
		w.Exec([]any{`UPDATE budget_management_bucket SET unlimited = 0, total_quantity = 400,
			out_quantity = 400 WHERE id = ?`, b.ID})
	})
}

// TestSamplesAreDropped checks that samples older than Keep are deleted, and that pages lose none before.
func TestSamplesAreDropped(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 100, 1)
		old := make([]bucket.Sample, samplePage)
		for i := range old {
			old[i] = bucket.Sample{Budget: b.ID, Point: series.Point{
				At: w.DB.Now().Add(-3*time.Hour - time.Duration(i)*time.Minute)}}
		}
		young := bucket.Sample{Budget: b.ID, Point: series.Point{At: w.DB.Now().Add(-time.Hour)}}
		w.OK(w.s.Add(w.Ctx, append(old, young)))
		if got := w.kept(b); len(got) != len(old)+1 {
			t.Errorf("%d samples of %d are read", len(got), len(old)+1)
		}
		w.OK(w.s.RunOnce(w.Ctx))
		if got := w.kept(b); len(got) != 1 || !got[0].At.Equal(young.At) {
			t.Errorf("%d samples are left", len(got))
		}
	})
}

// TestSeriesRefuses checks that an invalid span is refused.
func TestSeriesRefuses(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 100, 1)
		for ref, want := range map[bucket.BudgetRef]budget.Code{{ID: b.ID}: budget.Invalid,
			{ID: 99}: budget.BudgetNotFound} {
			_, err := w.s.Series(w.Ctx, bucket.SeriesRequest{Budget: ref, Span: series.Span{Step: time.Second}})
			if !budget.Is(err, want) {
				t.Errorf("%v: %v", ref, err)
			}
		}
	})
}
