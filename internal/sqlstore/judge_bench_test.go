package sqlstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/ledger"
)

// BenchmarkJudge looks at a budget that is sold out and at ids of which one in a hundred is recorded, in one statement.
// Per look it reports the CPU time of MariaDB and of this process.
func BenchmarkJudge(b *testing.B) {
	for _, engine := range engines() {
		for _, buckets := range []int{1, 16, 256} {
			for _, ids := range []int{0, 1, 16, 32, 64} {
				b.Run(fmt.Sprintf("%s/buckets=%d/ids=%d", engine.name, buckets, ids), func(b *testing.B) {
					benchmarkJudge(b, engine.open(b), buckets, ids)
				})
			}
		}
	}
}

func benchmarkJudge(b *testing.B, db *DB, buckets, ids int) {
	const recorded = 100
	v := openBudget(b, db, "b", recorded*int64(buckets), buckets)
	for n := range v.Buckets {
		l := newLog(v.Buckets[n].Ref())
		l.grant(v.Buckets[n].Epoch.Outstanding, 1)
		for i := range v.Buckets[n].Epoch.Outstanding {
			l.deduct(1, fmt.Sprintf("sold-%d-%d", n, i))
		}
		l.drains(b, db)
	}
	n, list := 0, make([]string, ids)
	_, server := serverSpent(b, db)
	own := ownCPU()
	for b.Loop() {
		for i := range list {
			n++
			if list[i] = fmt.Sprintf("0192f0c1-%08x-%016x", n, uint64(n)*0x9e3779b97f4a7c15); n%100 == 0 {
				list[i] = fmt.Sprintf("sold-0-%d", n/100%recorded)
			}
		}
		j, err := db.Judge(context.Background(), v.ID, list)
		if err != nil || j.Cover.Sum() != 0 {
			b.Fatal(j.Cover, err)
		}
	}
	if _, now := serverSpent(b, db); now > 0 {
		b.ReportMetric(float64((now-server).Microseconds())/float64(b.N), "mariadb-cpu-µs/look")
	}
	b.ReportMetric(float64((ownCPU()-own).Nanoseconds())/1000/float64(b.N), "own-cpu-µs/look")
}

// drains commits a whole log.
func (l *testLog) drains(tb testing.TB, db *DB) {
	tb.Helper()
	report, err := db.Commit(context.Background(), []ledger.Log{l.log(0)})
	if err != nil || report.Epochs[0].Err != nil {
		tb.Fatal(report, err)
	}
}
