package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// series measures how the cost of a deduction grows with one quantity. The cost is the CPU time of
// budgetd, Redis and MariaDB together until the ledger is complete. The load is batches of 100 over
// 32 connections, without limits.
type series struct {
	name, what string
	sizes      []int
	// may is the share by which a size may cost more than the first, by durability. A series is
	// measured in these modes.
	may                map[string]float64
	instances, budgets func(size int) int
	// records means that size is the number of earlier deductions of a bucket, and so of its
	// records and ledger rows.
	records bool
}

func one(int) int    { return 1 }
func same(n int) int { return n }
func within(store, ledger float64) map[string]float64 {
	return map[string]float64{"store": store, "ledger": ledger}
}

var modes = []string{"store", "ledger"}

var flat = []series{
	{"instances", "number of Redis, a bucket on each", []int{1, 16},
		map[string]float64{"store": 0.25}, same, one, false},
	{"records", "request records and ledger rows", []int{1_000, 10_000_000}, within(0.15, 0.15),
		one, one, true},
	{"budgets", "number of budgets", []int{1, 10_000}, within(1.5, 2), one, same,
		false},
}

// spot is the measurement of one size of a series.
type spot struct {
	series, durability string
	size               int
	cost               []cost
	total              float64 // µs per deduction
}

// flatPart is the number of measured deductions.
const flatPart = 200_000

func (w *world) measureSeries(s series, durability string) (spots []spot, err error) {
	var m *meter
	defer func() {
		if m != nil {
			err = errors.Join(err, m.stage.close())
		}
	}()
	for _, size := range s.sizes {
		if w.quick && size > 1_000 {
			break
		}
		if m == nil || !s.records {
			if m != nil {
				if err := m.stage.close(); err != nil {
					return spots, err
				}
			}
			if m, err = w.newMeter(s, durability, size); err != nil {
				return spots, err
			}
		}
		got, err := m.at(s, size)
		if err != nil {
			return spots, err
		}
		at := spot{series: s.name, durability: durability, size: size, cost: got}
		for _, c := range got {
			at.total += c.us
		}
		fmt.Fprintf(w.log, "%s: %s mode, %s %d: %.1f µs %v\n", time.Now().Format(time.TimeOnly),
			durability, s.name, size,
			at.total, got)
		spots = append(spots, at)
	}
	return spots, nil
}

// meter drives a budgetd and measures the CPU time of its processes.
type meter struct {
	stage      *stage
	budgetd    budgetd
	client     *client.Client
	durability string
	buckets    int
	made       int
	sent       atomic.Int64
}

func (w *world) newMeter(s series, durability string, size int) (*meter, error) {
	w.runs++
	st := &stage{world: w, dir: filepath.Join(w.dir, fmt.Sprint(w.runs))}
	if err := os.Mkdir(st.dir, 0o700); err != nil {
		return nil, err
	}
	m := &meter{stage: st, durability: durability, buckets: s.instances(size)}
	var err error
	if m.budgetd, err = st.budgetd(ours{durability: durability, instances: s.instances(size),
		remember: true}); err != nil {
		return nil, errors.Join(err, st.close())
	}
	// With millions of rows a store that is ahead of the ledger is unavailable for a while.
	// stage.each bounds the retries.
	if m.client, err = client.New("http://"+m.budgetd.address,
		client.WithRetry(client.Retry{Attempts: 1000})); err != nil {
		return nil, errors.Join(err, st.close())
	}
	// Warm up, so that one-time costs such as connections, caches and the heap are not measured.
	warm, err := m.create(s.budgets(size))
	if err == nil {
		err = m.deduct(warm, m.part())
	}
	if err != nil {
		return nil, errors.Join(err, st.close())
	}
	return m, nil
}

// part returns the number of measured deductions.
func (m *meter) part() int { return m.stage.scaled(flatPart) }

