package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// slow are commands of every way to call the server.
var slow = []string{"get b", "audit b", "audit --all", "audit-log", "audit-log verify",
	"audit-log export", "ledger b", "instances drain redis-1", "keys create till --role read",
	"recycle b", "login", "watch b --count 1", "list", "series b"}

// TestSlowCallsSayThatTheyWait checks that every way of calling the server says on stderr that it
// waits. The server does not answer before that is said, but gives up after 30 s.
func TestSlowCallsSayThatTheyWait(t *testing.T) {
	const problem = `{"code":"budget_not_found","title":"none","status":404,"detail":"none"}`
	const notice = "waiting for the server, "
	for _, line := range slow {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var out, said outlet
			last := time.Now().Add(30 * time.Second)
			answer := func(w http.ResponseWriter, _ *http.Request) {
				for !strings.Contains(said.String(), notice) && time.Now().Before(last) {
					time.Sleep(10 * time.Millisecond)
				}
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(problem))
			}
			server := httptest.NewServer(http.HandlerFunc(answer))
			defer server.Close()
			env := map[string]string{"HOME": t.TempDir(), "BUDGETCTL_SERVER": server.URL,
				"BUDGETCTL_TOKEN": "bdg_x"}
			getenv := func(name string) string { return env[name] }
			args := append(strings.Fields(line), "--progress", "always", "--timeout", "1m")
			status := run(t.Context(), args, getenv, &out, &said)
			if !strings.Contains(said.String(), notice) {
				t.Errorf("status %d, stderr %q", status, said.String())
			}
		})
	}
}

// TestProgressNever checks that --progress never shows nothing.
func TestProgressNever(t *testing.T) {
	a := &app{progress: "never", stderr: new(outlet)}
	a.waiting()()
	if p := a.newProgress(10); p.lines || p.bar != nil {
		t.Errorf("%+v", p)
	}
}
