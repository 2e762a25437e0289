package deduct_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/ledger"
)

// yes is a ledger that accepts everything at once and writes nothing.
type yes struct{ *books }

func (y yes) Commit(_ context.Context, ops []bucket.Operation) ([]bucket.Outcome, error) {
	out := make([]bucket.Outcome, len(ops))
	for i := range ops {
		op := &ops[i]
		out[i] = bucket.Outcome{Verdict: bucket.Accepted, Remaining: 1 << 40, Deduction: ledger.Deduction{
			Budget: op.Budget.ID, RequestID: op.Request.ID, Amount: op.Request.Amount, State: ledger.StateUsed,
			Bucket: op.Bucket, Epoch: 1}}
	}
	return out, nil
}

func benchmarked(b *testing.B, budgets int) (*deduct.Service, []*account) {
	books := newBooks()
	var all []*account
	for i := range budgets {
		all = append(all, books.add("b"+strconv.Itoa(i), 1<<50, 8, 1<<40))
	}
	return node(b, books, func(c *deduct.Config) { c.Ledger = yes{books} }), all
}

// cpu reports the process's CPU time per operation: on a machine that others use, time passes.
func cpu(b *testing.B) (report func()) {
	b.Helper()
	read := func() int64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return r.Utime.Nano() + r.Stime.Nano()
	}
	began := read()
	return func() { b.ReportMetric(float64(read()-began)/float64(b.N), "cpu-ns/op") }
}

// BenchmarkDeduct measures single deductions by 64 callers. The figure is the CPU time of callers
// and service alone, because nothing is written.
func BenchmarkDeduct(b *testing.B) {
	s, all := benchmarked(b, 1)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	defer cpu(b)()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := strconv.FormatInt(n.Add(1), 10)
			if _, err := s.Deduct(context.Background(), request(all[0], id, 1)); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkDeductAll measures batches of 100 by 8 callers, of one budget and of 10,000, per
// deduction.
func BenchmarkDeductAll(b *testing.B) {
	for _, budgets := range []int{1, 10_000} {
		b.Run(strconv.Itoa(budgets), func(b *testing.B) {
			const size = 100
			s, all := benchmarked(b, budgets)
			var n atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(4)
			b.ResetTimer()
			defer cpu(b)()
			b.RunParallel(func(pb *testing.PB) {
				for more := true; more; {
					requests := make([]bucket.DeductRequest, 0, size)
					for len(requests) < size && more {
						if more = pb.Next(); more {
							i := n.Add(1)
							requests = append(requests, request(all[int(i)%budgets], strconv.FormatInt(i, 10), 1))
						}
					}
					for _, r := range s.DeductAll(context.Background(), requests) {
						if r.Err != nil {
							b.Error(r.Err)
						}
					}
				}
			})
		})
	}
}

// BenchmarkSQLite measures deductions on SQLite, flushed at every commit: single ones by 64
// callers, and batches of 100 by 8.
func BenchmarkSQLite(b *testing.B) {
	for _, size := range []int{1, 100} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			d := open(b, sqlite(b))
			ref := d.create(b, promo("b", 1<<40, 8))
			s := d.node(b, nil)
			var n atomic.Int64
			b.SetParallelism(64 / min(size, 8) / 2)
			b.ResetTimer()
			defer cpu(b)()
			b.RunParallel(func(pb *testing.PB) {
				for more := true; more; {
					requests := make([]bucket.DeductRequest, 0, size)
					for len(requests) < size && more {
						if more = pb.Next(); more {
							requests = append(requests, bucket.DeductRequest{Budget: ref, Amount: 1,
								RequestID: strconv.FormatInt(n.Add(1), 10)})
						}
					}
					for _, r := range s.DeductAll(context.Background(), requests) {
						if r.Err != nil {
							b.Error(r.Err)
						}
					}
				}
			})
		})
	}
}

// BenchmarkHopeless measures requests of 64 callers for more than a used-up budget has.
func BenchmarkHopeless(b *testing.B) {
	books := newBooks()
	a := books.add("b", 100, 4, 20)
	s := node(b, books, nil)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	defer cpu(b)()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			id := strconv.FormatInt(n.Add(1), 10)
			if _, err := s.Deduct(context.Background(), request(a, id, 101)); err == nil {
				b.Error("accepted")
			}
		}
	})
}
