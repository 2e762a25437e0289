package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// processorTime returns the CPU time that a server has used, in µs.
func processorTime(b *testing.B, server *testservers.RedisServer) float64 {
	b.Helper()
	info, err := server.Command("INFO", "cpu")
	if err != nil {
		b.Fatal(err)
	}
	sum := 0.0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += 1e6 * seconds
		}
	}
	return sum
}

// BenchmarkDeduct measures store mode with two limits: µs of the server per operation.
func BenchmarkDeduct(b *testing.B) {
	for _, c := range []struct{ buckets, call, limits int }{
		{1, 1, 2}, {1, 16, 2}, {1, 128, 2}, {1, 512, 2}, {1, 128, 0}, {10_000, 128, 2}, {10_000, 512, 2},
	} {
		b.Run(fmt.Sprintf("buckets=%d/call=%d/limits=%d", c.buckets, c.call, c.limits), func(b *testing.B) {
			server := testservers.Redis(b)
			store := connect(b, config(server))
			m := adopt(b, store, partition0, 1)
			var opens []bucket.Opening
			var grants []bucket.StoreGrant
			terms := make([]*bucket.Terms, c.buckets)
			now, err := store.Time(b.Context(), partition0)
			if err != nil {
				b.Fatal(err)
			}
			ms := now.UnixMilli()
			for i := range c.buckets {
				ref := bucket.Ref{Bucket: int64(i + 1), Epoch: 1, Incarnation: 1}
				opens = append(opens, bucket.Opening{Ref: ref})
				grants = append(grants, bucket.StoreGrant{Ref: ref, Number: 1, Amount: 1e14})
				terms[i] = &bucket.Terms{EndMS: ms + 86_400_000, LimitsVersion: 1}
				if c.limits > 0 {
					terms[i].Limits = []bucket.LimitTerms{
						{Name: "day", Changed: 1, Kind: budget.WindowCalendar, FromMS: ms - 1000, ToMS: ms + 86_000_000,
							Max: 1e12, Measure: budget.MeasureAmount},
						{Name: "all", Changed: 1, Kind: budget.WindowLifetime, Max: 1e12, Measure: budget.MeasureAmount}}
				}
			}
			if _, err := store.Open(b.Context(), m, opens); err != nil {
				b.Fatal(err)
			}
			if _, err := store.Grant(b.Context(), m, grants); err != nil {
				b.Fatal(err)
			}
			before, done := processorTime(b, server), 0
			for b.Loop() {
				ops := make([]bucket.StoreDeduction, c.call)
				for i := range ops {
					done++
					at := done * 7919 % c.buckets
					ops[i] = bucket.StoreDeduction{RecordID: bucket.RecordID{Bucket: int64(at + 1), ID: "order-" + strconv.Itoa(done)},
						Epoch: 1, Amount: 3, NotAfterMS: ms + 600_000, Fingerprint: "0123456789abcdef", Nonce: "01234567",
						Terms: terms[at]}
					if c.limits > 0 {
						ops[i].Value = "user-" + strconv.Itoa(done%100_003)
					}
				}
				answer, err := store.Deduct(b.Context(), m, ops)
				if err != nil || answer.Outcomes[len(ops)-1].Verdict != bucket.Accepted {
					b.Fatal(err, answer.Outcomes[len(ops)-1])
				}
			}
			b.ReportMetric((processorTime(b, server)-before)/float64(done), "redis-µs/op")
		})
	}
}
