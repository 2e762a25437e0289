package sqlstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/testservers"
)

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
