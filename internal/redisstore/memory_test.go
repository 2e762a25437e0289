package redisstore_test

import (
	"errors"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestOtherMemoryOnTheSameConnection checks that a script does nothing under a marker of another
// installation, or after a resync from another master, which keeps connections and the run id.
func TestOtherMemoryOnTheSameConnection(t *testing.T) {
	for name, change := range map[string][]string{
		"replication id": {"DEBUG", "CHANGE-REPL-ID"},
		"installation":   {"HSET", prefix + "marker", "installation", "other"},
		"incarnation":    {"HSET", prefix + "marker", "incarnation", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			server := testservers.Redis(t, testservers.RedisArgs("--enable-debug-command", "yes"))
			store := connect(t, config(server))
			identity, err := store.Identity(t.Context(), partition0)
			must(t, err)
			m := bucket.Memory{Partition: partition0, Incarnation: 1, Identity: identity}
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

// TestServerComesBack checks that a store whose address leads to another server for a while, and then
// to the first one again, can be used once its marker was read again, and not before.
func TestServerComesBack(t *testing.T) {
	first, second := testservers.Redis(t), testservers.Redis(t)
	proxy := testservers.NewProxy(t, first.Addr())
	c := config(first)
	c.Addr = proxy.Addr()
	store := connect(t, c)
	identity, err := store.Identity(t.Context(), partition0)
	must(t, err)
	m := bucket.Memory{Partition: partition0, Incarnation: 1, Identity: identity}
	must(t, store.Mark(t.Context(), m, 1))
	open := func() error {
		_, err := store.Open(t.Context(), m, []bucket.Opening{{Ref: bucket.Ref{Bucket: 1, Epoch: 1}}})
		return err
	}
	must(t, open())
	proxy.SetTarget(second.Addr())
	if err := open(); !errors.Is(err, bucket.ErrOtherMemory) {
		t.Errorf("another server: %v", err)
	}
	proxy.SetTarget(first.Addr())
	if err := open(); !errors.Is(err, bucket.ErrOtherMemory) {
		t.Errorf("the partition may have been given to the other server meanwhile: %v", err)
	}
	if _, err := store.Marker(t.Context(), partition0, identity, false); !errors.Is(err, bucket.ErrOtherMemory) {
		t.Errorf("a marker that verifies nothing: %v", err)
	}
	if got, err := store.Marker(t.Context(), partition0, identity, true); err != nil || got.Incarnation != 1 {
		t.Errorf("marker %+v, %v", got, err)
	}
	if err := open(); err != nil {
		t.Errorf("after the marker was read: %v", err)
	}
}
