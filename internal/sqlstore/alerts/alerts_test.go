package alerts_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/warn"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/alerts"
	"github.com/budgetd/budgetd/internal/sqlstore/audit"
	"github.com/budgetd/budgetd/internal/sqlstore/definitions"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/fixture"
	"github.com/budgetd/budgetd/internal/sqlstore/samples"
	"github.com/budgetd/budgetd/internal/webhook"
)

// world is a database whose budgets two nodes watch.
type world struct {
	*fixture.World
	p     *alerts.Part
	books *audit.Part
	s     *warn.Service
	a, b  *warn.Watch
	told  *told
	uses  int
}

func each(t *testing.T, run func(w *world)) {
	fixture.OnEveryEngine(t, func(f *fixture.World) {
		budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: definitions.New(f.DB), Size: 100})
		f.OK(err)
		p := alerts.New(f.DB, rand.Reader)
		s := warn.New(warn.Config{Budgets: budgets, Ledger: p, Samples: samples.New(f.DB), Now: f.DB.Now,
			Defaults: true, Observer: &told{}, Log: slog.New(slog.DiscardHandler)})
		run(&world{World: f, p: p, books: audit.New(f.DB), s: s, a: &warn.Watch{Service: s}, b: &warn.Watch{Service: s},
			told: s.Observer.(*told)})
	})
}

// told is what an observer was told.
type told struct {
	mu        sync.Mutex
	evaluated map[alert.Kind]int // since the last look
	firing    []string           // after each pass
	attempts  []alert.DeliveryState
	waiting   int
	oldest    time.Duration
}

func (o *told) AlertsEvaluated(thresholds map[alert.Kind]int) {
	if o.evaluated == nil {
		o.evaluated = map[alert.Kind]int{}
	}
	for kind, n := range thresholds {
		o.evaluated[kind] += n
	}
}

func (o *told) AlertsFiring(alerts map[alert.Kind]int) {
	text := ""
	for _, kind := range alert.Kinds() {
		if alerts[kind] != 0 {
			text += fmt.Sprintf("%s %d ", kind, alerts[kind])
		}
	}
	o.firing = append(o.firing, strings.TrimSpace(text))
}

func (o *told) WebhookAttempt(state alert.DeliveryState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.attempts = append(o.attempts, state)
}

func (o *told) WebhooksWaiting(n int, oldest time.Duration) { o.waiting, o.oldest = n, oldest }

// pass lets a node pass over all budgets, a second later.
func (w *world) pass(k *warn.Watch) {
	w.Helper()
	w.Clock.Advance(time.Second)
	k.Begin()
	books, err := w.books.Books(w.Ctx, 0, 100)
	w.OK(err)
	w.OK(k.Page(w.Ctx, books))
	k.End()
}

// use deducts from the first bucket.
func (w *world) use(b fixture.Budget, amount int64) {
	w.Helper()
	w.uses++
	w.Use(b.Buckets[0], fmt.Sprint("use", w.uses), amount)
}

// raise adds units to the total of a budget.
func (w *world) raise(b fixture.Budget, units int64) {
	w.Helper()
	w.uses++
	w.Exec([]any{`UPDATE budget_management_bucket SET total_quantity = total_quantity + ?,
		undistributed_quantity = undistributed_quantity + ? WHERE id = ?`, units, units, b.ID},
		[]any{`INSERT INTO adjustment (budget_id, request_id, quantity, fingerprint, nonce, status, deadline_ms,
		created_at, updated_at) VALUES (?, ?, ?, ?, ?, 'done', 0, 0, 0)`, b.ID, []byte(fmt.Sprint("raise", w.uses)),
			units, []byte{}, []byte{}},
		[]any{`UPDATE budget_period SET funded_quantity = funded_quantity + ? WHERE budget_id = ?`, units, b.ID})
}

// alerts lists all alerts, the oldest first.
func (w *world) alerts() (out []string) {
	w.Helper()
	views, err := w.s.Alerts(w.Ctx, alert.Query{Limit: 1000})
	w.OK(err)
	slices.Reverse(views)
	for _, v := range views {
		text := fmt.Sprintf("%s %s/%d", v.Name, v.Threshold, v.Episode)
		if v.ToldBy != v.ID {
			text += fmt.Sprint(" by ", v.ToldBy)
		}
		if !v.Firing() {
			text += " " + string(v.Reason)
		}
		out = append(out, text)
	}
	return out
}

