package main

import (
	"strings"
	"testing"
)

// TestAlertCommands checks what each command sends, what it shows of the answer, and which command
// lines it refuses.
func TestAlertCommands(t *testing.T) {
	const thresholds = `{"thresholds":[{"kind":"used_share","of":"total","percent":80},{"kind":"quarantine"}],"own":false}`
	const hook = `{"id":"ep_1","url":"https://x/","secret":"shop","types":["alert.firing"],"enabled":false,"disabled":"failing",
		"created_at":"2026-05-01T12:00:00Z"}`
	const delivery = `{"message":"msg_1","type":"test","state":"pending","tries":1,"created_at":"2026-05-01T12:00:00Z",
		"attempts":[{"at":"2026-05-01T12:00:01Z","status":500,"error":"it answered 500","took_ms":3}]}`
	for _, c := range []struct{ line, answer, asked, shown string }{
		{"alerts", `{"alerts":[{"id":7,"state":"firing","tenant":"default","budget":"sale","threshold":"exhausted/total","episode":1,
			"total":1000,"spent":1000,"left":0,"fired_at":"2026-05-01T12:00:00Z"}]}`,
			"GET /v1/alerts?page_size=100&state=firing ", "exhausted/total  1,000"},
		{"alerts --state any --budget sale --limit 5 --tenant shop", `{"alerts":[]}`,
			"GET /v1/alerts?budget=sale&page_size=5&tenant=shop ", "THRESHOLD"},
		{"thresholds sale", thresholds, "GET /v1/budgets/sale/thresholds ", "used_share/total/80  yes"},
		{"thresholds sale --default", thresholds, `PUT /v1/budgets/sale/thresholds {"thresholds":null}`, "quarantine"},
		{"thresholds sale --none", thresholds, `PUT /v1/budgets/sale/thresholds {"thresholds":[]}`, ""},
		{"thresholds sale --remove quarantine --add exhausted/period --add stranded_share/5 --add used_share/limit/per-ad/a/b/90",
			thresholds, `PUT /v1/budgets/sale/thresholds {"thresholds":[{"kind":"used_share","of":"total","percent":80},` +
				`{"kind":"exhausted","of":"period"},{"kind":"stranded_share","percent":5},` +
				`{"kind":"used_share","of":"limit","percent":90,"limit":"per-ad","value":"a/b"}]}`, ""},
		{"webhooks --tenant shop", `{"webhooks":[` + hook + `]}`, "GET /v1/webhooks?tenant=shop ", "failing"},
		{"webhooks create https://x/ --secret shop --type alert.firing --tenant shop", hook,
			`POST /v1/webhooks {"tenant":"shop","url":"https://x/","secret":"shop","types":["alert.firing"]}`, "ep_1"},
		{"webhooks set ep_1 --secret till --description x", hook, `PATCH /v1/webhooks/ep_1 {"secret":"till","description":"x"}`, ""},
		{"webhooks enable ep_1", hook, `PATCH /v1/webhooks/ep_1 {"enabled":true}`, ""},
		{"webhooks disable ep_1", hook, `PATCH /v1/webhooks/ep_1 {"enabled":false}`, ""},
		{"webhooks delete ep_1", hook, `DELETE /v1/webhooks/ep_1 `, "shop"},
		{"webhooks test ep_1", delivery, `POST /v1/webhooks/ep_1/test {}`, "msg_1"},
		{"webhooks resend ep_1 msg_1", delivery, `POST /v1/webhooks/ep_1/deliveries/msg_1/resend {}`, "pending"},
		{"webhooks log ep_1", `{"deliveries":[` + delivery + `]}`, "GET /v1/webhooks/ep_1/deliveries?page_size=20 ", "it answered 500"},
	} {
		server := newScripted(t, 200, c.answer)
		r := command(t, server.URL, c.line)
		if asked := server.asked[len(server.asked)-1]; r.status != exitDone || asked != c.asked || !strings.Contains(r.stdout, c.shown) {
			t.Errorf("%s: %d\n%s\nwant\n%s\n%s%s", c.line, r.status, asked, c.asked, r.stdout, r.stderr)
		}
	}
	for _, line := range []string{"alerts --state open", "alerts --limit 0", "alerts --budget Sale", "thresholds sale --add /x",
		"thresholds sale --add quarantine --default", "webhooks create https://x/", "webhooks set ep_1", "webhooks test",
		"webhooks log ep_1 --limit 1001"} {
		if r := command(t, "http://127.0.0.1:1", line); r.status != exitUsage {
			t.Errorf("%s: %d %s", line, r.status, r.stderr)
		}
	}
	server := newScripted(t, 200, thresholds)
	if r := command(t, server.URL, "thresholds sale --remove exhausted/total"); r.status != exitUsage || len(server.asked) != 1 {
		t.Errorf("%d %s %q", r.status, r.stderr, server.asked)
	}
}
