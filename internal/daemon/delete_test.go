package daemon_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestDeleteRacesDeducts deletes budgets on one node while both nodes, which know them, deduct from them.
// Either the delete is refused, because of a deduction that was accepted, or it is done, and no deduction
// was accepted nor left a row.
func TestDeleteRacesDeducts(t *testing.T) {
	mariadb := testservers.SharedMariaDB(t)
	dsn := mariadb.NewDatabase(t)
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "database: {driver: mysql, dsn: %q}\n", dsn), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := []*process{start(t, []string{"--config", file}, "BUDGETD_NODE_NAME=a", "BUDGETD_DATABASE_DSN="+dsn),
		start(t, []string{"--config", file}, "BUDGETD_NODE_NAME=b", "BUDGETD_DATABASE_DSN="+dsn)}
	const rounds, callers = 60, 3
	deleted, refused := 0, 0
	for round := range rounds {
		name := fmt.Sprintf("b%d", round)
		nodes[0].create(name)
		for _, p := range nodes {
			if status, body := p.ask("POST", "/v1/budgets/"+name+"/deduct", `{"request_id":"dry","amount":1,"dry_run":true}`); status != 200 {
				t.Fatal(status, body)
			}
		}
		var calls sync.WaitGroup
		accepted := make([]int, callers)
		for n := range callers {
			calls.Go(func() {
				time.Sleep(rand.N(12 * time.Millisecond)) //nolint:gosec // so that either may be first
				switch status, body := nodes[n%2].ask("POST", "/v1/budgets/"+name+"/deduct",
					fmt.Sprintf(`{"request_id":"o%d","amount":1}`, n)); {
				case status == 200:
					accepted[n] = 1
				case status != 404 || !strings.Contains(body, "budget_not_found"):
					t.Errorf("%s: deduct %d %s", name, status, body)
				}
			})
		}
		status, body := nodes[round%2].ask("DELETE", "/v1/budgets/"+name, "")
		calls.Wait()
		sum := accepted[0] + accepted[1] + accepted[2]
		switch {
		case status == 200 && sum == 0:
			deleted++
			nodes[1].create(name) // the name is free
		case status == 409 && strings.Contains(body, `"has_deductions"`) && sum == callers:
			refused++
		default:
			t.Errorf("%s: delete %d %s, and %d deductions were accepted", name, status, body, sum)
		}
	}
	if deleted == 0 || refused == 0 {
		t.Errorf("%d deleted and %d refused: it was no race", deleted, refused)
	}
	database := mariadb.Connect(t)
	var orphans int
	schema := dsn[strings.LastIndex(dsn, "/")+1:]
	for _, table := range []string{"deduction", "bucket_epoch", "sharding_budget_management_bucket", "limit_counter"} {
		if err := database.QueryRow(`SELECT COUNT(*) FROM ` + schema + `.` + table + ` WHERE budget_id NOT IN
			(SELECT id FROM ` + schema + `.budget_management_bucket)`).Scan(&orphans); err != nil || orphans != 0 {
			t.Errorf("%s: %d rows of deleted budgets, %v", table, orphans, err)
		}
	}
	for _, p := range nodes {
		p.signal()
		p.ended()
	}
}

// TestDeleteInStoreMode checks that a budget whose buckets are in a store is deleted once it is paused and
// its buckets are offline, that its name is free then, and that one deduction keeps it, also if that was
// given back.
func TestDeleteInStoreMode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "redis.yaml")
	redis := testservers.Redis(t, testservers.AppendOnly("always"))
	if err := os.WriteFile(file, fmt.Appendf(nil, "instances: [{name: r, driver: redis, addrs: [%q]}]\n", redis.Addr()), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, []string{"--config", file})
	// until asks until the answer has a status, because stores are reached and epochs end in the background.
	until := func(want int, method, path, body, has string) {
		t.Helper()
		status, answer := 0, ""
		for range 100 {
			if status, answer = p.ask(method, "/v1/budgets"+path, body); status == want && strings.Contains(answer, has) {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	create := func() {
		t.Helper()
		until(201, "POST", "", `{"name":"sale","unit":"count","type":"promo","total_quantity":10,"bucket_quantity":2,"durability":"store"}`, "")
	}
	shut := func() {
		t.Helper()
		until(200, "PATCH", "/sale", `{"status":"paused"}`, "")
		for n := range 2 {
			until(200, "POST", fmt.Sprintf("/sale/buckets/sale:bucket-%d/offline", n), "", "")
		}
	}
	create()
	until(409, "DELETE", "/sale", "", `"in_use"`)
	shut()
	until(200, "DELETE", "/sale", "", `"sale"`)
	create()
	until(200, "POST", "/sale/deduct", `{"request_id":"o1","amount":3,"key":"k"}`, "")
	until(200, "POST", "/sale/rollback", `{"request_id":"o1","key":"k"}`, "")
	shut()
	until(409, "DELETE", "/sale", "", `"has_deductions"`)
	until(200, "GET", "/sale/audit", "", `"ok":true`)
	p.signal()
	p.ended()
}
