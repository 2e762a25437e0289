package redisstore_test

import (
	"errors"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestOtherMemoryOnTheSameConnection checks that a script does nothing under a marker of another
// installation, or after a resync from another master, which keeps connections and the run id.
func TestOtherMemoryOnTheSameConnection(t *testing.T) {
	for name, change := range map[string][]string{
		"replication id": {"DEBUG", "CHANGE-REPL-ID"},
		"installation":   {"HSET", prefix + "marker", "installation", "other"},
		"activation":     {"HSET", prefix + "marker", "activation", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			server := testservers.Redis(t, testservers.RedisArgs("--enable-debug-command", "yes"))
			store := connect(t, config(server))
			identity, err := store.Identity(t.Context(), lane0)
			must(t, err)
			m := bucket.Memory{Lane: lane0, Activation: 1, Identity: identity}
			must(t, store.Mark(t.Context(), m, 1))
			open := []bucket.Opening{{Ref: bucket.Ref{Bucket: 1, Epoch: 1}}}
			if _, err := store.Open(t.Context(), m, open); err != nil {
				t.Fatal(err)
			}
			_, err = server.Command(change...)
			must(t, err)
			if _, err := store.Open(t.Context(), m, open); !errors.Is(err, bucket.ErrOtherMemory) {
				t.Errorf("%v", err)
			}
		})
	}
}
