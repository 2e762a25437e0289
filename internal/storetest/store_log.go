package storetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// testLog compares every entry with what package ledger makes of the same operations.
func testLog(t *testing.T, b *bench) {
	ref := b.bucket()
	b.open(t, ref, bucket.Reply{Verdict: bucket.OK})
	b.grant(t, ref, 1, 100, bucket.Reply{Verdict: bucket.OK, Balance: 100, Seq: 1})
	full := Deduction(ref, 7, "order-1")
	full.Request.Reference, full.Request.Dimensions = "a note", `{"user":"u1"}`
	b.order(t, full, bucket.Reply{Verdict: bucket.OK, Balance: 93, Seq: 2})
	b.deduct(t, ref, 3, bucket.Reply{Verdict: bucket.OK, Balance: 90, Seq: 3})
	b.grant(t, ref, 2, 1, bucket.Reply{Verdict: bucket.OK, Balance: 91, Seq: 4})
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 5})

	plain := Deduction(ref, 3, "request 3")
	want := []ledger.Entry{
		{Kind: ledger.KindOpen, Line: ledger.OpenLine(ref.Bucket, ref.Epoch, ref.Activation)},
		{Kind: ledger.KindGrant, Amount: 100, Number: 1, Line: ledger.Line(ledger.KindGrant, 100, "1")},
		{Kind: ledger.KindDeduct, Amount: 7, Request: full.Request,
			Line: ledger.Line(ledger.KindDeduct, 7, ledger.EncodeRequest(full.Request))},
		{Kind: ledger.KindDeduct, Amount: 3, Request: plain.Request,
			Line: ledger.Line(ledger.KindDeduct, 3, ledger.EncodeRequest(plain.Request))},
		{Kind: ledger.KindGrant, Amount: 1, Number: 2, Line: ledger.Line(ledger.KindGrant, 1, "2")},
		{Kind: ledger.KindClose, Amount: 91, Number: 2, Line: ledger.Line(ledger.KindClose, 91, "2")},
	}
	got := b.read(t, ref, 0, 100)
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d", len(got), len(want))
	}
	chain := ""
	for i := range want {
		want[i].Seq = int64(i)
		chain = ledger.Chain(chain, want[i].Line)
		want[i].Chain = chain
		if got[i] != want[i] {
			t.Errorf("entry %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if opened := ledger.OpenChain(ref.Bucket, ref.Epoch, ref.Activation); got[0].Chain != opened {
		t.Errorf("the chain begins with %s, SQL expects %s", got[0].Chain, opened)
	}
}

// deducted returns a bucket whose log ends at seq n (at least 1).
func (b *bench) deducted(t *testing.T, n int) bucket.Ref {
	t.Helper()
	ref := b.filled(t, 1000)
	for i := 2; i <= n; i++ {
		b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.OK, Balance: 1001 - int64(i), Seq: int64(i)})
	}
	return ref
}

func testRead(t *testing.T, b *bench) {
	ref := b.deducted(t, 4)
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 5})
	b.open(t, nextEpoch(ref), bucket.Reply{Verdict: bucket.OK})
	b.wantSeqs(t, ref, 0, 100, "0 1 2 3 4 5")
	b.wantSeqs(t, ref, 0, 6, "0 1 2 3 4 5")
	b.wantSeqs(t, ref, 0, 1, "0")
	b.wantSeqs(t, ref, 2, 2, "2 3")
	b.wantSeqs(t, ref, 5, 2, "5")
	b.wantSeqs(t, ref, 6, 2, "")
	b.wantSeqs(t, ref, budget.MaxAmount, 2, "")
	b.wantSeqs(t, nextEpoch(ref), 0, 2, "0")
	b.wantSeqs(t, nextEpoch(nextEpoch(ref)), 0, 2, "")
	b.wantSeqs(t, b.bucket(), 0, 2, "")
	other := ref
	other.Activation += 7 // a log is read whatever was activated since
	b.wantSeqs(t, other, 4, 2, "4 5")

	cursors := []bucket.Cursor{{Ref: nextEpoch(ref)}, {Ref: b.bucket()}, {Ref: ref, From: 4},
		{Ref: ref, From: 4}, {Ref: ref, From: 9}}
	got, err := b.Store.Read(t.Context(), b.Lane, cursors, 3)
	if err != nil {
		t.Fatal(err)
	}
	var shape []string
	for _, extract := range got {
		if extract.Err != nil {
			t.Error(extract.Err)
		}
		shape = append(shape, strconv.Itoa(len(extract.Entries)))
	}
	if s := strings.Join(shape, " "); s != "1 0 2 2 0" {
		t.Errorf("entries per cursor: %s, want 1 0 2 2 0", s)
	}
}