// sent lists what an endpoint is sent, the oldest first.
func (w *world) sent(e alert.Endpoint) (out []string) {
	w.Helper()
	list, err := w.p.Deliveries(w.Ctx, e.ID, "", 1000)
	w.OK(err)
	for _, d := range slices.Backward(list) {
		var body struct {
			Type string
			Data struct {
				Budget, Threshold, Reason string
				Also                      []string
			}
		}
		w.OK(json.Unmarshal(d.Message.Body, &body))
		text := body.Type
		if body.Data.Threshold != "" {
			text = strings.TrimSpace(fmt.Sprint(body.Type, " ", body.Data.Budget, " ", body.Data.Threshold, " ",
				body.Data.Reason)) + fmt.Sprint(body.Data.Also)
		}
		out = append(out, text)
	}
	return out
}

func (w *world) endpoint(e alert.Endpoint) alert.Endpoint {
	w.Helper()
	e.Secret = "shop"
	if e.URL == "" {
		e.URL = "https://example.com/"
	}
	out, err := w.p.CreateEndpoint(w.Ctx, e)
	w.OK(err)
	return out
}

func (w *world) same(what string, got, want []string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAlertsOfBothNodes lets two nodes watch a budget that is used up and raised.
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
			"alert.resolved a exhausted/total total_raised[used_share/total/95]"}
		w.same("messages", w.sent(all)[:3], want)
		if n := len(w.sent(all)); n != 5 {
			w.Errorf("%v", w.sent(all))
		}
		w.same("firing only", w.sent(firing), append(want[:2:2], "alert.firing a used_share/total/82[]"))
		w.same("of another tenant", w.sent(other), nil)
	})
}

// TestNodesAtOnce lets many nodes settle the same at once, with figures of different age.
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
				if _, err := w.p.Evaluate(w.Ctx, []alert.Subject{subject(96, 0)}); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		// A slow node saw it before: it must not resolve what is true now.
		if _, err := w.p.Evaluate(w.Ctx, []alert.Subject{subject(10, time.Second)}); err != nil {
			t.Error(err)
		}
		w.same("alerts", w.alerts(), []string{"a used_share/total/95/1", "a used_share/total/80/1 by 1"})
		if got := w.sent(e); len(got) != 1 {
			w.Errorf("%v", got)
		}
	})
}

// TestOutboxIsAtomic checks that there is no state without its message: the transaction of a
// settlement whose message cannot be written changes nothing.
func TestOutboxIsAtomic(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 100, 1)
		e := w.endpoint(alert.Endpoint{})
		w.use(b, 90)
		broken := warn.New(w.s.Config)
		broken.Ledger = alerts.New(w.DB, failing{})
		k := &warn.Watch{Service: broken}
		w.Clock.Advance(time.Second)
		k.Begin()
		books, err := w.books.Books(w.Ctx, 0, 100)
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

var _ webhook.Outbox = (*alerts.Part)(nil)

// failing is a source of randomness that has none.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("no randomness") }

// TestSamplesCount checks thresholds that are judged by samples, once a minute.
func TestSamplesCount(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 10_000, 2)
		add := func(age time.Duration, used, stranded int64) {
			w.Helper()
			point := bucket.Sample{Budget: b.ID}
			point.At = w.DB.Now().Add(-age).Truncate(time.Minute)
			point.Total, point.Used, point.Stranded, point.Remaining = 10_000, used, stranded, 10_000-used
			w.OK(samples.New(w.DB).AddSamples(w.Ctx, []bucket.Sample{point}))
		}
		add(40*time.Minute, 0, 0)
		add(5*time.Minute, 100, 2500)
		w.use(b, 100) // in 15 minutes: the rest lasts for a day and more
		w.pass(w.a)
		w.same("stranded", w.alerts(), []string{"a stranded_share/25/1"})
		w.Clock.Advance(time.Minute)
		w.use(b, 500)
		add(0, 600, 2500)
		w.pass(w.a)
		w.same("both", w.alerts(), []string{"a stranded_share/25/1", "a projected/total/1"})
		w.Clock.Advance(30 * time.Minute)
		add(20*time.Minute, 601, 0)
		add(16*time.Minute, 600, 0)
		w.pass(w.b)
		w.same("at rest", w.alerts(), []string{"a stranded_share/25/1 recovered", "a projected/total/1 recovered"})
	})
}

