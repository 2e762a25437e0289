package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/bench/load"
)

// ending sells small budgets one after the other from the first unit to the last, in single calls
// through one node or several. Most of the time buckets have little and requests ask for much. CPU
// time and calls per second are those of all calls, refused or not.
type ending struct {
	filterless bool
	nodes      int
}

// Each budget has endingUnits in endingBuckets, and endingCalls for up to endingMost units each:
// about twice as much is asked for as there is.
const (
	endingBudgets = 200
	endingBuckets = 16
	endingUnits   = 2_000
	endingMost    = 50
	endingCalls   = 160
)

func (e ending) measure(s *stage) (measurement, error) {
	b, err := s.budgetd(ours{durability: "ledger", filterless: e.filterless, fsync: "everysec"})
	if err != nil {
		return measurement{}, err
	}
	addresses, watched := []string{b.address}, b.watched
	for i := 1; i < e.nodes; i++ {
		dir, err := s.folder(fmt.Sprint("node-", i))
		if err != nil {
			return measurement{}, err
		}
		other := &stage{world: s.world, dir: dir}
		p, err := other.start("budgetd", []string{"BUDGETD_LISTEN=127.0.0.1:0"}, "--config",
			filepath.Join(s.dir, "budgetd.yaml"))
		if err != nil {
			return measurement{}, err
		}
		s.stop = append(s.stop, other.stop...)
		addresses = append(addresses, p.address)
		watched = append(watched, fmt.Sprintf("server=%d", p.pid))
	}
	return e.sell(s, addresses, watched, b.dsn)
}

func (e ending) sell(s *stage, addresses, watched []string, dsn string) (measurement, error) {
	var m measurement
	clients := make([]*client.Client, len(addresses))
	for i, address := range addresses {
		var err error
		if clients[i], err = client.New("http://" + address); err != nil {
			return m, err
		}
	}
	budgets := s.scaled(endingBudgets)
	name := func(i int) string { return fmt.Sprint("ending-", i) }
	if err := s.each(budgets, func(ctx context.Context, i int) error {
		_, err := clients[0].Create(ctx, client.CreateRequest{Name: name(i), Unit: "count", Type: "promo",
			TotalQuantity: endingUnits, BucketQuantity: endingBuckets, Durability: "ledger"})
		return err
	}); err != nil {
		return m, err
	}
	before, err := usedBy(watched)
	if err != nil {
		return m, err
	}
	calls := budgets * endingCalls
	took := make([]time.Duration, calls)
	var accepted, refused atomic.Int64
	began := time.Now()
	if err := s.each(calls, func(ctx context.Context, i int) error {
		at := time.Now()
		_, err := clients[i%len(clients)].Deduct(ctx, name(i/endingCalls), client.DeductRequest{
			RequestID: client.NewRequestID(), Amount: 1 + rand.Int64N(endingMost)}) //nolint:gosec // a load
		took[i] = time.Since(at)
		switch client.KindOf(err) {
		case 0:
			accepted.Add(1)
		case budget.Refused:
			refused.Add(1)
		default:
			return err
		}
		return nil
	}); err != nil {
		return m, err
	}
	m.perS = float64(calls) / time.Since(began).Seconds()
	after, err := usedBy(watched)
	if err != nil {
		return m, err
	}
	for _, kind := range []string{"server", "redis", "mariadb"} {
		if used := after[kind] - before[kind]; used > 0 {
			m.cpu = append(m.cpu, cost{kind, float64(used.Nanoseconds()) / 1e3 / float64(calls)})
		}
	}
	slices.Sort(took)
	m.p50, m.p99 = milliseconds(took[calls/2]), milliseconds(took[calls*99/100])
	left, err := unitsLeft(s.ctx, dsn)
	m.note = fmt.Sprintf("%d accepted, %d refused, %.1f units left per budget; ", accepted.Load(),
		refused.Load(), float64(left)/float64(budgets))
	return m, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// unitsLeft returns what all budgets have left.
func unitsLeft(ctx context.Context, dsn string) (left int64, err error) {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRowContext(ctx, `SELECT (SELECT SUM(total_quantity) FROM budget_management_bucket) -
		(SELECT SUM(used_quantity) FROM bucket_epoch)`).Scan(&left)
	return left, err
}

// usedBy returns the CPU time of each kind of process in a list of NAME=PID.
func usedBy(watched []string) (map[string]time.Duration, error) {
	out := map[string]time.Duration{}
	for _, p := range watched {
		kind, pid, _ := strings.Cut(p, "=")
		n, err := strconv.Atoi(pid)
		if err != nil {
			return nil, err
		}
		used, err := load.ReadUsage(n)
		if err != nil {
			return nil, err
		}
		out[kind] += used.CPU
	}
	return out, nil
}
