package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// result is what a command line did.
type result struct {
	status         int
	stdout, stderr string
}

// command runs a command line, as a shell would split it, against a server.
func command(t *testing.T, server, line string) result {
	t.Helper()
	return withEnv(t, map[string]string{"BUDGETCTL_SERVER": server}, strings.Fields(line)...)
}

func withEnv(t *testing.T, env map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status := run(t.Context(), args, func(name string) string { return env[name] }, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

// must1 runs a command line that has to succeed.
func must1(t *testing.T, server, line string) result {
	t.Helper()
	r := command(t, server, line)
	if r.status != exitDone {
		t.Fatalf("budgetctl %s: status %d: %s", line, r.status, r.stderr)
	}
	return r
}

// golden compares with a file of testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// TestOutput pins the data of every command in every format.
func TestOutput(t *testing.T) {
	const sale = "create spring-sale --total 9007199254740000 --type promo --gl-code 4711"
	const held = "deduct spring-sale 5000 --hold 15m --group order-17 --request-id "
	const hourly = "create hourly --total 100000 --every hour --quantity 500 --unused next --timezone Europe/Berlin"
	tests := []struct {
		name  string
		given []string // earlier command lines
		line  string
	}{
		{"create", nil, "create spring-sale --total 1000000 --type promo --buckets 8 --sharding 500 --adjust-cnt 3" +
			" --start 2026-01-01T00:00:00Z --end 2026-12-31T23:59:59+01:00"},
		{"get", []string{sale}, "get spring-sale"},
		{"create-every", nil, "create year --total 3650000 --every day --start 2027-01-01T00:00:00Z --end 2028-01-01T00:00:00Z"},
		{"create-windows", nil, "create nights --total 1000000 --type daily --window 00:00-06:00=10000" +
			" --window 18:00-24:00=5000 --timezone Europe/Berlin --unused forfeit --late-refund next"},
		{"create-anchor", nil, "create payday --total 1,000,000 --every month --quantity 5,000 --anchor day=31,hour=6" +
			" --unused next --max-rollover 1,000 --partial whole"},
		{"create-free", nil, "create free --total 1000 --rule free"},
		{"get-daily", []string{hourly, "deduct hourly 20"}, "get hourly"},
		{"set-rule", []string{hourly}, "set hourly --window 00:00-24:00=700 --late-refund forfeit"},
		{"set-late-refund", []string{hourly}, "set hourly --late-refund total"},
		{"deduct-daily", []string{hourly}, "deduct hourly 20 --request-id o1"},
		{"audit-daily", []string{hourly}, "audit hourly"},
		{"list", []string{sale, "create autumn --total 5 --type promo", "pause autumn"}, "list"},
		{"list-none", []string{sale}, "list --status paused"},
		{"set", []string{sale}, "set spring-sale --end 2027-01-01T00:00:00Z --sharding 250 --adjust-cnt 9 --if-version 1"},
		{"set-unbounded", []string{sale, "set spring-sale --end 2027-01-01T00:00:00Z --sharding 250"},
			"set spring-sale --end never --sharding 0"},
		{"pause", []string{sale}, "pause spring-sale"},
		{"resume", []string{sale, "pause spring-sale"}, "resume spring-sale"},
		{"append", []string{sale}, "append spring-sale 500 --request-id a1"},
		{"append-again", []string{sale, "append spring-sale 500 --request-id a1"}, "append spring-sale 500 --request-id a1"},
		{"shrink", []string{sale}, "shrink spring-sale 500 --request-id a2"},
		{"deduct", []string{sale}, "deduct spring-sale 5000 --request-id o1 --key u1 --dimension user=u1 --reference r"},
		{"deduct-again", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "deduct spring-sale 5000 --request-id o1"},
		{"rollback", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "rollback spring-sale o1"},
		{"rollback-part", []string{sale, "deduct spring-sale 5000 --request-id o1"},
			"rollback spring-sale o1 --amount 2000 --rollback-id refund-1"},
		{"deduct-hold", []string{sale}, "deduct spring-sale 5000 --request-id o1 --hold 15m --group order-17"},
		{"confirm", []string{sale, held + "o1"}, "confirm spring-sale o1"},
		{"confirm-part", []string{sale, held + "o1"}, "confirm spring-sale o1 --amount 2000"},
		{"confirm-group", []string{sale, held + "o1", held + "o2"}, "confirm spring-sale --group order-17"},
		{"extend", []string{sale, held + "o1"}, "extend spring-sale o1 --hold 1h"},
		{"extend-group", []string{sale, held + "o1", held + "o2"}, "extend spring-sale --group order-17 --hold 1h"},
		{"cancel", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "cancel spring-sale o1"},
		{"cancel-void", []string{sale}, "cancel spring-sale o2"},
		{"buckets", []string{sale}, "buckets spring-sale"},
		{"offline", []string{sale, "pause spring-sale"}, "offline spring-sale spring-sale:bucket-0"},
		{"online", []string{sale, "pause spring-sale", "offline spring-sale spring-sale:bucket-0"},
			"online spring-sale spring-sale:bucket-0"},
		{"apply", []string{sale}, "apply spring-sale spring-sale:bucket-0"},
		{"apply", []string{sale}, "apply spring-sale bucket-0"},
		{"apply", []string{sale}, "apply 1 0"},
		{"recycle", []string{sale}, "recycle spring-sale"},
		{"recycle-history", []string{sale}, "recycle spring-sale --history"},
		{"audit", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "audit spring-sale"},
		{"series", []string{sale, "deduct spring-sale 5000 --request-id o1"}, "series spring-sale"},
		{"series-span", []string{sale}, "series spring-sale --from 2026-04-01T00:00:00Z --to 2026-04-02T00:00:00Z --step 1h"},
		{"quarantine", []string{sale}, "quarantine spring-sale"},
		{"release", []string{sale}, "release spring-sale 40 --request-id q1 --reason unsold --by jane"},
		{"release-all", []string{sale}, "release spring-sale all --request-id q2 --reason unsold"},
		{"instances", nil, "instances"},
		{"drain", nil, "instances drain redis-2"},
		{"drain-begun", nil, "instances drain redis-2 --wait=false"},
		{"undrain", nil, "instances undrain redis-2"},
		{"recover", nil, "instances recover embedded"},
		{"set-buckets", []string{sale}, "set spring-sale --buckets 32"},
	}
	for _, test := range tests {
		for _, format := range formats[:3] { // names have a test of their own
			t.Run(test.name+"/"+format, func(t *testing.T) {
				server := newFake(t)
				for _, line := range test.given {
					must1(t, server.URL, line)
				}
				r := must1(t, server.URL, test.line+" -o "+format)
				if r.stderr != "" {
					t.Errorf("stderr: %s", r.stderr)
				}
				golden(t, test.name+"."+format, r.stdout)
			})
		}
	}
}

// TestExitStatus pins what scripts rely on: the status of each kind of outcome, and that a person is
// told what was wrong, where, and what to do next, on stderr alone.
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

// TestStatusOfProblems pins the status of every code that has no way to come about in the fake.
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
		{409, "recycle_running", exitRefused}, {409, "a_code_of_tomorrow", exitRefused},
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

// TestReadThatFails: a read has no outcome that could be unknown.
func TestReadThatFails(t *testing.T) {
	server := newFake(t)
	server.interfere = always(500, "internal")
	checkFailure(t, command(t, server.URL, "get b"), exitError, "budgetctl get: internal: D")
	server.interfere = always(503, "unavailable")
	checkFailure(t, command(t, server.URL, "get b"), exitUnknown, "unavailable", "repeat the command in a moment")
}

// TestRollbackOfPartsWithoutIDs: each gets an id of its own, which is told.
func TestRollbackOfPartsWithoutIDs(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	must1(t, server.URL, "deduct b 10 --request-id o1")
	for range 2 {
		r := must1(t, server.URL, "rollback b o1 --amount 3 -o json")
		if !regexp.MustCompile(`"rollback_id": "[0-9a-f-]{36}"`).MatchString(r.stdout) {
			t.Errorf("stdout %s", r.stdout)
		}
	}
	if used := server.budgets["1"].Used; used != 4 {
		t.Errorf("used %d, want 4", used)
	}
	// The whole has one id, so a repeat is no second rollback.
	for range 2 {
		must1(t, server.URL, "rollback b o1")
	}
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

// TestUnknownOutcome: the id that makes a repeat safe is told, also one that was made up.
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

// TestRefusedAfterALostAnswer: the client cancels the id by itself, and says so.
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

// TestUsage: what is wrong with a command line is told before anything is sent.
func TestUsage(t *testing.T) {
	tests := []struct{ line, want string }{
		{"", "which command?"},
		{"crate b", `there is no command "crate"; did you mean create?`},
		{"get", "BUDGET is missing"},
		{"get a b", `"b" is one argument too many`},
		{"deduct b", "AMOUNT is missing"},
		{"get ../admin", `budget "../admin": must start with a letter`},
		{"get B", `budget "B"`},
		{"get b --nonsense", "unknown flag: --nonsense"},
		{"get b -o xml", `--output "xml": must be one of table, json, yaml`},
		{"get b --timeout 0s", "--timeout 0s: must be above 0"},
		{"get b --tenant T", `--tenant "T"`},
		{"get b --server ftp://h", "must look like http://host:port"},
		{"create b --total 5", "--total and --type are required"},
		{"create b --type promo", "--total and --type are required"},
		{"create Sale --total 5 --type promo", `name "Sale"`},
		{"create b --total 1e3 --type promo", `amount "1e3"`},
		{"create b --total 5 --type weekly", `--type "weekly": must be one of promo, daily`},
		{"create b --total 5 --type promo --unit g", `--unit "g": must be one of count, amount`},
		{"create b --total 5 --type promo --buckets 0", "--buckets 0: must be at least 1"},
		{"create b --total 5 --type promo --buckets -1", "must not be negative"},
		{"create b --total 5 --type promo --buckets x", "invalid argument"},
		{"create b --total 5 --type promo --sharding 1.5", `--sharding "1.5"`},
		{"create b --total 5 --type promo --end tomorrow", `--end "tomorrow": must be a time with zone`},
		{"create b --total 5 --type promo --start 2026-01-01T00:00:00", `--start "2026-01-01T00:00:00"`},
		{"create b --total 5 --type daily", "--type daily needs a rule: --every, --window or --rule free"},
		{"create b --total 5 --type promo --every day", "--type promo has no rule"},
		{"create b --every day", "--total and --type are required"},
		{"create b --total 5 --every year", `--every "year": must be one of hour, day, week, month`},
		{"create b --total 5 --every=", `--every "": must be one of`},
		{"create b --total 5 --rule calendar", `--rule "calendar": must be one of free`},
		{"create b --total 5 --every day --rule free", "--every and --rule do not go together"},
		{"create b --total 5 --every day --window 00:00-06:00=1 --rule free", "--every and --window and --rule do not go together"},
		{"create b --total 5 --rule free --quantity 5", "--quantity goes with --every only"},
		{"create b --total 5 --window 00:00-06:00=1 --quantity 5", "--quantity goes with --every only"},
		{"create b --total 5 --type promo --quantity 5", "--quantity goes with --every only"},
		{"create b --total 5 --every day --quantity 0", `amount "0"`},
		{"create b --total 5 --every day --quantity=", `amount ""`},
		{"create b --total 5 --every day --unused total", `--unused "total": must be one of spread, next, forfeit`},
		{"create b --total 5 --rule free --unused next", "--unused goes with --every or --window"},
		{"create b --total 5 --type promo --unused next", "--unused goes with --every or --window"},
		{"create b --total 5 --every day --late-refund spread", `--late-refund "spread": must be one of total, next, forfeit`},
		{"create b --total 5 --window 00:00-06:00", `--window "00:00-06:00": must be FROM-TO=QUANTITY`},
		{"create b --total 5 --window 00:00=5", `--window "00:00=5": must be FROM-TO=QUANTITY`},
		{"create b --total 5 --window -06:00=5", `--window "-06:00=5": must be FROM-TO=QUANTITY`},
		{"create b --total 5 --window=", `--window "": must be FROM-TO=QUANTITY`},
		{"create b --total 5 --window 00:00-06:00=1e3", "the quantity must be a whole number from 1"},
		{"create b --total 5 --window 22:00-02:00=5", "write --window 22:00-24:00=… and --window 00:00-02:00=…"},
		{"create b --total 5 --sharding-quantity 5", "did you mean --sharding?"},
		{"create b --total_quantity 5", "did you mean --total?"},
		{"create b --total 1,00 --type promo", `amount "1,00"`},
		{"create b --total 5 --every month --anchor day=32", "must be a day of the month, 1 to 31"},
		{"create b --total 5 --every week --anchor weekday=sun", "must be monday to sunday"},
		{"create b --total 5 --every day --anchor minute=3", "must be day, weekday or hour"},
		{"create b --total 5 --window 00:00-06:00=1 --anchor hour=3", "--anchor goes with --every only"},
		{"create b --total 5 --every day --max-rollover 3", "--max-rollover goes with --unused next only"},
		{"create b --total 5 --rule free --partial whole", "--partial goes with --every or --window"},
		{"set b --unused next", "--unused goes with --every or --window"},
		{"set b --every day --window 00:00-06:00=5", "--every and --window do not go together"},
		{"set b --late-refund=", `--late-refund ""`},
		{"list --status gone", `--status "gone"`},
		{"list b", `"b" is one argument too many`},
		{"set b", "nothing to change"},
		{"set b --end x", `--end "x"`},
		{"set b --sharding x", `--sharding "x"`},
		{"set b --adjust-cnt -1", "--adjust-cnt -1: must not be negative"},
		{"set b --adjust-cnt 1 --if-version 0", "--if-version 0: must be at least 1"},
		{"deduct b 1 --request-id=", `request id "": is missing`},
		{"deduct b 1 --request-id " + strings.Repeat("x", 129), "is 129 bytes long"},
		{"deduct b 1 --key " + strings.Repeat("x", 257), "--key"},
		{"deduct b 1 --dimension user=", "name and value must not be empty"},
		{"deduct b 1 --dimension user", "must be formatted as key=value"},
		{"deduct b 1 --reference " + strings.Repeat("x", 257), "--reference"},
		{"rollback b o1 --amount 0", `amount "0"`},
		{"rollback b --group g --amount 1", "--amount cannot stand beside --group"},
		{"rollback b --group=", "--group"},
		{"confirm b", "REQUEST_ID is missing"},
		{"confirm b o1 --group g", "one argument too many"},
		{"confirm --group g", "BUDGET is missing"},
		{"confirm b o1 --amount 0", `amount "0"`},
		{"extend b o1", "--hold is missing"},
		{"deduct b 1 --group g", "--group needs --hold"},
		{"rollback b o1 --rollback-id=", "is missing"},
		{"offline b " + strings.Repeat("x", 257), "bucket key"},
	}
	for _, bad := range []string{"0", "-1", "-0", "+1", "1e3", "1.5", "9007199254740992", "007", "0x10", "1_000", "NaN",
		"９", "9223372036854775808", strings.Repeat("1", 10000)} {
		for _, line := range []string{"append b ", "shrink b ", "deduct b "} {
			tests = append(tests, struct{ line, want string }{line + bad,
				fmt.Sprintf("amount %q: must be a whole number from 1 to 9007199254740991", bad)})
		}
	}
	server := newFake(t)
	for _, test := range tests {
		name := test.line[:min(len(test.line), 50)]
		t.Run(name, func(t *testing.T) {
			checkFailure(t, command(t, server.URL, test.line), exitUsage, test.want, "--help' for usage.")
		})
	}
	if len(server.calls) > 0 {
		t.Errorf("requests were sent: %v", server.calls)
	}
}

func TestIDsThatAShellWouldNotSplit(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	env := map[string]string{"BUDGETCTL_SERVER": server.URL}
	if r := withEnv(t, env, "deduct", "b", "1", "--request-id", "a\x00b"); r.status != exitUsage {
		t.Errorf("control character: status %d: %s", r.status, r.stderr)
	}
	if r := withEnv(t, env, "deduct", "b", "1", "--request-id", "\xff"); r.status != exitUsage {
		t.Errorf("invalid UTF-8: status %d: %s", r.status, r.stderr)
	}
	if r := withEnv(t, env, "deduct", "b", " 7"); r.status != exitUsage {
		t.Errorf("blank in an amount: status %d: %s", r.status, r.stderr)
	}
	if r := withEnv(t, env, "deduct", "b", "1", "--request-id", "it's a"); r.status != exitDone {
		t.Fatalf("quote and blank: status %d: %s", r.status, r.stderr)
	}
	server.interfere = always(504, "outcome_unknown")
	r := withEnv(t, env, "deduct", "b", "1", "--request-id", "it's a")
	if want := `--request-id 'it'\''s a', it takes`; !strings.Contains(r.stderr, want) {
		t.Errorf("stderr does not mention %s: %s", want, r.stderr)
	}
}

// TestTerminalIsSafe: what a server sends cannot control the terminal.
func TestTerminalIsSafe(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	server.budgets["1"].GLCode = "\x1b[31mred\r\n"
	if r := must1(t, server.URL, "get b"); strings.ContainsAny(r.stdout, "\x1b\r") {
		t.Errorf("stdout %q", r.stdout)
	}
	server.interfere = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(409)
		fmt.Fprint(w, `{"code":"budget_paused","detail":"\u001b[2J"}`)
		return true
	}
	if r := command(t, server.URL, "get b"); strings.Contains(r.stderr, "\x1b") {
		t.Errorf("stderr %q", r.stderr)
	}
}

func TestTenant(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo --tenant games")
	must1(t, server.URL, "deduct b 1 --tenant games")
	checkFailure(t, command(t, server.URL, "get b"), exitError, "budget_not_found", "--tenant names another one")
	if diff := cmp.Diff([]string{"", "games", ""}, server.queries); diff != "" {
		t.Errorf("tenants (-want +got):\n%s", diff)
	}
	if server.budgets["games/b"].Used != 1 {
		t.Error("the deduction is not in the tenant's budget")
	}
}

// TestGeneratedIDsDiffer: two deductions without an id are two deductions.
func TestGeneratedIDsDiffer(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	must1(t, server.URL, "deduct b 1")
	must1(t, server.URL, "deduct b 1")
	must1(t, server.URL, "append b 1")
	must1(t, server.URL, "append b 1")
	if b := server.budgets["1"]; b.Used != 2 || b.TotalQuantity != 102 {
		t.Errorf("used %d, total %d", b.Used, b.TotalQuantity)
	}
}

func TestWhichServer(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		name, flag, env, config, want string
	}{
		{name: "default", want: defaultServer},
		{name: "environment", env: "http://e:1", want: "http://e:1"},
		{name: "flag before environment", flag: "http://f:1", env: "http://e:1", want: "http://f:1"},
		{name: "environment before file", env: "http://e:1", config: file("listen: 1.2.3.4:5"), want: "http://e:1"},
		{name: "file", config: file("log: {level: info}\nlisten: 1.2.3.4:5\n"), want: "http://1.2.3.4:5"},
		{name: "file, every address", config: file("listen: 0.0.0.0:8081"), want: "http://127.0.0.1:8081"},
		{name: "file, every address of IPv6", config: file(`listen: "[::]:8081"`), want: "http://[::1]:8081"},
		{name: "file, port only", config: file(`listen: ":8081"`), want: "http://127.0.0.1:8081"},
		{name: "file without the key", config: file("log: {}"), want: defaultServer},
		{name: "empty file", config: file(""), want: defaultServer},
		{name: "file, no port", config: file("listen: here")},
		{name: "no such file", config: "testdata/none.yaml"},
		{name: "file, port 0", config: file("listen: 127.0.0.1:0")},
		{name: "file, not YAML", config: file("listen: [")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := &app{server: test.flag, config: test.config, getenv: func(name string) string {
				return map[string]string{"BUDGETCTL_SERVER": test.env}[name]
			}}
			got, err := a.address()
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("address %q, %v; want %q", got, err, test.want)
			}
			if err != nil && exitStatus(err) != exitUsage {
				t.Errorf("status %d of %v", exitStatus(err), err)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	if r := must1(t, "", "version"); !regexp.MustCompile(`(?m)^version +\S+$`).MatchString(r.stdout) {
		t.Errorf("stdout %s", r.stdout)
	}
	if r := must1(t, "", "version -o json"); !strings.Contains(r.stdout, `"go": "go1.`) {
		t.Errorf("stdout %s", r.stdout)
	}
}

// TestHelp: every command has help, an example that starts with its name, and completion.
func TestHelp(t *testing.T) {
	var all func(commands []*cobra.Command)
	all = func(commands []*cobra.Command) {
		for _, c := range commands {
			r := command(t, "", strings.TrimPrefix(c.CommandPath(), "budgetctl ")+" --help")
			if r.status != exitDone || r.stderr != "" || !strings.Contains(r.stdout, "Usage:") {
				t.Errorf("%s --help: status %d, stderr %s", c.CommandPath(), r.status, r.stderr)
			}
			if c.Short == "" || !strings.Contains(c.Example, "  "+c.CommandPath()) {
				t.Errorf("%s: short %q, example %q", c.CommandPath(), c.Short, c.Example)
			}
			all(c.Commands())
		}
	}
	all((&app{}).rootCommand().Commands())
	if r := must1(t, "", "completion bash"); !strings.Contains(r.stdout, "budgetctl") {
		t.Errorf("completion: %s", r.stdout)
	}
	if r := must1(t, "", "__complete get -o "); !strings.Contains(r.stdout, "yaml") {
		t.Errorf("completion of -o: %s", r.stdout)
	}
	r := must1(t, "", "--help")
	for _, text := range []string{"Exit status:", "4  the audit found", "BUDGETCTL_SERVER", "budget_exhausted"} {
		if !strings.Contains(r.stdout, text) {
			t.Errorf("help does not mention %q", text)
		}
	}
}

// full is a writer that fails, like a full disk or a closed pipe.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestOutputThatCannotBeWritten(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	var stderr bytes.Buffer
	status := run(t.Context(), []string{"get", "b", "--server", server.URL}, func(string) string { return "" }, full{}, &stderr)
	if status != exitError || !strings.Contains(stderr.String(), "output: file already closed") {
		t.Errorf("status %d: %s", status, &stderr)
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

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -999: "-999",
		1234567: "1,234,567", budget.MaxAmount: "9,007,199,254,740,991"} {
		if got := grouped(n); got != want {
			t.Errorf("grouped(%d) = %q, want %q", n, got, want)
		}
	}
}

// TestRecycleRuns: a recycle that takes longer than one call is waited for, with progress where it is asked
// for; one that goes on already is refused.
func TestRecycleRuns(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	r := must1(t, server.URL, "recycle b --progress always -o json")
	if !strings.Contains(r.stdout, `"status": "done"`) || !strings.Contains(r.stderr, "100 % (4 of 4)") {
		t.Errorf("stdout %s\nstderr %s", r.stdout, r.stderr)
	}
	r = command(t, server.URL, "recycle b")
	if r.status != exitRefused || !strings.Contains(r.stderr, "recycle_running") || r.stdout != "" {
		t.Errorf("a second one: status %d, stderr %s", r.status, r.stderr)
	}
	if r = command(t, server.URL, "recycle b --progress sometimes"); r.status != exitUsage {
		t.Errorf("a wrong --progress: status %d", r.status)
	}
}

// TestDrainEndedByAnother: watching a drain does not begin it again after somebody has ended it.
func TestDrainEndedByAnother(t *testing.T) {
	server := newFake(t)
	drains := 0
	server.interfere = func(w http.ResponseWriter, r *http.Request) bool {
		server.mu.Lock()
		defer server.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "/drain") {
			drains++
		}
		if r.URL.Path != "/v1/instances" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"instances":[{"name":"redis-2","draining":false},{"name":"redis-1","draining":true}]}`))
		return true
	}
	r := command(t, server.URL, "instances drain redis-2")
	if r.status != exitError || !strings.Contains(r.stderr, "somebody has ended the drain") || drains != 1 {
		t.Errorf("status %d after %d drains: %s", r.status, drains, r.stderr)
	}
}
