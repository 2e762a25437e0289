package counter_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
)

// yes is a store that accepts everything at once and keeps nothing.
type yes struct{ bucket.Counter }

func (yes) Deduct(_ context.Context, _ bucket.Memory, all []bucket.StoreDeduction) (
	bucket.StoreAnswer, error) {
	out := bucket.StoreAnswer{Outcomes: make([]bucket.StoreOutcome, len(all))}
	for i := range out.Outcomes {
		out.Outcomes[i] = bucket.StoreOutcome{Verdict: bucket.Accepted, Balance: 1 << 40}
	}
	return out, nil
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

// worlds are a store that does nothing, and Redis, which is another process.
var worlds = map[string]func(testing.TB) *world{
	"no store": func(t testing.TB) *world {
		w := onRedis(t, "sqlite", 1)
		w.stores["m"].Counter = yes{}
		w.node, w.budgets = w.newNode(func(*counter.Config) {})
		return w
	},
	"redis": func(t testing.TB) *world { return onRedis(t, "sqlite", 1) },
}

const plenty = 1 << 50

// BenchmarkDeduct measures single deductions by 64 callers, in CPU time of callers, service and
// driver.
func BenchmarkDeduct(b *testing.B) {
	for name, make := range worlds {
		b.Run(name, func(b *testing.B) {
			w := make(b)
			one := w.create(promo("sale", plenty, 8))
			var n atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(32)
			b.ResetTimer()
			defer cpu(b)()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := strconv.FormatInt(n.Add(1), 10)
					if _, err := w.node.Deduct(context.Background(), request(one, id, 1)); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkDeductAll measures batches of 100 by 8 callers, per deduction.
func BenchmarkDeductAll(b *testing.B) {
	const size = 100
	for name, make := range worlds {
		b.Run(name, func(b *testing.B) {
			w := make(b)
			one := w.create(promo("sale", plenty, 8))
			var n atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(4)
			b.ResetTimer()
			defer cpu(b)()
			b.RunParallel(func(pb *testing.PB) {
				for more := true; more; {
					var requests []bucket.DeductRequest
					for len(requests) < size && more {
						if more = pb.Next(); more {
							requests = append(requests, request(one, strconv.FormatInt(n.Add(1), 10), 1))
						}
					}
					for _, r := range w.node.DeductAll(context.Background(), requests) {
						if r.Err != nil {
							b.Error(r.Err)
						}
					}
				}
			})
		})
	}
}