// at measures one size.
func (m *meter) at(s series, size int) ([]cost, error) {
	if !s.records {
		names, err := m.create(s.budgets(size))
		if err == nil { // the first deduction from each budget is not measured
			err = m.send((len(names)+batchSize-1)/batchSize, func(batch, i int) string {
				return names[(batch*batchSize+i)%len(names)]
			})
		}
		if err != nil {
			return nil, err
		}
		return m.measure(func() error { return m.deduct(names, m.part()) })
	}
	// Measure around the size. If twice the size is less than a part, measure from 0 to twice the
	// size in several budgets, one after the other.
	each := min(2*size, m.part())
	names, err := m.create(max(1, m.part()/each))
	if err != nil {
		return nil, err
	}
	if before := size - each/2; before > 0 {
		if err := m.deduct(names, before); err != nil {
			return nil, err
		}
	}
	return m.measure(func() error {
		for _, name := range names {
			if err := m.deduct([]string{name}, each); err != nil {
				return err
			}
		}
		return nil
	})
}

// measure returns the CPU time of each kind of process per deduction of do, until the ledger is
// complete.
func (m *meter) measure(do func() error) ([]cost, error) {
	if err := m.settle(); err != nil {
		return nil, err
	}
	return costing(m.budgetd.watched, func() (int64, error) {
		sent := m.sent.Load()
		err := errors.Join(do(), m.settle())
		return m.sent.Load() - sent, err
	})
}

// create creates n budgets and returns their names.
func (m *meter) create(n int) ([]string, error) {
	names := make([]string, n)
	for i := range names {
		m.made++
		names[i] = fmt.Sprintf("flat-%d", m.made)
	}
	return names, m.stage.create(m.client, n, func(i int) client.CreateRequest {
		return client.CreateRequest{Name: names[i], TotalQuantity: endless, BucketQuantity: m.buckets,
			Durability: budget.Durability(m.durability)}
	})
}

// deduct makes n deductions, in batches of budgets at random.
func (m *meter) deduct(names []string, n int) error {
	return m.send(max(1, n/batchSize), func(int, int) string {
		return names[rand.IntN(len(names))] //nolint:gosec // a load, no secret
	})
}

// batchSize is the number of deductions in one call.
const batchSize = 100

// send makes calls. of returns the budget of deduction i of a call.
func (m *meter) send(calls int, of func(call, i int) string) error {
	return m.stage.each(calls, func(ctx context.Context, call int) error {
		items := make([]client.BatchItem, batchSize)
		for i := range items {
			items[i] = client.BatchItem{Budget: of(call, i),
				DeductRequest: client.DeductRequest{RequestID: client.NewRequestID(), Amount: 1}}
		}
		answers, err := m.client.DeductBatch(ctx, items)
		for _, a := range answers {
			err = errors.Join(err, a.Err)
		}
		m.sent.Add(int64(len(answers)))
		return err
	})
}

const settleFor = 5 * time.Minute

// settle waits until the ledger has every deduction that was answered.
func (m *meter) settle() error {
	db, err := sql.Open("mysql", m.budgetd.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	for used := int64(0); ; {
		row := db.QueryRowContext(ctx, "SELECT COALESCE(SUM(used_quantity), 0) FROM bucket_epoch")
		if err := row.Scan(&used); err != nil || used == m.sent.Load() {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the ledger has %d of %d deductions after %s", used, m.sent.Load(), settleFor)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// flatTable returns a line of the table for each series and durability.
func flatTable(spots []spot) string {
	var b strings.Builder
	for _, s := range flat {
		for _, durability := range modes {
			var sizes []string
			first, most := 0.0, 0.0
			for _, at := range spots {
				if at.series != s.name || at.durability != durability {
					continue
				}
				if len(sizes) == 0 {
					first = at.total
				}
				most = max(most, at.total)
				sizes = append(sizes, fmt.Sprintf("%s: %.1f", thousands(float64(at.size)), at.total))
			}
			if len(sizes) == 0 {
				continue
			}
			met := "yes"
			if most > first*(1+s.may[durability]) {
				met = "**no**"
			}
			if len(sizes) < len(s.sizes) {
				met += fmt.Sprintf(", %d of %d sizes", len(sizes), len(s.sizes))
			}
			fmt.Fprintf(&b, "| %s, %s mode, CPU µs per deduction (%s) ÷ the first | ≤ %g | %.2f | %s |\n",
				s.what, durability, strings.Join(sizes, ", "), 1+s.may[durability], most/first, met)
		}
	}
	return b.String()
}
