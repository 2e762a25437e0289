package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
)

// TestWatchLines checks that watch prints one line per look without a terminal, and the header
// once.
func TestWatchLines(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create sale --total 1000000 --type promo")
	must1(t, server.URL, "deduct sale 5000 --request-id o1")
	r := must1(t, server.URL, "watch sale --every 100ms --count 3")
	golden(t, "watch", r.stdout)
	if n := strings.Count(r.stdout, "\n"); n != 4 || strings.Contains(r.stdout, "\x1b") || r.stderr != "" {
		t.Errorf("%d lines:\n%s%s", n, r.stdout, r.stderr)
	}
	r = must1(t, server.URL, "watch sale --every 100ms --count 2 -o json")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	for _, line := range lines {
		var l look
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Budget.Used != 5000 || l.Series.RatePerS != 1234.5 ||
			len(l.Buckets) != 1 {
			t.Errorf("%v: %s", err, line)
		}
	}
	if len(lines) != 2 {
		t.Errorf("%d lines", len(lines))
	}
}

// TestWatchGoesOn checks that watch continues after a server was unavailable for a while. A budget
// that does not exist ends it, and invalid flags are refused.
func TestWatchGoesOn(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create sale --total 1000000 --type promo")
	looks := 0
	server.mu.Lock()
	server.interfere = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/buckets") {
			return false
		}
		if looks++; looks < 2 || looks > 12 { // more often than the client asks by itself
			return false
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(503)
		fmt.Fprintf(w, `{"status":503,"code":%q}`, budget.Unavailable)
		return true
	}
	server.mu.Unlock()
	r := must1(t, server.URL, "watch sale --every 100ms --count 3")
	if n := strings.Count(r.stdout, "\n"); n != 4 || !strings.Contains(r.stderr, "unavailable") {
		t.Errorf("%d lines:\n%s%s", n, r.stdout, r.stderr)
	}
	checkFailure(t, command(t, server.URL, "watch none --count 3"), exitError, "budget_not_found")
	for line, mentions := range map[string]string{
		"watch sale --every 99ms": "--every", "watch sale --count -1": "--count", "watch sale -o yaml": "yaml",
		"series sale --step 90s": "--step", "series sale --from yesterday": "--from", "series sale --to -1h": "--to",
		"watch": "BUDGET",
	} {
		checkFailure(t, command(t, server.URL, line), exitUsage, mentions)
	}
}

// TestWatchUnlimited checks that an unlimited budget is shown as unlimited and not as sold out.
func TestWatchUnlimited(t *testing.T) {
	l := &look{Budget: &client.Budget{Name: "ad", Unlimited: true, Used: 7}, Series: &client.Series{}}
	for _, text := range []string{(&live{latest: l}).View().Content, watchLine(l, false)} {
		if n := strings.Count(text, "unlimited"); n == 0 {
			t.Errorf("%s", text)
		}
	}
	w := watching{app: &app{output: "json", stdout: new(bytes.Buffer)}}
	if err := w.show(l); err != nil {
		t.Fatal(err)
	}
	if text := w.app.stdout.(*bytes.Buffer).String(); !strings.Contains(text, `"remaining":null`) || !strings.Contains(text, `"total_quantity":null`) {
		t.Error(text)
	}
}

// TestSeriesSpan checks that --from and --to take times with a zone as well as durations before
// now.
func TestSeriesSpan(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create sale --total 1000000 --type promo")
	var asked url.Values
	server.mu.Lock()
	server.interfere = func(_ http.ResponseWriter, r *http.Request) bool { asked = r.URL.Query(); return false }
	server.mu.Unlock()
	must1(t, server.URL, "series sale --from 48h --to 2026-05-01T08:00:00+08:00 --step 1h0m")
	from, err := time.Parse(time.RFC3339, asked.Get("from"))
	if age := time.Since(from); err != nil || age < 48*time.Hour || age > 49*time.Hour ||
		asked.Get("to") != "2026-05-01T08:00:00+08:00" || asked.Get("step") != "1h0m0s" {
		t.Errorf("asked for %v", asked)
	}
}
