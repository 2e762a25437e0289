package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/daemon"
)

// outlet is what a process wrote.
type outlet struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *outlet) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *outlet) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

var listens = regexp.MustCompile(`msg=listening addr=(\S+)`)

// serveReal runs a budgetd with everything embedded, and returns its URL.
func serveReal(t *testing.T) string {
	t.Helper()
	return serveWith(t, "")
}

// serveWith runs a budgetd with the text of a configuration file, and returns its URL.
func serveWith(t *testing.T, config string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	log, status := new(outlet), make(chan int, 1)
	go func() {
		status <- daemon.Run(ctx, []string{"--config", file}, []string{"BUDGETD_LISTEN=127.0.0.1:0",
			"BUDGETD_DATABASE_DSN=" + filepath.Join(t.TempDir(), "budgetd.db")}, io.Discard, log)
	}()
	t.Cleanup(func() { cancel(); <-status })
	for range 1200 {
		if found := listens.FindStringSubmatch(log.String()); found != nil {
			return "http://" + found[1]
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("it does not start:\n%s", log)
	return ""
}

// checkContains checks that a text has each of these.
func checkContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

const declaredBudgets = `budgets:
  - {name: spring, unit: count, type: promo, total_quantity: 1500, bucket_quantity: 2}
  - name: gifts
    unit: count
    unlimited: true
    limits:
      - {name: per-user, dimension: user, measure: count, max: 2, window: {kind: calendar, every: day}}
  - name: year
    unit: count
    type: daily
    total_quantity: 3650
    end_at: 2099-01-01T00:00:00Z
    type_rule: {kind: calendar, every: day, quantity: 10}
`

// TestApplyAndExport makes budgets from a file, changes them, and finds that a second apply and an apply
// of the export change nothing, and that used units stay.
func TestApplyAndExport(t *testing.T) {
	server := serveReal(t)
	file := filepath.Join(t.TempDir(), "budgets.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(declaredBudgets)
	must1(t, server, "create spring --type promo --total 1000 --buckets 2")
	must1(t, server, "deduct spring 300 --request-id o1")

	r := must1(t, server, "apply -f "+file+" --dry-run")
	checkContains(t, r.stdout, "~ spring", "total_quantity: 1,000 -> 1,500; append 500", "300 used and 0 held stay",
		"1,200 of 1,500 are then left", "+ gifts", "+ year", "2 created, 1 changed, 0 as they were (dry run")
	checkFailure(t, command(t, server, "get gifts"), exitError, "budget_not_found")
	r = must1(t, server, "apply -f "+file)
	checkContains(t, r.stderr, "append 500")
	checkContains(t, must1(t, server, "get spring -o json").stdout, `"total_quantity": 1500`, `"used": 300`)
	if r = must1(t, server, "apply -f "+file); !strings.Contains(r.stdout, "0 created, 0 changed, 3 as they were") {
		t.Errorf("a second apply: %s%s", r.stdout, r.stderr)
	}
	exported := must1(t, server, "export")
	write(exported.stdout)
	if r = must1(t, server, "apply -f "+file); !strings.Contains(r.stdout, "0 created, 0 changed, 3 as they were") {
		t.Errorf("an apply of the export:\n%s%s%s", exported.stdout, r.stdout, r.stderr)
	}

	changed := strings.NewReplacer("total_quantity: 1500, bucket_quantity: 2",
		"total_quantity: 400, bucket_quantity: 4, status: paused", "max: 2,", "max: 5,", "quantity: 10}", "quantity: 7}").
		Replace(declaredBudgets)
	write(changed)
	r = must1(t, server, "apply -f "+file)
	checkContains(t, r.stderr, "bucket_quantity: 2 -> 4", "paused: deductions are refused", "shrink by 1,100", "100 of 400 are then left",
		"- limit per-user:", "+ limit per-user:", "rule: every day; 10 each", "7 each")
	checkContains(t, must1(t, server, "get spring -o json").stdout, `"total_quantity": 400`, `"used": 300`, `"paused"`)
	if r = must1(t, server, "apply -f "+file); !strings.Contains(r.stdout, "3 as they were") {
		t.Errorf("a second apply: %s%s", r.stdout, r.stderr)
	}

	write(strings.Replace(changed, "total_quantity: 400", "total_quantity: 200", 1))
	checkFailure(t, command(t, server, "apply -f "+file), exitError, "300 are used")
	write(strings.Replace(changed, "name: spring, unit: count", "name: spring, unit: amount", 1))
	checkFailure(t, command(t, server, "apply -f "+file), exitError, "unit is count and cannot become amount")
	write(strings.Replace(changed, "name: spring,", "nome: spring,", 1))
	checkFailure(t, command(t, server, "apply -f "+file), exitUsage, "nome")
	for text, want := range map[string]string{changed + "---\n" + changed: "one YAML document",
		strings.Replace(changed, "total_quantity: 400", "total_quantity: 0500", 1): "line 2: budget spring: total_quantity must be a number"} {
		write(text)
		checkFailure(t, command(t, server, "apply -f "+file), exitUsage, want)
	}
	checkFailure(t, command(t, server, "apply -f "+file+" spring"), exitUsage, "-f")
}

// TestExportToAnotherServer makes budgets of every kind, one that has ended and one with thresholds of
// its own among them, exports them, and applies the file to an empty server, whose export is the same.
// It sends what it shows of each to the first server again, which is no other definition.
func TestExportToAnotherServer(t *testing.T) {
	server, other := serveReal(t), serveReal(t)
	file := filepath.Join(t.TempDir(), "budgets.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(declaredBudgets)
	must1(t, server, "apply -f "+file)
	must1(t, server, "create over --type promo --total 10 --end 2020-01-01T00:00:00Z --allow-past")
	must1(t, server, "create plain --total 10 --every day --quantity 1")
	must1(t, server, "thresholds spring --add used_share/total/75 --remove used_share/total/80")
	must1(t, server, "thresholds gifts --none")
	exported := must1(t, server, "export").stdout
	write(exported)
	r := must1(t, other, "apply -f "+file+" --dry-run")
	checkContains(t, r.stdout, "+ over", "thresholds: ", "used_share/total/75", "thresholds: none", "5 created, 0 changed")
	must1(t, other, "apply -f "+file)
	if again := must1(t, other, "export").stdout; again != exported {
		t.Errorf("the other server has\n%s, not\n%s", again, exported)
	}
	checkContains(t, must1(t, other, "apply -f "+file).stdout, "5 as they were")

	write("budgets:\n  - {name: spring, adjust_cnt: 3, thresholds: [{kind: exhausted, of: total}]}\n  - {name: over, adjust_cnt: 4}\n")
	r = must1(t, other, "apply -f "+file)
	checkContains(t, r.stderr, "adjust_cnt: no bound -> 3", "-> exhausted/total", "adjust_cnt: no bound -> 4")
	checkContains(t, must1(t, other, "apply -f "+file).stdout, "2 as they were")

	ended := strings.Replace(exported, "allow_past: true", "allow_past: false", 1)
	write(strings.ReplaceAll(ended, "name: ", "name: new-"))
	for _, how := range []string{" --dry-run", ""} {
		r = command(t, other, "apply -f "+file+how)
		checkFailure(t, r, exitError, "new-over: invalid", "end_at: has passed")
	}
	checkFailure(t, command(t, other, "get new-spring"), exitError, "budget_not_found")

	c, err := client.New(server)
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range c.Budgets(t.Context(), client.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if again, err := c.Create(t.Context(), declaredOf(&b).CreateRequest); err != nil || again.ID != b.ID {
			t.Errorf("%s sent back: %+v %v", b.Name, again, err)
		}
	}
}

// TestDeleteBudget deletes a mistyped budget, whose name is free afterwards, and is refused one with a
// deduction that was given back. The audit log has the call.
func TestDeleteBudget(t *testing.T) {
	server := serveReal(t)
	must1(t, server, "create sprnig --type promo --total 1000")
	checkContains(t, must1(t, server, "delete sprnig").stdout, "sprnig", "1,000")
	checkFailure(t, command(t, server, "get sprnig"), exitError, "budget_not_found")
	checkFailure(t, command(t, server, "delete sprnig"), exitError, "budget_not_found")
	must1(t, server, "create sprnig --type promo --total 5")
	must1(t, server, "deduct sprnig 1 --request-id o1")
	must1(t, server, "rollback sprnig o1")
	checkFailure(t, command(t, server, "delete sprnig"), exitRefused, "has_deductions", "archive it")
	must1(t, server, "create org --type promo --total 100")
	must1(t, server, "create team-1 --type promo --total 40 --parent org")
	must1(t, server, "deduct team-1 3 --request-id o1")
	checkContains(t, must1(t, server, "close team-1").stdout, "team-1", "expired")
	checkFailure(t, command(t, server, "deduct org 98 --request-id o1"), exitRefused, "budget_exhausted")
	must1(t, server, "deduct org 97 --request-id o1")
	checkFailure(t, command(t, server, "close org"), exitError, "has no parent")
	checkFailure(t, command(t, server, "bulk pause --match org"), exitUsage, "--expect")
	checkFailure(t, command(t, server, "bulk append 5 --match absent --expect 1 --request-id m1"), exitRefused,
		"selects 0 budgets, not 1")
	checkContains(t, must1(t, server, "audit-log --op delete").stdout, "sprnig", "done", "has_deductions")
}

// TestNames checks that completion offers the names of budgets, and that -o name prints only names.
func TestNames(t *testing.T) {
	server := serveReal(t)
	for _, name := range []string{"spring", "summer", "winter"} {
		must1(t, server, "create "+name+" --type promo --total 100 --buckets 2")
	}
	for line, want := range map[string]string{
		"__complete get s": "spring\nsummer\n", "__complete deduct w": "winter\n", "__complete instances drain w": "",
		"__complete explain o1 --budget su": "summer\n", "__complete export s": "spring\nsummer\n",
		"__complete append spring s": "",
	} {
		r := must1(t, server, line)
		if got, _, _ := strings.Cut(r.stdout, ":"); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := must1(t, server, "completion "+shell); !strings.Contains(r.stdout, "__complete") {
			t.Errorf("completion %s: %.80q", shell, r.stdout)
		}
	}
	for line, want := range map[string]string{"list -o name": "spring\nsummer\nwinter\n", "get spring -o name": "spring\n",
		"buckets spring -o name": "spring:bucket-0\nspring:bucket-1\n"} {
		if r := must1(t, server, line); r.stdout != want {
			t.Errorf("%s: %q, want %q", line, r.stdout, want)
		}
	}
}

// TestLive drives the screen of watch over a real server, and reads what it shows.
func TestLive(t *testing.T) {
	server := serveReal(t)
	must1(t, server, "create sale --type promo --total 1000 --buckets 2")
	must1(t, server, "deduct sale 250 --request-id o1")
	checkFailure(t, command(t, server, "deduct sale 2000 --request-id o2"), exitRefused, "budget_exhausted")
	c, err := client.New(server)
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{app: &app{timeout: time.Minute}, client: c, budget: "sale", live: true}
	m := &live{every: time.Second, ask: func() (*look, error) { return w.look(t.Context()) }}
	m.Update(tea.WindowSizeMsg{Width: 60, Height: 24})
	_, next := m.Update(m.Init()())
	screen := ansi.Strip(m.View().Content)
	checkContains(t, screen, "sale  effective", "25.0 % used or held", "750 remaining, 250 used and 0 held of 1,000", "used up:", "buckets",
		"sale:bucket-0", "online", "refused lately", "budget_exhausted  o2 asked for 2,000", "q quits")
	must1(t, server, "deduct sale 250 --request-id o3")
	m.Update(m.look())
	checkContains(t, ansi.Strip(m.View().Content), "50.0 % used or held", "500 remaining, 500 used", "since this watch began\n█▅")
	if next == nil {
		t.Error("no further look is planned")
	}
	for _, size := range []tea.WindowSizeMsg{{Width: 30, Height: 8}, {Width: 200, Height: 50}} {
		m.Update(size)
		lines := strings.Split(ansi.Strip(m.View().Content), "\n")
		if len(lines) > size.Height || slices.ContainsFunc(lines, func(l string) bool { return ansi.StringWidth(l) > size.Width }) {
			t.Errorf("%v:\n%s", size, strings.Join(lines, "\n"))
		}
	}
	m.Update(asked{err: &client.TransportError{Op: "get", Err: io.ErrUnexpectedEOF}})
	checkContains(t, ansi.Strip(m.View().Content), "not answered, trying again", "500 remaining")
	if _, quit := m.Update(tea.KeyPressMsg{Code: 'q', Text: "q"}); quit == nil {
		t.Error("q does not quit")
	} else if _, is := quit().(tea.QuitMsg); !is {
		t.Error("q does something else")
	}
}

// TestFitted checks that a table is no wider than the terminal and that an ellipsis marks a cut. A
// sentence is wrapped.
func TestFitted(t *testing.T) {
	table := listing([]string{"name", "detail"}, [][]any{{"a", strings.Repeat("x", 90)}, {"b", "short"}})
	for _, line := range strings.Split(fitted(table, 40), "\n") {
		if ansi.StringWidth(line) > 40 {
			t.Errorf("%q", line)
		}
	}
	if got := fitted("one two three four", 8); got != "one two\nthree\nfour" {
		t.Errorf("the sentence became %q", got)
	}
	if !strings.Contains(fitted(table, 40), "x…") || fitted(table, 0) != table {
		t.Errorf("%s", fitted(table, 40))
	}
}

// TestWaiting checks that a call that takes long shows a line, that the line is cleared at the end,
// and that a short call shows nothing.
func TestWaiting(t *testing.T) {
	var out outlet
	done := tell(&out, time.Millisecond, time.Millisecond, "\r waiting for the server, %s", "\r\x1b[K")
	for !strings.Contains(out.String(), "waiting for the server") {
		time.Sleep(time.Millisecond)
	}
	done()
	if text := out.String(); !strings.HasSuffix(text, "\r\x1b[K") {
		t.Errorf("%q", text)
	}
	before := fmt.Sprint(out.String())
	if tell(&out, time.Hour, time.Hour, "%s", "clear")(); out.String() != before {
		t.Errorf("a short call shows %q", out.String())
	}
}

// TestOpensAt checks that nothing of a budget remains before its window opens, and that all views say when that is.
func TestOpensAt(t *testing.T) {
	server := serveReal(t)
	must1(t, server, "create later --type promo --total 70 --buckets 1 --start 2199-01-01T00:00:00Z")
	const opens = "2199-01-01T00:00:00Z"
	for _, line := range []string{"get later", "list", "watch later --count 1"} {
		r := command(t, server, line)
		checkContains(t, r.stdout, opens)
		r = command(t, server, line+" -o json")
		checkContains(t, strings.ReplaceAll(r.stdout, " ", ""), `"remaining":0`, `"opens_at":"`+opens+`"`, `"in_buckets":70`)
	}
}

// TestUnlimited checks that every view says that a budget is unlimited, and none that it is exhausted or has a total of 0.
func TestUnlimited(t *testing.T) {
	server := serveReal(t)
	must1(t, server, "create ad --unlimited --buckets 1")
	must1(t, server, "deduct ad 1800 --request-id o1")
	for line, members := range map[string][]string{
		"get ad":             {"total_quantity", "undistributed", "not_funded", "remaining", "in_buckets"},
		"list":               {"total_quantity", "undistributed", "remaining"},
		"audit ad":           {"total", "undistributed", "not_funded", "in_buckets"},
		"audit --all":        {"total"},
		"series ad":          {"total", "undistributed", "not_funded", "released", "remaining", "in_buckets"},
		"watch ad --count 1": {"total_quantity", "total", "released", "remaining"},
	} {
		r := command(t, server, line)
		checkContains(t, r.stdout, "unlimited")
		said := strings.ReplaceAll(command(t, server, line+" -o json").stdout, " ", "")
		for _, member := range members {
			checkContains(t, said, `"`+member+`":null`)
		}
	}
	checkContains(t, command(t, server, "series ad -o json").stdout, `"projection": "unlimited"`)
	checkContains(t, command(t, server, "watch ad --count 1 -o json").stdout, `"projection":"unlimited"`)
}
