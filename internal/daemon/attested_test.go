package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/auditlog"
)

// attested is a row of the audit log in an answer.
type attested struct {
	Principal, Source, Op, Tenant, Target, Before, After, Outcome string
	KeyID                                                         string `json:"key_id"`
	RequestID                                                     string `json:"request_id"`
	CorrelationID                                                 string `json:"correlation_id"`
	Times                                                         int
}

// rows reads the audit log after a number of rows.
func (o *securedNode) rows(after int) []attested {
	o.t.Helper()
	var page struct{ Entries []attested }
	o.done(o.root, "GET", fmt.Sprintf("/v1/audit-log?limit=100&after=%d", after), "", &page)
	return page.Entries
}

// TestCallsAreAttested checks that each administrative call has one row in the audit log, with its
// caller, source, the definition before and after, and the correlation id of the answer. Refused
// authentications and calls that the role does not allow also have rows.
func TestCallsAreAttested(t *testing.T) {
	o := newSecuredNode(t)
	var key, next issued
	var hook struct{ ID string }
	after := 1 // the first key
	for _, call := range []struct {
		method, path, body, op, target, before, after string
		into                                          any
	}{
		{"POST", "/v1/budgets", `{"name":"sale","tenant":"shop","unit":"count","type":"promo","total_quantity":100,"bucket_quantity":2}`,
			"create", "sale", "", `"total_quantity":100`, nil},
		{"PATCH", "/v1/budgets/sale?tenant=shop", `{"status":"paused"}`, "change", "sale", `"name":"sale"`, `"paused":true`, nil},
		{"PATCH", "/v1/budgets/sale?tenant=shop", `{"status":"effective"}`, "change", "sale", `"paused":true`, `"name":"sale"`, nil},
		{"POST", "/v1/budgets/sale/append?tenant=shop", `{"request_id":"a1","quantity":50}`, "append", "sale",
			`{"total_quantity":100}`, `{"total_quantity":150}`, nil},
		{"POST", "/v1/budgets/sale/buckets/sale:bucket-1/offline?tenant=shop", "", "offline", "sale:bucket-1", "", "", nil},
		{"PUT", "/v1/budgets/sale/thresholds?tenant=shop", `{"thresholds":[{"kind":"exhausted","of":"total"}]}`, "set thresholds", "sale",
			"", `exhausted`, nil},
		{"PUT", "/v1/budgets/sale/thresholds?tenant=shop", `{"thresholds":null}`, "set thresholds", "sale", `exhausted`, "", nil},
		{"POST", "/v1/webhooks", `{"url":"https://shop.example/","secret":"hooks","tenant":"shop"}`, "create webhook", "$hook",
			"", `"url":"https://shop.example/"`, &hook},
		{"PATCH", "/v1/webhooks/$hook", `{"enabled":false}`, "change webhook", "$hook", `shop.example`, `"operator"`, nil},
		{"DELETE", "/v1/webhooks/$hook", "", "delete webhook", "$hook", `"operator"`, "", nil},
		{"POST", "/v1/keys", `{"principal":"till","role":"deduct","tenant":"shop","budgets":["a*","b"]}`, "create key", "$key",
			"", `"role":"deduct","tenant":"shop","budgets":["a*","b"],"expires_ms":0`, &key},
		{"POST", "/v1/keys/$key/rotate", "", "rotate key", "$key", `"expires_ms":0,"revoked_ms":0}`, `"next":{"id":"$next"`, &next},
		{"POST", "/v1/keys/$next/revoke", "", "revoke key", "$next", `"revoked_ms":0}`, `"revoked_ms":1`, nil},
	} {
		fill := func(text string) string {
			return strings.NewReplacer("$hook", hook.ID, "$key", key.ID, "$next", next.ID).Replace(text)
		}
		made := o.done(o.root, call.method, fill(call.path), call.body, call.into)
		rows := o.rows(after)
		after += len(rows)
		if len(rows) != 1 {
			t.Fatalf("%s: %d rows: %+v", call.op, len(rows), rows)
		}
		tenant, row := "shop", rows[0]
		if row.Principal != "admin" || "bdg_"+row.KeyID != o.root[:14] || row.Source != "127.0.0.1" || row.Op != call.op ||
			row.Tenant != tenant || row.Target != fill(call.target) || row.Outcome != "done" || row.CorrelationID != made.correlation {
			t.Errorf("%s: %+v", call.op, row)
		}
		for _, side := range [][2]string{{row.Before, call.before}, {row.After, fill(call.after)}} {
			if (side[0] == "") != (side[1] == "") || !strings.Contains(side[0], side[1]) {
				t.Errorf("%s: before %s, after %s; no %s", call.op, row.Before, row.After, side[1])
			}
		}
	}
	o.follow()
	unknown := strings.Replace(key.Token, key.ID, "0000000000", 1)
	for token, want := range map[string]int{key.Token: 403, next.Token: 401, unknown: 401} {
		for range 2 {
			if got := o.ask(token, "POST", "/v1/budgets/sale/append?tenant=shop", `{"request_id":"a1","quantity":1}`); got.status != want {
				t.Errorf("%d %s", got.status, got.text)
			}
		}
	}
	for range 3 { // a row each time
		if err := o.security.auditLog.NoteRefusals(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	found := map[string]int{}
	for _, row := range o.rows(after) {
		found[row.Op+" "+row.KeyID+" "+row.Source+" "+row.Outcome] += row.Times
	}
	for _, want := range []string{key.ID + " 127.0.0.1 forbidden", next.ID + " 127.0.0.1 revoked", " 127.0.0.1 mistyped"} {
		if found["append "+want] != 2 || len(found) != 3 {
			t.Errorf("%q is not counted twice: %v", want, found)
		}
	}
	page, err := o.security.auditLog.Read(t.Context(), auditlog.Query{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	chain := auditlog.NewVerifier(page.Removed)
	for _, row := range page.Rows {
		if err := chain.Add(row); err != nil {
			t.Error(err)
		}
	}
	if err := chain.End(page.Head); err != nil {
		t.Error(err)
	}
	files, err := filepath.Glob(filepath.Join(o.dir, "budgetd.db*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files { // a secret is only in the answer that showed it
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, token := range []string{o.root, key.Token, next.Token} {
			if bytes.Contains(text, []byte(token[15:58])) {
				t.Errorf("%s has the secret of %s", file, token[:14])
			}
		}
	}
}

// TestNoEffectWithoutARow checks that a call without a row in the audit log has no effect, because
// both are one transaction.
func TestNoEffectWithoutARow(t *testing.T) {
	o := newSecuredNode(t)
	o.done(o.root, "POST", "/v1/budgets", `{"name":"sale","unit":"count","type":"promo","total_quantity":100,"bucket_quantity":2}`, nil)
	look := func() (all string) {
		t.Helper()
		for _, path := range []string{"/v1/budgets/sale", "/v1/budgets/sale/buckets", "/v1/budgets/sale/thresholds", "/v1/keys",
			"/v1/webhooks", "/v1/budgets"} {
			all += o.done(o.root, "GET", path, "", nil).text
		}
		return all
	}
	calls := [][3]string{
		{"PATCH", "/v1/budgets/sale", `{"status":"paused"}`}, {"POST", "/v1/budgets/sale/append", `{"request_id":"a1","quantity":5}`},
		{"POST", "/v1/budgets/sale/buckets/sale:bucket-1/offline", ""}, {"POST", "/v1/keys", `{"principal":"till","role":"deduct"}`},
		{"POST", "/v1/webhooks", `{"url":"https://shop.example/","secret":"hooks"}`},
		{"PUT", "/v1/budgets/sale/thresholds", `{"thresholds":[]}`},
		{"POST", "/v1/budgets", `{"name":"other","unit":"count","type":"promo","total_quantity":1}`},
		{"POST", "/v1/keys/" + o.root[4:14] + "/rotate", ""}, {"POST", "/v1/keys/" + o.root[4:14] + "/revoke", ""},
	}
	before := look()
	o.sql("UPDATE audit_log_head SET last_seq = last_seq - 1") // the next row's number is taken
	for _, call := range calls {
		if got := o.ask(o.root, call[0], call[1], call[2]); got.status < 500 {
			t.Errorf("%s %s: %d %s", call[0], call[1], got.status, got.text)
		}
	}
	if now := look(); now != before {
		t.Errorf("a call without a row changed\n%s\nto\n%s", before, now)
	}
	o.sql("UPDATE audit_log_head SET last_seq = last_seq + 1")
	for _, call := range calls {
		o.done(o.root, call[0], call[1], call[2], nil)
	}
}
