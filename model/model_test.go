package main

import (
	"io"
	"strings"
	"testing"
	"unsafe"
)

// TestExhausted looks at every state within bounds that the race detector can bear; doc.go has the
// larger ones. least is what was there when the bounds were chosen: a model that shrinks fails.
func TestExhausted(t *testing.T) {
	tests := []struct {
		name  string
		mode  string
		bound func(*Bounds)
		least int
	}{
		{"ledger, two buckets", ledgerMode, func(b *Bounds) {
			b.Length, b.Kinds, b.Amounts, b.Limit = 4, "restart,down", "22", true
		}, 99_216},
		{"ledger, longer log", ledgerMode, func(b *Bounds) {
			b.Buckets, b.Length, b.Grants = 1, 6, 1
		}, 25_525},
		{"ledger, two epochs", ledgerMode, func(b *Bounds) {
			b.Buckets, b.Epochs, b.Length, b.Shrink, b.Kinds = 1, 2, 4, true, "restart,down"
		}, 64_659},
		{"store, cancel", storeMode, func(b *Bounds) {
			b.IDs, b.Amounts, b.Length, b.Grants, b.Kinds = 1, "2", 4, 1, "restart"
		}, 124_258},
		{"store, two masters", storeMode, func(b *Bounds) {
			b.IDs, b.Amounts, b.Length, b.Grants, b.Undo = 1, "2", 4, 1, ""
		}, 19_306},
		{"store, two ids", storeMode, func(b *Bounds) {
			b.Nodes, b.Length, b.Grants, b.Kinds, b.Undo = 1, 4, 1, "restart", ""
		}, 20_189},
		{"ledger, holds under a limit", ledgerMode, func(b *Bounds) {
			b.Hold, b.Amounts, b.Limit, b.Buckets, b.Kinds = "01", "22", true, 1, "restart,down"
		}, 15_988},
		{"ledger, two holds", ledgerMode, func(b *Bounds) {
			b.Hold, b.Buckets, b.Kinds = "01", 1, "restart"
		}, 59_802},
		{"store, a hold", storeMode, func(b *Bounds) {
			b.Hold, b.IDs, b.Amounts, b.Length, b.Grants, b.Nodes = "0", 1, "2", 4, 1, 1
			b.Kinds, b.Undo = "restart,split", ""
		}, 42_132},
		{"ledger, a turn", ledgerMode, func(b *Bounds) {
			b.Turn, b.Lag, b.Buckets, b.Epochs, b.Length, b.Grants = true, true, 1, 2, 4, 1
			b.Kinds = "restart"
		}, 50_411},
		{"ledger, a turn of two buckets", ledgerMode, func(b *Bounds) {
			b.Turn, b.Epochs, b.Length, b.Grants, b.Faults = true, 2, 4, 1, 0
		}, 55_089},
		{"ledger, a turn, late refunds elsewhere", ledgerMode, func(b *Bounds) {
			b.Turn, b.Lag, b.Hold, b.Buckets, b.Epochs, b.Length = true, true, "0", 1, 2, 4
			b.Unused, b.Late, b.Kinds = toForfeit, toNext, "tamper"
		}, 75_332},
		{"store, a turn", storeMode, func(b *Bounds) {
			b.Turn, b.Nodes, b.Length, b.Grants, b.Kinds, b.Undo = true, 1, 4, 1, "restart", ""
		}, 79_797},
		{"store, a turn of two buckets", storeMode, func(b *Bounds) {
			b.Turn, b.Buckets, b.IDs, b.Amounts, b.Length, b.Grants = true, 2, 1, "2", 4, 1
			b.Nodes, b.Faults = 1, 0
		}, 72_082},
		{"store, a turn, late refunds elsewhere", storeMode, func(b *Bounds) {
			b.Turn, b.Lag, b.Hold, b.IDs, b.Amounts, b.Length, b.Grants = true, true, "0", 1, "2", 4, 1
			b.Unused, b.Late, b.Kinds, b.Undo = toForfeit, toNext, "restart", ""
		}, 65_280},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := defaultBounds(tt.mode)
			tt.bound(&b)
			r := exploreWithin(t, b, intact)
			t.Logf("states %d, transitions %d, depth %d, %.1f s", r.States, r.Transitions, r.Depth,
				r.Took.Seconds())
			switch {
			case r.Violation != "":
				t.Errorf("%s\n%s", r.Violation, strings.Join(r.Trace, "\n"))
			case !r.Exhausted:
				t.Error("not exhausted")
			case r.States < tt.least:
				t.Errorf("%d states, there were %d: has the model lost steps?", r.States, tt.least)
			}
		})
	}
}

