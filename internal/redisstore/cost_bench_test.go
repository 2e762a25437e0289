package redisstore_test

import (
	"context"
	"crypto/md5" //nolint:gosec // to make texts
	"encoding/hex"
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// BenchmarkCost measures the CPU time of the Redis server (INFO cpu) and of this process per deduction: in ledger
// mode, in store mode, and in store mode with two limits of the routing dimension (per value and day, per value
// for ever) that have counted for 100,000 values before; in calls of several sizes, on one bucket and on
// eight, with one caller and no append-only file. Every id is new.
func BenchmarkCost(b *testing.B) {
	for _, mode := range []string{"ledger", "store", "limits"} {
		for _, buckets := range []int{1, 8} {
			b.Run(fmt.Sprintf("%s/%d buckets", mode, buckets), func(b *testing.B) {
				c := newCost(b, mode, buckets)
				for _, size := range []int{1, 16, 128} {
					b.Run(fmt.Sprintf("%d per call", size), func(b *testing.B) { c.run(b, size) })
				}
			})
		}
	}
}

// costUsers is how many values a limit has counted for.
const costUsers = 100_000

type cost struct {
	mode  string
	store *redisstore.Store
	raw   *redis.Client
	refs  []bucket.Ref
	made  int
}

func newCost(b *testing.B, mode string, buckets int) *cost {
	b.Helper()
	server := testservers.Redis(b)
	c := &cost{mode: mode, store: connect(b, config(server)), raw: client(b, server)}
	activate(b, c.store, 1)
	for i := range buckets {
		ref := bucket.Ref{Bucket: int64(i + 1), Epoch: 1, Activation: 1}
		fill(b, c.store, ref, budget.MaxAmount)
		c.refs = append(c.refs, ref)
	}
	if mode == "limits" {
		for c.made < costUsers {
			c.deduct(b, c.operations(500))
		}
		c.clean(b)
	}
	return c
}

// operations makes the next ones; every value is in a bucket of its own, always the same.
func (c *cost) operations(n int) []bucket.Operation {
	out := make([]bucket.Operation, n)
	for i := range out {
		user := c.made * 7919 % costUsers // prime: all of them, in another order
		id := spread(c.made)
		c.made++
		ref := c.refs[user%len(c.refs)]
		if c.mode != "limits" {
			out[i] = storetest.Deduction(ref, 5, id)
			out[i].Record = c.mode == "store"
			continue
		}
		count := bucket.Count{Limit: "per-user-ever", Changed: 1, Value: spread(user), Add: 1, Max: 1 << 40,
			New: true, Window: bucket.CountWindow{Kind: budget.WindowLifetime}}
		daily := count
		daily.Limit = "per-user-day"
		daily.Window = bucket.CountWindow{Kind: budget.WindowCalendar, Begin: 0, End: 1 << 43}
		out[i] = storetest.Limited(ref, id, 0, daily, count)
	}
	return out
}

// spread makes a text of 32 bytes of a number, as ids are: different all over, not only at the end.
func spread(n int) string {
	sum := md5.Sum([]byte(strconv.Itoa(n))) //nolint:gosec // to make texts
	return hex.EncodeToString(sum[:])
}

func (c *cost) deduct(b *testing.B, operations []bucket.Operation) {
	b.Helper()
	replies, err := c.store.Deduct(context.Background(), lane0, operations)
	if err != nil {
		b.Fatal(err)
	}
	for _, reply := range replies {
		if reply.Verdict != bucket.OK {
			b.Fatal(reply)
		}
	}
}

// clean throws away logs and records.
func (c *cost) clean(b *testing.B) {
	b.Helper()
	ctx := context.Background()
	cursors := make([]bucket.Cursor, len(c.refs))
	for i, ref := range c.refs {
		cursors[i] = bucket.Cursor{Ref: ref, From: budget.MaxAmount}
		for _, key := range []string{"r0", "r1"} {
			c.raw.Unlink(ctx, fmt.Sprintf("budgetd:test:{r1/0}:%d:1:%s:1", ref.Bucket, key))
		}
	}
	if err := c.store.Trim(ctx, lane0, cursors); err != nil {
		b.Fatal(err)
	}
}

func (c *cost) run(b *testing.B, size int) {
	b.Helper()
	var server, process float64
	b.ReportAllocs()
	b.ResetTimer()
	calls := 0
	for done := 0; done < b.N; {
		b.StopTimer()
		batch := make([][]bucket.Operation, 0, 20000/size)
		for ; len(batch) < cap(batch) && done < b.N; done += size {
			batch = append(batch, c.operations(size))
		}
		before, self := serverCPU(b, c.raw), processCPU()
		b.StartTimer()
		for _, operations := range batch {
			c.deduct(b, operations)
		}
		b.StopTimer()
		server += float64((serverCPU(b, c.raw) - before).Nanoseconds())
		process += float64((processCPU() - self).Nanoseconds())
		calls += len(batch)
		c.clean(b)
		b.StartTimer()
	}
	b.StopTimer()
	n := float64(calls * size)
	b.ReportMetric(server/n, "redis-ns/op")
	b.ReportMetric(process/n, "go-ns/op")
}
