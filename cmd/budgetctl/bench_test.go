package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// TestBench checks that the result of every kind of load agrees exactly with the budget.
func TestBench(t *testing.T) {
	tests := []struct{ name, flags string }{
		{"one by one", "--calls 300"},
		{"mix", "--calls 300 --repeat-share 0.2 --rollback-share 0.2 --users 10"},
		{"batches", "--calls 30 --batch 20 --repeat-share 0.2 --rollback-share 0.05"},
		{"rate", "--rate 1000 --calls 100"},
		{"warm-up counts in the check", "--calls 50 --warmup 50ms"},
		{"by duration", "--duration 50ms"},
		{"sold out", "--calls 300 --total 100 --repeat-share 0.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t)
			flags := test.flags
			if !strings.Contains(flags, "--warmup") {
				flags += " --warmup 0s"
			}
			r := must1(t, server.URL, "bench b --create --connections 4 "+flags)
			if r.stderr != "" || !regexp.MustCompile(`exact +yes\n`).MatchString(r.stdout) {
				t.Errorf("%s\nstderr %s", r.stdout, r.stderr)
			}
			if strings.Contains(r.stdout, "problem") || server.budgets["1"].Used == 0 {
				t.Errorf("used %d:\n%s", server.budgets["1"].Used, r.stdout)
			}
		})
	}
}

func TestBenchOfManyBudgets(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "bench b --create --budgets 5 --connections 4 --calls 200 --warmup 0s --durability store"+
		" --total 1000 --buckets 3")
	sum := int64(0)
	for id := 1; id <= 5; id++ {
		b := server.budgets[fmt.Sprint(id)]
		if b == nil || !regexp.MustCompile(`^b-[1-5]$`).MatchString(b.Name) || b.Used == 0 ||
			b.definition.Durability != "store" || *b.TotalQuantity != 1000 || b.BucketQuantity != 3 {
			t.Fatalf("budget %d: %+v", id, b)
		}
		sum += b.Used
	}
	if sum != 200 {
		t.Errorf("%d used, want 200", sum)
	}
	// They are there already, so nothing is made.
	must1(t, server.URL, "bench b --budgets 5 --connections 4 --calls 20 --warmup 0s")
}

func TestBenchOutput(t *testing.T) {
	// Times, and what a process uses, differ from run to run, and with them the width of the table's column.
	times := regexp.MustCompile(`((?:ms|[_ ]s|per_s|cpu\S*|µs per deduction of \w+|CPU s of \w+|memory\S*(?: MiB of \w+)?|pid|samples)"?:? +)(?:[0-9][0-9.,]*)?[0-9]`)
	widths := regexp.MustCompile(`  +`)
	for _, format := range formats[:3] { // names have a test of their own
		t.Run(format, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --type promo --total 1000")
			r := must1(t, server.URL, fmt.Sprintf("bench b --calls 100 --rate 2000 --connections 1 --warmup 0s"+
				" --pid fake=%d -o %s", os.Getpid(), format))
			got := times.ReplaceAllString(r.stdout, "${1}N")
			if format == "table" {
				got = widths.ReplaceAllString(got, "  ")
			}
			golden(t, "bench."+format, got)
		})
	}
}

