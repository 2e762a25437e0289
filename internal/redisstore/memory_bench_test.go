package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// BenchmarkMemory measures what a Redis keeps for a counter of a limit and for a request record, with values and
// ids of 32 bytes: used_memory before and after, by so many of them. The log and the records are not there
// when counters are measured.
func BenchmarkMemory(b *testing.B) {
	for _, values := range []int{100, 1_000, 3_000, 30_000, 100_000} {
		for name, window := range map[string]bucket.CountWindow{
			"lifetime":  {Kind: budget.WindowLifetime},
			"sliding":   {Kind: budget.WindowSliding, Length: 8 * 3600_000, Slot: 600_000},
			"first hit": {Kind: budget.WindowFirstHit, Length: 3600_000},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, values), func(b *testing.B) {
				for range b.N {
					benchmarkMemory(b, values, window)
				}
			})
		}
	}
}

func benchmarkMemory(b *testing.B, values int, window bucket.CountWindow) {
	server := testservers.Redis(b)
	store, ctx, raw := connect(b, config(server)), context.Background(), client(b, server)
	activate(b, store, 1)
	ref := bucket.Ref{Bucket: 1, Epoch: 1, Activation: 1}
	fill(b, store, ref, budget.MaxAmount)
	warm := bucket.Ref{Bucket: 2, Epoch: 1, Activation: 1} // what clients and scripts take once
	fill(b, store, warm, budget.MaxAmount)
	fillCounters(b, store, warm, 500, window)
	empty := usedMemory(b, raw)
	fillCounters(b, store, ref, values, window)
	raw.Unlink(ctx, "budgetd:test:{r1/0}:1:log:1")
	all := usedMemory(b, raw)
	raw.Unlink(ctx, "budgetd:test:{r1/0}:1:1:r0:1", "budgetd:test:{r1/0}:1:1:r1:1")
	counters := usedMemory(b, raw)
	b.ReportMetric(float64(counters-empty)/float64(values), "bytes/counter")
	b.ReportMetric(float64(all-counters)/float64(values), "bytes/record")
	b.ReportMetric(0, "ns/op")
}

// fillCounters deducts once for each of so many values.
func fillCounters(b *testing.B, store *redisstore.Store, ref bucket.Ref, values int, window bucket.CountWindow) {
	b.Helper()
	for from := 0; from < values; from += 500 {
		operations := make([]bucket.Operation, min(500, values-from))
		for i := range operations {
			operations[i] = storetest.Limited(ref, fmt.Sprintf("%032d", from+i), 0, bucket.Count{Limit: "per-user",
				Changed: 1, Value: fmt.Sprintf("user-%027d", from+i), Add: 1, Max: 10, New: true, Window: window})
		}
		if replies, err := store.Deduct(context.Background(), lane0, operations); err != nil || replies[0].Verdict != bucket.OK {
			b.Fatal(replies, err)
		}
	}
}

// usedMemory waits until what was unlinked is freed, and until the server has taken back the buffers of connections that
// have nothing to do (after 2 s what they read into, after 5 s what they answer from).
func usedMemory(b *testing.B, raw *redis.Client) int64 {
	b.Helper()
	ctx := context.Background()
	for {
		time.Sleep(8 * time.Second)
		info, err := raw.Info(ctx, "memory").Result()
		if err != nil {
			b.Fatal(err)
		}
		if number(b, info, "lazyfree_pending_objects:") == 0 {
			return number(b, info, "used_memory:")
		}
	}
}

func number(b testing.TB, info, field string) int64 {
	b.Helper()
	_, rest, _ := strings.Cut(info, "\n"+field)
	text, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.Fatal(field, err)
	}
	return n
}
