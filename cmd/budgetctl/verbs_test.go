package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestHelpIsGrouped checks that the help lists every command below a title.
func TestHelpIsGrouped(t *testing.T) {
	help := command(t, "http://127.0.0.1:1", "--help").stdout
	for _, title := range []string{"Budgets:", "Deductions:", "What has happened:", "Buckets and stores:", "Access:",
		"Tools:"} {
		if !strings.Contains(help, "\n"+title+"\n") {
			t.Errorf("no %q in\n%s", title, help)
		}
	}
	if regexp.MustCompile(`Available Commands|Additional Commands`).MatchString(help) {
		t.Errorf("a command is in no group:\n%s", help)
	}
}

// TestAuditAll checks that audit --all audits every budget, and exits with status 4 if one of them
// has a discrepancy.
func TestAuditAll(t *testing.T) {
	server := newFake(t)
	for _, name := range []string{"a", "b"} {
		must1(t, server.URL, "create "+name+" --type promo --total 100")
	}
	r := command(t, server.URL, "audit --all")
	if r.status != exitDone || !strings.Contains(r.stdout, "a ") || !strings.Contains(r.stdout, "b ") {
		t.Errorf("%d\n%s%s", r.status, r.stdout, r.stderr)
	}
	server.mu.Lock()
	server.budgets["2"].broken = true
	server.mu.Unlock()
	if r = command(t, server.URL, "audit --all"); r.status != exitDiscrepancy {
		t.Errorf("%d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if r = command(t, server.URL, "audit a --all"); r.status != exitUsage {
		t.Errorf("%d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// TestGroupedAmountInALimit checks that the amounts of a limit may have the commas with which they
// are shown.
func TestGroupedAmountInALimit(t *testing.T) {
	l, err := parseLimit("name=cap,dimension=user,window=day,max=1,234,567,override=vip:2,000,measure=amount")
	if err != nil || l.Max != 1234567 || len(l.Overrides) != 1 || *l.Overrides[0].Max != 2000 || l.Measure != "amount" {
		t.Errorf("%+v, %v", l, err)
	}
}

// TestKeyAndBeginnings checks that --key, --tail, --since and --used reach the API, and that
// invalid values of --tail are refused.
func TestKeyAndBeginnings(t *testing.T) {
	for line, want := range map[string]string{
		"rollback sale o1 --key k7":                       `/rollback {"request_id":"o1","key":"k7"}`,
		"cancel sale o1 --key k7":                         `/cancel {"request_id":"o1","key":"k7"}`,
		"ledger sale --tail 5":                            `/ledger?limit=5&tail=5`,
		"ledger sale --since 2026-05-01T12:00:00Z":        `/ledger?limit=100&since=2026-05-01T12%3A00%3A00Z`,
		"release sale 5 --used --reason r --request-id q": `"quantity":5,"used":true,"reason":"r"}`,
	} {
		server := newScripted(t, http.StatusConflict, `{"code":"budget_paused"}`)
		command(t, server.URL, line)
		got := strings.Join(server.asked, "\n")
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	for _, line := range []string{"ledger sale --tail 5 --since 2026-05-01T12:00:00Z", "ledger sale --tail 1001"} {
		if r := command(t, "http://127.0.0.1:1", line); r.status != exitUsage {
			t.Errorf("%s: %d %s", line, r.status, r.stderr)
		}
	}
}

// TestGroupedCount checks that --count takes several counts, which may have the commas with which
// amounts are shown, and refuses invalid ones.
func TestGroupedCount(t *testing.T) {
	server := newScripted(t, http.StatusConflict, `{"code":"budget_paused"}`)
	command(t, server.URL, "deduct sale 5 --request-id o1 --count per-user=1,000,per-phone=0 --count x=1,234,567")
	for _, want := range []string{`"per-phone":0`, `"per-user":1000`, `"x":1234567`} {
		if got := strings.Join(server.asked, "\n"); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, wrong := range []string{"per-user", "per-user=1,00", "per-user=x", "=1", "per-user=-1"} {
		if r := command(t, server.URL, "deduct sale 5 --request-id o1 --count "+wrong); r.status != exitUsage {
			t.Errorf("--count %s: %d %s", wrong, r.status, r.stderr)
		}
	}
}
