package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestExitStatus pins the exit status of each kind of outcome. A failure prints what was wrong,
// where, and what to do next, on stderr alone.
func TestExitStatus(t *testing.T) {
	const sale = "create b --total 100 --type promo"
	tests := []struct {
		name   string
		given  []string
		line   string
		status int
		stderr []string // each has to be mentioned
	}{
		{"done", []string{sale}, "deduct b 5 --request-id o1", exitDone, nil},
		{"no such budget", nil, "get b", exitError,
			[]string{`budgetctl get: budget_not_found: there is no budget "b"`, "correlation id: corr-1", "Next: 'budgetctl list'"}},
		{"no such deduction", []string{sale}, "rollback b o9", exitError,
			[]string{"deduction_not_found", "'budgetctl cancel' makes certain"}},
		{"no such bucket", []string{sale}, "offline b b:bucket-7", exitError, []string{"bucket_not_found", "budgetctl buckets"}},
		{"invalid, field by field", nil, "create b --total 1 --every day", exitError,
			[]string{"budgetctl create: invalid: the definition has faults\n",
				"\n  type_rule: is compressed\n", "\n  end_at: must be given\n"}},
		{"period exhausted", []string{"create d --total 100 --every hour --quantity 10"}, "deduct d 11 --request-id o1", exitRefused,
			[]string{"budgetctl deduct: period_exhausted: this period has less left\n", "\n  available: 10\n",
				"\n  retry after: 1h30m0s\n", "try again in the next period; 'budgetctl get' shows"}},
		{"daily budget exhausted", []string{"create d --total 100 --every hour --quantity 10"}, "deduct d 101 --request-id o1",
			exitRefused, []string{"budget_exhausted", "available: 10", "budgetctl append"}},
		{"usage", nil, "deduct b 0", exitUsage, []string{`amount "0"`, "Run 'budgetctl deduct --help'"}},
		{"exhausted", []string{sale}, "deduct b 101 --request-id o1", exitRefused,
			[]string{"budget_exhausted", "available: 100", "budgetctl append"}},
		{"paused", []string{sale, "pause b"}, "deduct b 1 --request-id o1", exitRefused, []string{"budget_paused", "budgetctl resume"}},
		{"conflict", []string{sale, "deduct b 1 --request-id o1"}, "deduct b 2 --request-id o1", exitRefused,
			[]string{"request_conflict", "use another id"}},
		{"void", []string{sale, "cancel b o1"}, "deduct b 2 --request-id o1", exitRefused, []string{"request_void", "use another one"}},
		{"name taken", []string{sale}, "create b --total 99 --type promo", exitRefused, []string{"name_taken", "budgetctl get"}},
		{"rolled back already", []string{sale, "deduct b 2 --request-id o1", "rollback b o1"},
			"rollback b o1 --rollback-id r2 --amount 1", exitRefused, []string{"already_rolled_back"}},
		{"more than was deducted", []string{sale, "deduct b 2 --request-id o1"},
			"rollback b o1 --rollback-id r2 --amount 3", exitRefused, []string{"amount_exceeds_remaining", "available: 2"}},
		{"shrink of what is used", []string{sale, "deduct b 60 --request-id o1"}, "shrink b 41", exitRefused,
			[]string{"amount_exceeds_remaining", "available: 40"}},
		{"another version", []string{sale}, "set b --sharding 5 --if-version 7", exitRefused, []string{"version_conflict", "decide again"}},
		{"last bucket", []string{sale}, "offline b b:bucket-0", exitRefused, []string{"last_bucket", "bring another bucket online"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t)
			for _, line := range test.given {
				must1(t, server.URL, line)
			}
			checkFailure(t, command(t, server.URL, test.line+" -o json"), test.status, test.stderr...)
		})
	}
}

// checkFailure checks a status, that stderr mentions these, and that a failure has no data.
func checkFailure(t *testing.T, r result, status int, mentions ...string) {
	t.Helper()
	if r.status != status {
		t.Errorf("status %d, want %d: %s", r.status, status, r.stderr)
	}
	for _, text := range mentions {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("stderr does not mention %q:\n%s", text, r.stderr)
		}
	}
	if status != exitDone && r.stdout != "" {
		t.Errorf("stdout of a failure: %s", r.stdout)
	}
}

// TestStatusOfProblems pins the exit status of problems by their code.
func TestStatusOfProblems(t *testing.T) {
	tests := []struct {
		http int
		code string
		want int
	}{
		{400, "malformed", exitError}, {401, "unauthenticated", exitError}, {403, "forbidden", exitError},
		{404, "instance_not_found", exitError}, {413, "too_large", exitError}, {422, "invalid", exitError},
		{409, "period_exhausted", exitRefused}, {409, "budget_expired", exitRefused},
		{409, "budget_not_effective", exitRefused}, {429, "limit_exceeded", exitRefused},
		{409, "a_code_of_tomorrow", exitRefused},
		{503, "unavailable", exitUnknown}, {504, "outcome_unknown", exitUnknown}, {500, "internal", exitUnknown},
	}
	for _, test := range tests {
		t.Run(test.code, func(t *testing.T) {
			err := error(&client.Problem{Op: "deduct", Status: test.http, Code: budget.Code(test.code)})
			if got := exitStatus(err); got != test.want {
				t.Errorf("status %d, want %d", got, test.want)
			}
		})
	}
}

