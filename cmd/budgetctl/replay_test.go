package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// requests writes a log with the bytes given, one line each, and returns its path.
func requests(t *testing.T, bytes ...int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("time_unix\tclient\tpath\tbytes\n")
	for i, n := range bytes {
		fmt.Fprintf(&text, "1431857100\t10.0.0.%d\t/path\t%d\n", i%7, n)
	}
	return written(t, text.String())
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "requests.tsv")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// many returns n numbers 1, 2, … .
func many(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i + 1
	}
	return numbers
}

// report is what a test looks at of a replay's data.
type report struct {
	Complete        bool           `json:"complete"`
	Deductions      int            `json:"deductions"`
	Skipped         int            `json:"skipped"`
	Accepted        int            `json:"accepted"`
	Replayed        int            `json:"replayed"`
	RolledBack      int            `json:"rolled_back"`
	AcceptedUnits   int64          `json:"accepted_units"`
	RolledBackUnits int64          `json:"rolled_back_units"`
	Refused         map[string]int `json:"refused"`
	Unexpected      map[string]int `json:"unexpected"`
}

func TestReplay(t *testing.T) {
	none := map[string]int{}
	tests := []struct {
		name   string
		total  string
		file   string
		flags  string
		again  bool // the same command line ran before
		status int
		want   report
		used   int64
	}{
		{name: "one unit each, every 20th given back", total: "1000", file: requests(t, many(100)...),
			want: report{Complete: true, Deductions: 100, Accepted: 100, RolledBack: 5, AcceptedUnits: 100,
				RolledBackUnits: 5, Refused: none, Unexpected: none}, used: 95},
		{name: "bytes, 0 skipped", total: "1000", file: requests(t, 5, 0, 7, 0), flags: "--amount bytes --rollback-every 0",
			want: report{Complete: true, Deductions: 2, Skipped: 2, Accepted: 2, AcceptedUnits: 12,
				Refused: none, Unexpected: none}, used: 12},
		{name: "one by one, sold out in the middle", total: "30", file: requests(t, many(100)...), flags: "--concurrency 1",
			want: report{Complete: true, Deductions: 100, Accepted: 31, RolledBack: 1, AcceptedUnits: 31, RolledBackUnits: 1,
				Refused: map[string]int{"budget_exhausted": 69}, Unexpected: none}, used: 30},
		{name: "in batches, the last one short", total: "1000", file: requests(t, many(100)...), flags: "--batch 30",
			want: report{Complete: true, Deductions: 100, Accepted: 100, RolledBack: 5, AcceptedUnits: 100,
				RolledBackUnits: 5, Refused: none, Unexpected: none}, used: 95},
		{name: "again: nothing twice", total: "1000", file: requests(t, many(100)...), again: true,
			want: report{Complete: true, Deductions: 100, Accepted: 100, Replayed: 100, AcceptedUnits: 100,
				Refused: none, Unexpected: none}, used: 95},
		{name: "bytes again: nothing twice", total: "1000", file: requests(t, 5, 6), flags: "--amount bytes",
			again: true, want: report{Complete: true, Deductions: 2, Accepted: 2, Replayed: 2, AcceptedUnits: 11,
				Refused: none, Unexpected: none}, used: 11},
		{name: "nothing to do", total: "1", file: requests(t), want: report{Complete: true, Refused: none, Unexpected: none}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --type promo --total "+test.total)
			line := "replay " + test.file + " b -o json " + test.flags
			if test.again {
				must1(t, server.URL, line)
			}
			r := command(t, server.URL, line)
			if r.status != test.status || r.stderr != "" {
				t.Errorf("status %d, want %d; stderr %q", r.status, test.status, r.stderr)
			}
			var got report
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
			if used := server.budgets["1"].Used; used != test.used {
				t.Errorf("used %d, want %d", used, test.used)
			}
		})
	}
}

