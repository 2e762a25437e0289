package alerting_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/alerting"
	"github.com/budgetd/budgetd/bucket/sample"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/webhook"
)

// TestAlertsOfBothNodes lets two nodes watch a budget that is used up and raised. Each alert must
// be recorded and sent once.
func TestAlertsOfBothNodes(t *testing.T) {
	each(t, func(w *world) {
		b, quiet := w.Create("a", 100, 1), w.Create("quiet", 100, 2)
		all, other := w.endpoint(alert.Endpoint{}), w.endpoint(alert.Endpoint{Tenant: "other"})
		firing := w.endpoint(alert.Endpoint{Tenant: "default", Types: []string{alert.TypeFiring}})
		both := func() { w.pass(w.a); w.pass(w.b); w.pass(w.a) }
		w.use(quiet, 39)
		both()
		w.use(b, 96)
		both()
		w.use(b, 4)
		both()
		w.raise(b, 20)
		both()
		w.use(b, 0)
		w.OK(w.s.SetThresholds(w.Ctx, bucket.BudgetRef{ID: b.ID},
			[]alert.Threshold{{Kind: alert.UsedShare, Of: alert.Total, Percent: 82}}))
		both()
		w.same("alerts", w.alerts(), []string{"a used_share/total/95/1 total_raised",
			"a used_share/total/80/1 by 1 threshold_removed", "a exhausted/total/1 total_raised",
			"a used_share/total/82/1"})
		want := []string{"alert.firing a used_share/total/95[used_share/total/80]", "alert.firing a exhausted/total[]",
			"alert.resolved a exhausted/total total_raised[]", "alert.resolved a used_share/total/95 total_raised[]"}
		sent := w.sent(all)
		slices.Sort(sent[2:4]) // they are of one transaction
		w.same("messages", sent[:4], want)
		if n := len(w.sent(all)); n != 6 {
			w.Errorf("%v", w.sent(all))
		}
		w.same("firing only", w.sent(firing), append(want[:2:2], "alert.firing a used_share/total/82[]"))
		w.same("of another tenant", w.sent(other), nil)
	})
}

// TestNodesAtOnce lets many nodes evaluate the same figures concurrently, and one node older
// figures.
func TestNodesAtOnce(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 100, 1)
		e := w.endpoint(alert.Endpoint{})
		at := w.DB.Now().Truncate(time.Millisecond)
		subject := func(spent int64, age time.Duration) alert.Subject {
			return alert.Subject{Budget: b.ID, Tenant: "default", Name: "a", Thresholds: alert.Defaults(),
				Figures: alert.Figures{At: at.Add(-age), Of: map[string]alert.Units{
					"total": {Total: 100, Spent: spent, Left: 100 - spent}}}}
		}
		var running sync.WaitGroup
		for range 8 {
			running.Go(func() {
				if _, err := w.s.Evaluate(w.Ctx, []alert.Subject{subject(96, 0)}); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		// A slow node with older figures must not resolve the alerts.
		if _, err := w.s.Evaluate(w.Ctx, []alert.Subject{subject(10, time.Second)}); err != nil {
			t.Error(err)
		}
		w.same("alerts", w.alerts(), []string{"a used_share/total/95/1", "a used_share/total/80/1 by 1"})
		if got := w.sent(e); len(got) != 1 {
			w.Errorf("%v", got)
		}
	})
}

// TestOutboxIsAtomic checks that no state is written without its message: a transaction whose
// message cannot be written changes nothing.
func TestOutboxIsAtomic(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 100, 1)
		e := w.endpoint(alert.Endpoint{})
		w.use(b, 90)
		broken := alerting.New(w.s.Config)
		broken.Outbox = &alerting.Outbox{DB: w.DB, Random: failing{}}
		k := &alerting.Evaluator{Service: broken}
		w.Clock.Advance(time.Second)
		k.Begin()
		books, err := w.books.Snapshots(w.Ctx, 0, 100)
		w.OK(err)
		if err := k.Page(w.Ctx, books); err == nil {
			t.Error("a message without an id was written")
		}
		w.same("alerts", w.alerts(), nil)
		w.pass(w.a)
		w.same("alerts afterwards", w.alerts(), []string{"a used_share/total/80/1"})
		if got := w.sent(e); len(got) != 1 {
			t.Error(got)
		}
	})
}

var _ webhook.Outbox = (*alerting.Outbox)(nil)

// failing is a source of randomness that returns an error.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no randomness") }

