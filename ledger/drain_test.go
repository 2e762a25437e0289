package ledger_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// log builds the log of bucket 7, epoch 3, as a store would.
type log struct{ entries []ledger.Entry }

func newLog() *log { return (&log{}).add(ledger.OpenLine(7, 3, 2)) }

// add chains a line to the log.
func (l *log) add(line string) *log {
	previous := ""
	if n := len(l.entries); n > 0 {
		previous = l.entries[n-1].Chain
	}
	e, err := ledger.ParseEntry(int64(len(l.entries)), ledger.Chain(previous, line)+line)
	if err != nil {
		panic(err)
	}
	l.entries = append(l.entries, e)
	return l
}

func (l *log) grant(number, amount int64) *log {
	return l.add(ledger.Line(ledger.KindGrant, amount, fmt.Sprint(number)))
}

// deduct admits an id; its nonce tells the attempts apart.
func (l *log) deduct(id string, amount int64) *log {
	return l.add(ledger.Line(ledger.KindDeduct, amount,
		ledger.EncodeRequest(request(id, amount, len(l.entries)))))
}

func request(id string, amount int64, attempt int) ledger.Request {
	return ledger.Request{ID: id, Nonce: fmt.Sprintf("nonce%03d", attempt), Reference: "ref " + id,
		Fingerprint: ledger.Fingerprint(amount, id, "", "")}
}

func (l *log) close(balance, grants int64) *log {
	return l.add(ledger.Line(ledger.KindClose, balance, fmt.Sprint(grants)))
}

// from is a read that began at a position.
func (l *log) from(seq int64) ledger.Log {
	return ledger.Log{Bucket: 7, Epoch: 3, From: seq, Entries: slices.Clone(l.entries[seq:]),
		Granted: grantedBy(l.entries)}
}

// grantedBy is grant_log if SQL made the grants that these entries show.
func grantedBy(entries []ledger.Entry) map[int64]int64 {
	out := map[int64]int64{}
	for _, e := range entries {
		if e.Kind == ledger.KindGrant {
			out[e.Number] = e.Amount
		}
	}
	return out
}

// at is a position in that log.
func at(seq int64) ledger.Position { return ledger.Position{Bucket: 7, Epoch: 3, Seq: seq} }

// row is an open epoch of which nothing but entry 0 is drained.
func row(outstanding int64) ledger.Epoch {
	return ledger.Epoch{Budget: 5, Bucket: 7, Number: 3, Status: ledger.Open, Activation: 2,
		Outstanding: outstanding, NextGrant: 3, NextEntry: 11, DrainedChain: ledger.OpenChain(7, 3, 2)}
}

// books are the ledger's rows of ids.
type books map[string]*ledger.Deduction

func (b books) known(id string) *ledger.Deduction { return b[id] }
func (b books) remember(d *ledger.Deduction)      { b[d.RequestID] = d }

func drain(e ledger.Epoch, l ledger.Log, b books) (ledger.Drained, error) {
	return ledger.Drain(e, noon, l, b.known, b.remember, nil)
}

func TestDrainMakesDeductions(t *testing.T) {
	l := newLog().grant(1, 60).grant(2, 40).deduct("a", 10).deduct("b", 1)
	b := books{}
	got, err := drain(row(100), l.from(0), b)
	if err != nil {
		t.Fatal(err)
	}
	after := row(100)
	after.Outstanding, after.Used, after.NextEntry = 89, 11, 13
	after.DrainedSeq, after.DrainedChain = 4, l.entries[4].Chain
	want := []ledger.Deduction{
		{Budget: 5, RequestID: "a", Amount: 10, State: ledger.StateUsed, Nonce: "nonce003",
			Reference: "ref a", Fingerprint: ledger.Fingerprint(10, "a", "", ""),
			Position: at(3), Entry: 11, CountedAt: noon},
		{Budget: 5, RequestID: "b", Amount: 1, State: ledger.StateUsed, Nonce: "nonce004",
			Reference: "ref b", Fingerprint: ledger.Fingerprint(1, "b", "", ""),
			Position: at(4), Entry: 12, CountedAt: noon},
	}
	if got.Before != row(100) || got.After != after || !got.Changed() || got.Close != nil {
		t.Errorf("from %+v to %+v, want %+v", got.Before, got.After, after)
	}
	if !reflect.DeepEqual(got.Deductions, want) || got.Duplicates != nil {
		t.Errorf("deductions %+v, duplicates %+v; want %+v", got.Deductions, got.Duplicates, want)
	}
	if !slices.Equal(got.Arrived, []int64{1, 2}) {
		t.Errorf("arrived %v", got.Arrived)
	}
	for i, o := range got.Outcomes {
		if o.Position != want[i].Position || o.Duplicate != nil ||
			!reflect.DeepEqual(*o.Deduction, want[i]) {
			t.Errorf("outcome %d: %+v", i, o)
		}
		if b[want[i].RequestID] != o.Deduction {
			t.Errorf("%q is not remembered", want[i].RequestID)
		}
	}
}