// TestReplaySendsWhatTheLogSays checks that the amount, key and request id of a deduction come from
// its line.
func TestReplaySendsWhatTheLogSays(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --type promo --total 100")
	must1(t, server.URL, "replay "+requests(t, 5, 6)+" b --amount bytes --id-prefix may")
	var got []string
	for _, id := range []string{"may-2", "may-3"} {
		d := server.budgets["1"].deductions[id]
		if d == nil {
			t.Fatalf("no deduction %s", id)
		}
		got = append(got, d.request)
	}
	if diff := cmp.Diff([]string{"5 10.0.0.0 map[]", "6 10.0.0.1 map[]"}, got); diff != "" {
		t.Errorf("payloads (-want +got):\n%s", diff)
	}
}

// TestReplayOfDimensions replays a log against a limit of a real server, one by one and in batches:
// ann has three lines and may have two, and lines without a user are not limited.
func TestReplayOfDimensions(t *testing.T) {
	log := written(t, "client\taccount\n"+"10.0.0.1\tann\n"+"10.0.0.2\tbob\n"+"10.0.0.1\tann\n"+"10.0.0.3\t\n"+
		"10.0.0.2\tann\n"+"10.0.0.3\t\n"+"10.0.0.3\t\n")
	server := serveReal(t)
	for name, flags := range map[string]string{"single": "--concurrency 1", "batches": "--batch 3 --concurrency 1"} {
		must1(t, server, "create "+name+" --unlimited --limit name=per-user,dimension=user,window=lifetime,max=2,optional=true")
		r := must1(t, server, "replay "+log+" "+name+" -o json --rollback-every 0 --dimension user=account "+flags)
		var got report
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
			t.Fatal(err)
		}
		want := report{Complete: true, Deductions: 7, Accepted: 6, AcceptedUnits: 6,
			Refused: map[string]int{"limit_exceeded": 1}, Unexpected: map[string]int{}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: report (-want +got):\n%s", name, diff)
		}
		for user, used := range map[string]string{"ann": "2", "bob": "1"} {
			checkContains(t, must1(t, server, "usage "+name+" --dimension user="+user+" -o json").stdout, `"amount": `+used)
		}
	}
}

func TestReplayOutput(t *testing.T) {
	// Times differ from run to run, and with them the width of the table's column.
	times := regexp.MustCompile(`((?:duration|rate|latency)[^0-9]+(?:p\d\d)?[^0-9]+)[0-9.,]+`)
	widths := regexp.MustCompile(`  +`)
	for _, format := range formats[:3] { // names have a test of their own
		t.Run(format, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --type promo --total 1000")
			r := must1(t, server.URL, "replay "+requests(t, many(1100)...)+" b --concurrency 1 -o "+format)
			got := times.ReplaceAllString(r.stdout, "${1}TIME")
			if format == "table" {
				got = widths.ReplaceAllString(got, "  ")
			}
			golden(t, "replay."+format, got)
		})
	}
}

// TestReplayOfSurprises checks that unexpected outcomes set the exit status and are named in the
// output.
func TestReplayOfSurprises(t *testing.T) {
	tests := []struct {
		name      string
		given     []string
		interfere func(http.ResponseWriter, *http.Request) bool
		status    int
		mentions  []string
		stdout    string
	}{
		{"paused", []string{"pause b"}, nil, exitRefused, []string{"3 unexpected outcomes", "budget_paused"},
			"unexpected: budget_paused"},
		{"id of another request", []string{"deduct b 9 --request-id replay-3"}, nil, exitRefused,
			[]string{"1 unexpected outcomes", "request_conflict"}, "unexpected: request_conflict"},
		{"unavailable", nil, only("/deduct", 503, "unavailable"), exitUnknown, []string{"unavailable"}, "unexpected: unavailable"},
		{"unknown", nil, only("/deduct", 504, "outcome_unknown"), exitUnknown, []string{`request id "replay-2" unknown`},
			"unexpected: outcome_unknown"},
		{"rollback fails", nil, only("/rollback", 404, "deduction_not_found"), exitError,
			[]string{"request id replay-", "deduction_not_found"}, "unexpected: deduction_not_found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --type promo --total 1000")
			for _, line := range test.given {
				must1(t, server.URL, line)
			}
			server.interfere = test.interfere
			r := command(t, server.URL, "replay "+requests(t, 1, 2, 3)+" b --rollback-every 3 --concurrency 1")
			if r.status != test.status || !strings.Contains(r.stdout, test.stdout) {
				t.Errorf("status %d, want %d; stdout does not mention %q:\n%s", r.status, test.status, test.stdout, r.stdout)
			}
			for _, text := range test.mentions {
				if !strings.Contains(r.stderr, text) {
					t.Errorf("stderr does not mention %q: %s", text, r.stderr)
				}
			}
		})
	}
}

