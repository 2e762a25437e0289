package driver_test

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestSettings checks that a server with the documented settings has no findings, and that each
// other value gives a sentence with the remedy.
func TestSettings(t *testing.T) {
	server := testservers.Redis(t, testservers.AppendOnly("always"),
		testservers.RedisArgs("--maxmemory-policy", "noeviction"))
	store, raw, ctx := connect(t, config(server)), client(t, server), t.Context()
	check := func(refused int, persistent bool, want ...string) {
		t.Helper()
		got, err := store.Condition(ctx, partition0)
		if err != nil || len(got.Findings) != len(want) {
			t.Fatalf("findings %+v, error %v, want %d", got.Findings, err, len(want))
		}
		for i, f := range got.Findings {
			if !strings.Contains(f.Problem, want[i]) || !strings.HasPrefix(f.Problem, "instance r1: ") {
				t.Errorf("finding %q does not contain %q", f.Problem, want[i])
			}
		}
		if len(got.Refused()) != refused || got.Persistent != persistent {
			t.Errorf("%d are refused, persistent %v: %+v", len(got.Refused()), got.Persistent, got.Findings)
		}
	}
	check(0, true)
	for _, bad := range []struct {
		name, value, mend string
		refused           int
		persistent        bool
	}{
		{"maxmemory-policy", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction", 0, false},
		{"appendfsync", "everysec", "CONFIG SET appendfsync always", 0, false},
		{"appendfsync", "no", "CONFIG SET appendfsync always", 0, false},
		{"no-appendfsync-on-rewrite", "yes", "CONFIG SET no-appendfsync-on-rewrite no", 0, false},
	} {
		before := raw.ConfigGet(ctx, bad.name).Val()[bad.name]
		must(t, raw.ConfigSet(ctx, bad.name, bad.value).Err())
		check(bad.refused, bad.persistent, bad.mend)
		must(t, raw.ConfigSet(ctx, bad.name, before).Err())
	}
	must(t, raw.ConfigSet(ctx, "appendonly", "no").Err()) // turned on again it would fork
	check(0, false, "CONFIG SET appendonly yes")
	must(t, raw.Do(ctx, "ACL", "SETUSER", "default", "-config|get").Err())
	check(0, false, "+config|get", "+config|get", "+config|get", "+config|get")
	must(t, raw.Do(ctx, "ACL", "SETUSER", "default", "+@all").Err())
	must(t, server.Kill())
	if _, err := store.Condition(ctx, partition0); !budget.Is(err, budget.Unavailable) {
		t.Errorf("a stopped server: %v", err)
	}
}
