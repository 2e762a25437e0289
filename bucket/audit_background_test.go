package bucket_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/sqlstore"
	"github.com/budgetd/budgetd/internal/testservers"
)

// tampered is a world whose rows and keys a test changes by hand.
type tampered struct {
	*world
	db      *sqlstore.DB
	raw     *sql.DB
	redis   []*testservers.RedisServer
	metrics []*metrics.Metrics // of each node
}

// newTampered is MariaDB with three Redis.
func newTampered(t *testing.T) *tampered {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	w := &tampered{world: &world{t: t}, db: openSQL(t, "mysql", dsn)}
	raw, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	for range 3 {
		w.redis = append(w.redis, testservers.Redis(t))
	}
	w.raw, w.sql = raw, w.db
	w.connect = func() map[string]bucket.Instance {
		out := map[string]bucket.Instance{}
		for i, server := range w.redis {
			name := fmt.Sprintf("redis-%d", i)
			store, err := redisstore.New(redisstore.Config{Name: name, Addr: server.Addr(), Lanes: 1,
				InstallationID: w.db.InstallationID()})
			if err != nil {
				t.Fatal(err)
			}
			out[name] = store
		}
		return out
	}
	return w
}

// node starts a node with metrics of its own: two that share a gauge overwrite each other's.
func (w *tampered) node(set bucket.Settings) *bucket.Service {
	m := metrics.New("test")
	w.metrics, w.observer = append(w.metrics, m), m
	return w.world.node(set)
}

// metric sums a gauge or counter without labels over the nodes.
func (w *tampered) metric(name string) (sum float64) {
	for _, m := range w.metrics {
		sum += metric(w.t, m, name)
	}
	return sum
}

// exec changes rows by hand.
func (w *tampered) exec(query string, args ...any) {
	w.t.Helper()
	if _, err := w.raw.Exec(query, args...); err != nil {
		w.t.Fatalf("%s: %v", query, err)
	}
}

// key is a key of a bucket in its Redis.
func (w *tampered) command(bk bucket.Bucket, words ...string) {
	w.t.Helper()
	for i, server := range w.redis {
		if bk.Lane.Instance != fmt.Sprintf("redis-%d", i) {
			continue
		}
		prefix := fmt.Sprintf("budgetd:%s:{%s}:%d:", w.db.InstallationID(), bk.Lane, bk.ID)
		for j, word := range words {
			switch word {
			case "BALANCE":
				words[j] = fmt.Sprintf("%s%d:balance:1", prefix, bk.Epoch.Number)
			case "LOG":
				words[j] = prefix + "log:1"
			}
		}
		if out, err := server.Command(words...); err != nil {
			w.t.Fatalf("%v: %s, %v", words, out, err)
		}
		return
	}
	w.t.Fatalf("no server for %+v", bk.Lane)
}

// fenced lists the buckets of a budget that are or were fenced.
func (w *tampered) fenced(budgetID int64) (ids []int64) {
	w.t.Helper()
	rows, err := w.raw.Query(`SELECT DISTINCT bucket_id FROM bucket_epoch
		WHERE budget_id = ? AND LENGTH(fenced) > 0`, budgetID)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

// metric is a gauge or counter without labels.
func metric(t testing.TB, m *metrics.Metrics, name string) float64 {
	t.Helper()
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			v := f.GetMetric()[0]
			return v.GetGauge().GetValue() + v.GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// traffic is callers that deduct and roll back until stop.
type traffic struct {
	all      sync.WaitGroup
	stopped  chan struct{}
	accepted atomic.Int64
	// lost says whether a deduction is one that its store took with it when it lost its memory; nil: that
	// does not happen.
	lost func(bucket.DeductAnswer) error
}

// run begins traffic on a budget through all nodes.
func run(t *testing.T, nodes []*bucket.Service, ref bucket.BudgetRef, callers int) *traffic {
	return runLosing(t, nodes, ref, callers, nil)
}

// runLosing is run where stores lose their memory.
func runLosing(t *testing.T, nodes []*bucket.Service, ref bucket.BudgetRef, callers int,
	lost func(bucket.DeductAnswer) error) *traffic {
	f := &traffic{stopped: make(chan struct{}), lost: lost}
	for caller := range callers {
		f.all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(caller)))
			for i := 0; ; i++ {
				select {
				case <-f.stopped:
					return
				default:
				}
				f.one(t, nodes[(caller+i)%len(nodes)], ref, fmt.Sprintf("t%d-%d", caller, i), rnd)
			}
		})
	}
	return f
}

