package contract_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/budget"
)

// state changes the database of a node behind its back. The daemon has registered the driver.
func (n *node) state(t *testing.T, statement string, args ...any) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+n.database+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// provoke sends a provocation and judges the answer.
func (n *node) provoke(t *testing.T, d *contractOf, p provocation, seen map[budget.Code]bool) {
	t.Helper()
	e := n.ask(t, p.method, p.target, p.body, p.header...)
	if got := codeOf(e); got != string(p.code) {
		t.Errorf("%s %s: %q, want %q: %s", p.method, p.target, got, p.code, e.received)
	}
	for _, fault := range d.judgeAll(e) {
		t.Errorf("%s: %s: %s", p.code, fault, e.received)
	}
	seen[p.code] = true
}

// webhooks provokes the codes of endpoints, with as many of them as there may be.
func webhooks(t *testing.T, d *contractOf, n *node, receiver string, seen map[budget.Code]bool) {
	const body = `{"url":%q,"secret":"shop","types":["alert.firing"]}`
	var id string
	for range alert.MaxEndpoints {
		e := n.ask(t, "POST", "/v1/webhooks", fmt.Sprintf(body, receiver))
		for _, fault := range d.judgeAll(e) {
			t.Errorf("endpoint: %s: %s", fault, e.received)
		}
		id = idOf(t, e)
	}
	n.provoke(t, d, provocation{budget.TooManyWebhooks, "POST", "/v1/webhooks",
		fmt.Sprintf(body, receiver), nil}, seen)
	n.provoke(t, d, provocation{budget.DeliveryNotFound, "POST",
		"/v1/webhooks/" + id + "/deliveries/msg_none/resend", "", nil}, seen)
}

// found provokes what a server answers to what it finds in its database: figures that disagree,
// and a table that is gone.
func found(t *testing.T, d *contractOf, n *node, seen map[budget.Code]bool) {
	n.state(t, `UPDATE bucket_epoch SET used_quantity = used_quantity - 1 WHERE used_quantity > 0
		AND budget_id = (SELECT id FROM budget_management_bucket WHERE name = ?)`, []byte("one"))
	n.provoke(t, d, provocation{budget.BucketHalted, "POST",
		"/v1/budgets/one/buckets/one:bucket-0/resume", "", nil}, seen)

	n.state(t, `ALTER TABLE webhook_endpoint RENAME TO gone`)
	n.provoke(t, d, provocation{budget.Internal, "GET", "/v1/webhooks", "", nil}, seen)
}

// unanswered provokes what a server answers to a deduction that it has sent to a store, and whose
// reply does not come.
func unanswered(t *testing.T, d *contractOf, n *node, seen map[budget.Code]bool) {
	const flash = "/v1/budgets/flash/deduct"
	for tries := 0; tries < 20 && !seen[budget.OutcomeUnknown]; tries++ {
		body := fmt.Sprintf(`{"request_id":"lost-%d","amount":1,"key":"k"}`, tries)
		for _, redis := range n.stores {
			if err := redis.Pause(); err != nil {
				t.Fatal(err)
			}
		}
		e := n.ask(t, "POST", flash, body)
		for _, redis := range n.stores {
			if err := redis.Resume(); err != nil {
				t.Fatal(err)
			}
		}
		// Where the server has noticed before that a store is silent, it sends nothing: unavailable.
		for _, fault := range d.judgeAll(e) {
			t.Errorf("no reply: %s: %s", fault, e.received)
		}
		seen[budget.OutcomeUnknown] = codeOf(e) == string(budget.OutcomeUnknown)
		for again := 0; again < 1000 && codeOf(e) != ""; again++ {
			time.Sleep(20 * time.Millisecond)
			e = n.ask(t, "POST", flash, body)
		}
		if codeOf(e) != "" {
			t.Fatalf("the stores answer again, and the server does not deduct: %s", e.received)
		}
	}
}

func idOf(t *testing.T, e *exchange) string {
	t.Helper()
	var made struct{ ID string }
	if err := json.Unmarshal(e.received, &made); err != nil || made.ID == "" {
		t.Fatalf("no id: %v: %d %s", err, e.answer.StatusCode, e.received)
	}
	return made.ID
}
