package console_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// watched runs a budgetd with the secrets shop and chat, which may send messages to a local receiver.
func watched(t *testing.T, receive http.HandlerFunc) (s *server, receiver string) {
	t.Helper()
	config, receiver := hooked(t, receive)
	return serve(t, config), receiver
}

// hooked is the configuration of a server that has the secrets shop and chat and may send messages
// to a local receiver, and the receiver's address.
func hooked(t *testing.T, receive http.HandlerFunc) (config, receiver string) {
	t.Helper()
	secrets := t.TempDir()
	for _, name := range []string{"shop", "chat"} {
		secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(name[:1], 32)))
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(receive)
	t.Cleanup(server.Close)
	return fmt.Sprintf("webhooks:\n  secrets_dir: %q\n  allow: [127.0.0.0/8]\n", secrets), server.URL
}

// crowded lists the texts of alerts that fire which cover another or leave their card.
const crowded = `(() => {
	const card = [...document.querySelectorAll('.card')].find(e => e.innerText.startsWith('Alerts that fire'));
	const all = [...card.querySelectorAll('li > *')].map(e => [e.innerText, e.getBoundingClientRect()]);
	const edge = card.getBoundingClientRect();
	return all.filter(([, a], i) => a.right > edge.right || all.some(([, b], k) => i !== k &&
		a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).map(([text]) => text);
})()`

// TestAlertsView follows an operator. The operator sees which budget needs attention, tests and
// disables the endpoint that gets the alert, and sees why the alert was resolved.
func TestAlertsView(t *testing.T) {
	got := make(chan string, 100)
	s, receiver := watched(t, func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("webhook-id") })
	hook := s.must("POST", "/v1/webhooks", `{"url":"`+receiver+`","secret":"shop"}`)["id"].(string)
	s.must("POST", "/v1/budgets", `{"name":"spring-sale","unit":"count","type":"promo","total_quantity":1000}`)
	s.must("PUT", "/v1/budgets/spring-sale/thresholds", `{"thresholds":[{"kind":"used_share","of":"total","percent":80},
		{"kind":"used_share","of":"total","percent":95}]}`)
	page := open(t, s.url+"/")
	page.sees("Alerts that fire", "Nothing needs attention.", "At the rates of the last check, ", "nothing runs out")
	s.must("POST", "/v1/budgets/spring-sale/deduct", `{"request_id":"o1","amount":960}`)
	page.sees("Much of the total is spent", "96% spent: 960 of 1,000", "Much of the total is spent: 1", "look here")
	if got := value[[]string](page, crowded); len(got) > 0 {
		t.Errorf("texts of alerts that fire cover each other: %q", got)
	}
	page.clicks("link", "All alerts")
	page.until("the alert and the endpoint", `document.querySelectorAll('tbody tr').length >= 2`)
	rows := page.rows("Alerts: Much of the total is spent") // once, with the highest threshold
	if len(rows) != 1 || rows[0][0] != "spring-sale default" || rows[0][1] != "used_share/total/95" ||
		rows[0][2] != "96% spent: 960 of 1,000" || rows[0][4] != "fires" {
		t.Errorf("alerts: %q", rows)
	}
	page.picture("alerts")
	<-got // the alert's message
	page.clicks("button", "Test "+hook)
	page.clicks("button", "Send it")
	page.sees("was delivered: it answered 200.")
	if id := <-got; !strings.Contains(page.text(), id) {
		t.Errorf("the page does not show %s:\n%s", id, page.text())
	}
	page.clicks("button", "Close")
	page.clicks("button", "Disable "+hook)
	page.sees("and what fires meanwhile, waits until it is enabled.")
	page.clicks("button", "Disable it")
	page.sees("The endpoint is disabled.")
	page.clicks("button", "Close")
	page.sees("disabled: operator")
	s.must("POST", "/v1/budgets/spring-sale/append", `{"request_id":"a1","quantity":1000}`)
	page.sees("Nothing needs attention.")
	page.chooses("State", "resolved")
	page.sees("total_raised", "used_share/total/95")
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}