func TestDrainReasons(t *testing.T) {
	elsewhere := ledger.Position{Bucket: 9, Epoch: 1, Seq: 4}
	used := &ledger.Deduction{RequestID: "id", Amount: 4, State: ledger.StateUsed, Position: elsewhere}
	rolledBack := &ledger.Deduction{RequestID: "id", Amount: 4, RolledBack: 4,
		State: ledger.StateRolledBack, Position: elsewhere}
	void := &ledger.Deduction{RequestID: "id", State: ledger.StateVoid}
	end := func(d time.Duration) time.Time { return noon.Add(d) }
	for name, test := range map[string]struct {
		known  *ledger.Deduction
		end    time.Time
		reason ledger.Reason // "": a deduction
	}{
		"new":                          {nil, time.Time{}, ""},
		"used":                         {used, time.Time{}, ledger.ReasonDuplicate},
		"rolled back":                  {rolledBack, time.Time{}, ledger.ReasonDuplicate},
		"void":                         {void, time.Time{}, ledger.ReasonVoid},
		"a nanosecond before the end":  {nil, end(1), ""},
		"at the end":                   {nil, end(0), ledger.ReasonExpired},
		"after the end":                {nil, end(-1), ledger.ReasonExpired},
		"used goes before expired":     {used, end(0), ledger.ReasonDuplicate},
		"void goes before expired":     {void, end(0), ledger.ReasonVoid},
		"an end in another time zone":  {nil, end(0).In(time.FixedZone("x", 3600)), ledger.ReasonExpired},
		"rolled back, before expiring": {rolledBack, end(1), ledger.ReasonDuplicate},
	} {
		t.Run(name, func(t *testing.T) {
			before := row(100)
			before.EndAt = test.end
			b := books{}
			if test.known != nil {
				b["id"] = test.known
			}
			got, err := drain(before, newLog().grant(1, 100).deduct("id", 7).from(0), b)
			if err != nil {
				t.Fatal(err)
			}
			o := got.Outcomes[0]
			if test.reason == "" {
				if o.Duplicate != nil || got.After.Used != 7 || got.After.Returning != 0 ||
					len(got.Deductions) != 1 {
					t.Errorf("%+v", got)
				}
				return
			}
			want := ledger.Duplicate{Budget: 5, RequestID: "id", Position: at(2), Amount: 7,
				Nonce: "nonce002", Reason: test.reason}
			if o.Duplicate == nil || *o.Duplicate != want ||
				!slices.Equal(got.Duplicates, []ledger.Duplicate{want}) {
				t.Fatalf("duplicate %+v, want %+v", o.Duplicate, want)
			}
			if o.Deduction != test.known || len(got.Deductions) != 0 {
				t.Errorf("recorded %+v, want %+v", o.Deduction, test.known)
			}
			if got.After.Outstanding != 93 || got.After.Returning != 7 || got.After.Used != 0 ||
				got.After.NextEntry != 11 || got.After.DrainedSeq != 2 {
				t.Errorf("after %+v", got.After)
			}
			if test.reason == ledger.ReasonExpired && b["id"] != nil {
				t.Error("an expired entry took its id")
			}
		})
	}
}

