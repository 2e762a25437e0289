package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
)

// fakeFeed is the feed of one budget of one bucket: its cursor is the number of entries read.
type fakeFeed struct {
	*httptest.Server
	mu      sync.Mutex
	entries []client.LedgerEntry
	// refuse answers all calls, while it is set.
	refuse budget.Code
	calls  []string
}

func newFakeFeed(t *testing.T, entries int) *fakeFeed {
	t.Helper()
	f := &fakeFeed{}
	f.grow(entries)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/budgets/sale/ledger", f.answer)
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	return f
}

// grow adds entries: every third gives back what the one before took.
func (f *fakeFeed) grow(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for range n {
		e := client.LedgerEntry{Kind: "deduct", Bucket: "sale:bucket-0", Entry: int64(len(f.entries) + 1),
			Amount: 5000, At: fakeNow, RequestID: fmt.Sprint("o", len(f.entries)), Reference: "a\x1b[2Jb"}
		if len(f.entries)%3 == 2 {
			e.Kind, e.RequestID, e.Cancelled = "rollback", fmt.Sprint("o", len(f.entries)-1), true
		}
		f.entries = append(f.entries, e)
	}
}

func (f *fakeFeed) set(refuse budget.Code) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = refuse
}

func (f *fakeFeed) answer(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	wait, _ := time.ParseDuration(query.Get("wait"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	from, err := strconv.Atoi("0" + strings.TrimPrefix(query.Get("after"), "c"))
	page := client.LedgerPage{}
	for until := time.Now().Add(wait); ; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		refuse := f.refuse
		if from <= len(f.entries) {
			page.Entries = f.entries[from:min(len(f.entries), from+limit)]
		}
		f.mu.Unlock()
		if err != nil || refuse != "" {
			status := map[budget.Code]int{budget.Unavailable: 503, budget.BudgetNotFound: 404, "": 422}[refuse]
			w.WriteHeader(status)
			json.MarshalWrite(w, problem{Status: status, Code: refuse, Detail: "the fake says so"})
			break
		}
		if len(page.Entries) > 0 || time.Now().After(until) || r.Context().Err() != nil {
			page.Next = fmt.Sprint("c", from+len(page.Entries))
			json.MarshalWrite(w, page)
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, r.URL.RawQuery)
}

func TestLedgerOnePage(t *testing.T) {
	feed := newFakeFeed(t, 4)
	r := must1(t, feed.URL, "ledger sale --limit 3")
	want := "AT                    KIND      REQUEST ID  AMOUNT  BUCKET         ENTRY  ROLLBACK ID  REFERENCE\n" +
		"2026-05-01T12:00:00Z  deduct    o0           5,000  sale:bucket-0      1  -            a\ufffd[2Jb\n" +
		"2026-05-01T12:00:00Z  deduct    o1           5,000  sale:bucket-0      2  -            a\ufffd[2Jb\n" +
		"2026-05-01T12:00:00Z  rollback  o1           5,000  sale:bucket-0      3  (cancel)     a\ufffd[2Jb\n\nnext: c3\n"
	if r.stdout != want || r.stderr != "" {
		t.Errorf("got\n%s, want\n%s%s", r.stdout, want, r.stderr)
	}
	r = must1(t, feed.URL, "ledger sale --after c3 -o json")
	var page client.LedgerPage
	if err := json.Unmarshal([]byte(r.stdout), &page); err != nil || page.Next != "c4" || len(page.Entries) != 1 ||
		page.Entries[0].RequestID != "o3" {
		t.Errorf("%s, %v", r.stdout, err)
	}
}

func TestLedgerCursorFile(t *testing.T) {
	feed, file := newFakeFeed(t, 4), filepath.Join(t.TempDir(), "cursor")
	line := "ledger sale --limit 3 -o json --cursor-file " + file
	for i, want := range []struct {
		entries int
		cursor  string
	}{{3, "c3"}, {1, "c4"}, {0, "c4"}} {
		r := must1(t, feed.URL, line)
		stored, err := os.ReadFile(file)
		if got := strings.Count(r.stdout, `"request_id"`); got != want.entries || string(stored) != want.cursor+"\n" || err != nil {
			t.Errorf("call %d: %d entries, cursor %q, %v", i, got, stored, err)
		}
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) != 1 {
		t.Errorf("files left: %v", left)
	}
	// What cannot be shown is not passed over.
	feed.grow(1)
	status := run(t.Context(), strings.Fields(line), func(string) string { return feed.URL }, brokenPipe{}, io.Discard)
	if stored, _ := os.ReadFile(file); status == exitDone || string(stored) != "c4\n" {
		t.Errorf("after a broken pipe: status %d, cursor %q", status, stored)
	}
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkFailure(t, command(t, feed.URL, line), exitUsage, "is empty")
	r := command(t, feed.URL, "ledger sale -o json --cursor-file /nowhere/cursor")
	if r.status != exitError || !strings.Contains(r.stderr, "the cursor is not stored") || !strings.Contains(r.stdout, "o0") {
		t.Errorf("a folder that does not exist: %+v", r)
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestLedgerRefused(t *testing.T) {
	feed := newFakeFeed(t, 1)
	for line, want := range map[string]string{
		"ledger sale --limit 0": "--limit 0", "ledger sale --limit 1001": "--limit 1001",
		"ledger sale --after c1 --cursor-file f": "one of them", "ledger sale --follow -o yaml": "table or json",
		"ledger": "BUDGET is missing", "ledger Sale": `budget "Sale"`,
	} {
		checkFailure(t, command(t, feed.URL, line), exitUsage, want)
	}
	feed.set(budget.BudgetNotFound)
	checkFailure(t, command(t, feed.URL, "ledger sale --after c1"), exitError, "budget_not_found", "Next: ")
	checkFailure(t, command(t, "127.0.0.1:1", "ledger sale --follow --timeout 300ms"), exitUnknown, "--server")
}

// shared is a stdout that is read while it is written.
type shared struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *shared) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Split(strings.TrimSuffix(s.buf.String(), "\n"), "\n")
}

// TestLedgerFollow checks that ledger --follow shows new entries, even after the server was
// unavailable for a while. It stores the cursor of the last entry that it showed, and an interrupt
// ends it with status 0.
func TestLedgerFollow(t *testing.T) {
	for _, format := range []string{"json", "table"} {
		t.Run(format, func(t *testing.T) {
			feed, file := newFakeFeed(t, 2), filepath.Join(t.TempDir(), "cursor")
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var stdout, stderr shared
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, []string{"ledger", "sale", "--follow", "--server", feed.URL, "--cursor-file", file,
					"-o", format}, func(string) string { return "" }, &stdout, &stderr)
			}()
			head := 0
			if format == "table" {
				head = 1
			}
			shown := func(n int) {
				t.Helper()
				deadline := time.Now().Add(20 * time.Second)
				for len(stdout.lines()) < n+head {
					if time.Now().After(deadline) {
						t.Fatalf("%d lines of %d: %q", len(stdout.lines()), n+head, stdout.lines())
					}
					time.Sleep(5 * time.Millisecond)
				}
			}
			shown(2)
			feed.set(budget.Unavailable)
			feed.grow(3)
			time.Sleep(50 * time.Millisecond)
			if n := len(stdout.lines()); n != 2+head {
				t.Errorf("%d lines from a server that is not available", n)
			}
			feed.set("")
			shown(5)
			feed.grow(1)
			shown(6)
			interrupt()
			if status := <-ended; status != exitDone || len(stderr.lines()[0]) > 0 {
				t.Errorf("status %d after an interrupt: %q", status, stderr.lines())
			}
			for i, line := range stdout.lines()[head:] {
				if !strings.Contains(line, feed.entries[i].RequestID) || strings.Contains(line, "\x1b") {
					t.Errorf("line %d: %q", i, line)
				}
			}
			if stored, err := os.ReadFile(file); err != nil || string(stored) != "c6\n" {
				t.Errorf("cursor %q, %v", stored, err)
			}
		})
	}
}

func TestLedgerFollowEndsWithAnError(t *testing.T) {
	feed := newFakeFeed(t, 1)
	ended := make(chan result, 1)
	go func() { ended <- command(t, feed.URL, "ledger sale --follow -o json") }()
	time.Sleep(50 * time.Millisecond)
	feed.set(budget.BudgetNotFound)
	r := <-ended
	if r.status != exitError || !strings.Contains(r.stderr, "budget_not_found") {
		t.Errorf("%+v", r)
	}
}
