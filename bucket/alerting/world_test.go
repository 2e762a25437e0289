package alerting_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/alerting"
	"github.com/budgetd/budgetd/bucket/audit"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/sample"
	"github.com/budgetd/budgetd/internal/proof/fixture"
)

// world is a database with two nodes that watch its budgets.
type world struct {
	*fixture.World
	p     *alerting.Outbox
	books *audit.Service
	s     *alerting.Service
	a, b  *alerting.Evaluator
	told  *told
	uses  int
}

func each(t *testing.T, run func(w *world)) {
	fixture.OnEveryEngine(t, func(f *fixture.World) {
		budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: manage.NewLedger(f.DB), Size: 100})
		f.OK(err)
		p := &alerting.Outbox{DB: f.DB, Random: rand.Reader, Reachable: func(string) error { return nil },
			Signs: func(string, string) error { return nil }}
		samples := sample.New(sample.Config{DB: f.DB})
		s := alerting.New(alerting.Config{DB: f.DB, Budgets: budgets, Outbox: p, LastSamples: samples.Last,
			SamplesAt: samples.At, Defaults: true, Observer: &told{}, Log: slog.New(slog.DiscardHandler)})
		run(&world{World: f, p: p, books: audit.New(audit.Config{DB: f.DB}), s: s, a: &alerting.Evaluator{Service: s}, b: &alerting.Evaluator{Service: s},
			told: s.Observer.(*told)})
	})
}

// told records the calls of an observer.
type told struct {
	mu        sync.Mutex
	evaluated map[alert.Kind]int // sum over all passes
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

// pass advances the clock by a second and lets a node evaluate all budgets.
func (w *world) pass(k *alerting.Evaluator) {
	w.Helper()
	w.Clock.Advance(time.Second)
	k.Begin()
	books, err := w.books.Snapshots(w.Ctx, 0, 100)
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

// sent lists the messages for an endpoint, the oldest first.
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
