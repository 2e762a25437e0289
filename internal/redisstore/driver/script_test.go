package driver_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

// counting returns a call that adds 1 to a key.
func counting(key string) driver.Call {
	return driver.Call{Op: "count", Partition: partition0, Script: driver.NewScript("return redis.call('INCR', KEYS[1])"),
		Keys: []string{key}}
}

// TestScriptsAreLoadedAgain checks that a server that lost its scripts gets them with the next
// call, which takes effect once; other scripts and repeated calls add no text.
func TestScriptsAreLoadedAgain(t *testing.T) {
	server := testservers.Redis(t)
	i := connect(t, config(server))
	for want := int64(1); want <= 3; want++ {
		if want == 3 {
			must(t, client(t, server).ScriptFlush(t.Context()).Err())
		}
		got, err := i.Run(t.Context(), counting("k"))
		if err != nil || got != want {
			t.Fatalf("call %d: %v, %v", want, got, err)
		}
	}
	info, err := client(t, server).Info(t.Context(), "memory").Result()
	must(t, err)
	if !strings.Contains(info, "number_of_cached_scripts:1\r\n") {
		t.Errorf("more than one script is kept:\n%s", info)
	}
}

// TestIdentityBinding checks that a call with an identity is not sent to a server with another one,
// and succeeds again only with the new identity (I2).
func TestIdentityBinding(t *testing.T) {
	server := testservers.Redis(t, testservers.AppendOnly("always"))
	i := connect(t, config(server))
	who, err := i.Identity(t.Context(), partition0)
	must(t, err)
	call := counting("k")
	call.Identity = who
	_, err = i.Run(t.Context(), call)
	must(t, err)
	must(t, server.Kill())
	if _, err = i.Run(t.Context(), call); !budget.Is(err, budget.Unavailable) && !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("while it is down: %v", err)
	}
	must(t, server.Restart())
	for range 2 {
		if _, err = i.Run(t.Context(), call); !errors.Is(err, bucket.ErrOtherMemory) {
			t.Errorf("after the restart: %v", err)
		}
	}
	if call.Identity, err = i.Identity(t.Context(), partition0); err != nil || call.Identity == who {
		t.Fatal(call.Identity, err)
	}
	if got, err := i.Run(t.Context(), call); err != nil || got != int64(2) {
		t.Errorf("under the new identity: %v, %v", got, err)
	}
}

// TestLostReply checks that a call without a reply counts as perhaps done and is not sent twice.
func TestLostReply(t *testing.T) {
	server := testservers.Redis(t)
	proxy := testservers.NewProxy(t, server.Addr())
	c := config(server)
	c.Addr, c.ReadTimeout = proxy.Addr(), 300*time.Millisecond
	i := connect(t, c)
	_, err := i.Run(t.Context(), counting("k"))
	must(t, err)
	must(t, server.Pause())
	_, err = i.Run(t.Context(), counting("k"))
	must(t, server.Resume())
	if !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("without a reply: %v", err)
	}
	got, err := i.Run(t.Context(), counting("k"))
	if err != nil || got != int64(3) {
		t.Errorf("the key is %v, %v; want 3", got, err)
	}
	proxy.Close()
	if _, err = i.Run(t.Context(), counting("k")); err == nil {
		t.Error("a call went through a closed proxy")
	}
}

// TestRefusals checks that a refused write is known not to be done.
func TestRefusals(t *testing.T) {
	server := testservers.Redis(t)
	i, raw := connect(t, config(server)), client(t, server)
	must(t, raw.Set(t.Context(), "text", "x", 0).Err())
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err := i.Run(t.Context(), counting("k"))
	if !budget.Is(err, budget.Unavailable) || !strings.Contains(err.Error(), "out of memory") {
		t.Errorf("out of memory: %v", err)
	}
	must(t, raw.ConfigSet(t.Context(), "maxmemory", "0").Err())
	must(t, raw.Do(t.Context(), "ACL", "SETUSER", "default", "-incr").Err())
	if _, err = i.Run(t.Context(), counting("k")); !budget.Is(err, budget.Unavailable) {
		t.Errorf("without the right: %v", err)
	}
	must(t, raw.Do(t.Context(), "ACL", "SETUSER", "default", "+@all").Err())
	must(t, i.Disconnect())
	if _, err = i.Run(t.Context(), counting("k")); !budget.Is(err, budget.Unavailable) {
		t.Errorf("disconnected: %v", err)
	}
}

// TestUnixSocket checks that an instance is reached over its socket.
func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "budgetd") // a socket's path is at most 107 bytes long
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "redis.sock")
	server := testservers.Redis(t, testservers.RedisArgs("--unixsocket", path))
	c := config(server)
	c.Addr = "unix://" + path
	if got, err := connect(t, c).Run(t.Context(), counting("k")); err != nil || got != int64(1) {
		t.Errorf("over the socket: %v, %v", got, err)
	}
	for _, bad := range []string{"unix://redis.sock", ""} {
		c.Addr = bad
		if _, err := driver.New(c); !budget.Is(err, budget.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	}
}
