package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// BenchmarkDeduct measures one deduction in calls of several sizes, over 8 buckets, with one
// caller. Everything is per deduction: ns/op by the clock, go-ns/op the CPU time of this process,
// redis-ns/op that of the server, script-ns/op what it says it spent in EVALSHA. With records, every
// id is new, and the records are thrown away from time to time.
func BenchmarkDeduct(b *testing.B) {
	for _, fsync := range []string{"no AOF", "always"} {
		for _, size := range []int{1, 16, 128} {
			for _, records := range []string{"", ", with records"} {
				b.Run(fmt.Sprintf("%s/%d per call%s", fsync, size, records), func(b *testing.B) {
					benchmarkDeduct(b, fsync, size, records != "")
				})
			}
		}
	}
}

func benchmarkDeduct(b *testing.B, fsync string, size int, records bool) {
	var options []testservers.RedisOption
	if fsync != "no AOF" {
		options = append(options, testservers.AppendOnly(fsync))
	}
	server := testservers.Redis(b, options...)
	store, ctx := connect(b, config(server)), context.Background()
	activate(b, store, 1)
	refs := make([]bucket.Ref, 8)
	for i := range refs {
		refs[i] = bucket.Ref{Bucket: int64(i + 1), Epoch: 1, Activation: 1}
		fill(b, store, refs[i], budget.MaxAmount)
	}
	operations := make([]bucket.Operation, size)
	for i := range operations {
		operations[i] = storetest.Deduction(refs[i%len(refs)], 5, "order-0123456789")
		operations[i].Record = records
	}
	raw := client(b, server)
	if err := raw.ConfigResetStat(ctx).Err(); err != nil {
		b.Fatal(err)
	}
	before, self := serverCPU(b, raw), processCPU()
	b.ReportAllocs()
	b.ResetTimer()
	calls := 0
	for done := 0; done < b.N; done += size {
		for i := range operations {
			if records {
				operations[i].Request.ID = fmt.Sprintf("order-%010d", done+i)
			}
		}
		replies, err := store.Deduct(ctx, lane0, operations)
		if err != nil || replies[size-1].Verdict != bucket.OK {
			b.Fatal(replies, err)
		}
		if calls++; calls%(20000/size+1) == 0 {
			b.StopTimer()
			cursors := make([]bucket.Cursor, len(refs))
			for i, ref := range refs {
				cursors[i] = bucket.Cursor{Ref: ref, From: budget.MaxAmount}
			}
			if err := store.Trim(ctx, lane0, cursors); err != nil {
				b.Fatal(err)
			}
			for _, epoch := range refs {
				if !records {
					break
				}
				for _, key := range []string{"r0", "r1"} {
					raw.Unlink(ctx, fmt.Sprintf("budgetd:test:{r1/0}:%d:1:%s:1", epoch.Bucket, key))
				}
			}
			b.StartTimer()
		}
	}
	b.StopTimer()
	n := float64(calls * size)
	b.ReportMetric(float64((serverCPU(b, raw)-before).Nanoseconds())/n, "redis-ns/op")
	b.ReportMetric(float64((processCPU()-self).Nanoseconds())/n, "go-ns/op")
	b.ReportMetric(float64(scriptTime(b, raw).Nanoseconds())/n, "script-ns/op")
}

// serverCPU is the CPU time of the server so far, with its children that ended: those that rewrite its
// append-only file.
func serverCPU(b *testing.B, raw *redis.Client) time.Duration {
	b.Helper()
	info, err := raw.Info(context.Background(), "cpu").Result()
	if err != nil {
		b.Fatal(err)
	}
	var sum float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_sys", "used_cpu_user", "used_cpu_sys_children", "used_cpu_user_children":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += seconds
		}
	}
	return time.Duration(sum * float64(time.Second))
}

func scriptTime(b *testing.B, raw *redis.Client) time.Duration {
	b.Helper()
	info, err := raw.Info(context.Background(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut(info, "cmdstat_evalsha:calls=")
	_, rest, _ = strings.Cut(rest, "usec=")
	text, _, _ := strings.Cut(rest, ",")
	usec, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(usec) * time.Microsecond
}

func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
