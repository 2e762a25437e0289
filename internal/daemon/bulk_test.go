package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/google/go-cmp/cmp"
)

// TestBulk checks that a change of many budgets changes those that the caller may see and no others,
// nothing unless they are as many as expected, each once, and that each has a row in the audit log.
func TestBulk(t *testing.T) {
	o := newSecuredNode(t)
	for _, name := range []string{"shop/a", "shop/b", "shop/c", "other/a"} {
		tenant, name, _ := strings.Cut(name, "/")
		o.done(o.root, "POST", "/v1/budgets", fmt.Sprintf(
			`{"name":%q,"tenant":%q,"unit":"count","type":"promo","total_quantity":100}`, name, tenant), nil)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		var page struct{ Total int }
		if o.done(o.root, "GET", "/v1/budgets?tenant=*&skip=0", "", &page); page.Total == 4 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%d budgets are counted", page.Total)
		}
	}
	boss := o.issue(`{"principal":"boss","role":"operator","tenant":"shop"}`)
	few := o.issue(`{"principal":"few","role":"operator","tenant":"shop","budgets":["a","b"]}`)
	till := o.issue(`{"principal":"till","role":"deduct","tenant":"shop"}`)
	bulk := func(token, body string) (out api.BulkAnswer) {
		t.Helper()
		o.done(token, "POST", "/v1/budgets:bulk", body, &out)
		return out
	}
	states := func() string {
		var page struct{ Budgets []api.Budget }
		o.done(o.root, "GET", "/v1/budgets?tenant=*", "", &page)
		var out []string
		for _, b := range page.Budgets {
			out = append(out, fmt.Sprintf("%s/%s %s %d", b.Tenant, b.Name, b.Status, *b.TotalQuantity))
		}
		return strings.Join(out, ", ")
	}
	for _, refused := range []struct {
		token, body string
		status      int
		says        string
	}{
		{boss.Token, `{"request_id":"r","filter":{},"expected":4,"action":"pause"}`, 412, "selects 3 budgets"},
		{boss.Token, `{"request_id":"r","filter":{"tenant":"other"},"expected":1,"action":"pause"}`, 403, "forbidden"},
		{boss.Token, `{"request_id":"r","filter":{"budgets":["other/a"]},"expected":1,"action":"pause"}`, 412, "selects 0"},
		{few.Token, `{"request_id":"r","filter":{},"expected":3,"action":"pause"}`, 412, "selects 2"},
		{till.Token, `{"request_id":"r","filter":{},"expected":3,"action":"pause"}`, 403, "forbidden"},
		{boss.Token, `{"request_id":"r","filter":{},"expected":3,"action":"append"}`, 422, "quantity"},
		{boss.Token, `{"request_id":"r","filter":{},"expected":3,"action":"pause","quantity":1}`, 422, "quantity"},
		{boss.Token, `{"request_id":"r","filter":{"type":"x"},"expected":3,"action":"pause"}`, 422, "filter.type"},
		{boss.Token, `{"request_id":"r","filter":{},"expected":10001,"action":"pause"}`, 422, "expected"},
	} {
		if got := o.ask(refused.token, "POST", "/v1/budgets:bulk", refused.body); got.status != refused.status ||
			!strings.Contains(got.text, refused.says) {
			t.Errorf("%s: %d %s, want %d %s", refused.body, got.status, got.text, refused.status, refused.says)
		}
	}
	const untouched = "other/a effective 100, shop/a effective 100, shop/b effective 100, shop/c effective 100"
	if got := states(); got != untouched {
		t.Fatalf("a refused call changed something: %s", got)
	}

	done := bulk(few.Token, `{"request_id":"p1","filter":{"tenant":"*"},"expected":2,"action":"pause","reason":"night"}`)
	want := api.BulkAnswer{RequestID: "p1", Done: 2, Rows: []api.BulkRow{{Tenant: "shop", Budget: "a", Outcome: "done"},
		{Tenant: "shop", Budget: "b", Outcome: "done"}}}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Error(diff)
	}
	again := bulk(boss.Token, `{"request_id":"p2","filter":{},"expected":3,"action":"pause"}`)
	if again.Done != 1 || again.Unchanged != 2 {
		t.Errorf("pause of three, of which two were paused: %+v", again)
	}
	for range 2 {
		bulk(o.root, `{"request_id":"r1","filter":{"budgets":["shop/a","other/a"],"tenant":"*"},"expected":2,"action":"resume"}`)
		bulk(o.root, `{"request_id":"a1","filter":{"tenant":"*","q":"a"},"expected":2,"action":"append","quantity":7}`)
	}
	if got := states(); got != "other/a effective 107, shop/a effective 107, shop/b paused 100, shop/c paused 100" {
		t.Errorf("after all: %s", got)
	}
	if conflict := bulk(o.root, `{"request_id":"a1","filter":{"tenant":"other"},"expected":1,"action":"append","quantity":8}`); conflict.Failed != 1 ||
		conflict.Rows[0].Outcome != "request_conflict" || conflict.Rows[0].Detail == "" {
		t.Errorf("another quantity with the same request id: %+v", conflict)
	}
	set := bulk(boss.Token, `{"request_id":"t1","filter":{},"expected":3,"action":"thresholds",
		"thresholds":[{"kind":"exhausted","of":"total"}]}`)
	has := o.done(boss.Token, "GET", "/v1/budgets/c/thresholds", "", nil)
	if set.Done != 3 || !strings.Contains(has.text, `"thresholds":[{"kind":"exhausted","of":"total"}],"own":true`) {
		t.Errorf("%+v: %s", set, has.text)
	}

	rows := map[string]int{}
	for _, row := range o.rows(1) {
		if row.RequestID == "p1" && row.Op == "bulk" && !strings.Contains(row.After, `"reason":"night"`) {
			t.Errorf("the reason is not in the audit log: %s", row.After)
		}
		if row.RequestID != "" && row.RequestID != "r" {
			rows[row.RequestID+" "+row.Op+" "+row.Tenant+"/"+row.Target+" "+row.Outcome]++
		}
	}
	if diff := cmp.Diff(map[string]int{
		"p1 bulk shop/ done": 1, "p1 change shop/a done": 1, "p1 change shop/b done": 1,
		"p2 bulk shop/ done": 1, "p2 change shop/c done": 1,
		"r1 bulk / done": 2, "r1 change shop/a done": 1,
		"a1 bulk / done": 2, "a1 append shop/a done": 1, "a1 append other/a done": 1,
		"a1 bulk other/ done": 1, "a1 append other/a request_conflict": 1,
		"t1 bulk shop/ done": 1, "t1 set thresholds shop/a done": 1, "t1 set thresholds shop/b done": 1,
		"t1 set thresholds shop/c done": 1,
	}, rows); diff != "" {
		t.Errorf("audit log: %s", diff)
	}
}
