package httpapi_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/budgetd/budgetd/series"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// TestGoldenAnswers compares what the service is asked, and the whole answer, with a golden file
// for each call in its ordinary form.
func TestGoldenAnswers(t *testing.T) {
	const ours = "/v1/budgets/sale"
	for _, c := range []struct{ name, method, path, body, header string }{
		{"create", "POST", "/v1/budgets", `{"name":"sale","gl_code":"4711","unit":"count","type":"promo","total_quantity":1000,
			"bucket_quantity":2,"sharding_quantity":50,"adjust_cnt":9,"start_at":"2026-01-31T09:00:00+08:00",
			"end_at":"2027-01-31T09:00:00.123456Z","timezone":"Asia/Shanghai","limits":[],"unlimited":false,"tenant":"acme","durability":"ledger"}`, ""},
		{"create-defaults", "POST", "/v1/budgets", `{"name":"sale","unit":"amount","type":"promo","total_quantity":9007199254740991}`, ""},
		{"create-free", "POST", "/v1/budgets", `{"name":"coupons","unit":"count","type":"daily","total_quantity":1000,
			"type_rule":{"kind":"free"},"late_refund":"next"}`, ""},
		{"create-calendar", "POST", "/v1/budgets", `{"name":"coupons","unit":"count","type":"daily","total_quantity":1000,
			"type_rule":{"kind":"calendar","every":"day","unused":"next"},"timezone":"Europe/Berlin",
			"start_at":"2026-01-31T09:00:00Z","end_at":"2027-01-31T09:00:00Z","late_refund":"forfeit"}`, ""},
		{"create-quantity", "POST", "/v1/budgets", `{"type_rule":{"quantity":9007199254740991,"every":"month","kind":"calendar"},
			"name":"coupons","unit":"count","type":"daily","total_quantity":1000}`, ""},
		{"create-windows", "POST", "/v1/budgets", `{"name":"coupons","unit":"count","type":"daily","total_quantity":1000,
			"type_rule":{"kind":"windows","windows":[{"from":"00:00","to":"06:00","quantity":10},
			{"quantity":5,"to":"24:00","from":"06:00"}],"unused":"forfeit"},"late_refund":"total"}`, ""},
		{"view-daily", "GET", "/v1/budgets/coupons", "", ""},
		{"view-daily-over", "GET", "/v1/budgets/coupons-over", "", ""},
		{"change-rule", "PATCH", ours, `{"type_rule":{"kind":"windows","windows":[{"from":"00:00","to":"06:00","quantity":10}]},
			"late_refund":"next"}`, ""},
		{"deduct-daily", "POST", "/v1/budgets/coupons/deduct", `{"request_id":"o1","amount":5}`, ""},
		{"batch-daily", "POST", "/v1/deductions:batch", `{"deductions":[{"budget":"coupons","request_id":"o1","amount":5},
			{"budget":"coupons","request_id":"o2","amount":201}]}`, ""},
		{"create-limits", "POST", "/v1/budgets", `{"name":"capped","unit":"count","unlimited":true,"routing_dimension":"user","limits":[
			{"name":"per-user","dimension":"user","window":{"kind":"calendar","every":"day","timezone":"Europe/Berlin"},"max":5,
			"measure":"count","overrides":[{"value":"vip","max":50},{"value":"staff","exempt":true}]},
			{"name":"per-ad","dimension":"user+ad","window":{"kind":"sliding","length":"8h","slot":"10m"},"max":0,"measure":"amount",
			"enforce":false,"optional":true,"overrides":[{"values":["u1","a1"],"max":7}]},
			{"name":"burst","dimension":"user","window":{"kind":"first_hit","length":"1d12h"},"max":9007199254740991,"measure":"count"},
			{"name":"ever","dimension":"user","window":{"kind":"lifetime"},"max":1,"measure":"count","enforce":true}]}`, ""},
		{"view-limits", "GET", "/v1/budgets/capped", "", ""},
		{"change-limits", "PATCH", ours, `{"limits":[{"name":"per-user","dimension":"user","window":{"kind":"calendar","every":"month"},
			"max":5,"measure":"count"}]}`, `"3"`},
		{"change-no-limits", "PATCH", ours, `{"limits":[]}`, ""},
		{"deduct-limits", "POST", "/v1/budgets/capped/deduct", `{"request_id":"o1","amount":5,"dimensions":{"user":"u1","ad":"a1"},
			"counts":{"per-ad":0,"per-user":2}}`, ""},
		{"deduct-dry-run", "POST", ours + "/deduct", `{"request_id":"o1","amount":5,"dimensions":{"user":"u1"},"counts":{"per-user":2},"dry_run":true}`, ""},
		{"deduct-dry-run-known", "POST", ours + "/deduct", `{"request_id":"known","amount":2,"dry_run":true}`, ""},
		{"batch-limits", "POST", "/v1/deductions:batch", `{"deductions":[{"budget":"capped","request_id":"o1","amount":6,"counts":{"per-user":1}},
			{"budget":"capped","request_id":"o1","amount":5,"dry_run":true},{"budget":"capped","request_id":"o1","amount":6,"dry_run":true}]}`, ""},
		{"checks", "POST", "/v1/checks?tenant=acme", `{"checks":[{"budget":"capped","amount":1,"dimensions":{"user":"u1"}},
			{"budget":"7","amount":6,"counts":{"per-user":2}},{"budget":"sale","amount":0,"limit":1},{"budget":"SALE","amount":1}]}`, ""},
		{"usage", "GET", ours + "/usage?user=u1&ad=a%201&from=2026-01-31T08:00:00%2B08:00&to=2026-01-31T09:00:00.5Z&tenant=acme", "", ""},
		{"usage-named", "GET", ours + "/usage?dimension.tenant=u1&dimension.user=u1", "", ""},
		{"nearest", "GET", ours + "/limits/per-user/nearest?limit=5&tenant=acme", "", ""},
		{"overrides", "GET", ours + "/limits/per-user/overrides?page_size=2&page_token=MTprZXk&tenant=acme", "", ""},
		{"overrides-value", "GET", ours + "/limits/per-ad/overrides?value=vip&value=a%2Bb", "", ""},
		{"overrides-set", "PUT", ours + "/limits/per-user/overrides", `{"value":"vip","max":50}`, ""},
		{"overrides-several", "PUT", ours + "/limits/per-ad/overrides",
			`{"overrides":[{"values":["vip","a+b"],"max":0},{"values":["x","y"],"exempt":true}]}`, ""},
		{"override-removed", "DELETE", ours + "/limits/per-ad/overrides?value=vip&value=a%2Bb", "", ""},
		{"nearest-usual", "GET", ours + "/limits/per-user/nearest", "", ""},
		{"list", "GET", "/v1/budgets", "", ""},
		{"list-page", "GET", "/v1/budgets?status=paused&type=promo&parent=org&page_size=1&page_token=MTphY21lL3NhbGU&tenant=acme", "", ""},
		{"list-all-tenants", "GET", "/v1/budgets?tenant=*", "", ""},
		{"view", "GET", ours + "?tenant=acme", "", ""},
		{"view-by-id", "GET", "/v1/budgets/7", "", ""},
		{"pause", "PATCH", ours, `{"status":"paused"}`, `"3"`},
		{"change", "PATCH", ours, `{"status":"effective","end_at":null,"sharding_quantity":0,"adjust_cnt":4}`, "*"},
		{"change-end", "PATCH", ours, `{"end_at":"2027-01-31T09:00:00+08:00"}`, ""},
		{"append", "POST", ours + "/append", `{"request_id":"a1","quantity":500}`, ""},
		{"shrink", "POST", ours + "/append", `{"request_id":"a1","quantity":-500}`, ""},
		{"deduct", "POST", ours + "/deduct", `{"request_id":"o1","amount":5,"key":"k","dimensions":{"user":"u1"},"reference":"ref","dry_run":false}`, ""},
		{"rollback", "POST", ours + "/rollback", `{"request_id":"o1","amount":2,"rollback_id":"rb","receipt":"r.1"}`, ""},
		{"deduct-hold", "POST", ours + "/deduct", `{"request_id":"o1","amount":5,"hold_ttl":"15m","group":"order-17"}`, ""},
		{"confirm", "POST", ours + "/confirm", `{"request_id":"o1","amount":2,"receipt":"r.1"}`, ""},
		{"confirm-group", "POST", ours + "/confirm", `{"group":"order-17"}`, ""},
		{"extend", "POST", ours + "/extend", `{"request_id":"o1","hold_ttl":"1h30m"}`, ""},
		{"renew", "POST", ours + "/renew", `{"request_id":"o1","step":7,"used":3,"hold":50,"hold_ttl":"30s","receipt":"r.1"}`, ""},
		{"extend-group", "POST", ours + "/extend", `{"group":"order-17","hold_ttl":"366d"}`, ""},
		{"rollback-group", "POST", ours + "/rollback", `{"group":"order-17"}`, ""},
		{"rollback-whole", "POST", ours + "/rollback", `{"request_id":"o1"}`, ""},
		{"rollback-unkeyed", "POST", ours + "/rollback", `{"request_id":"o1","key":"","dimensions":{}}`, ""},
		{"rollback-keyed", "POST", ours + "/rollback", `{"request_id":"o1","key":"k","dimensions":{"user":"u1"}}`, ""},
		{"cancel", "POST", ours + "/cancel", `{"request_id":"o1","receipt":"r.1"}`, ""},
		{"deduction", "GET", ours + "/deductions?request_id=o%201&tenant=acme", "", ""},
		{"batch", "POST", "/v1/deductions:batch?tenant=acme", `{"deductions":[{"budget":"sale","request_id":"o1","amount":5},
			{"budget":"7","request_id":"o1","amount":0},{"budget":"SALE","request_id":"o1","amount":5}]}`, ""},
		{"buckets", "GET", ours + "/buckets", "", ""},
		{"offline", "POST", ours + "/buckets/sale:bucket-0/offline", "", ""},
		{"online", "POST", ours + "/buckets/sale%3Abucket-0/online", "{}", ""},
		{"apply", "POST", ours + "/buckets/sale:bucket-0/apply", "", ""},
		{"resume", "POST", ours + "/buckets/sale:bucket-0/resume", "", ""},
		{"recycle", "POST", ours + "/recycle", "", ""},
		{"recycles", "GET", ours + "/recycles", "", ""},
		{"recycles-page", "GET", ours + "/recycles?page_size=1&page_token=MTo3", "", ""},
		{"audit", "GET", ours + "/audit", "", ""},
		{"ledger", "GET", ours + "/ledger", "", ""},
		{"ledger-page", "GET", ours + "/ledger?after=abc-_&limit=1000&wait=1500ms&tenant=acme", "", ""},
		{"ledger-tail", "GET", ours + "/ledger?tail=5", "", ""},
		{"ledger-since", "GET", ours + "/ledger?since=2026-01-31T08:00:00%2B08:00", "", ""},
		{"ledger-nothing", "GET", ours + "/ledger?after=nothing-new", "", ""},
		{"series", "GET", ours + "/series", "", ""},
		{"series-span", "GET", ours + "/series?from=2026-01-31T08:00:00%2B08:00&to=2026-01-31T09:00:00.5Z&step=5m&tenant=acme", "", ""},
		{"quarantine", "GET", ours + "/quarantine", "", ""},
		{"release", "POST", ours + "/quarantine/release", `{"request_id":"q1","quantity":850,"reason":"50 were sold","by":"jane"}`, ""},
		{"release-used", "POST", ours + "/quarantine/release", `{"request_id":"q1","quantity":50,"used":true,"reason":"they were sold"}`, ""},
		{"release-all", "POST", ours + "/quarantine/release", `{"request_id":"q1","reason":"none was sold"}`, ""},
		{"thresholds", "GET", ours + "/thresholds?tenant=acme", "", ""},
		{"thresholds-set", "PUT", ours + "/thresholds", `{"thresholds":[{"kind":"used_share","of":"limit","percent":80,
			"limit":"per-user","value":"u1"},{"kind":"quarantine"}]}`, ""},
		{"thresholds-none", "PUT", ours + "/thresholds", `{"thresholds":[]}`, ""},
		{"thresholds-default", "PUT", ours + "/thresholds", `{"thresholds":null}`, ""},
		{"alerts", "GET", "/v1/alerts", "", ""},
		{"alerts-page", "GET", "/v1/alerts?state=firing&budget=sale&tenant=acme&page_size=2&page_token=MTo3", "", ""},
		{"webhooks", "GET", "/v1/webhooks?tenant=acme", "", ""},
		{"webhook", "GET", "/v1/webhooks/ep_1", "", ""},
		{"webhook-create", "POST", "/v1/webhooks", `{"url":"https://example.com/x?y=z","secret":"shop","tenant":"acme",
			"types":["alert.firing"],"description":"on call"}`, ""},
		{"webhook-change", "PATCH", "/v1/webhooks/ep_1", `{"url":"https://example.org/","secret":"till","types":[],
			"description":"","enabled":true}`, ""},
		{"webhook-disable", "PATCH", "/v1/webhooks/ep_1", `{"enabled":false}`, ""},
		{"webhook-delete", "DELETE", "/v1/webhooks/ep_1", "", ""},
		{"delete", "DELETE", "/v1/budgets/sale", "", ""},
		{"close", "POST", "/v1/budgets/sale/close", "{}", ""},
		{"webhook-test", "POST", "/v1/webhooks/ep_1/test", "", ""},
		{"webhook-resend", "POST", "/v1/webhooks/ep_1/deliveries/msg_1/resend", "{}", ""},
		{"deliveries", "GET", "/v1/webhooks/ep_1/deliveries?page_size=1&page_token=msg_9", "", ""},
		{"instances", "GET", "/v1/instances", "", ""},
		{"nodes", "GET", "/v1/nodes", "", ""},
		{"drain", "POST", "/v1/instances/redis-a/drain", "", ""},
		{"undrain", "POST", "/v1/instances/redis-a/undrain", "{}", ""},
		{"recover", "POST", "/v1/instances/redis-a/recover", "", ""},
		{"give-up", "POST", "/v1/instances/redis-a/give-up", "", ""},
		{"rebalance", "POST", "/v1/instances:rebalance", "", ""},
		{"rebalance-dry-run", "POST", "/v1/instances:rebalance", `{"dry_run":true}`, ""},
		{"healthz", "GET", "/healthz", "", ""},
		{"readyz", "GET", "/readyz", "", ""},
		{"metrics", "GET", "/metrics", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			service, server, _ := start(t)
			service.created = c.name == "create"
			service.projection = series.Projection{Rate: 0.25, Outlook: series.Projected, ExhaustedAt: at.Add(617 * 4 * time.Second)}
			if c.name == "series-span" {
				service.projection = series.Projection{Rate: 0.01, Outlook: series.NotBeforeEnd}
			}
			var header []string
			if c.header != "" {
				header = []string{"If-Match", c.header}
			}
			answer, body := ask(t, server, c.method, c.path, c.body, header...)
			if answer.StatusCode > 299 { // never a golden answer, whatever -update writes
				t.Fatalf("%d %s", answer.StatusCode, body)
			}
			var got strings.Builder
			fmt.Fprintf(&got, "asked: %s\n%d\n", strings.Join(service.taken(), "\n       "), answer.StatusCode)
			for _, name := range []string{"Content-Type", "Etag", "Location", "Cache-Control", "X-Correlation-Id"} {
				if value := answer.Header.Get(name); value != "" {
					fmt.Fprintf(&got, "%s: %s\n", name, value)
				}
			}
			got.WriteString("\n" + pretty(body))
			golden(t, c.name, got.String())
		})
	}
}