// TestQueries checks what selects alerts, and that old ones are removed.
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
		w.OK(warn.Prune(w.Ctx, w.p, w.DB.Now().Add(-time.Hour)))
		if n := len(w.sent(e)); n != 3 {
			t.Errorf("%d messages", n)
		}
		w.OK(warn.Prune(w.Ctx, w.p, w.DB.Now().Add(time.Millisecond)))
		w.same("what fires stays", w.alerts(), []string{"b used_share/total/80/1"})
		w.same("messages", w.sent(e), nil)
	})
}

// TestThresholds checks whose thresholds a budget has.
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

// TestEndpoints creates, changes and deletes endpoints.
func TestEndpoints(t *testing.T) {
	each(t, func(w *world) {
		e := w.endpoint(alert.Endpoint{Tenant: "shop", Types: []string{alert.TypeFiring}, Description: "ü", CreatedBy: "jane"})
		got, err := w.p.Endpoint(w.Ctx, e.ID)
		w.OK(err)
		if fmt.Sprint(got) != fmt.Sprint(e) || e.CreatedAt.IsZero() {
			t.Errorf("%+v, want %+v", got, e)
		}
		off, url, types := false, "https://example.org/x", []string{}
		got, err = w.p.ChangeEndpoint(w.Ctx, e.ID, alert.EndpointChange{URL: &url, Types: &types, Enabled: &off})
		w.OK(err)
		if got.URL != url || len(got.Types) > 0 || got.Disabled != alert.ByOperator || got.Description != "ü" {
			t.Errorf("%+v", got)
		}
		bad := "ftp://example.org"
		if _, err := w.p.ChangeEndpoint(w.Ctx, e.ID, alert.EndpointChange{URL: &bad}); !budget.Is(err, budget.Invalid) {
			t.Error(err)
		}
		for range alert.MaxEndpoints - 1 {
			w.endpoint(alert.Endpoint{Tenant: "shop"})
		}
		if _, err := w.p.CreateEndpoint(w.Ctx, alert.Endpoint{Tenant: "shop"}); !budget.Is(err, budget.TooManyWebhooks) {
			t.Error(err)
		}
		w.endpoint(alert.Endpoint{})
		w.OK(w.p.DeleteEndpoint(w.Ctx, e.ID))
		if err := w.p.DeleteEndpoint(w.Ctx, e.ID); !budget.Is(err, budget.WebhookNotFound) {
			t.Error(err)
		}
		for tenant, want := range map[string]int{"shop": alert.MaxEndpoints - 1, "": alert.MaxEndpoints, "none": 0} {
			list, err := w.p.Endpoints(w.Ctx, tenant)
			if err != nil || len(list) != want {
				t.Errorf("%q: %d, %v", tenant, len(list), err)
			}
		}
	})
}

// attempt claims the only delivery that is due and records an attempt of it.
func (w *world) attempt(status int) alert.Endpoint {
	w.Helper()
	due, err := w.p.Due(w.Ctx, 10)
	w.OK(err)
	if len(due) != 1 {
		w.Fatalf("%d deliveries are due", len(due))
	}
	d, _, ok, err := w.p.Claim(w.Ctx, due[0], time.Minute)
	w.OK(err)
	if _, _, again, err := w.p.Claim(w.Ctx, due[0], time.Minute); !ok || again || err != nil {
		w.Fatalf("claimed %t and %t, %v", ok, again, err)
	}
	if more, err := w.p.Due(w.Ctx, 10); err != nil || len(more) > 0 {
		w.Errorf("what is claimed is due: %v, %v", more, err)
	}
	_, e, err := w.p.Finish(w.Ctx, d, alert.Attempt{At: w.DB.Now(), Status: status, Error: "it answered"}, 0)
	w.OK(err)
	return e
}

func (w *world) delivery(e alert.Endpoint) alert.Delivery {
	w.Helper()
	list, err := w.p.Deliveries(w.Ctx, e.ID, "", 1)
	w.OK(err)
	if len(list) != 1 {
		w.Fatal("no delivery")
	}
	return list[0]
}

