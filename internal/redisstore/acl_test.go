package redisstore_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// documentedACL returns the rules that docs/OPERATIONS.md gives to budgetd's user, after its name.
func documentedACL(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	must(t, err)
	for line := range strings.Lines(string(text)) {
		if rules, found := strings.CutPrefix(strings.TrimSpace(line), "ACL SETUSER budgetd "); found {
			return strings.Fields(rules)
		}
	}
	t.Fatal("docs/OPERATIONS.md has no line ACL SETUSER budgetd …")
	return nil
}

// TestDocumentedACL: the rules that operators are told are enough for every verb, and no rule more
// is needed to check the settings.
func TestDocumentedACL(t *testing.T) {
	rules := append([]string{"--user", "budgetd"}, documentedACL(t)...)
	storetest.RunStore(t, func(t *testing.T) storetest.StoreUnderTest {
		server := testservers.Redis(t, testservers.RedisArgs(rules...))
		c := config(server)
		c.Username, c.Password = "budgetd", "PASSWORD"
		store := connect(t, c)
		if condition, err := store.Condition(t.Context(), lane0); err != nil ||
			strings.Contains(fmt.Sprint(condition), "cannot be read") {
			t.Errorf("settings: %+v, %v", condition, err)
		}
		return storetest.StoreUnderTest{
			Store:       store,
			Lane:        bucket.Lane{Instance: instance, Index: 1},
			AnotherNode: func() bucket.Instance { return connect(t, c) },
		}
	})
}
