// Hotrow is baseline (c): exactly-once deductions from one row of MariaDB in plain SQL, without
// HTTP. A transaction inserts the id and runs UPDATE … WHERE out_quantity + n <= total, statement
// by statement. It is rolled back if the UPDATE changes nothing. Hotrow prints a line of JSON.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/cmd/budgetctl/workload"
	"github.com/go-sql-driver/mysql"
)

// tables are recreated for every run, so that the rows of one run do not slow down the next.
var tables = []string{
	`DROP TABLE IF EXISTS hot`,
	`DROP TABLE IF EXISTS done`,
	`CREATE TABLE hot (id INT PRIMARY KEY, total BIGINT NOT NULL,
		out_quantity BIGINT NOT NULL) ENGINE=InnoDB`,
	`CREATE TABLE done (request_id VARBINARY(128) PRIMARY KEY, amount BIGINT NOT NULL) ENGINE=InnoDB`,
	`INSERT INTO hot VALUES (1, 1000000000000, 0)`,
}

const (
	insertID   = `INSERT INTO done (request_id, amount) VALUES (?, ?)`
	updateOnce = `UPDATE hot SET out_quantity = out_quantity + ?
		WHERE id = 1 AND out_quantity + ? <= total`
)

// worker is one connection.
type worker struct {
	conn    *sql.Conn
	prepare map[string]*sql.Stmt
}

func newWorker(ctx context.Context, db *sql.DB) (*worker, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := conn.ExecContext(ctx, "SET autocommit = 0"); err != nil {
		return nil, err
	}
	w := &worker{conn: conn, prepare: map[string]*sql.Stmt{}}
	for _, text := range []string{insertID, updateOnce} {
		if w.prepare[text], err = conn.PrepareContext(ctx, text); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// exec runs a prepared statement and returns the number of rows that it changed.
func (w *worker) exec(ctx context.Context, text string, args ...any) (int64, error) {
	done, err := w.prepare[text].ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

// once makes one deduction in one transaction. Autocommit is off, so the first statement begins the
// transaction, which saves a round trip.
func (w *worker) once(ctx context.Context, id []byte) error {
	_, err := w.exec(ctx, insertID, id, 1)
	if err == nil {
		var rows int64
		if rows, err = w.exec(ctx, updateOnce, 1, 1); err == nil && rows == 1 {
			_, err := w.conn.ExecContext(ctx, "COMMIT")
			return err
		}
	}
	if err == nil {
		err = errors.New("the row does not cover it")
	}
	_, undone := w.conn.ExecContext(ctx, "ROLLBACK")
	return errors.Join(err, undone)
}

// result is what is printed.
type result struct {
	Connections int     `json:"connections"`
	PerS        float64 `json:"per_s"`
	P50         float64 `json:"p50_ms"`
	P99         float64 `json:"p99_ms"`
	// CPU microseconds per deduction.
	ClientUS float64 `json:"client_us"`
	ServerUS float64 `json:"server_us"`
}

func main() {
	dsn := flag.String("dsn", "", "database, in the form of go-sql-driver/mysql")
	connections := flag.Int("connections", 16, "connections")
	duration := flag.Duration("duration", 5*time.Second, "how long to measure")
	pid := flag.Int("pid", 0, "process id of the server")
	flag.Parse()
	r, err := measure(*dsn, *connections, *duration, *pid)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		log.Fatal(err)
	}
}

func measure(dsn string, connections int, duration time.Duration, pid int) (result, error) {
	ctx := context.Background()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return result{}, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return result{}, err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	for _, text := range tables {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return result{}, err
		}
	}
	workers := make([]*worker, connections)
	for i := range workers {
		if workers[i], err = newWorker(ctx, db); err != nil {
			return result{}, err
		}
	}
	m := &measuring{histogram: workload.NewHistogram()}
	if err := m.run(ctx, workers, duration/5); err != nil { // warm up
		return result{}, err
	}
	m.histogram = workload.NewHistogram()
	before, err := usages(pid)
	if err != nil {
		return result{}, err
	}
	begin := time.Now()
	if err := m.run(ctx, workers, duration); err != nil {
		return result{}, err
	}
	took := time.Since(begin)
	after, err := usages(pid)
	if err != nil {
		return result{}, err
	}
	n := float64(m.histogram.Count())
	return result{Connections: connections, PerS: n / took.Seconds(),
		P50:      float64(m.histogram.Quantile(0.5).Microseconds()) / 1000,
		P99:      float64(m.histogram.Quantile(0.99).Microseconds()) / 1000,
		ClientUS: float64((after[0] - before[0]).Microseconds()) / n,
		ServerUS: float64((after[1] - before[1]).Microseconds()) / n}, nil
}

// usages returns the CPU time of this process and of the server.
func usages(pid int) (cpu [2]time.Duration, err error) {
	for i, pid := range []int{os.Getpid(), pid} {
		if pid == 0 {
			continue
		}
		u, err := workload.ReadUsage(pid)
		if err != nil {
			return cpu, err
		}
		cpu[i] = u.CPU
	}
	return cpu, nil
}

// measuring is a running load.
type measuring struct {
	mu        sync.Mutex
	histogram *workload.Histogram
	err       error
	number    atomic.Int64
}

// run has every worker deduct for a while.
func (m *measuring) run(ctx context.Context, workers []*worker, duration time.Duration) error {
	var all sync.WaitGroup
	end := time.Now().Add(duration)
	for _, w := range workers {
		all.Go(func() {
			for time.Now().Before(end) {
				begin := time.Now()
				id := fmt.Appendf(nil, "request-%d", m.number.Add(1))
				err := w.once(ctx, id)
				m.mu.Lock()
				m.histogram.Add(time.Since(begin))
				if m.err == nil {
					m.err = err
				}
				m.mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return m.err
}
