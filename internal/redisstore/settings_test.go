package redisstore_test

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestSettings: a server with the documented settings is fine, and each other value is a sentence
// that says how to mend it.
func TestSettings(t *testing.T) {
	server := testservers.Redis(t, testservers.AppendOnly("always"),
		testservers.RedisArgs("--maxmemory-policy", "noeviction"))
	store, raw, ctx := connect(t, config(server)), client(t, server), t.Context()
	check := func(want ...string) {
		t.Helper()
		got, err := store.Settings(ctx)
		if err != nil || len(got) != len(want) {
			t.Fatalf("warnings %q, error %v, want %d", got, err, len(want))
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) || !strings.HasPrefix(got[i], "instance r1: ") {
				t.Errorf("warning %q does not contain %q", got[i], want[i])
			}
		}
	}
	check()
	for _, bad := range [][3]string{
		{"maxmemory-policy", "allkeys-lru", "CONFIG SET maxmemory-policy noeviction"},
		{"appendfsync", "everysec", "CONFIG SET appendfsync always"},
		{"appendfsync", "no", "CONFIG SET appendfsync always"},
		{"no-appendfsync-on-rewrite", "yes", "CONFIG SET no-appendfsync-on-rewrite no"},
	} {
		before := raw.ConfigGet(ctx, bad[0]).Val()[bad[0]]
		must(t, raw.ConfigSet(ctx, bad[0], bad[1]).Err())
		check(bad[2])
		must(t, raw.ConfigSet(ctx, bad[0], before).Err())
	}
	must(t, raw.ConfigSet(ctx, "appendonly", "no").Err()) // turned on again it would fork
	check("CONFIG SET appendonly yes")
	must(t, raw.Do(ctx, "ACL", "SETUSER", "default", "-config|get").Err())
	check("+config|get", "+config|get", "+config|get", "+config|get")
	must(t, raw.Do(ctx, "ACL", "SETUSER", "default", "+@all").Err())
	must(t, server.Kill())
	if _, err := store.Settings(ctx); !budget.Is(err, budget.Unavailable) {
		t.Errorf("a stopped server: %v", err)
	}
}
