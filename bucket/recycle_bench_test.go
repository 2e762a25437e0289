package bucket_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/testservers"
)

// BenchmarkRecycle sells b.N units one by one: 16 buckets on four Redis, the ledger in MariaDB, 64 callers
// with skewed keys (Zipf 1.2); first without recycling, then while the budget is recycled over and over.
// It fails if anything but "accepted" is answered before the last unit is sold. ratio is the throughput
// with recycling by that without. `go test ./bucket -run - -bench Recycle -benchtime 1000000x` is the
// whole million.
func BenchmarkRecycle(b *testing.B) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		b.Run(string(durability), func(b *testing.B) { benchmarkRecycle(b, durability) })
	}
}

func benchmarkRecycle(b *testing.B, durability budget.Durability) {
	const buckets, instances, callers = 16, 4, 64
	db := openSQL(b, "mysql", testservers.SharedMariaDB(b).NewDatabase(b))
	w := &world{t: b, sql: db, durability: durability}
	var addrs []string
	for range instances {
		addrs = append(addrs, testservers.Redis(b).Addr())
	}
	w.connect = func() map[string]bucket.Instance {
		out := map[string]bucket.Instance{}
		for i, addr := range addrs {
			name := fmt.Sprintf("redis-%d", i)
			store, err := redisstore.New(redisstore.Config{Name: name, Addr: addr, Lanes: 1,
				InstallationID: db.InstallationID()})
			if err != nil {
				b.Fatal(err)
			}
			out[name] = store
		}
		return out
	}
	s := w.node(bucket.Settings{Deadline: 10 * time.Second})
	sell := func(name string, recycled bool) (perSecond float64, runs int) {
		ref := w.create(s, promo(name, int64(b.N), buckets))
		stop := func() int { return 0 }
		if recycled {
			stop = recycling(b, s, ref)
		}
		began := time.Now()
		var buying buyers
		buying.buy([]*bucket.Service{s}, ref, callers)
		took := time.Since(began)
		runs = stop()
		buying.judge(b, int64(b.N))
		w.settled(s, ref, int64(b.N))
		return float64(b.N) / took.Seconds(), runs
	}
	b.ResetTimer()
	without, _ := sell("without", false)
	with, runs := sell("with", true)
	b.ReportMetric(without, "without/s")
	b.ReportMetric(with, "with/s")
	b.ReportMetric(float64(runs), "recycles")
	b.ReportMetric(with/without, "ratio")
}