func pretty(text string) string {
	var out bytes.Buffer
	if json.Indent(&out, []byte(text), "", "  ") != nil {
		return text
	}
	return out.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("run with -update if this is meant:\n%s", diff)
	}
}

func TestNoRoute(t *testing.T) {
	service, server, _ := start(t)
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/", 404, "route_not_found", ""},
		{"GET", "/v1", 404, "route_not_found", ""},
		{"GET", "/v1/budgets/", 404, "route_not_found", ""},
		{"POST", "//v1/budgets", 404, "route_not_found", ""},
		{"POST", "/v1/budgets/../budgets", 404, "route_not_found", ""},
		{"PUT", "/v1/budgets/sale", 405, "method_not_allowed", "GET, PATCH, DELETE"},
		{"PUT", "/v1/budgets", 405, "method_not_allowed", "POST, GET"},
		{"GET", "/v1/budgets/sale/deduct", 405, "method_not_allowed", "POST"},
		{"POST", "/metrics", 405, "method_not_allowed", "GET"},
	} {
		answer, body := ask(t, server, c.method, c.path, "")
		if answer.StatusCode != c.status || answer.Header.Get("Allow") != c.allow ||
			!strings.Contains(body, `"code":"`+c.code+`"`) ||
			answer.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: %d, Allow %q, %s", c.method, c.path, answer.StatusCode, answer.Header.Get("Allow"), body)
		}
	}
	if calls := service.taken(); len(calls) > 0 {
		t.Error(calls)
	}
}
