package testservers

import (
	"strings"
	"testing"
	"time"
)

// TestRedisCluster checks that three masters serve, each with a replica, that a slot and its keys
// move, and that a killed master is replaced.
func TestRedisCluster(t *testing.T) {
	c := RedisCluster(t, time.Second)
	const key = "{x}key"
	slot := 0
	for _, node := range c.Nodes[:clusterMasters] {
		reply, err := node.Command("SET", key, "value")
		if err == nil && reply == "OK" {
			continue
		}
		if !strings.HasPrefix(strings.TrimPrefix(err.Error(), "testservers: redis: SET {x}key value: "), "MOVED 16287 ") {
			t.Fatal(err)
		}
		slot = 16287
	}
	if slot == 0 {
		t.Fatal("every server took the key")
	}
	was, is, err := c.Migrate(slot)
	if err != nil {
		t.Fatal(err)
	}
	if was == is {
		t.Fatal("the slot stayed")
	}
	if got, err := is.Command("GET", key); got != "value" || err != nil {
		t.Errorf("after the migration: %q, %v", got, err)
	}
	was, is, err = c.FailOver(slot, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := is.Command("GET", key); got != "value" || err != nil || was == is {
		t.Errorf("after the fail-over: %q, %v", got, err)
	}
	if err := is.Kill(); err != nil {
		t.Fatal(err)
	}
	again, err := c.AwaitMoved(slot, is)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := again.Command("GET", key); got != "value" || err != nil || again != was {
		t.Errorf("after the kill: %q, %v", got, err)
	}
}