// only answers requests whose path ends so with a problem.
func only(suffix string, status int, code string) func(http.ResponseWriter, *http.Request) bool {
	answer := always(status, code)
	return func(w http.ResponseWriter, r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, suffix) && answer(w, r)
	}
}

// TestReplayAfterALostAnswer checks that a deduction whose first answer was lost counts as replayed
// and is not rolled back, because an earlier replay may have made it.
func TestReplayAfterALostAnswer(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --type promo --total 1000")
	var seen atomic.Int64
	server.interfere = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/deduct") || seen.Add(1) != 1 {
			return false
		}
		// The deduction happens, its answer is lost.
		server.mu.Lock()
		defer server.mu.Unlock()
		server.deduct(server.budgets["1"], r)
		return always(504, "outcome_unknown")(w, r)
	}
	r := must1(t, server.URL, "replay "+requests(t, 1, 2)+" b --rollback-every 2 --concurrency 1")
	if b := server.budgets["1"]; b.Used != 2 || !regexp.MustCompile(`replayed +1\n *rolled back +0\n`).MatchString(r.stdout) {
		t.Errorf("used %d: %s", b.Used, r.stdout)
	}
}

// TestReplayStops checks that a replay stops soon after 100 unexpected outcomes.
func TestReplayStops(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --type promo --total 1000")
	must1(t, server.URL, "pause b")
	before := len(server.calls)
	r := command(t, server.URL, "replay "+requests(t, many(5000)...)+" b --concurrency 4")
	sent := len(server.calls) - before
	if r.status != exitRefused || sent > 150 || !regexp.MustCompile(`complete +no\n`).MatchString(r.stdout) {
		t.Errorf("status %d after %d calls: %s", r.status, sent, r.stdout)
	}
}

