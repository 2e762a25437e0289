package redisstore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore"
)

// never is a timeout between servers that even a busy machine does not reach.
const never = time.Hour

// onCluster returns a configuration with one server of a Cluster; the others are found.
func onCluster(c *testservers.RedisClusterServers) redisstore.Config {
	return redisstore.Config{Name: instance, Seeds: []string{c.Nodes[5].Addr()}, Partitions: 16, InstallationID: "test",
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// behindSentinels returns a configuration with a group's sentinels.
func behindSentinels(s *testservers.SentinelServers) redisstore.Config {
	return redisstore.Config{Name: instance, Partitions: 2, InstallationID: "test",
		Sentinels:   redisstore.Sentinels{Addrs: s.Addrs(), MasterName: testservers.SentinelName},
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// seller deducts single units from bucket 1 of a partition.
type seller struct {
	t     *testing.T
	store *redisstore.Store
	m     bucket.Memory
	terms bucket.Terms
	sold  int
}

// sells opens bucket 1 of a partition with 1,000 units and sells some.
func sells(t *testing.T, store *redisstore.Store, partition bucket.Partition) *seller {
	t.Helper()
	s := &seller{t: t, store: store, m: adopt(t, store, partition, 1), terms: bucket.Terms{LimitsVersion: 1}}
	ref := bucket.Ref{Bucket: 1, Epoch: 1}
	_, err := store.Open(t.Context(), s.m, []bucket.Opening{{Ref: ref}})
	must(t, err)
	_, err = store.Grant(t.Context(), s.m, []bucket.StoreGrant{{Ref: ref, Number: 1, Amount: 1000}})
	must(t, err)
	for range 20 {
		must(t, s.sell())
	}
	return s
}

// sell deducts one unit under a new id.
func (s *seller) sell() error {
	s.sold++
	out, err := s.store.Deduct(s.t.Context(), s.m, []bucket.StoreDeduction{{RecordID: bucket.RecordID{Bucket: 1,
		ID: fmt.Sprint(s.sold)}, Epoch: 1, Amount: 1, NotAfterMS: 1 << 52, Terms: &s.terms}})
	if err == nil && out.Outcomes[0].Verdict != bucket.Accepted {
		err = fmt.Errorf("verdict %d", out.Outcomes[0].Verdict)
	}
	return err
}

// sellsElsewhere checks that after a partition has moved to another server nothing more is sold
// under the old memory once a call has failed, that the partition has another identity, and that it
// sells only after it is marked.
func (s *seller) sellsElsewhere() {
	s.t.Helper()
	t, who, failed := s.t, "", false
	for deadline := time.Now().Add(time.Minute); who == "" || who == s.m.Identity; time.Sleep(20 * time.Millisecond) {
		if err := s.sell(); err != nil {
			failed = true
		} else if failed {
			t.Error("a unit was sold under the old memory")
		}
		found, err := s.store.Identity(t.Context(), s.m.Partition)
		if err == nil {
			who = found
		} else if !budget.Is(err, budget.Unavailable) {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatal("the partition is not found elsewhere within a minute: ", err)
		}
	}
	if err := s.sell(); !errors.Is(err, bucket.ErrOtherMemory) && !budget.Is(err, budget.Unavailable) {
		t.Errorf("under the old identity: %v", err)
	}
	s.m.Identity, s.m.Incarnation = who, 2
	if err := s.sell(); !errors.Is(err, bucket.ErrOtherMemory) {
		t.Errorf("before the partition is marked: %v", err)
	}
	must(t, s.store.Mark(t.Context(), s.m, 2))
	must(t, s.sell())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestCluster checks that a partition of a Cluster is served by its master, follows its slot only
// under another identity, and that partitions of other masters continue.
func TestCluster(t *testing.T) {
	c := testservers.RedisCluster(t, never)
	store := connect(t, onCluster(c))
	moves, stays := sells(t, store, partition0), sells(t, store, bucket.Partition{Instance: instance, Index: 1})
	slot := redisstore.ClusterSlotOf(partition0)
	from, err := c.MasterOf(slot)
	must(t, err)
	_, _, err = c.Migrate(slot)
	must(t, err)
	to, err := c.MasterOf(slot)
	must(t, err)
	if to == from {
		t.Fatal("the slot did not move")
	}
	moves.sellsElsewhere()
	must(t, stays.sell())
}

// TestClusterFailOver lets a replica take over from a master that stays alive.
func TestClusterFailOver(t *testing.T) {
	c := testservers.RedisCluster(t, never)
	s := sells(t, connect(t, onCluster(c)), partition0)
	_, _, err := c.FailOver(redisstore.ClusterSlotOf(partition0), "TAKEOVER")
	must(t, err)
	s.sellsElsewhere()
}

// TestSentinel replaces the group's master.
func TestSentinel(t *testing.T) {
	group := testservers.RedisSentinels(t, 2*time.Second)
	config := behindSentinels(group)
	config.DialTimeout, config.ReadTimeout = time.Second, time.Second
	s := sells(t, connect(t, config), partition0)
	_, _, err := group.FailOver()
	must(t, err)
	s.sellsElsewhere()
}
