package ledger_test

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/ledger"
)

// BenchmarkLine makes what a store appends for a deduction.
func BenchmarkLine(b *testing.B) {
	r := request("order-0123456789", 5, 1)
	r.Dimensions = ledger.Dimensions(map[string]string{"user": "user-0123456789"})
	b.ReportAllocs()
	for b.Loop() {
		if ledger.Line(ledger.KindDeduct, 5, ledger.EncodeRequest(r)) == "" {
			b.Fatal("empty")
		}
	}
}

// BenchmarkFingerprint makes what a repetition of a request is known by.
func BenchmarkFingerprint(b *testing.B) {
	r := request("order-0123456789", 5, 1)
	b.ReportAllocs()
	for b.Loop() {
		if ledger.RequestFingerprint(5, "user-0123456789", r) == "" {
			b.Fatal("empty")
		}
	}
}

// BenchmarkDrain decides what 500 entries of one log become.
func BenchmarkDrain(b *testing.B) {
	const entries = 500
	l := newLog().grant(1, entries)
	for i := range entries {
		l.deduct(fmt.Sprint("order-", i), 1)
	}
	read := l.from(0)
	b.ReportAllocs()
	for b.Loop() {
		if got, err := drain(row(entries), read, books{}); err != nil || len(got.Deductions) != entries {
			b.Fatal(len(got.Deductions), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/entries, "ns/entry")
}