// TestThresholds checks that thresholds are added, changed and removed on the page of their budget,
// each shown before it is confirmed. A change by somebody else in the meantime is not lost.
func TestThresholds(t *testing.T) {
	s := serve(t, "")
	s.must("POST", "/v1/budgets", `{"name":"spring-sale","unit":"count","type":"promo","total_quantity":1000,
		"limits":[{"name":"per-shop","dimension":"shop","window":{"kind":"lifetime"},"max":100}]}`)
	s.must("POST", "/v1/budgets/spring-sale/deduct",
		`{"request_id":"o1","amount":60,"dimensions":{"shop":"s-7"}}`)
	names := func() string {
		var out []string
		for _, each := range s.must("GET", "/v1/budgets/spring-sale/thresholds", "")["thresholds"].([]any) {
			one := each.(map[string]any)
			out = append(out, strings.TrimSuffix(fmt.Sprint(one["kind"], " ", one["of"], " ", one["percent"]), " <nil>"))
		}
		return strings.Join(out, ", ")
	}
	page := open(t, s.url+"/#/budgets/default/spring-sale")
	page.sees("Alert thresholds", "the defaults", "80 % of the total is used or held")
	page.clicks("button", "Remove quarantine")
	page.sees("6, the defaults", "5, its own")
	page.clicks("button", "Remove it")
	page.sees("quarantine is gone. spring-sale has 5 thresholds.")
	page.clicks("button", "Close")
	page.until("the table", `document.querySelectorAll('[aria-label^="Remove "]').length === 5`)
	page.clicks("button", "Change used_share/total/80")
	page.sees("Type another percentage.")
	page.types("Percent", "95")
	page.sees("It has used_share/total/95 already.")
	page.types("Percent", "5")
	page.sees("5 % of the total is used or held", "it fires within seconds")
	page.clicks("button", "Change it")
	page.sees("now alerts when 5 % of the total is used or held.")
	page.clicks("button", "Close")
	page.finds("button", "Remove used_share/total/5")
	page.clicks("button", "Add a threshold")
	page.chooses("Alert when", "used_share/limit/per-shop")
	page.sees("Type whose use is watched.")
	page.types("Whose use", "s-7")
	page.types("Percent", "50")
	page.sees("50 % of what s-7 may take within per-shop is used or held")
	page.picture("threshold")
	if got := names(); strings.Contains(got, "limit") {
		t.Errorf("it was done before it was confirmed: %s", got)
	}
	page.clicks("button", "Add it")
	page.sees("It has 6 thresholds.")
	page.clicks("button", "Close")
	page.until("the table", `document.body.innerText.includes('used_share/limit/per-shop/s-7/50')`)
	if got := page.rows("Alert thresholds"); len(got) != 6 || got[0][0] != "used_share/total/5" {
		t.Errorf("thresholds: %q", got)
	}

	// Somebody else changes them meanwhile: nothing of that is lost.
	page.clicks("button", "Add a threshold")
	page.chooses("Alert when", "exhausted/period")
	s.must("PUT", "/v1/budgets/spring-sale/thresholds", `{"thresholds":[{"kind":"exhausted","of":"total"}]}`)
	page.clicks("button", "Add it")
	page.sees("Somebody changed the thresholds", "Nothing was changed.")
	page.clicks("button", "Cancel")
	if got := names(); got != "exhausted total" {
		t.Errorf("thresholds: %s", got)
	}
	page.until("what the other set", `!document.body.innerText.includes('used_share/total/5')`)
	page.clicks("button", "Use the defaults")
	page.sees("exhausted/total")
	page.js(`document.querySelector('dialog button.danger').click()`)
	page.sees("has the defaults: used_share/total/80")
	page.clicks("button", "Close")
	page.sees("quarantine")
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}

// TestEndpoints follows an administrator. The administrator creates and changes an endpoint, sees
// what it was sent and what it answered, resends a message, and removes the endpoint.
func TestEndpoints(t *testing.T) {
	var broken atomic.Bool
	got := make(chan string, 100)
	s, receiver := watched(t, func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusTeapot)
		}
		got <- r.URL.Path + " " + r.Header.Get("webhook-id")
	})
	page := open(t, s.url+"/#/alerts")
	page.sees("Nobody is told of alerts")
	page.clicks("button", "New endpoint")
	page.sees("Type a URL that begins with https://.")
	page.types("URL", receiver+"/hook")
	page.types("Secret", "shop")
	page.clicks("checkbox", "endpoint.disabled")
	page.sees("alert.firing, alert.resolved")
	page.picture("endpoint-new")
	page.clicks("button", "Make the endpoint")
	page.sees("gets alert.firing, alert.resolved of all tenants. Test it now.")
	page.clicks("button", "Close")
	page.sees(receiver + "/hook")
	hooks := s.must("GET", "/v1/webhooks", "")["webhooks"].([]any)
	id := hooks[0].(map[string]any)["id"].(string)

	page.clicks("button", "Change "+id)
	page.sees("Change something.")
	page.types("URL", receiver+"/other")
	page.types("Secret", "chat")
	page.until("the diff", `document.querySelectorAll('.diff tbody tr').length === 2`)
	if diff := page.rows("What this changes"); diff[0][0] != "url" || diff[0][1] != receiver+"/hook" ||
		diff[0][2] != receiver+"/other" || diff[1][1] != "shop" || diff[1][2] != "chat" {
		t.Errorf("the diff: %q", diff)
	}
	page.clicks("button", "Change it")
	page.sees("is " + receiver + "/other and gets")
	page.clicks("button", "Close")

	broken.Store(true)
	page.clicks("link", receiver+"/other")
	page.sees("It was sent nothing yet.", "the file chat of each node")
	page.clicks("button", "Test "+id)
	page.clicks("button", "Send it")
	page.sees("did not arrive: ", "418", "It is sent again in ")
	page.clicks("button", "Close")
	first := <-got
	broken.Store(false)
	message := strings.TrimPrefix(first, "/other ")
	page.clicks("button", "Resend "+message)
	page.sees("may know it already")
	page.clicks("button", "Send it again")
	page.sees("The message " + message + " was delivered: it answered 200.")
	page.clicks("button", "Close")
	if again := <-got; again != first {
		t.Errorf("sent again: %s, want %s", again, first)
	}
	page.until("the log", `!![...document.querySelectorAll('tbody .mark')].find(e => e.innerText === 'delivered')`)
	if log := page.rows("What it was sent"); len(log) != 1 || log[0][0] != message || log[0][1] != "test" {
		t.Errorf("the log: %q", log)
	}
	page.picture("endpoint")
	page.clicks("link", "All endpoints")
	page.clicks("button", "Remove "+id)
	page.sees("Its log of deliveries goes with it")
	page.clicks("button", "Remove it")
	page.sees("The endpoint " + id + " is gone.")
	page.clicks("button", "Close")
	page.sees("Nobody is told of alerts")
	if said := page.complaints(); said != "" {
		t.Errorf("the browser complains:\n%s", said)
	}
}
