package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestStored checks what callers of store mode see of a budget without a total and of predictions.
func TestStored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redis.yaml")
	text := fmt.Sprintf("instances:\n  - {name: redis-a, driver: redis, addrs: [%q]}\n",
		testservers.Redis(t).Addr())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"--config", file})
	create := func(name, total string) {
		t.Helper()
		status, body := 503, ""
		for tries := 0; status == 503 && tries < 100; tries++ { // until the partition is verified
			time.Sleep(50 * time.Millisecond)
			status, body = p.ask("POST", "/v1/budgets", fmt.Sprintf(`{"name":%q,"unit":"count",%s,
				"durability":"store","routing_dimension":"user","limits":[{"name":"cap",
				"dimension":"user","window":{"kind":"lifetime"},"max":2,"measure":"count"}]}`, name, total))
		}
		if status != 201 {
			t.Fatalf("create: %d %s", status, body)
		}
	}
	expect := func(method, path, body string, status int, words ...string) {
		t.Helper()
		got, text := p.ask(method, path, body)
		for _, want := range words {
			if got != status || !strings.Contains(text, want) {
				t.Errorf("%s %s %s: %d %s, want %d and %s", method, path, body, got, text, status, want)
			}
		}
	}
	deduct := func(name, id string, amount int64, dry bool) (path, body string) {
		return "/v1/budgets/" + name + "/deduct", fmt.Sprintf(
			`{"request_id":%q,"amount":%d,"dimensions":{"user":"ann"},"dry_run":%t}`, id, amount, dry)
	}
	create("ads", `"unlimited":true`)
	create("sale", `"type":"promo","total_quantity":10`)
	for _, name := range []string{"ads", "sale"} {
		path, body := deduct(name, "a", 4, true)
		expect("POST", path, body, 200, `"would_be_accepted"`, `"used":0`)
		_, body = deduct(name, "a", 4, false)
		expect("POST", path, body, 200, `"accepted"`, `"used":1`)
		_, body = deduct(name, "a", 4, true)
		expect("POST", path, body, 200, `"replayed":true`)
		_, body = deduct(name, "a", 5, true)
		expect("POST", path, body, 409, `"request_conflict"`)
		_, body = deduct(name, "b", 4, false)
		expect("POST", path, body, 200, `"accepted"`)
		_, body = deduct(name, "c", 1, true)
		expect("POST", path, body, 429, `"limit_exceeded"`)
		expect("POST", "/v1/checks", fmt.Sprintf(`{"checks":[{"budget":%q,"amount":1,
			"dimensions":{"user":"ann"}},{"budget":%q,"amount":1,"dimensions":{"user":"bob"}}]}`,
			name, name), 200, `"limit_exceeded"`, `"would_be_accepted"`)
		expect("GET", "/v1/budgets/"+name+"/audit", "", 200, `"ok":true`, `"used":8`)
	}
	expect("GET", "/v1/budgets/ads/audit", "", 200, `"in_buckets":null`, `"at_risk":0`)
	expect("GET", "/v1/budgets/ads/buckets", "", 200, `"remaining":0`)
	p.signal()
	if status := p.ended(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}