func (f *traffic) one(t *testing.T, s *bucket.Service, ref bucket.BudgetRef, id string, rnd *rand.Rand) {
	a, err := deduct(s, ref, id, 1+rnd.Int64N(5))
	if err == nil {
		f.accepted.Add(1)
		if rnd.IntN(10) == 0 {
			_, err = s.Rollback(context.Background(), bucket.RollbackRequest{Budget: ref, RequestID: id})
			if f.lost != nil && budget.Is(err, budget.DeductionNotFound) {
				if err = f.lost(a); err != nil {
					t.Error(err)
				} else {
					t.Logf("%s went with its store", id)
				}
			}
		}
	}
	switch code := budget.CodeOf(err); {
	case err == nil, code.Kind() == budget.NotDone, code.Kind() == budget.MayBeDone:
	case code == budget.BudgetExhausted, code == budget.RequestVoid, code == budget.AlreadyRolledBack:
	default:
		t.Errorf("%s: %v", id, err)
	}
}

func (f *traffic) stop() {
	close(f.stopped)
	f.all.Wait()
}

// within waits for a condition; it returns how long that took.
func within(t *testing.T, limit time.Duration, what string, check func() bool) time.Duration {
	t.Helper()
	for began := time.Now(); ; {
		if check() {
			return time.Since(began)
		}
		if time.Since(began) > limit {
			t.Fatalf("%s: not within %s", what, limit)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// plant is a discrepancy of one unit, made by hand in the rows or keys of one bucket.
type plant struct {
	name string
	make func(w *tampered, b bucket.Budget, victim bucket.Bucket)
}

// rowPlant changes one row of a bucket's rows in a table.
func rowPlant(name, query string) plant {
	return plant{name, func(w *tampered, _ bucket.Budget, victim bucket.Bucket) {
		w.exec(query, victim.ID, victim.Epoch.Number)
	}}
}

func columnPlant(column, by string) plant {
	return rowPlant(column+by, fmt.Sprintf(
		`UPDATE bucket_epoch SET %s = %s%s WHERE bucket_id = ? AND epoch = ?`, column, column, by))
}

func keyPlant(name string, commands ...[]string) plant {
	return plant{name, func(w *tampered, _ bucket.Budget, victim bucket.Bucket) {
		for _, words := range commands {
			w.command(victim, slices.Clone(words)...)
		}
	}}
}

var plants = []plant{
	keyPlant("balance in the store", []string{"HINCRBY", "BALANCE", "balance", "1"}),
	keyPlant("granted in the store", []string{"HINCRBY", "BALANCE", "granted", "1"}),
	keyPlant("balance and sum in the store", []string{"EVAL",
		"redis.call('HINCRBY', KEYS[1], 'balance', -1) return redis.call('HINCRBY', KEYS[1], 'deducted', 1)",
		"1", "BALANCE"}),
	keyPlant("an entry of the log", []string{"XADD", "LOG", "1-9007199254740991", "e", "forged"}),
	columnPlant("outstanding_quantity", " + 1"),
	columnPlant("outstanding_quantity", " - 1"),
	columnPlant("used_quantity", " + 1"),
	columnPlant("returning_quantity", " + 1"),
	columnPlant("closed_quantity", " + 1"),
	columnPlant("swept_quantity", " + 1"),
	rowPlant("the amount of a deduction", `UPDATE deduction SET amount = amount + 1
		WHERE bucket_id = ? AND epoch = ? ORDER BY seq LIMIT 1`),
	rowPlant("the amount of the latest deduction", `UPDATE deduction SET amount = amount + 1
		WHERE bucket_id = ? AND epoch = ? ORDER BY seq DESC LIMIT 1`),
	rowPlant("a deduction deleted", `DELETE FROM deduction
		WHERE bucket_id = ? AND epoch = ? ORDER BY seq DESC LIMIT 1`),
	rowPlant("what a deduction noted as rolled back", `UPDATE deduction SET rolled_back = rolled_back - 1
		WHERE bucket_id = ? AND epoch = ? AND rolled_back > 0 LIMIT 1`),
	rowPlant("the amount of a rollback", `UPDATE rollback_log SET amount = amount + 1
		WHERE bucket_id = ? AND epoch = ? LIMIT 1`),
	rowPlant("a grant", `UPDATE grant_log SET amount = amount + 1
		WHERE bucket_id = ? AND epoch = ? AND number = 1`),
}

// TestPlantedUnitFencesItsBucket: one unit, planted by hand under live traffic through two nodes, fences
// its bucket, within 2 s where the machine is not busy with other things, and no other; it is in the
// metrics; the others serve on.
func TestPlantedUnitFencesItsBucket(t *testing.T) {
	w := newTampered(t)
	set := bucket.Settings{Deadline: time.Second}
	nodes := []*bucket.Service{w.node(set), w.node(set)}
	neighbour := w.create(nodes[0], promo("neighbour", 1_000_000, 6))
	other := run(t, nodes, neighbour, 2)
	defer other.stop()
	for i, p := range plants {
		t.Run(p.name, func(t *testing.T) { w.plant(t, nodes, fmt.Sprintf("b%d", i), p) })
	}
	if got := w.fenced(neighbour.ID); len(got) != 0 {
		t.Errorf("buckets %v of a budget that nobody touched were fenced", got)
	}
}

func (w *tampered) plant(t *testing.T, nodes []*bucket.Service, name string, p plant) {
	ctx := context.Background()
	ref := w.create(nodes[0], promo(name, 1_000_000, 6))
	load := run(t, nodes, ref, 4)
	defer load.stop()
	var b bucket.Budget
	within(t, time.Minute, "rows in every bucket", func() bool {
		var rows, back int
		if err := w.raw.QueryRow(`SELECT COUNT(DISTINCT bucket_id) FROM deduction WHERE budget_id = ?`,
			ref.ID).Scan(&rows); err != nil {
			t.Fatal(err)
		}
		if err := w.raw.QueryRow(`SELECT COUNT(DISTINCT bucket_id) FROM rollback_log WHERE budget_id = ?`,
			ref.ID).Scan(&back); err != nil {
			t.Fatal(err)
		}
		return rows == 6 && back == 6
	})
	b, err := w.sql.Budget(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	shown := []string{"budgetd_audit_discrepancies_total", "budgetd_audit_discrepancies",
		"budgetd_conservation_gap_units"}
	before := map[string]float64{}
	for _, name := range shown {
		before[name] = w.metric(name)
	}
	victim := b.Buckets[3]
	p.make(w, b, victim)
	took := within(t, time.Minute, "the bucket is fenced", func() bool { return len(w.fenced(ref.ID)) > 0 })
	t.Logf("fenced after %s", took)
	if got := w.fenced(ref.ID); !slices.Equal(got, []int64{victim.ID}) {
		t.Errorf("buckets %v are fenced, want %d alone", got, victim.ID)
	}
	within(t, time.Minute, "the metrics show it", func() bool { // a drain fences before it shows
		return !slices.ContainsFunc(shown, func(name string) bool { return w.metric(name) <= before[name] })
	})
	sold := load.accepted.Load()
	within(t, time.Minute, "the others serve on", func() bool { return load.accepted.Load() > sold+50 })
	if got := w.fenced(ref.ID); !slices.Equal(got, []int64{victim.ID}) {
		t.Errorf("buckets %v are fenced after more traffic, want %d alone", got, victim.ID)
	}
}