func testTrim(t *testing.T, b *bench) {
	ref := b.deducted(t, 5)
	b.trim(t, ref, 0)
	b.wantSeqs(t, ref, 0, 100, "0 1 2 3 4 5")
	b.trim(t, ref, 1)
	b.wantSeqs(t, ref, 0, 100, "1 2 3 4 5")
	b.trim(t, ref, 3)
	b.trim(t, ref, 3)
	b.trim(t, ref, 2) // late
	b.wantSeqs(t, ref, 0, 2, "3 4")
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.OK, Balance: 995, Seq: 6})
	b.wantSeqs(t, ref, 2, 100, "3 4 5 6")
	b.trim(t, ref, 6)
	b.wantSeqs(t, ref, 0, 100, "6")
	b.trim(t, ref, 7) // beyond the end: the last entry stays
	b.trim(t, ref, budget.MaxAmount)
	b.trim(t, nextEpoch(ref), 0)
	b.wantSeqs(t, ref, 0, 100, "6")
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.OK, Balance: 994, Seq: 7})
	b.wantSeqs(t, ref, 0, 100, "6 7")
	b.trim(t, b.bucket(), 3) // there is no log

	// The chain goes on over what was forgotten.
	entries := b.read(t, ref, 6, 2)
	if entries[1].Chain != ledger.Chain(entries[0].Chain, entries[1].Line) {
		t.Error("the chain is broken by trimming")
	}

	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 8})
	later := nextEpoch(ref)
	b.open(t, later, bucket.Reply{Verdict: bucket.OK})
	b.trim(t, ref, 8)
	b.wantSeqs(t, ref, 0, 100, "8")
	b.wantSeqs(t, later, 0, 100, "0")
	b.grant(t, later, 1, 5, bucket.Reply{Verdict: bucket.OK, Balance: 5, Seq: 1})
	b.trim(t, later, 0) // earlier epochs go too
	b.wantSeqs(t, ref, 0, 100, "")
	b.wantSeqs(t, later, 0, 100, "0 1")
	b.trim(t, ref, 3) // late
	b.wantSeqs(t, later, 0, 100, "0 1")

	// Several buckets in one call, one of them twice.
	first, second := b.deducted(t, 3), b.deducted(t, 4)
	cursors := []bucket.Cursor{{Ref: first, From: 2}, {Ref: b.bucket(), From: 1},
		{Ref: second, From: 3}, {Ref: first, From: 3}}
	if err := b.Store.Trim(t.Context(), b.Lane, cursors); err != nil {
		t.Fatal(err)
	}
	b.wantSeqs(t, first, 0, 100, "3")
	b.wantSeqs(t, second, 0, 100, "3 4")
}

func testForget(t *testing.T, b *bench) {
	first, second := b.filled(t, 5), b.filled(t, 5)
	b.close(t, first, bucket.Reply{Verdict: bucket.OK, Seq: 2})
	b.forget(t, first, b.bucket(), second)
	b.forget(t, first, second)
	gone := bucket.Balance{Verdict: bucket.EpochGone}
	refs := []bucket.Ref{first, second, b.filled(t, 7), b.bucket()}
	got, err := b.Store.Balances(t.Context(), b.Lane, refs)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bucket.Balance{gone, gone,
		{Verdict: bucket.OK, Seq: 1, GrantSeq: 1, Balance: 7, Granted: 7}, gone} {
		if got[i] != want {
			t.Errorf("balance %d is %+v, want %+v", i, got[i], want)
		}
	}
	b.wantSeqs(t, first, 0, 10, "0 1 2")
	b.open(t, first, bucket.Reply{Verdict: bucket.EpochGone})
	b.open(t, second, bucket.Reply{Verdict: bucket.EpochGone})
	b.open(t, nextEpoch(first), bucket.Reply{Verdict: bucket.OK})
	b.grant(t, nextEpoch(first), 1, 9, bucket.Reply{Verdict: bucket.OK, Balance: 9, Seq: 1})
}