// breaks is how the violation begins by which a mutant of holds or periods must be caught.
var breaks = map[string]string{
	"confirm-outside":   "holds: one has ended twice",
	"confirm-late":      "holds: confirmed after",
	"confirm-again":     "holds: one has ended twice",
	"rest-kept":         "I1: F + U",
	"expire-unlooked":   "holds: one has ended twice",
	"expire-early":      "holds: expired before",
	"count-kept":        "limit: ",
	"confirm-undrained": "I7: accepted, and a confirm",
	"commit-over":       "periods: counted after",
	"returns-to-open":   "periods: a period's units",
	"late-unmarked":     "periods: what came back late",
	"sweep-before":      "periods: what came back late",
	"sweep-by-clock":    "periods: what came back late",
	"old-number":        "periods: an epoch of a period",
	"period-alone":      "I3: ",
	"turn-unclosed":     "I7: accepted, and neither",
	"no-until":          "periods: a store admitted",
	"collect-across":    "periods: a period's units",
	"late-open":         "periods: an epoch of a period",
}

// TestMutants proves that the model can fail: without any one of the safeguards an invariant
// breaks.
func TestMutants(t *testing.T) {
	for _, mut := range mutations {
		t.Run(mut.name, func(t *testing.T) {
			t.Parallel()
			r := exploreWithin(t, mut.within(), mut.mutant)
			if r.Violation == "" {
				t.Fatalf("no violation in %d states", r.States)
			}
			if !strings.HasPrefix(r.Violation, breaks[mut.name]) {
				t.Errorf("%q, and not %q", r.Violation, breaks[mut.name])
			}
			t.Logf("%d steps, %d states: %s", len(r.Trace), r.States, r.Violation)
		})
	}
}

func exploreWithin(t *testing.T, b Bounds, without mutant) Result {
	t.Helper()
	m, err := newModel(b, without)
	if err != nil {
		t.Fatal(err)
	}
	return m.explore()
}

func TestRun(t *testing.T) {
	tests := []struct {
		name string
		args string
		code int
		want string // part of the output
	}{
		{"exhausted", "-mode ledger -buckets 1 -ids 1 -faults 0", 0, "\nno violation\n"},
		{"stopped", "-mode store -max 1000", 0, "NOT exhausted"},
		{"violation", "-mutant ack-early", 1, "sql: bucket 1 is open"},
		{"mutant's own mode", "-mutant=no-quarantine", 1, "VIOLATION"},
		{"list", "-list", 0, "no-tombstone"},
		{"no such mutant", "-mutant nothing", 2, "there is no mutant"},
		{"no such mode", "-mode fast", 2, "mode"},
		{"too much", "-ids 4", 2, "ids is 4"},
		{"no such place", "-turn -unused somewhere", 2, "somewhere"},
		{"a turn alone", "-turn -append", 2, "adjustment"},
		{"a turn", "-turn -buckets 1 -ids 1 -faults 0", 0, "\nno violation\n"},
		{"a hold", "-mutant confirm-again", 1, "sql: confirm id 0"},
		{"not this mode's", "-mode store -kinds flush", 2, "ledger mode's"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var output strings.Builder
			if code := run(strings.Fields(tt.args), &output, &output); code != tt.code {
				t.Errorf("code %d, want %d", code, tt.code)
			}
			if !strings.Contains(output.String(), tt.want) {
				t.Errorf("no %q in: %s", tt.want, output.String())
			}
		})
	}
}

// TestStateHasNoPadding: a state is compared by its bytes.
func TestStateHasNoPadding(t *testing.T) {
	if align := unsafe.Alignof(State{}); align != 1 {
		t.Errorf("a state is aligned to %d bytes", align)
	}
}

// TestTracesLeadThere: the last step of a trace is the violation's, however the buckets were
// exchanged on the way.
func TestTracesLeadThere(t *testing.T) {
	b := defaultBounds(ledgerMode)
	r := exploreWithin(t, b, commitLost)
	if len(r.Trace) != r.Depth {
		t.Errorf("%d steps to a state at depth %d", len(r.Trace), r.Depth)
	}
	if report(r, io.Discard) != 1 {
		t.Error("a violation is reported as none")
	}
}
