package bucket

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkBatcher is what aggregation costs a call, with 64 callers, of one owner and of a hundred.
func BenchmarkBatcher(b *testing.B) {
	for _, owners := range []int64{1, 100} {
		b.Run(fmt.Sprint(owners, " owners"), func(b *testing.B) {
			var next atomic.Int64
			bt := &batcher[int64, int64]{size: 512, bound: 20_000, workers: 1, owner: func(n int64) int64 { return n % owners },
				run: func(items []int64) []result[int64] { return make([]result[int64], len(items)) }}
			b.SetParallelism(64)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := bt.do(context.Background(), next.Add(1)); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkQueue is what a queue costs an item when far more waits than a call takes.
func BenchmarkQueue(b *testing.B) {
	for _, owners := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprint(owners, " owners"), func(b *testing.B) {
			q, n := &queue[int, int]{}, 0
			of := &ticket[int]{}
			fill := func(items int) {
				for range items {
					n++
					q.append(&item[int, int]{question: n, owner: int64(n % owners), of: of})
				}
			}
			fill(20_000)
			b.ReportAllocs()
			for i := 0; i < b.N; i += 512 {
				if got := q.take(512, nil); len(got) != 512 {
					b.Fatal(len(got))
				}
				fill(512)
			}
		})
	}
}