func TestDrainSeesItsOwnDeductions(t *testing.T) {
	l := newLog().grant(1, 100).deduct("id", 7).deduct("id", 7).deduct("other", 1).deduct("id", 9)
	got, err := drain(row(100), l.from(0), books{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Deductions) != 2 || len(got.Duplicates) != 2 || len(got.Outcomes) != 4 {
		t.Fatalf("%+v", got)
	}
	for _, i := range []int{1, 3} {
		if o := got.Outcomes[i]; o.Duplicate == nil || o.Deduction != got.Outcomes[0].Deduction {
			t.Errorf("outcome %d: %+v", i, o)
		}
	}
	if got.After.Used != 8 || got.After.Returning != 16 || got.After.Outstanding != 76 ||
		got.After.NextEntry != 13 {
		t.Errorf("after %+v", got.After)
	}
}

// TestDrainAtTheLimits: what is just allowed.
func TestDrainAtTheLimits(t *testing.T) {
	long := ledger.Request{ID: strings.Repeat("x", 128), Reference: strings.Repeat("y", 256),
		Dimensions: strings.Repeat("z", 1<<16-1), Nonce: "12345678",
		Fingerprint: strings.Repeat("f", 16)}
	before := row(budget.MaxAmount)
	before.NextGrant = 2
	l := newLog().grant(1, budget.MaxAmount)
	l.add(ledger.Line(ledger.KindDeduct, budget.MaxAmount-1, ledger.EncodeRequest(long)))
	l.deduct("last", 1)
	got, err := drain(before, l.from(0), books{})
	if err != nil || got.After.Outstanding != 0 || got.After.Used != budget.MaxAmount ||
		len(got.Deductions) != 2 {
		t.Errorf("%+v, %v", got.After, err)
	}
	d := got.Deductions[0]
	if d.RequestID != long.ID || d.Reference != long.Reference || d.Dimensions != long.Dimensions {
		t.Error("the long texts were changed")
	}
}

func TestDrainContinues(t *testing.T) {
	l := newLog().grant(1, 50).deduct("a", 5).deduct("b", 6).grant(2, 50)
	b := books{}
	first, err := drain(row(100), ledger.Log{From: 0, Entries: l.entries[:3], Granted: grantedBy(l.entries)}, b)
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]int64{"from the drained entry": 2, "from before it": 0} {
		second, err := drain(first.After, l.from(from), books{"a": b["a"]})
		if err != nil || len(second.Deductions) != 1 || second.Deductions[0].RequestID != "b" ||
			second.After.DrainedSeq != 4 || !slices.Equal(second.Arrived, []int64{2}) ||
			second.Deductions[0].Entry != 12 {
			t.Errorf("%s: %+v, %v", name, second, err)
		}
	}
	for name, again := range map[string]ledger.Log{
		"the same":               {From: 0, Entries: l.entries[:3]},
		"only the drained entry": {From: 2, Entries: l.entries[2:3]},
	} {
		got, err := drain(first.After, again, b)
		if err != nil || got.Changed() || got.After != first.After || got.Outcomes != nil ||
			got.Arrived != nil {
			t.Errorf("%s again: %+v, %v", name, got, err)
		}
	}
}

func TestDrainLeavesAnOpeningEpochAlone(t *testing.T) {
	before := row(50)
	before.Status = ledger.Opening
	got, err := drain(before, newLog().grant(1, 50).deduct("a", 5).from(0), books{})
	if err != nil || got.Changed() || got.After != before || got.Outcomes != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestDrainStopsAtTheCloseEntry(t *testing.T) {
	for _, status := range []ledger.Status{ledger.Open, ledger.Closing} {
		before := row(50)
		before.Status = status
		l := newLog().grant(1, 50).deduct("a", 5).close(45, 1).deduct("after the end", 1)
		got, err := drain(before, l.from(0), books{})
		if err != nil || got.Close == nil || *got.Close != l.entries[3] || got.After.DrainedSeq != 2 ||
			got.After.Outstanding != 45 || len(got.Outcomes) != 1 {
			t.Errorf("%s: %+v, %v", status, got, err)
		}
		again, err := drain(got.After, l.from(2), books{})
		if err != nil || again.Changed() || again.Close == nil {
			t.Errorf("%s, again: %+v, %v", status, again, err)
		}
	}
}

func TestLive(t *testing.T) {
	for status, want := range map[ledger.Status]bool{
		ledger.Opening: true, ledger.Open: true, ledger.Closing: true,
		ledger.Closed: false, ledger.Lost: false, "": false,
	} {
		if got := status.Live(); got != want {
			t.Errorf("%q: %v, want %v", status, got, want)
		}
	}
}