// TestReplayChecksBeforeItSends checks that the whole file, the flags and the budget are checked
// before anything is deducted.
func TestReplayChecksBeforeItSends(t *testing.T) {
	good := requests(t, 1)
	tests := []struct {
		name, line string
		status     int
		want       string
	}{
		{"no file", "replay none.tsv b", exitUsage, "open none.tsv"},
		{"empty file", "replay " + written(t, "") + " b", exitError, "line 1: the file is empty"},
		{"no header", "replay " + written(t, "1\t2\t3\t4\n") + " b", exitError, `line 1: the header must name the column "client"`},
		{"no bytes", "replay " + written(t, "client\na\n") + " b --amount bytes", exitError, `line 1: the header must name the column "bytes"`},
		{"no such column", "replay " + good + " b --dimension user=account", exitError, `line 1: the header must name the column "account"`},
		{"a column is missing", "replay " + written(t, "client\tbytes\na\t1\na\n") + " b", exitError, "line 3: 1 columns, the header has 2"},
		{"no client", "replay " + written(t, "client\tbytes\n\t1\n") + " b", exitError, "line 2: client is missing"},
		{"a long dimension", "replay " + written(t, "client\tuser\na\t"+strings.Repeat("u", 257)+"\n") + " b --dimension user=user",
			exitError, "line 2: user is 257 bytes long"},
		{"bytes not a number", "replay " + written(t, "client\tbytes\na\t1e3\n") + " b --amount bytes", exitError, `line 2: bytes "1e3"`},
		{"a line without end", "replay " + written(t, "client\tbytes\na\t"+strings.Repeat("1", 1<<20)) + " b", exitError, "line 2: bufio.Scanner: token too long"},
		{"budget", "replay " + good + " B", exitUsage, `budget "B"`},
		{"amount", "replay " + good + " b --amount two", exitUsage, `--amount "two"`},
		{"dimension", "replay " + good + " b --dimension user=", exitUsage, "--dimension user="},
		{"rollback-every", "replay " + good + " b --rollback-every -1", exitUsage, "--rollback-every -1"},
		{"no concurrency", "replay " + good + " b --concurrency 0", exitUsage, "--concurrency 0: must be 1 to 1024"},
		{"concurrency", "replay " + good + " b --concurrency 1025", exitUsage, "--concurrency 1025"},
		{"batch", "replay " + good + " b --batch 1001", exitUsage, "--batch 1001: must be 1 to 1000"},
		{"prefix", "replay " + good + " b --id-prefix=", exitUsage, "--id-prefix"},
		{"long prefix", "replay " + good + " b --id-prefix " + strings.Repeat("x", 109), exitUsage, "--id-prefix is longer than 108"},
		{"progress", "replay " + good + " b --progress some", exitUsage, "--progress"},
		{"no such budget", "replay " + good + " c", exitError, "budget_not_found"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --type promo --total 1000")
			checkFailure(t, command(t, server.URL, test.line), test.status, test.want)
			if server.budgets["1"].Used != 0 {
				t.Error("something was deducted")
			}
		})
	}
}

// steps are the lines of a progress without those that a busy machine adds: that a call takes long.
func steps(stderr string) (kept string) {
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "waiting for the server") {
			kept += line
		}
	}
	return kept
}

func TestReplayShowsProgress(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --type promo --total 1000")
	line := "replay " + requests(t, many(200)...) + " b --concurrency 1 --progress "
	for _, mode := range []string{"auto", "never"} {
		if r := must1(t, server.URL, line+mode); r.stderr != "" {
			t.Errorf("%s shows progress in a pipe: %s", mode, r.stderr)
		}
	}
	want := ""
	for tenth := 1; tenth <= 10; tenth++ {
		want += fmt.Sprintf("%d %% (%d of 200)\n", tenth*10, tenth*20)
	}
	if diff := cmp.Diff(want, steps(must1(t, server.URL, line+"always").stderr)); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	// Lines without an amount are no work.
	r := must1(t, server.URL, "replay "+requests(t, 1, 0, 0, 1)+
		" b --amount bytes --id-prefix x --concurrency 1 --progress always")
	if want := "50 % (1 of 2)\n100 % (2 of 2)\n"; steps(r.stderr) != want {
		t.Errorf("progress %q, want %q", r.stderr, want)
	}
}

// TestBar checks that the bar is drawn on one line, and that it is cleared at the end even if the
// work is incomplete.
func TestBar(t *testing.T) {
	for _, end := range []int{100, 200} {
		var screen bytes.Buffer
		p := &progress{stderr: &screen, total: 200, bar: newBar(&screen, 200)}
		p.show(100)
		if !strings.Contains(screen.String(), "50% ") || !strings.Contains(screen.String(), "(100/200") {
			t.Errorf("screen %q", screen.String())
		}
		p.show(end)
		p.finish()
		drawn := strings.Split(strings.TrimRight(screen.String(), "\r"), "\r")
		if last := drawn[len(drawn)-1]; strings.TrimSpace(last) != "" || strings.Contains(screen.String(), "\n") {
			t.Errorf("ended at %d: not cleared, the last line is %q of %q", end, last, screen.String())
		}
	}
}
