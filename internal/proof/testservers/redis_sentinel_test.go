package testservers

import (
	"testing"
	"time"
)

// TestRedisSentinels checks that a master fails over on request, and that a killed one is replaced.
func TestRedisSentinels(t *testing.T) {
	s := RedisSentinels(t, time.Second)
	if _, err := s.Nodes[0].Command("SET", "key", "value"); err != nil {
		t.Fatal(err)
	}
	was, is, err := s.FailOver()
	if err != nil {
		t.Fatal(err)
	}
	if was != s.Nodes[0] || is == was {
		t.Errorf("from %s to %s", was.Addr(), is.Addr())
	}
	if got, err := is.Command("GET", "key"); got != "value" || err != nil {
		t.Errorf("after the fail-over: %q, %v", got, err)
	}
	if err := is.Kill(); err != nil {
		t.Fatal(err)
	}
	last, err := s.AwaitMoved(is)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := last.Command("GET", "key"); got != "value" || err != nil {
		t.Errorf("after the kill: %q, %v", got, err)
	}
}