// TestBenchOfLies checks that bench detects false answers and wrong figures of a service, and that
// the true ones pass.
func TestBenchOfLies(t *testing.T) {
	deduct := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/deduct") }
	yes := func(w http.ResponseWriter, id, replayed string) bool {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"request_id":%q,"outcome":"accepted","amount":1,"replayed":%s}`, id, replayed)
		return true
	}
	tests := []struct {
		name   string
		flags  string
		lie    func(server *fake, n int64, w http.ResponseWriter, r *http.Request) bool
		status int
		want   string
	}{
		{"the truth", "", func(*fake, int64, http.ResponseWriter, *http.Request) bool { return false }, exitDone, ""},
		{"one unit more is used", "", func(s *fake, n int64, _ http.ResponseWriter, r *http.Request) bool {
			if deduct(r) && n == 50 {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.budgets["1"].Used++
			}
			return false
		}, exitDiscrepancy, "by the answers 100 units are used, by the budget 101"},
		{"an answer that cannot be read, settled", "", func(_ *fake, n int64, w http.ResponseWriter, r *http.Request) bool {
			return deduct(r) && n == 50 && always(200, "")(w, r)
		}, exitError, "unexpected answers: unreadable 1"},
		{"the audit finds something", "", func(s *fake, n int64, _ http.ResponseWriter, r *http.Request) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.budgets["1"].broken = true
			return false
		}, exitDiscrepancy, "the audit found 1 discrepancies"},
		{"rolled back, and not done", "--rollback-share 1", func(_ *fake, _ int64, w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/rollback") {
				return false
			}
			fmt.Fprint(w, "{}")
			return true
		}, exitDiscrepancy, "units are used, by the budget"},
		{"used up, and it is not", "", func(_ *fake, n int64, w http.ResponseWriter, r *http.Request) bool {
			return deduct(r) && n == 50 && always(409, "budget_exhausted")(w, r)
		}, exitDiscrepancy, "an answer said that it is used up, and 901 units are left"},
		{"counted after the audit", "", func(s *fake, _ int64, w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/audit") {
				return false
			}
			fmt.Fprint(w, `{"ok":true,"used":100}`)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.budgets["1"].Used++
			return true
		}, exitDiscrepancy, "100 units were used when the load had ended, 101 after its audit"},
		{"accepted, and not done", "", func(_ *fake, n int64, w http.ResponseWriter, r *http.Request) bool {
			if !deduct(r) || n != 50 {
				return false
			}
			return yes(w, idOf(r), "false")
		}, exitDiscrepancy, "by the answers 100 units are used, by the budget 99"},
		{"a repeat is accepted again", "--repeat-share 0.5", func(s *fake, _ int64, w http.ResponseWriter, r *http.Request) bool {
			if !deduct(r) {
				return false
			}
			id := idOf(r)
			s.mu.Lock()
			known := s.budgets["1"].deductions[id] != nil
			s.mu.Unlock()
			return known && yes(w, id, "false")
		}, exitDiscrepancy, "an accepted request id was accepted once more"},
		{"a repeat is refused", "--repeat-share 0.5", func(s *fake, _ int64, w http.ResponseWriter, r *http.Request) bool {
			if !deduct(r) {
				return false
			}
			id := idOf(r)
			s.mu.Lock()
			known := s.budgets["1"].deductions[id] != nil
			s.mu.Unlock()
			return known && always(409, "budget_exhausted")(w, r)
		}, exitDiscrepancy, "an accepted request id was refused: budget_exhausted"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --type promo --total 1000")
			var n atomic.Int64
			server.interfere = func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost && !strings.HasSuffix(r.URL.Path, "/audit") {
					return false
				}
				return test.lie(server, n.Add(1), w, r)
			}
			r := command(t, server.URL, "bench b --calls 100 --connections 2 --warmup 0s --settle 300ms "+test.flags)
			if r.status != test.status || !strings.Contains(r.stderr, test.want) {
				t.Errorf("status %d, want %d; stderr %s", r.status, test.status, r.stderr)
			}
			exact := regexp.MustCompile(`exact +yes\n`).MatchString(r.stdout)
			if exact != (test.status != exitDiscrepancy) {
				t.Errorf("exact %t:\n%s", exact, r.stdout)
			}
		})
	}
}

// TestBenchSettles checks that bench settles unknown outcomes with the same id, and that its result
// is exact whether or not the calls took effect.
func TestBenchSettles(t *testing.T) {
	tests := []struct {
		name   string
		suffix string
		do     bool // it happens, and the answer says otherwise
		answer func(http.ResponseWriter, *http.Request) bool
		status int
		want   string
	}{
		{"done, unknown", "/deduct", true, always(504, "outcome_unknown"), exitDone, ""},
		{"not done, unknown", "/deduct", false, always(504, "outcome_unknown"), exitDone, ""},
		{"done, connection lost", "/deduct", true, hangUp, exitError, "unexpected answers: no_answer 10"},
		{"not done, connection lost", "/deduct", false, hangUp, exitError, "unexpected answers: no_answer 10"},
		{"internal error", "/deduct", false, always(500, "internal"), exitError, "unexpected answers: internal 10"},
		{"rollback done, unknown", "/rollback", true, always(504, "outcome_unknown"), exitDone, ""},
		{"rollback not done, unavailable", "/rollback", false, always(503, "unavailable"), exitDone, ""},
		{"not done", "/deduct", false, always(503, "unavailable"), exitDone, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newFake(t)
			must1(t, server.URL, "create b --type promo --total 1000")
			var n atomic.Int64
			server.interfere = func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, test.suffix) || n.Add(1) > 10 {
					return false
				}
				if test.do {
					server.mu.Lock()
					if b := server.budgets["1"]; test.suffix == "/deduct" {
						server.deduct(b, r)
					} else {
						server.rollback(b, r)
					}
					server.mu.Unlock()
				}
				return test.answer(w, r)
			}
			r := command(t, server.URL, "bench b --calls 100 --connections 2 --warmup 0s --rollback-share 0.5")
			if r.status != test.status || !strings.Contains(r.stderr, test.want) {
				t.Errorf("status %d, want %d; stderr %s", r.status, test.status, r.stderr)
			}
			if !regexp.MustCompile(`exact +yes\n`).MatchString(r.stdout) {
				t.Errorf("not exact:\n%s", r.stdout)
			}
		})
	}
}

// TestBenchThatCannotSettle checks that an outcome that stays unknown fails the check.
func TestBenchThatCannotSettle(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --type promo --total 1000")
	server.interfere = only("/deduct", 504, "outcome_unknown")
	r := command(t, server.URL, "bench b --calls 5 --connections 1 --warmup 0s --settle 300ms")
	if r.status != exitDiscrepancy || !strings.Contains(r.stderr, "still unknown") {
		t.Errorf("status %d, stderr %s", r.status, r.stderr)
	}
}

func TestBenchSurprises(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --type promo --total 1000")
	must1(t, server.URL, "pause b")
	r := command(t, server.URL, "bench b --calls 5 --connections 1 --warmup 0s")
	if r.status != exitError || !strings.Contains(r.stderr, "unexpected answers: budget_paused 5") {
		t.Errorf("status %d, stderr %s", r.status, r.stderr)
	}
	checkFailure(t, command(t, server.URL, "bench c --calls 5"), exitError, "budget_not_found")
	checkFailure(t, command(t, server.URL, "bench b --calls 5 --pid gone=1073741824"), exitError, "process gone")
	checkFailure(t, command(t, "http://127.0.0.1:1", "bench b --calls 5"), exitUnknown, "is not reachable")
}

// TestBenchInterrupted checks that an interrupted bench still measures and checks the calls that it
// sent.
func TestBenchInterrupted(t *testing.T) {
	server := newFake(t)
	must1(t, server.URL, "create b --type promo --total 1000000")
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	server.interfere = func(http.ResponseWriter, *http.Request) bool {
		if n.Add(1) == 50 {
			cancel()
		}
		return false
	}
	var stdout, stderr bytes.Buffer
	line := "bench b --calls 100000 --connections 2 --warmup 0s --server " + server.URL
	status := run(ctx, strings.Fields(line), func(string) string { return "" }, &stdout, &stderr)
	if status != exitError || !strings.Contains(stderr.String(), "interrupted") ||
		!regexp.MustCompile(`(?s)complete +no\n.*exact +yes\n`).MatchString(stdout.String()) {
		t.Errorf("status %d, stderr %s:\n%s", status, stderr.String(), stdout.String())
	}
}

// TestBenchUsage checks that an invalid command line is refused before anything is sent.
func TestBenchUsage(t *testing.T) {
	tests := []struct{ line, want string }{
		{"bench", "BUDGET is missing"},
		{"bench B", `budget "B"`},
		{"bench b --connections 0", "--connections 0: must be 1 to 10000"},
		{"bench b --rate -1", "--rate -1: must be 0 to"},
		{"bench b --rate NaN", "--rate NaN"},
		{"bench b --duration 0s", "--duration or --calls must be above 0"},
		{"bench b --duration -1s", "must not be negative"},
		{"bench b --warmup -1s", "must not be negative"},
		{"bench b --calls -1", "must not be negative"},
		{"bench b --batch 1001", "--batch 1001: must be 1 to 1000"},
		{"bench b --amount 0", "--amount 0"},
		{"bench b --rollback-share 1.1", "--rollback-share 1.1: must be 0 to 1"},
		{"bench b --repeat-share 1", "--repeat-share 1: must be 0 to below 1"},
		{"bench b --users -1", "--users -1"},
		{"bench b --dimension User", `--dimension "User"`},
		{"bench b --budgets 0", "--budgets 0"},
		{"bench 12 --budgets 2", `budget "12" with --budgets 2: must start with a letter`},
		{"bench " + strings.Repeat("b", 63) + " --budgets 10", "with --budgets 10"},
		{"bench b --settle 0s", "--settle 0s"},
		{"bench b --pid 4711", `--pid "4711": must be NAME=PID`},
		{"bench b --pid a=b", `--pid "a=b"`},
		{"bench b --total 5", "--total goes with --create only"},
		{"bench b --durability store", "--durability goes with --create only"},
		{"bench b --buckets 5", "--buckets goes with --create only"},
		{"bench b --limit name=a,dimension=user,window=day,max=1", "--limit goes with --create only"},
		{"bench b --create --total 1e3", `amount "1e3"`},
		{"bench b --create --durability none", `--durability "none"`},
		{"bench b --create --buckets 0", "--buckets 0"},
		{"bench b --progress some", `--progress "some"`},
	}
	for _, test := range tests {
		t.Run(test.line, func(t *testing.T) {
			server := newFake(t)
			r := command(t, server.URL, test.line)
			checkFailure(t, r, exitUsage, test.want, "Run 'budgetctl bench --help' for usage.")
			if len(server.calls) > 0 {
				t.Errorf("sent %v", server.calls)
			}
		})
	}
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter, _ *http.Request) bool {
	c, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		c.Close()
	}
	return true
}

// idOf reads the request id of a deduct, and leaves the body to be read once more.
func idOf(r *http.Request) string {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return ""
	}
	r.Body = io.NopCloser(bytes.NewReader(text))
	_, after, _ := strings.Cut(string(text), `"request_id":"`)
	id, _, _ := strings.Cut(after, `"`)
	return id
}
