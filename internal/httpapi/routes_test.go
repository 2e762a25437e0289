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

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// Each call in its ordinary form: what the service is asked, and the whole answer.
func TestGoldenAnswers(t *testing.T) {
	const ours = "/v1/budgets/sale"
	for _, c := range []struct{ name, method, path, body, header string }{
		{"create", "POST", "/v1/budgets", `{"name":"sale","gl_code":"4711","unit":"count","type":"promo","total_quantity":1000,
			"bucket_quantity":2,"sharding_quantity":50,"adjust_cnt":9,"start_at":"2026-01-31T09:00:00+08:00",
			"end_at":"2027-01-31T09:00:00.123456Z","timezone":"Asia/Shanghai","limits":[],"unlimited":false,"tenant":"acme","durability":"ledger"}`, ""},
		{"create-defaults", "POST", "/v1/budgets", `{"name":"sale","unit":"amount","type":"promo","total_quantity":9007199254740991}`, ""},
		{"list", "GET", "/v1/budgets", "", ""},
		{"list-page", "GET", "/v1/budgets?status=paused&type=promo&page_size=1&page_token=MTo3&tenant=acme", "", ""},
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
		{"rollback-whole", "POST", ours + "/rollback", `{"request_id":"o1"}`, ""},
		{"cancel", "POST", ours + "/cancel", `{"request_id":"o1","receipt":"r.1"}`, ""},
		{"deduction", "GET", ours + "/deductions?request_id=o%201&tenant=acme", "", ""},
		{"batch", "POST", "/v1/deductions:batch?tenant=acme", `{"deductions":[{"budget":"sale","request_id":"o1","amount":5},
			{"budget":7,"request_id":"o1","amount":0},{"budget":"SALE","request_id":"o1","amount":5}]}`, ""},
		{"buckets", "GET", ours + "/buckets", "", ""},
		{"offline", "POST", ours + "/buckets/sale:bucket-0/offline", "", ""},
		{"online", "POST", ours + "/buckets/sale%3Abucket-0/online", "{}", ""},
		{"apply", "POST", ours + "/buckets/sale:bucket-0/apply", "", ""},
		{"audit", "GET", ours + "/audit", "", ""},
		{"instances", "GET", "/v1/instances", "", ""},
		{"healthz", "GET", "/healthz", "", ""},
		{"readyz", "GET", "/readyz", "", ""},
		{"metrics", "GET", "/metrics", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			service, server, _ := start(t)
			service.created = c.name == "create"
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
		{"DELETE", "/v1/budgets/sale", 405, "method_not_allowed", "GET, PATCH"},
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
