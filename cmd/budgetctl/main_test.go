package main

import (
	"bytes"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
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

// TestRollbackOfPartsWithoutIDs checks that each rollback of a part gets and shows an id of its own
// if none is given.
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

// TestUsage checks that an invalid command line is refused before anything is sent.
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

// TestGeneratedIDsDiffer checks that commands without an id get different ids, so that each takes
// effect.
func TestGeneratedIDsDiffer(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --total 100 --type promo")
	must1(t, server.URL, "deduct b 1")
	must1(t, server.URL, "deduct b 1")
	must1(t, server.URL, "append b 1")
	must1(t, server.URL, "append b 1")
	if b := server.budgets["1"]; b.Used != 2 || *b.TotalQuantity != 102 {
		t.Errorf("used %d, total %d", b.Used, *b.TotalQuantity)
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
		{name: "file, two documents", config: file("listen: 1.2.3.4:5\n---\nlisten: 1.2.3.4:6")},
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

// TestHelp checks that every command has a help text and an example that starts with its name, and
// that completion works.
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

// TestInvalidProgress checks that a --progress that does not exist is refused with those that do.
func TestInvalidProgress(t *testing.T) {
	r := command(t, "", "recycle b --progress sometimes")
	if r.status != exitUsage || !strings.Contains(r.stderr, "always") {
		t.Errorf("an invalid --progress: %+v", r)
	}
}

// TestDrainSaysWhatItWaitsFor checks that watching a drain says at once what it waits for, once as
// long as that stays the same, whatever --progress says.
func TestDrainSaysWhatItWaitsFor(t *testing.T) {
	for _, flag := range []string{"", " --progress never", " --progress always"} {
		server := newFake(t)
		drains := 0
		server.interfere = func(w http.ResponseWriter, r *http.Request) bool {
			server.mu.Lock()
			defer server.mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			if !strings.HasSuffix(r.URL.Path, "/drain") {
				_, _ = w.Write([]byte(`{"instances":[{"name":"redis-2","draining":true}]}`))
				return true
			}
			if drains++; drains < 3 {
				_, _ = w.Write([]byte(`{"instance":"redis-2","draining":true,"buckets_left":4,
					"problem":"4 buckets wait for redis-2/0: give it up"}`))
				return true
			}
			_, _ = w.Write([]byte(`{"instance":"redis-2","draining":true,"moved":4,"done":true}`))
			return true
		}
		r := command(t, server.URL, "instances drain redis-2"+flag)
		if r.status != exitDone || strings.Count(r.stderr, "The drain waits: 4 buckets wait for redis-2/0: give it up.") != 1 {
			t.Errorf("%q: status %d after %d drains: %s", flag, r.status, drains, r.stderr)
		}
	}
}

// TestDrainOfADeadStore checks that a drain of a store that is down says what its buckets wait for and
// what to do.
func TestDrainOfADeadStore(t *testing.T) {
	stores := []*testservers.RedisServer{testservers.Redis(t), testservers.Redis(t)}
	server := serveWith(t, fmt.Sprintf("instances:\n- {name: a, driver: redis, addrs: [%q]}\n"+
		"- {name: b, driver: redis, addrs: [%q]}\n", stores[0].Addr(), stores[1].Addr()))
	must1(t, server, "create sale --type promo --total 100 --buckets 4 --durability store")
	if err := stores[1].Kill(); err != nil {
		t.Fatal(err)
	}
	var r result
	for range 100 { // on a busy machine the other store may not have answered yet either
		r = command(t, server, "instances drain b --wait=false --timeout 1m")
		if r.status != exitRefused {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	checkContains(t, r.stdout, "2 buckets wait for b/0, whose store does not answer", "budgetctl instances give-up b")
}

// TestDrainEndedByAnother checks that watching a drain does not start it again after another caller
// has ended it.
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
