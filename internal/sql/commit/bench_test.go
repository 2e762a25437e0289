package commit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// BenchmarkCommit writes flights one after the other. It reports rows per second, and the CPU time of
// this process and of the server per row.
func BenchmarkCommit(b *testing.B) {
	for _, engineName := range []string{"mariadb", "sqlite"} {
		for _, limits := range []int{0, 2} {
			for _, buckets := range []int{1, 100} {
				for _, size := range []int{1, 16, 64, 500} {
					name := fmt.Sprintf("%s/limits=%d/buckets=%d/rows=%d", engineName, limits, buckets, size)
					b.Run(name, func(b *testing.B) { benchCommit(b, engineName, limits, buckets, size) })
				}
			}
		}
	}
}

func benchCommit(b *testing.B, engineName string, limits, buckets, size int) {
	config, server := benchConfig(b, engineName)
	db, err := engine.Open(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	var list []budget.Limit
	if limits > 0 {
		list = []budget.Limit{perUser("day", 1_000_000, budget.MeasureAmount),
			perUser("calls", 1_000_000, budget.MeasureCount)}
	}
	of := benchBudget(b, db, 1<<40, buckets)
	of.Limits = limit.Begin(list, db.Now())
	set, err := limit.Compile(of.Limits)
	if err != nil {
		b.Fatal(err)
	}
	decider := commit.New(db)
	var next atomic.Int64
	flights := make([][]bucket.Operation, b.N)
	for i := range flights {
		flights[i] = benchFlight(of, set, &next, size)
	}
	ours, theirs := cpu(b, os.Getpid()), cpu(b, server)
	b.ResetTimer()
	for i := range flights {
		if _, err := decider.Commit(context.Background(), flights[i]); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	rows := float64(b.N * size)
	b.ReportMetric(rows/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric((cpu(b, os.Getpid())-ours).Seconds()*1e6/rows, "own-us/row")
	if server != 0 {
		b.ReportMetric((cpu(b, server)-theirs).Seconds()*1e6/rows, "sql-us/row")
	}
	packets, locking := decider.Forms()
	b.ReportMetric(float64(locking)/float64(locking+packets), "locking")
}

func benchConfig(b *testing.B, engineName string) (config engine.Config, server int) {
	if engineName == "sqlite" {
		return engine.Config{Driver: "sqlite", DSN: filepath.Join(b.TempDir(), "budgetd.db")}, 0
	}
	s := testservers.SharedMariaDB(b)
	return engine.Config{Driver: "mysql", DSN: s.NewDatabase(b)}, s.Pid()
}

// benchFlight makes operations with ids as clients make them, in the order of time.
func benchFlight(of *bucket.Budget, set *limit.Set, next *atomic.Int64, size int) []bucket.Operation {
	ops := make([]bucket.Operation, size)
	for i := range ops {
		n := next.Add(1)
		name := "u" + strconv.FormatInt(n*7919%100_003, 10)
		r := ledger.Request{ID: fmt.Sprintf("order-%010d", n), Amount: 1, Nonce: "12345678"}
		if len(set.List) > 0 {
			r.Dimensions = `{"user":"` + name + `"}`
		}
		r.Fingerprint = ledger.RequestFingerprint(1, "", r)
		ops[i] = bucket.Operation{Budget: of, Bucket: of.Buckets[n*31%int64(len(of.Buckets))].ID, Request: r}
		ops[i].Charges, _ = set.Charges(1, map[string]string{"user": name}, nil)
	}
	return ops
}

// cpu is the CPU time of a process: its user and system time in ticks of 10 ms.
func cpu(b *testing.B, pid int) time.Duration {
	if pid == 0 {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// benchBudget makes budget 1 with buckets from 2 on, each with so many units.
func benchBudget(b *testing.B, db *engine.DB, each int64, buckets int) *bucket.Budget {
	b.Helper()
	err := db.Write(b.Context(), "make", func(t *engine.Tx) error {
		_, err := t.Exec(`INSERT INTO budget_management_bucket (id, tenant, name, gl_code, unit, durability,
			total_quantity, undistributed_quantity, out_quantity, sharding_quantity, bucket_quantity,
			adjust_cnt, type, status, start_ms, end_ms, created_as, version, list_version, created_at,
			updated_at) VALUES (1, ?, ?, ?, 'count', 'ledger', ?, 0, ?, 0, ?, 0, 'promo', 'effective', 0, 0, ?,
			1, 1, 0, 0)`, []byte("default"), []byte("b"), []byte{}, each*int64(buckets), each*int64(buckets),
			buckets, []byte("{}"))
		for i := 0; i < buckets && err == nil; i++ {
			if _, err = t.Exec(`INSERT INTO sharding_budget_management_bucket (id, budget_id, ordinal,
				sharding_bucket_key, instance, partition_number, out_quantity, sharding_quantity, out_cnt, status,
				offline_by, epoch, created_at, updated_at)
				VALUES (?, 1, ?, ?, ?, 0, ?, 0, 0, 'online', '', 1, 0, 0)`, i+2, i,
				[]byte(strconv.Itoa(i)), []byte{}, each); err != nil {
				return err
			}
			_, err = t.Exec(`INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, period,
				period_end_ms, definition_version, outstanding_quantity, held_quantity, used_quantity,
				returning_quantity, closed_quantity, swept_quantity, next_grant, next_entry, halted,
				created_at) VALUES (?, 1, 1, 'open', 1, 0, 1, ?, 0, 0, 0, 0, 0, 2, 1, ?, 0)`, i+2, each,
				[]byte{})
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	of := &bucket.Budget{Definition: budget.Definition{ID: 1, Version: 1}}
	for i := range buckets {
		of.Buckets = append(of.Buckets, bucket.Bucket{ID: int64(i + 2), Epoch: ledger.Epoch{Number: 1}})
	}
	return of
}
