package sqlstore

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// BenchmarkCommit commits entries of one or several epochs in one transaction, without limits (plain)
// and with two dimensions and two limits of one of them, which 100,000 users have (limits); with as many epochs as entries each
// is of another budget. Per entry it reports the CPU time of MariaDB and of this process, and per transaction the statements.
// BUDGETD_TEST_TMP chooses the disk.
func BenchmarkCommit(b *testing.B) {
	for _, engine := range engines() {
		for _, limits := range []bool{false, true} {
			for _, epochs := range []int{1, 8, 64, 512} {
				for _, entries := range []int{1, 16, 64, 512, 4096} {
					if entries < epochs || epochs > 8 && entries != epochs {
						continue
					}
					name := map[bool]string{false: "plain", true: "limits"}[limits]
					name = fmt.Sprintf("%s/%s/epochs=%d/entries=%d", engine.name, name, epochs, entries)
					b.Run(name, func(b *testing.B) {
						benchmarkCommit(b, engine.open(b), epochs, entries/epochs, limits)
					})
				}
			}
		}
	}
}

const benchUsers = 100_000

func benchmarkCommit(b *testing.B, db *DB, buckets, perBucket int, limits bool) {
	logs := make([]*testLog, 0, buckets)
	for i := 0; len(logs) < buckets; i++ {
		perBudget := buckets
		if perBucket == 1 {
			perBudget = 1
		}
		v := benchBudget(b, db, fmt.Sprint("b", i), perBudget, limits)
		for _, of := range v.Buckets {
			l := newLog(of.Ref())
			l.grant(of.Epoch.Outstanding, 1)
			logs = append(logs, l)
		}
	}
	n := 0
	var spent, own time.Duration
	questions, server := serverSpent(b, db)
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
				r := request(1, fmt.Sprintf("order-%016x", uint64(n)*0x9e3779b97f4a7c15)) // in no order
				if limits {
					r.Dimensions = ledger.Dimensions(map[string]string{
						"device": fmt.Sprintf("device-%d", n%1000), "user": fmt.Sprintf("user-%d", n*7919%benchUsers)})
				}
				l.add(ledger.Line(ledger.KindDeduct, 1, ledger.EncodeRequest(r)))
			}
			call[i] = l.log(from)
		}
		b.StartTimer()
		began, usage := time.Now(), ownCPU()
		r, err := db.Commit(context.Background(), call)
		spent += time.Since(began)
		own += ownCPU() - usage
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range r.Epochs {
			if e.Err != nil || len(e.Outcomes) != perBucket || e.Outcomes[0].Duplicate != nil {
				b.Fatal(e.Err, len(e.Outcomes))
			}
		}
	}
	if after, now := serverSpent(b, db); now > 0 {
		b.ReportMetric(float64((now-server).Microseconds())/float64(n), "mariadb-cpu-µs/entry")
		b.ReportMetric(float64(after-questions-1)/float64(b.N), "statements/tx")
	}
	b.ReportMetric(float64(own.Nanoseconds())/1000/float64(n), "own-cpu-µs/entry")
	b.ReportMetric(float64(n)/spent.Seconds(), "deductions/s")
}

// benchBudget makes a budget, with two limits per user when asked.
func benchBudget(b *testing.B, db *DB, name string, buckets int, limits bool) bucket.Budget {
	b.Helper()
	d := budget.Definition{Tenant: "default", Name: name, Unit: budget.Count, Durability: budget.Ledger,
		Type: budget.Promo, TotalQuantity: 1 << 50, BucketQuantity: buckets}
	if limits {
		of := budget.Limit{Dimension: "user", Max: 1 << 40, Measure: budget.MeasureCount, Enforce: true}
		daily, ever := of, of
		daily.Name, daily.Window = "daily", budget.LimitWindow{Kind: budget.WindowCalendar, Every: "day"}
		ever.Name, ever.Window = "ever", budget.LimitWindow{Kind: budget.WindowLifetime}
		d.Limits = &budget.Limits{List: []budget.Limit{daily, ever}}
	}
	return openDefined(b, db, d)
}

// ownCPU is the CPU time of this process so far.
func ownCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// serverSpent is how many statements the shared MariaDB was asked so far and its CPU time, 0 for a file.
func serverSpent(b *testing.B, db *DB) (statements int64, cpu time.Duration) {
	b.Helper()
	if db.dialect.name != mysqlName {
		return 0, 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", testservers.SharedMariaDB(b).Pid()))
	if err != nil {
		b.Fatal(err)
	}
	const userTime, ticks = 11, 10 * time.Millisecond // fields behind the name; USER_HZ is 100
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	for _, field := range fields[userTime : userTime+2] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		cpu += time.Duration(n) * ticks
	}
	var row struct {
		Name  string `db:"Variable_name"`
		Value int64  `db:"Value"`
	}
	err = db.read(context.Background(), "questions", func(r *reader) error {
		_, err := r.get(&row, "SHOW GLOBAL STATUS LIKE 'Questions'")
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return row.Value, cpu
}
