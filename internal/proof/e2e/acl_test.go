package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestDocumentedACL checks that the ACL in docs/OPERATIONS.md permits deductions, collects, appends
// and the recovery from a lost store.
func TestDocumentedACL(t *testing.T) {
	rules := documentedACL(t)
	redis := testservers.Redis(t, testservers.RedisArgs(append([]string{"--user"}, rules...)...))
	config := writeConfig(t, fmt.Sprintf("database:\n  driver: mysql\n  dsn: %q\ninstances:\n"+
		"  - name: guarded\n    driver: redis\n    addrs: [%q]\n    username: budgetd\n    password: PASSWORD\n",
		testservers.SharedMariaDB(t).NewDatabase(t), redis.Addr()))
	n := start(t, t.TempDir(), "--config", config)
	c, ctx := n.client(), context.Background()
	create(t, c, "guarded", 1600, 4)
	used := int64(0)
	deduct := func(id string, amount int64) error {
		_, err := c.Deduct(ctx, "guarded", client.DeductRequest{RequestID: id, Amount: amount})
		if err == nil {
			used += amount
		}
		return err
	}
	must(t, deduct("one", 5))
	must(t, deduct("many", 1000)) // more than a bucket has: units are collected
	_, err := c.Append(ctx, "guarded", client.AppendRequest{RequestID: "more", Quantity: 400})
	must(t, err)
	must(t, redis.Restart()) // comes back empty
	eventually(t, time.Minute, "the store is back in use", func() error { return deduct("after", 300) })
	checkBooks(t, c, "guarded", 2000, used)
	if strings.Contains(n.log.String(), "NOPERM") {
		t.Errorf("the ACL forbids a command:\n%s", tail(n.log.String()))
	}
}

// documentedACL reads the rules that the operations guide recommends.
func documentedACL(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/OPERATIONS.md")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rules, found := strings.CutPrefix(line, "ACL SETUSER "); found {
			return strings.Fields(rules)
		}
	}
	t.Fatal("docs/OPERATIONS.md has no ACL")
	return nil
}
