package workload

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 150 25 40 3 20 0 9 0 1000 99999 300 0 0"
	for _, name := range []string{"(redis-server)", "(a) b (c)", "()"} {
		u, err := parseStat([]byte("42 "+name+rest), 4096)
		if want := (Usage{CPU: 2180 * time.Millisecond, MemoryBytes: 300 * 4096}); err != nil || u != want {
			t.Errorf("%s: %+v, %v, want %+v", name, u, err, want)
		}
	}
	for _, text := range []string{"", "42 (a) S 1 2", "42 a" + rest,
		"42 (a)" + strings.Replace(rest, "150", "x", 1), "42 (a)" + strings.Replace(rest, " 40 ", " x ", 1)} {
		if u, err := parseStat([]byte(text), 4096); err == nil {
			t.Errorf("%q: %+v", text, u)
		}
	}
}

func TestReadUsage(t *testing.T) {
	u, err := ReadUsage(os.Getpid())
	if runtime.GOOS != "linux" {
		if err == nil || !strings.Contains(err.Error(), "Linux only") {
			t.Errorf("error %v", err)
		}
		return
	}
	if err != nil || u.MemoryBytes <= 0 {
		t.Errorf("%+v, %v", u, err)
	}
	if _, err := ReadUsage(1 << 30); err == nil {
		t.Error("a process that cannot be there was read")
	}
}