// TestSchedule lets a delivery fail as often as it is tried, sends it again, and lets it succeed.
func TestSchedule(t *testing.T) {
	each(t, func(w *world) {
		e := w.endpoint(alert.Endpoint{})
		made, err := w.p.Test(w.Ctx, e.ID)
		w.OK(err)
		for i, pause := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
			5 * time.Hour, 10 * time.Hour, 10 * time.Hour} {
			w.attempt(500)
			d := w.delivery(e)
			if d.State != alert.Pending || d.Tries != i+1 || !d.DueAt.Equal(engine.FromMS(engine.ToMS(w.DB.Now().Add(pause)))) {
				t.Fatalf("%d: %+v", i, d)
			}
			w.Clock.Advance(pause - time.Millisecond)
			if due, err := w.p.Due(w.Ctx, 10); err != nil || len(due) > 0 {
				t.Fatalf("%d: due too early: %v", i, due)
			}
			w.Clock.Advance(time.Millisecond)
		}
		w.attempt(500)
		if d := w.delivery(e); d.State != alert.Failed || !d.DueAt.IsZero() || len(d.Attempts) != 8 {
			t.Errorf("%+v", d)
		}
		again, err := w.p.Resend(w.Ctx, e.ID, made.Message.ID)
		w.OK(err)
		if after := w.attempt(204); !after.FailingSince.IsZero() {
			t.Errorf("%+v", after)
		}
		d := w.delivery(e)
		if d.State != alert.Delivered || d.Message.ID != again.Message.ID || len(d.Attempts) != 9 || !d.Attempts[8].Succeeded() {
			t.Errorf("%+v", d)
		}
		for _, missing := range [][2]string{{e.ID, "msg_x"}, {"ep_x", made.Message.ID}} {
			if _, err := w.p.Resend(w.Ctx, missing[0], missing[1]); !budget.Is(err, budget.DeliveryNotFound) &&
				!budget.Is(err, budget.WebhookNotFound) {
				t.Errorf("%v: %v", missing, err)
			}
		}
	})
}

// TestDisabled lets an endpoint fail for 5 days, and one be gone.
func TestDisabled(t *testing.T) {
	each(t, func(w *world) {
		e := w.endpoint(alert.Endpoint{Tenant: "shop"})
		test := func() {
			w.Helper()
			_, err := w.p.Test(w.Ctx, e.ID)
			w.OK(err)
		}
		test()
		w.attempt(0)
		w.Exec([]any{`UPDATE webhook_delivery SET due_ms = NULL`})
		w.Clock.Advance(alert.DisableAfter - time.Second)
		test()
		if after := w.attempt(500); after.Disabled != "" {
			t.Errorf("%+v", after)
		}
		w.Exec([]any{`UPDATE webhook_delivery SET due_ms = NULL`})
		watcher, stranger := w.endpoint(alert.Endpoint{}), w.endpoint(alert.Endpoint{Tenant: "other"})
		w.Clock.Advance(time.Second)
		test()
		if after := w.attempt(500); after.Disabled != alert.Failing {
			t.Errorf("%+v", after)
		}
		w.same("told", w.sent(watcher), []string{"endpoint.disabled"})
		w.same("not told", w.sent(stranger), nil)
		if d := w.delivery(e); d.State != alert.Failed {
			t.Errorf("%+v", d)
		}
		w.attempt(200) // the watcher's
		test()
		w.attempt(200) // a disabled one gets tests, and stays disabled
		on := true
		if got, err := w.p.Endpoint(w.Ctx, e.ID); err != nil || got.Disabled != alert.Failing {
			t.Errorf("%+v, %v", got, err)
		}
		got, err := w.p.ChangeEndpoint(w.Ctx, e.ID, alert.EndpointChange{Enabled: &on})
		if err != nil || got.Disabled != "" || !got.FailingSince.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
		test()
		if after := w.attempt(410); after.Disabled != alert.Gone {
			t.Errorf("%+v", after)
		}
	})
}

// TestDeletedMeanwhile lets an endpoint go while an attempt is under way.
func TestDeletedMeanwhile(t *testing.T) {
	each(t, func(w *world) {
		e := w.endpoint(alert.Endpoint{})
		d, err := w.p.Test(w.Ctx, e.ID)
		w.OK(err)
		w.OK(w.p.DeleteEndpoint(w.Ctx, e.ID))
		if _, _, ok, err := w.p.Claim(context.Background(), alert.Due{Endpoint: e.ID, Message: d.Message.ID, At: d.DueAt},
			time.Minute); ok || err != nil {
			t.Errorf("%t, %v", ok, err)
		}
		state, _, err := w.p.Finish(w.Ctx, d, alert.Attempt{At: w.DB.Now(), Status: 200}, 0)
		if state != "" || err != nil {
			t.Errorf("%q, %v", state, err)
		}
	})
}
