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

// TestHealthyNodesDoNotWarn starts two nodes on one MariaDB and two Redis, with the settings that
// examples/cluster.yaml asks for, sells from a budget of each mode, and starts both again. It expects no
// warning in any log but that of a create that comes before a store was reached.
func TestHealthyNodesDoNotWarn(t *testing.T) {
	dsn := testservers.MariaDB(t, testservers.FlushLogAtTrxCommit(1)).NewDatabase(t)
	var instances strings.Builder
	for n := range 2 {
		fmt.Fprintf(&instances, "  - {name: redis-%d, driver: redis, addrs: [%q]}\n", n, testservers.Redis(t, testservers.AppendOnly("always"), testservers.RedisArgs("--maxmemory-policy", "noeviction")).Addr())
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "database: {driver: mysql, dsn: %q}\ninstances:\n%s", dsn, &instances), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		first := start(t, []string{"--config", file}, "BUDGETD_NODE_NAME=first", "BUDGETD_DATABASE_DSN="+dsn)
		second := start(t, []string{"--config", file}, "BUDGETD_NODE_NAME=second", "BUDGETD_DATABASE_DSN="+dsn)
		for _, durability := range []string{"ledger", "store"} {
			status, body := 0, ""
			for range 100 { // until every store was reached
				status, body = first.ask("POST", "/v1/budgets", fmt.Sprintf(`{"name":%q,"unit":"count","type":"promo",`+
					`"total_quantity":100,"bucket_quantity":4,"durability":%q}`, durability, durability))
				if status != 503 {
					break
				}
				time.Sleep(50 * time.Millisecond)
			}
			if status/100 != 2 {
				t.Errorf("create: %d %s", status, body)
			}
			for n, p := range []*process{first, second} {
				status, body := p.ask("POST", "/v1/budgets/"+durability+"/deduct",
					fmt.Sprintf(`{"request_id":"o%d","amount":1}`, n))
				if status != 200 {
					t.Errorf("deduct: %d %s", status, body)
				}
			}
		}
		time.Sleep(3 * time.Second) // of background work
		second.signal()
		second.ended()
		first.signal()
		first.ended()
		for _, p := range []*process{first, second} {
			for line := range strings.Lines(p.log.String()) {
				if strings.Contains(line, "level=WARN") && !strings.Contains(line, "has never been reached") || strings.Contains(line, "level=ERROR") {
					t.Errorf("a healthy node: %s", line)
				}
			}
		}
	}
}
