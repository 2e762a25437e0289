package sqlstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// BenchmarkCommit commits 128 entries of 8 buckets in one transaction. BUDGETD_TEST_TMP chooses the
// disk.
func BenchmarkCommit(b *testing.B) {
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) { benchmarkCommit(b, engine.open(b)) })
	}
}

type engine struct {
	name string
	open func(tb testing.TB) *DB
}

func engines() []engine {
	return []engine{
		{"sqlite", func(tb testing.TB) *DB {
			dir, err := os.MkdirTemp(os.Getenv("BUDGETD_TEST_TMP"), "sqlstore")
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = os.RemoveAll(dir) })
			return mustOpen(tb, Config{Driver: "sqlite", DSN: filepath.Join(dir, "budgetd.db")})
		}},
		{"mariadb", func(tb testing.TB) *DB {
			return mustOpen(tb, Config{Driver: "mysql", DSN: testservers.SharedMariaDB(tb).NewDatabase(tb)})
		}},
	}
}

func benchmarkCommit(b *testing.B, db *DB) {
	const buckets, perBucket = 8, 16
	v := openBudget(b, db, "b", 1<<50, buckets)
	logs := make([]*testLog, buckets)
	for i := range logs {
		logs[i] = newLog(v.Buckets[i].Ref())
		logs[i].grant(v.Buckets[i].Epoch.Outstanding, 1)
	}
	n := 0
	var spent time.Duration
	for b.Loop() {
		b.StopTimer()
		call := make([]ledger.Log, buckets)
		for i, l := range logs {
			from := int64(len(l.entries) - 1)
			if len(l.entries) == 2 {
				from = 0
			}
			for range perBucket {
				n++
				l.deduct(1, fmt.Sprintf("order-%016x", n*7919))
			}
			call[i] = l.log(from)
		}
		b.StartTimer()
		began := time.Now()
		r, err := db.Commit(context.Background(), call)
		spent += time.Since(began)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range r.Epochs {
			if e.Err != nil || len(e.Outcomes) != perBucket {
				b.Fatal(e.Err, len(e.Outcomes))
			}
		}
	}
	b.ReportMetric(float64(n)/spent.Seconds(), "deductions/s")
}

// BenchmarkDeductAndCommit deducts 128 times from 8 buckets that are rows, in one transaction.
func BenchmarkDeductAndCommit(b *testing.B) {
	for _, engine := range engines() {
		b.Run(engine.name, func(b *testing.B) { benchmarkDirect(b, engine.open(b)) })
	}
}

func benchmarkDirect(b *testing.B, db *DB) {
	const buckets, perCall = 8, 128
	s := newShop(b, db, 1<<50, buckets)
	n := 0
	for b.Loop() {
		ops := make([]bucket.Operation, perCall)
		for i := range ops {
			n++
			ops[i] = s.op(n%buckets, 1, fmt.Sprintf("order-%016x", n*7919), "nonce678")
		}
		_, outcomes, err := s.rows.DeductAndCommit(context.Background(), s.lane, ops)
		if err != nil || outcomes[perCall-1] == nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "deductions/s")
}
