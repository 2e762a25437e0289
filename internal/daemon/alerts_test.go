package daemon_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standard "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// hookReceiver verifies every message with the library of Standard Webhooks and records a summary.
type hookReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []string
	// awaited holds summaries that may come again, because messages arrive at least once.
	awaited map[string]bool
}

func newHookReceiver(t *testing.T, secret string) *hookReceiver {
	t.Helper()
	verifier, err := standard.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := &hookReceiver{status: http.StatusNoContent, awaited: map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		if err == nil {
			err = verifier.Verify(body, q.Header)
		}
		var message struct {
			Type string
			Data struct {
				Budget, Threshold, Reason string
				Also                      []string
			}
		}
		if err == nil {
			err = json.Unmarshal(body, &message)
		}
		if err != nil {
			t.Errorf("%s: %v", body, err)
		}
		d := message.Data
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, strings.Join(strings.Fields(fmt.Sprint(message.Type, " ", d.Budget, " ", d.Threshold, " ",
			d.Reason, " ", strings.Join(d.Also, "+"))), " "))
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *hookReceiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// await waits until a message with a summary was received, and removes it from those received.
func (r *hookReceiver) await(t *testing.T, want string) {
	t.Helper()
	for range 6000 {
		r.mu.Lock()
		r.awaited[want] = true
		i := slices.Index(r.got, want)
		if i >= 0 {
			r.got = slices.Delete(r.got, i, i+1)
		}
		got := strings.Join(r.got, "\n")
		r.mu.Unlock()
		if i >= 0 {
			return
		}
		if time.Sleep(20 * time.Millisecond); strings.Count(got, "\n") > 50 {
			break
		}
	}
	t.Fatalf("%q was not received; received: %q", want, r.got)
}

// TestAlertsReachReceivers uses up and raises budgets of both modes, with a receiver that fails
// once, and checks the messages that it gets.
func TestAlertsReachReceivers(t *testing.T) {
	dir := t.TempDir()
	secrets := []string{"whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("new", 10))),
		"whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("old", 10)))}
	if err := os.WriteFile(filepath.Join(dir, "shop"), []byte(strings.Join(secrets, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "budgetd.yaml")
	if err := os.WriteFile(file, []byte("instances:\n  - {name: redis-a, driver: redis, addrs: ['"+
		testservers.Redis(t).Addr()+"']}\nwebhooks:\n  secrets_dir: "+dir+"\n  allow: [127.0.0.0/8]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"--config", file})
	do := func(want int, method, path, body string) string {
		t.Helper()
		status, text := p.ask(method, path, body)
		for tries := 0; status >= 503 && tries < 100; tries++ { // a busy machine; repeating is safe
			time.Sleep(100 * time.Millisecond)
			if status, text = p.ask(method, path, body); status == 200 {
				return text
			}
		}
		if status != want {
			t.Fatalf("%s %s: %d %s", method, path, status, text)
		}
		return text
	}
	r := newHookReceiver(t, secrets[1]) // it does not know the new secret yet
	if said := do(422, "POST", "/v1/webhooks", `{"url":"`+r.URL+`","secret":"shop","tenant":"other"}`); strings.Contains(said, dir) ||
		!strings.Contains(said, "is not usable") {
		t.Errorf("another tenant may sign with this secret, or is told where it is: %s", said)
	}
	for _, url := range []string{"https://10.0.0.7/x", "https://[::1]:8443", "http://8.8.8.8/", "https://169.254.169.254/"} {
		said := do(422, "POST", "/v1/webhooks", `{"url":"`+url+`","secret":"shop"}`)
		if !strings.Contains(said, `"field":"url"`) || !strings.Contains(said, "webhooks.allow") {
			t.Errorf("%s: %s", url, said)
		}
	}
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(do(201, "POST", "/v1/webhooks", `{"url":"`+r.URL+`/hooks","secret":"shop"}`)), &made); err != nil {
		t.Fatal(err)
	}
	do(422, "PATCH", "/v1/webhooks/"+made.ID, `{"url":"https://10.0.0.7/x"}`)
	do(202, "POST", "/v1/webhooks/"+made.ID+"/test", "")
	r.await(t, "test")
	for _, mode := range []string{"ledger", "store"} {
		do(201, "POST", "/v1/budgets", `{"name":"`+mode+`","durability":"`+mode+
			`","unit":"count","type":"promo","total_quantity":100,"bucket_quantity":2}`)
		do(200, "PUT", "/v1/budgets/"+mode+"/thresholds", `{"thresholds":[{"kind":"used_share","of":"total","percent":50},
			{"kind":"used_share","of":"total","percent":80},{"kind":"used_share","of":"total","percent":95},
			{"kind":"exhausted","of":"period"}]}`)
		do(200, "POST", "/v1/budgets/"+mode+"/deduct", `{"request_id":"o1","amount":96}`)
		r.await(t, "alert.firing "+mode+" used_share/total/95 used_share/total/80+used_share/total/50")
		if mode == "ledger" {
			r.answer(500)
		}
		do(200, "POST", "/v1/budgets/"+mode+"/deduct", `{"request_id":"o2","amount":4}`)
		r.await(t, "alert.firing "+mode+" exhausted/period")
		if mode == "ledger" {
			r.answer(200)
			r.await(t, "alert.firing "+mode+" exhausted/period") // 5 s later
		}
		do(200, "POST", "/v1/budgets/"+mode+"/append", `{"request_id":"a1","quantity":300}`)
		r.await(t, "alert.resolved "+mode+" used_share/total/95 total_raised used_share/total/80+used_share/total/50")
		r.await(t, "alert.resolved "+mode+" exhausted/period total_raised")
		if text := do(200, "GET", "/v1/alerts?state=resolved&budget="+mode, ""); strings.Count(text, `"total_raised"`) != 4 {
			t.Error(text)
		}
	}
	// Thresholds of one value of a limit and of the period have their own figures.
	do(201, "POST", "/v1/budgets", `{"name":"monthly","unit":"count","type":"daily","total_quantity":10000,
		"type_rule":{"kind":"calendar","every":"month","quantity":100},"limits":[{"name":"per-user","dimension":"user",
		"window":{"kind":"lifetime"},"max":70,"measure":"amount"}]}`)
	do(200, "PUT", "/v1/budgets/monthly/thresholds", `{"thresholds":[{"kind":"used_share","of":"period","percent":50},
		{"kind":"used_share","of":"limit","limit":"per-user","value":"u1","percent":80},
		{"kind":"used_share","of":"limit","limit":"per-user","value":"u2","percent":1}]}`)
	do(422, "PUT", "/v1/budgets/monthly/thresholds", `{"thresholds":[{"kind":"used_share","of":"limit","limit":"per-till",
		"value":"u1","percent":80}]}`)
	do(409, "PUT", "/v1/budgets/store/thresholds", `{"thresholds":[{"kind":"used_share","of":"limit","limit":"per-user",
		"value":"u1","percent":80}]}`)
	do(200, "POST", "/v1/budgets/monthly/deduct", `{"request_id":"o1","amount":60,"dimensions":{"user":"u1"}}`)
	r.await(t, "alert.firing monthly used_share/period/50")
	r.await(t, "alert.firing monthly used_share/limit/per-user/u1/80")
	do(200, "POST", "/v1/budgets/monthly/rollback", `{"request_id":"o1"}`)
	r.await(t, "alert.resolved monthly used_share/period/50 recovered")
	r.await(t, "alert.resolved monthly used_share/limit/per-user/u1/80 recovered")
	checkWebhookCalls(t, p.url, made.ID, r)
	if text := p.log.String(); strings.Contains(text, "whsec_") || !strings.Contains(text, "alert fires") {
		t.Errorf("log: %s", text)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, text := range r.got {
		if !r.awaited[text] {
			t.Errorf("unexpected message: %q", text)
		}
	}
}

// checkWebhookCalls checks the client's calls on an endpoint that has received 13 messages, the
// first of them a test.
func checkWebhookCalls(t *testing.T, url, id string, r *hookReceiver) {
	t.Helper()
	ctx := t.Context()
	c, err := client.New(url)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(err)
	var all []client.Delivery
	for token := ""; ; {
		page, err := c.Deliveries(ctx, id, 4, token)
		ok(err)
		all = append(all, page.Deliveries...)
		if token = page.NextPageToken; token == "" {
			break
		}
	}
	if len(all) != 13 || all[12].Type != "test" {
		t.Fatalf("%+v", all)
	}
	again, err := c.ResendDelivery(ctx, id, all[12].Message)
	ok(err)
	r.await(t, "test")
	if again.Message != all[12].Message {
		t.Errorf("the message was resent with id %s, want %s", again.Message, all[12].Message)
	}
	off := false
	changed, err := c.ChangeWebhook(ctx, id, client.WebhookPatch{Enabled: &off})
	ok(err)
	seen, err := c.Webhook(ctx, id)
	ok(err)
	list, err := c.Webhooks(ctx)
	ok(err)
	if changed.Disabled != "operator" || seen.Disabled != "operator" || len(list.Webhooks) != 1 || list.Webhooks[0].Enabled {
		t.Errorf("%+v %+v %+v", changed, seen, list)
	}
	_, err = c.TestWebhook(ctx, id)
	ok(err)
	r.await(t, "test")
	other, err := c.CreateWebhook(ctx, client.WebhookRequest{URL: "https://example.com/", Secret: "shop", Tenant: ""})
	ok(err)
	_, err = c.DeleteWebhook(ctx, other.ID)
	ok(err)
	if _, err = c.Webhook(ctx, other.ID); client.CodeOf(err) != budget.WebhookNotFound {
		t.Error(err)
	}
	got, err := c.SetThresholds(ctx, "ledger", nil)
	ok(err)
	if got.Own || len(got.Thresholds) < 5 || got.Thresholds[0].Name() != "used_share/total/80" {
		t.Errorf("%+v", got)
	}
	if got, err = c.SetThresholds(ctx, "ledger", []client.Threshold{}); err != nil || !got.Own || len(got.Thresholds) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	page, err := c.Alerts(ctx, client.AlertQuery{Budget: "ledger", State: "resolved", PageSize: 1})
	ok(err)
	if len(page.Alerts) != 1 || page.NextPageToken == "" || page.Alerts[0].Budget != "ledger" {
		t.Errorf("%+v", page)
	}
}