// TestReadThatFails checks that an internal error of a read is not reported as an unknown outcome,
// and that an unavailable server makes the command advise a repeat.
func TestReadThatFails(t *testing.T) {
	server := newFake(t)
	server.interfere = always(500, "internal")
	checkFailure(t, command(t, server.URL, "get b"), exitError, "budgetctl get: internal: D")
	server.interfere = always(503, "unavailable")
	checkFailure(t, command(t, server.URL, "get b"), exitUnknown, "unavailable", "repeat the command in a moment")
}

func TestAuditThatFindsSomething(t *testing.T) {
	for _, format := range formats[:3] { // names have a test of their own
		t.Run(format, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --total 54321 --type promo")
			server.budgets["1"].broken = true
			r := command(t, server.URL, "audit b -o "+format)
			if r.status != exitDiscrepancy || !strings.Contains(r.stderr, "budget b: 1 discrepancies") {
				t.Errorf("status %d, stderr %s", r.status, r.stderr)
			}
			golden(t, "audit-discrepancy."+format, r.stdout)
		})
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := "http://" + listener.Addr().String()
	listener.Close()
	checkFailure(t, command(t, server, "get b"), exitUnknown,
		"budgetctl get: "+server+" is not reachable, nothing was sent", "is budgetd running there?")
	checkFailure(t, command(t, server, "deduct b 1 --request-id o1"), exitUnknown,
		"is not reachable, nothing was sent", "is budgetd running there?", "Repeat the command with --request-id o1")
}

// TestUnknownOutcome checks that the error of an unknown outcome says how to repeat the command
// safely, with its id even if budgetctl generated it.
func TestUnknownOutcome(t *testing.T) {
	tests := []struct {
		name, line string
		mentions   []string
	}{
		{"id given", "deduct b 1 --request-id o1", []string{`request id "o1" unknown after 5 attempt(s)`,
			"Repeat the command with --request-id o1, it takes effect once", "budgetctl cancel b o1"}},
		{"append", "append b 1 --request-id a1", []string{"Repeat the command with --request-id a1"}},
		{"rollback of a part", "rollback b o1 --amount 1 --rollback-id r1", []string{"--rollback-id r1"}},
		{"pause", "pause b", []string{"it may have happened; check, or repeat the command"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --total 100 --type promo")
			server.interfere = always(504, "outcome_unknown")
			checkFailure(t, command(t, server.URL, test.line), exitUnknown, test.mentions...)
		})
	}
	t.Run("made up", func(t *testing.T) {
		server := newFake(t)
		server.interfere = always(503, "unavailable")
		r := command(t, server.URL, "append b 1")
		id := regexp.MustCompile(`--request-id ([0-9a-f-]{36}),`).FindStringSubmatch(r.stderr)
		if r.status != exitUnknown || id == nil {
			t.Fatalf("status %d, stderr %s", r.status, r.stderr)
		}
		server.interfere = nil
		must1(t, server.URL, "create b --total 100 --type promo")
		if again := must1(t, server.URL, "append b 1 --request-id "+id[1]); !strings.Contains(again.stdout, id[1]) {
			t.Errorf("stdout %s", again.stdout)
		}
	})
}

// always answers every request with a problem.
func always(status int, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":%d,"code":%q,"detail":"D"}`, status, code)
		return true
	}
}

// TestRefusedAfterALostAnswer checks that a deduction that is refused after a lost answer is
// cancelled, and that the error says so.
func TestRefusedAfterALostAnswer(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 1 --type promo")
	lost := false
	server.interfere = func(w http.ResponseWriter, r *http.Request) bool {
		if lost || !strings.HasSuffix(r.URL.Path, "/deduct") {
			return false
		}
		lost = true
		return always(504, "outcome_unknown")(w, r)
	}
	checkFailure(t, command(t, server.URL, "deduct b 2 --request-id o1"), exitRefused,
		"budget_exhausted", "the request id was cancelled; use another one")
	if state := server.budgets["1"].deductions["o1"].State; state != "void" {
		t.Errorf("state %q, want void", state)
	}
}

func TestInterrupted(t *testing.T) {
	server := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	status := run(ctx, []string{"get", "b", "--server", server.URL}, func(string) string { return "" }, &stdout, &stderr)
	if status != exitError || !strings.Contains(stderr.String(), "context canceled") {
		t.Errorf("status %d: %s", status, &stderr)
	}
}