// testLeave: the log of a bucket that has left is gone, that of one that is back is not.
func testLeave(t *testing.T, b *bench) {
	gone, back, other := b.filled(t, 5), b.filled(t, 5), b.filled(t, 5)
	for _, ref := range []bucket.Ref{gone, back} {
		b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 2})
		b.forget(t, ref)
	}
	b.open(t, nextEpoch(back), bucket.Reply{Verdict: bucket.OK})
	for range 2 {
		if err := b.Store.Leave(t.Context(), b.Lane, []bucket.Ref{gone, back, b.bucket()}); err != nil {
			t.Fatal(err)
		}
	}
	b.wantSeqs(t, gone, 0, 10, "")
	b.wantSeqs(t, nextEpoch(back), 0, 10, "0")
	b.open(t, back, bucket.Reply{Verdict: bucket.EpochGone})
	b.grant(t, nextEpoch(back), 1, 9, bucket.Reply{Verdict: bucket.OK, Balance: 9, Seq: 1})
	b.untouched(t, other, 5)
	// What refused a late Open is gone with the log: who calls Leave has seen to it that this is harmless.
	b.open(t, gone, bucket.Reply{Verdict: bucket.OK})
}

// HostileTexts are request ids that a store must take as they are, byte by byte.
var HostileTexts = []string{
	"]] redis.call('FLUSHALL')", "' .. redis.call('FLUSHALL') .. '", "{a}:{b}", "a:b:c", "*?[",
	"'; DROP TABLE deduction;--", "${jndi:x}", "%s%n", "../../admin", "%2e%2e", "%00",
	"a", "A", "a ", " a", "\u00e1", "a\u0301", "7", "007", "1e3", "1000", "-0", "NaN", "null", "|",
	"1d5|",
	strings.Repeat("x", 128), strings.Repeat("\u20ac", 42), "\U0001F4B0", "\"\\", "\x7f",
	// budgetd lets none of these through; a store need not know that.
	"", "\x00", "a\x00b", "\r\n", "a\r\n$3\r\nfoo", "\xff\xfe", "\xc3\x28",
	strings.Repeat("\x00", 300),
}

func testHostileTexts(t *testing.T, b *bench) {
	ref, neighbour := b.filled(t, budget.MaxAmount), b.filled(t, 5)
	var operations []bucket.Operation
	for i, text := range HostileTexts {
		o := Deduction(ref, int64(i+1), text)
		other := HostileTexts[len(HostileTexts)-1-i]
		o.Request.Reference, o.Request.Dimensions = other, ledger.Dimensions(map[string]string{"d": text})
		operations = append(operations, o)
	}
	got, err := b.Store.Deduct(t.Context(), b.Lane, operations)
	if err != nil {
		t.Fatal(err)
	}
	for i, reply := range got {
		if reply.Verdict != bucket.OK || reply.Seq != int64(i+2) {
			t.Errorf("%q: answered %+v", HostileTexts[i], reply)
		}
	}
	for i, entry := range b.read(t, ref, 2, len(operations)+1) {
		if entry.Request != operations[i].Request || entry.Amount != operations[i].Amount {
			t.Errorf("%q: the log has %+v", HostileTexts[i], entry)
		}
	}
	b.wantSeqs(t, neighbour, 0, 10, "0 1")
	b.untouched(t, neighbour, 5)
}

