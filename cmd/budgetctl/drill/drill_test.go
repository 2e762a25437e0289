package drill

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// short is a drill of one round. Its files go below a directory of the test, which must be empty
// afterwards.
func short(t *testing.T, o Options) (output string, err error) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	o.Budgetd, o.Rounds, o.Each = testservers.Program(t, "budgetd"), 1, 20
	var out strings.Builder
	err = Run(t.Context(), o, &out)
	left, readErr := os.ReadDir(dir)
	if readErr != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, readErr)
	}
	return out.String(), err
}

// TestDrill carries out a drill with everything in it.
func TestDrill(t *testing.T) {
	out, err := short(t, Options{Patience: time.Minute})
	t.Log("\n" + out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a budgetd is killed", "replies are cut",
		"a Redis comes back empty", "a Redis comes back old", "MariaDB is killed", "ledger mode:",
		"store mode:", "Verdict: every unit is accounted for"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
}

// TestPlanted checks that the drill reports a deduction that its book contains but that never
// happened.
func TestPlanted(t *testing.T) {
	out, err := short(t, Options{SQLite: true, NoRedis: true, Plant: true,
		Patience: time.Second})
	if !errors.Is(err, ErrNotAccountedFor) || !strings.Contains(out, "Verdict: NOT accounted for") ||
		!strings.Contains(out, "planted: the caller was told 1 units, the ledger has 0") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestInterrupted checks that an interrupted drill says so, returns the error of its context and
// leaves no file.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancelled := &cancelOn{text: "a budgetd is killed", cancel: cancel}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	err := Run(ctx, Options{Budgetd: testservers.Program(t, "budgetd"), Rounds: 1, Each: 20,
		SQLite: true, NoRedis: true}, cancelled)
	if !errors.Is(err, context.Canceled) || !cancelled.told {
		t.Errorf("Run returned %v; it said that it was interrupted: %t", err, cancelled.told)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// cancelOn cancels when a text is written, and records whether the output then says "Interrupted".
type cancelOn struct {
	text   string
	cancel func()
	told   bool
}

func (c *cancelOn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), c.text) {
		c.cancel()
	}
	c.told = c.told || strings.Contains(string(p), "Interrupted")
	return len(p), nil
}

// TestCompare checks that each disagreement between the books and the service is reported, and
// nothing else.
func TestCompare(t *testing.T) {
	type books struct {
		*book
		audit  client.AuditReport
		ledger map[string]int64
	}
	sold := func(store bool) *books {
		b := &books{book: &book{name: "b", store: store, total: 10, orders: map[string]*order{}},
			audit:  client.AuditReport{OK: true, Total: new(int64(10)), Used: 10},
			ledger: map[string]int64{"one": 4, "two": 6}}
		b.open("one", 4)
		b.close("one", true, 0, 0, false)
		b.open("two", 6)
		b.close("two", true, 1, 1, false)
		b.open("three", 1)
		b.close("three", false, 0, 0, false)
		return b
	}
	lost := func(b *books, units int64) { b.audit.Used, b.audit.Quarantined = 10-units, units }
	tests := map[string]struct {
		store  bool
		change func(b *books)
		want   string
	}{
		"equal":           {false, func(*books) {}, ""},
		"equal in store":  {true, func(*books) {}, ""},
		"lost, and known": {true, func(b *books) { lost(b, 4) }, ""},
		"lost in ledger":  {false, func(b *books) { lost(b, 4) }, "quarantined in ledger mode"},
		"lost": {true, func(b *books) { b.audit.Used, b.audit.Forfeited = 6, 4 },
			"neither used nor quarantined"},
		"nobody told":   {true, func(b *books) { b.units = 7 }, "used that no answer accounts for"},
		"taken twice":   {true, func(b *books) { b.units, b.twice = 7, 3 }, ""},
		"one too few":   {false, func(b *books) { b.units = 9 }, "by the answers 9 units are used, by the service 10"},
		"left":          {false, func(b *books) { b.audit.InBuckets = new(int64(1)) }, "1 units were left"},
		"parts":         {false, func(b *books) { b.audit.Held = 1 }, "parts make 11 of 10"},
		"total":         {false, func(b *books) { b.audit.Total = new(int64(11)) }, "total is 11"},
		"discrepancies": {false, func(b *books) { b.audit.OK = false }, "not complete and clean"},
		"open":          {true, func(b *books) { b.open("four", 1) }, "four: its outcome is unknown"},
		"a wrong word":  {true, func(b *books) { b.complain("too early") }, "too early"},
		"another amount": {false, func(b *books) { b.ledger["one"] = 5 },
			"one: the caller was told 4 units, the ledger has 5"},
		"refused, and there": {false, func(b *books) { b.ledger["three"] = 1 }, "told 0 units"},
		"never sent":         {false, func(b *books) { b.ledger["x"] = 1 }, "x: the ledger has 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := sold(test.store)
			test.change(b)
			got := strings.Join(b.compare(&b.audit, b.ledger), "\n")
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
