package bucket_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/testservers"
)

// BenchmarkRecoverLane is how long a lane with many buckets takes from the loss of its memory until all of
// them are open again with units. BUDGETD_TEST_BUCKETS says how many (default 1,000), in budgets of ten.
// docs/OPERATIONS.md has the figures.
func BenchmarkRecoverLane(b *testing.B) {
	buckets := 1000
	if n, err := strconv.Atoi(os.Getenv("BUDGETD_TEST_BUCKETS")); err == nil {
		buckets = n
	}
	for _, kind := range []string{"sqlite", "mariadb"} {
		b.Run(kind, func(b *testing.B) {
			dsn, driver := filepath.Join(b.TempDir(), "budgetd.db"), "sqlite"
			if kind == "mariadb" {
				dsn, driver = testservers.SharedMariaDB(b).NewDatabase(b), "mysql"
			}
			for range b.N {
				b.StopTimer()
				recoverLane(b, driver, dsn, buckets)
			}
		})
	}
}

func recoverLane(b *testing.B, driver, dsn string, buckets int) {
	const perBudget = 10
	server := memstore.NewServer("m", 1)
	sql := openSQL(b, driver, dsn)
	set := bucket.Settings{StepTimeout: time.Minute}
	s, err := bucket.New(bucket.Config{SQL: sql, Instances: map[string]bucket.Instance{"m": server.Connect()},
		Lanes: map[string]int{"m": 1}, Rand: func(p []byte) { clear(p) }, Settings: set, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	s.Start(ctx)
	defer func() { _ = s.Stop(ctx) }()
	began := time.Now().UnixNano()
	for i := range buckets / perBudget {
		d := promo(fmt.Sprintf("b%d-%d", began, i), 1000, perBudget)
		d.Unit = budget.Count
		if _, _, err := s.Create(ctx, d); err != nil {
			b.Fatal(err)
		}
	}
	before, err := sql.Live(ctx, bucket.Lane{Instance: "m"}, bucket.Ref{}, 1_000_000)
	if err != nil || len(before) < buckets {
		b.Fatalf("%d epochs, %v", len(before), err)
	}
	b.StartTimer()
	server.Lose()
	for {
		live, err := sql.Live(ctx, bucket.Lane{Instance: "m"}, bucket.Ref{}, 1_000_000)
		if err != nil {
			b.Fatal(err)
		}
		done := 0
		for _, e := range live {
			if e.Row.Activation > before[0].Row.Activation && e.Row.Status == "open" && e.Row.Outstanding > 0 {
				done++
			}
		}
		if done == len(before) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	b.StopTimer()
}