// testBatch does the same operations one by one on some buckets and in one call on others: the
// answers, the balances and the logs must be the same, whatever fails in between.
func testBatch(t *testing.T, b *bench) {
	prepare := func() []bucket.Ref {
		refs := []bucket.Ref{b.filled(t, 50), b.filled(t, 20), b.filled(t, 30), b.bucket(),
			b.filled(t, 9)}
		b.close(t, refs[2], bucket.Reply{Verdict: bucket.OK, Seq: 2})
		stranger := refs[0]
		stranger.Activation++
		b.open(t, nextEpoch(refs[4]), bucket.Reply{Verdict: bucket.OK})
		return append(refs, stranger, nextEpoch(refs[4]))
	}
	alone, together := prepare(), prepare()
	var single, many []bucket.Reply
	var operations []bucket.Operation
	for i := range 60 {
		o := Deduction(alone[i*i%len(alone)], int64(i%7+1), fmt.Sprint("batch ", i))
		o.MinSeq = int64(i % 5)
		got, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{o})
		single = append(single, only(t, "deduct", got, err))
		o.Ref = together[i*i%len(together)]
		operations = append(operations, o)
	}
	many, err := b.Store.Deduct(t.Context(), b.Lane, operations)
	b.alike(t, "deduct", single, many, err)

	var orders []bucket.GrantOrder
	single = nil
	for i := range 40 {
		o := bucket.GrantOrder{Ref: alone[i%len(alone)], Number: int64(i/9 + 1), Amount: int64(i + 1)}
		got, err := b.Store.Grant(t.Context(), b.Lane, []bucket.GrantOrder{o})
		single = append(single, only(t, "grant", got, err))
		o.Ref = together[i%len(together)]
		orders = append(orders, o)
	}
	many, err = b.Store.Grant(t.Context(), b.Lane, orders)
	b.alike(t, "grant", single, many, err)

	for name, call := range map[string]func([]bucket.Ref) ([]bucket.Reply, error){
		"open": func(refs []bucket.Ref) ([]bucket.Reply, error) {
			return b.Store.Open(t.Context(), b.Lane, refs)
		},
		"close": func(refs []bucket.Ref) ([]bucket.Reply, error) {
			return b.Store.Close(t.Context(), b.Lane, refs)
		},
	} {
		single = nil
		sequence := func(of []bucket.Ref) []bucket.Ref {
			return []bucket.Ref{of[0], of[3], nextEpoch(of[3]), of[3], of[1], of[1], nextEpoch(of[1]), of[5]}
		}
		for _, ref := range sequence(alone) {
			got, err := call([]bucket.Ref{ref})
			single = append(single, only(t, name, got, err))
		}
		many, err = call(sequence(together))
		b.alike(t, name, single, many, err)
	}

	before, err := b.Store.Balances(t.Context(), b.Lane, alone)
	if err != nil {
		t.Fatal(err)
	}
	after, err := b.Store.Balances(t.Context(), b.Lane, together)
	if err != nil {
		t.Fatal(err)
	}
	for i := range alone {
		if before[i] != after[i] {
			t.Errorf("bucket %d: balance %+v after single calls, %+v after one", i, before[i], after[i])
		}
		one, batch := b.read(t, alone[i], 0, 1000), b.read(t, together[i], 0, 1000)
		if len(one) != len(batch) {
			t.Errorf("bucket %d: %d entries after single calls, %d after one", i, len(one), len(batch))
			continue
		}
		for j := range one {
			if one[j].Seq != 0 && one[j].Line != batch[j].Line {
				t.Errorf("bucket %d, entry %d: %q after single calls, %q after one", i, j, one[j].Line,
					batch[j].Line)
			}
		}
	}
}

// alike compares the answers of single calls with those of one call, and looks whether the test
// was worth it.
func (b *bench) alike(t *testing.T, verb string, single, many []bucket.Reply, err error) {
	t.Helper()
	if err != nil || len(single) != len(many) {
		t.Fatalf("%s: %d answers in one call, want %d; %v", verb, len(many), len(single), err)
	}
	verdicts := make(map[bucket.Verdict]int)
	for i := range single {
		verdicts[single[i].Verdict]++
		if single[i] != many[i] {
			t.Errorf("%s %d: %+v alone, %+v in one call", verb, i, single[i], many[i])
		}
	}
	if verdicts[bucket.OK] == 0 || len(verdicts) < 3 {
		t.Errorf("%s: the batch met only the verdicts %v", verb, verdicts)
	}
}
