package testservers

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func wantKey(t *testing.T, r *RedisServer, key, want string) {
	t.Helper()
	if got, err := r.Command("GET", key); err != nil || got != want {
		t.Errorf("%s is %q, %v; want %q", key, got, err, want)
	}
}

func command(t *testing.T, r *RedisServer, args ...string) {
	t.Helper()
	if _, err := r.Command(args...); err != nil {
		t.Fatal(err)
	}
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRedisCommand(t *testing.T) {
	r := Redis(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"SET", "key", "a b\r\nc"}, "OK"},
		{[]string{"GET", "key"}, "a b\r\nc"},
		{[]string{"GET", "none"}, ""},
		{[]string{"INCR", "n"}, "1"},
	} {
		if got, err := r.Command(tt.args...); err != nil || got != tt.want {
			t.Errorf("%q: %q, %v; want %q", tt.args, got, err, tt.want)
		}
	}
	if _, err := r.Command("INCR", "key"); err == nil || !strings.Contains(err.Error(), "not an integer") {
		t.Errorf("an error reply: %v", err)
	}
	if _, err := r.Command("KEYS", "*"); err == nil {
		t.Error("an array was read as a text")
	}
}

func TestRedisPasts(t *testing.T) {
	for name, options := range map[string][]RedisOption{"log": {AppendOnly("always")}, "no log": nil} {
		t.Run(name, func(t *testing.T) {
			r := Redis(t, options...)
			command(t, r, "SET", "key", "old")
			rdb, err := r.Snapshot()
			mustDo(t, err)
			command(t, r, "SET", "key", "new")
			mustDo(t, r.RestartFrom(rdb))
			wantKey(t, r, "key", "old")
			if options != nil { // it still writes a log
				command(t, r, "SET", "key", "newer")
				mustDo(t, r.Kill())
				mustDo(t, r.Restart())
				wantKey(t, r, "key", "newer")
			}
			mustDo(t, r.RestartEmpty())
			wantKey(t, r, "key", "")
		})
	}
}

func TestRedisTruncateLog(t *testing.T) {
	r := Redis(t, AppendOnly("always"))
	command(t, r, "SET", "first", "kept")
	command(t, r, "SET", "second", "kept")
	if _, err := r.TruncateLog(5); !errors.Is(err, errRunning) {
		t.Errorf("while it runs: %v", err)
	}
	mustDo(t, r.Kill())
	if cut, err := r.TruncateLog(5); err != nil || cut != 5 {
		t.Errorf("cut %d, %v", cut, err)
	}
	mustDo(t, r.Restart())
	wantKey(t, r, "first", "kept")
	wantKey(t, r, "second", "")
	mustDo(t, r.Kill())
	if cut, err := r.TruncateLog(1 << 30); err != nil || cut == 0 || cut == 1<<30 {
		t.Errorf("cut %d, %v", cut, err)
	}
	mustDo(t, r.Restart())
	wantKey(t, r, "first", "")
	without := Redis(t)
	mustDo(t, without.Kill())
	if _, err := without.TruncateLog(1); err == nil {
		t.Error("the log of a server without a log was cut")
	}
	if files, _ := filepath.Glob(filepath.Join(without.Dir(), "*aof*")); len(files) > 0 {
		t.Errorf("files %q", files)
	}
}

// TestRedisReplica lets a replica take over behind one address, and then the old master, which has
// continued meanwhile.
func TestRedisReplica(t *testing.T) {
	master, replica := Redis(t), Redis(t)
	command(t, master, "SET", "key", "old")
	command(t, replica, "SET", "own", "x")
	mustDo(t, replica.Follow(master))
	wantKey(t, replica, "key", "old")
	wantKey(t, replica, "own", "")
	if _, err := replica.Command("SET", "key", "x"); err == nil || !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("a write to a replica: %v", err)
	}
	mustDo(t, replica.Promote())
	mustDo(t, replica.Promote())
	command(t, master, "SET", "key", "new")
	p := NewProxy(t, master.Addr())
	expect(t, p.Addr(), "GET key", "new")
	p.SetTarget(replica.Addr())
	expect(t, p.Addr(), "GET key", "old")
	command(t, replica, "SET", "key", "other")
	p.SetTarget(master.Addr())
	expect(t, p.Addr(), "GET key", "new")
}