// TestSamples checks thresholds that are evaluated by samples, once a minute.
func TestSamples(t *testing.T) {
	each(t, func(w *world) {
		b, young := w.Create("a", 10_000, 2), w.Create("young", 10_000, 1)
		add := func(age time.Duration, used, stranded int64) {
			w.Helper()
			point := bucket.Sample{Budget: b.ID}
			point.At = w.DB.Now().Add(-age).Truncate(time.Minute)
			point.Total, point.Used, point.Stranded, point.InBuckets = 10_000, used, stranded, 10_000-used
			w.OK(sample.New(sample.Config{DB: w.DB}).Add(w.Ctx, []bucket.Sample{point}))
		}
		add(40*time.Minute, 0, 0)
		add(5*time.Minute, 100, 2500)
		point := bucket.Sample{Budget: young.ID}
		point.At, point.Total = w.DB.Now().Add(-10*time.Minute).Truncate(time.Minute), 10_000
		w.OK(sample.New(sample.Config{DB: w.DB}).Add(w.Ctx, []bucket.Sample{point}))
		w.use(young, 5000) // too young for a projection
		w.use(b, 100)      // at this rate the rest lasts for more than a day
		w.pass(w.a)
		w.same("stranded", w.alerts(), []string{"a stranded_share/25/1"})
		w.Clock.Advance(time.Minute)
		w.use(b, 500)
		add(0, 600, 2500)
		w.pass(w.a)
		w.same("both", w.alerts(), []string{"a stranded_share/25/1", "a projected/total/1"})
		w.OK(w.s.SetThresholds(w.Ctx, bucket.BudgetRef{ID: young.ID}, []alert.Threshold{}))
		w.Clock.Advance(30 * time.Minute)
		add(20*time.Minute, 601, 0)
		add(16*time.Minute, 600, 0)
		w.pass(w.b)
		w.same("without use", w.alerts(), []string{"a stranded_share/25/1 recovered", "a projected/total/1 recovered"})
	})
}

// TestQueries checks every filter of a query, and that old alerts and messages are removed.
func TestQueries(t *testing.T) {
	each(t, func(w *world) {
		a, b := w.Create("a", 100, 1), w.Create("b", 100, 1)
		e := w.endpoint(alert.Endpoint{})
		w.use(a, 90)
		w.pass(w.a)
		w.use(b, 90)
		w.pass(w.a)
		w.raise(a, 100)
		w.pass(w.a)
		for _, test := range []struct {
			query alert.Query
			want  string
		}{{alert.Query{}, "[2 1]"}, {alert.Query{State: alert.StateFiring}, "[2]"}, {alert.Query{State: alert.StateResolved}, "[1]"},
			{alert.Query{Budget: a.ID}, "[1]"}, {alert.Query{Tenant: "default"}, "[2 1]"},
			{alert.Query{Tenant: "other"}, "[]"}, {alert.Query{Before: 2}, "[1]"}} {
			test.query.Limit = 10
			views, err := w.s.Alerts(w.Ctx, test.query)
			w.OK(err)
			ids := []int64{}
			for _, v := range views {
				ids = append(ids, v.ID)
			}
			if got := fmt.Sprint(ids); got != test.want {
				t.Errorf("%+v: %s, want %s", test.query, got, test.want)
			}
		}
		w.OK(w.s.Prune(w.Ctx, w.DB.Now().Add(-time.Hour)))
		if n := len(w.sent(e)); n != 3 {
			t.Errorf("%d messages", n)
		}
		w.OK(w.s.Prune(w.Ctx, w.DB.Now().Add(time.Millisecond)))
		w.same("a firing alert stays", w.alerts(), []string{"b used_share/total/80/1"})
		w.same("messages", w.sent(e), nil)
	})
}

// TestThresholds checks that a budget has the default thresholds or its own, and that invalid ones
// are refused.
func TestThresholds(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 100, 1)
		ref := bucket.BudgetRef{ID: b.ID}
		check := func(want int, wantOwn bool) {
			w.Helper()
			list, own, err := w.s.Thresholds(w.Ctx, ref)
			if err != nil || len(list) != want || own != wantOwn {
				w.Errorf("%v, %t, %v", list, own, err)
			}
		}
		check(len(alert.Defaults()), false)
		for _, list := range [][]alert.Threshold{{{Kind: alert.Quarantine}}, {}, {{Kind: alert.StrandedShare, Percent: 1}}} {
			w.OK(w.s.SetThresholds(w.Ctx, ref, list))
			check(len(list), true)
		}
		for _, wrong := range []alert.Threshold{{Kind: "x"}, {Kind: alert.UsedShare, Of: alert.Total},
			{Kind: alert.UsedShare, Of: alert.Limit, Limit: "per-user", Value: "x", Percent: 5}, {Kind: alert.Exhausted},
			{Kind: alert.Quarantine, Percent: 5}, {Kind: alert.Projected, Of: alert.Limit}} {
			if err := w.s.SetThresholds(w.Ctx, ref, []alert.Threshold{wrong}); !budget.Is(err, budget.Invalid) {
				t.Errorf("%+v: %v", wrong, err)
			}
		}
		check(1, true)
		w.OK(w.s.SetThresholds(w.Ctx, ref, nil))
		check(len(alert.Defaults()), false)
		if _, _, err := w.s.Thresholds(w.Ctx, bucket.BudgetRef{ID: 99}); !budget.Is(err, budget.BudgetNotFound) {
			t.Error(err)
		}
	})
}
