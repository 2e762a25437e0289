package ring_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/budgetd/budgetd/ring"
)

func BenchmarkHash(b *testing.B) {
	for _, c := range []struct{ name, key string }{
		{"ascii21", "order-20261120-000001"},
		{"chinese6", "用户订单编号"},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var sum uint32
			for b.Loop() {
				sum += ring.Hash(c.key)
			}
			_ = sum
		})
	}
}

// BenchmarkLocate hashes and looks up changing keys, so that lookups do not all hit one cache line.
func BenchmarkLocate(b *testing.B) {
	keys := make([]string, 1<<14)
	for i := range keys {
		keys[i] = "order-20261120-" + strconv.Itoa(100_000+i)
	}
	for _, n := range []int{5, 100, 1_000} {
		b.Run(fmt.Sprintf("nodes=%d", n), func(b *testing.B) {
			r := mustNew(b, ordinals(n), ring.DefaultPointsPerNode)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				r.LocateIndex(keys[i&(len(keys)-1)], nil)
				i++
			}
		})
	}
}

func BenchmarkLocateIndexWithout(b *testing.B) {
	r := mustNew(b, ordinals(100), ring.DefaultPointsPerNode)
	for _, skipped := range []int{0, 50, 99, 100} {
		b.Run(fmt.Sprintf("skipped=%d", skipped), func(b *testing.B) {
			skip := func(i int) bool { return i < skipped }
			b.ReportAllocs()
			for b.Loop() {
				r.LocateIndex("order-20261120-000001", skip)
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	nodes := ordinals(1_000)
	b.ReportAllocs()
	for b.Loop() {
		mustNew(b, nodes, ring.DefaultPointsPerNode)
	}
}
