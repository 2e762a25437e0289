package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/placement"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// stores can be down, and move buckets without copying anything.
type stores struct {
	mu   sync.Mutex
	down map[string]bool
	db   *engine.DB
}

// Move assigns a bucket to another partition.
func (s *stores) Move(ctx context.Context, budgetID, bucketID int64, to bucket.Partition) error {
	return s.db.Write(ctx, "test", func(t *engine.Tx) error {
		return t.Hit(1, `UPDATE sharding_budget_management_bucket SET instance = ?, partition_number = ?
			WHERE id = ? AND budget_id = ?`, []byte(to.Instance), to.Index, bucketID, budgetID)
	})
}

// Tell does nothing: no store has to be told.
func (s *stores) Tell(context.Context, []int64) (map[bucket.Partition]error, error) {
	return nil, nil
}

func (s *stores) Lately(context.Context, *bucket.Budget) (map[int64]int64, int64,
	map[bucket.Partition]error) {
	return nil, 0, nil
}

func (s *stores) GiveUp(context.Context, []bucket.Partition) (bucket.GivenUp, error) {
	return bucket.GivenUp{}, errors.New("nothing is given up here")
}

func (s *stores) Ping(_ context.Context, partition bucket.Partition) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down[partition.Instance] {
		return errors.New("connection refused")
	}
	return nil
}

// cluster is a service over a database, with three instances.
type cluster struct {
	*testing.T
	ctx        context.Context
	mu         sync.Mutex
	now        time.Time
	db         *engine.DB
	defs       *manage.Ledger
	part       *transfer.Ledger
	stores     *stores
	places     *placement.Map
	partitions []bucket.Partition
}

func (w *cluster) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *cluster) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func newCluster(t *testing.T) *cluster {
	w := &cluster{T: t, ctx: t.Context(), now: time.Now().Truncate(time.Second),
		stores: &stores{down: map[string]bool{}}}
	var err error
	w.db, err = engine.Open(w.ctx, engine.Config{Driver: "sqlite", Clock: w.clock,
		DSN: filepath.Join(t.TempDir(), "budgetd.db")})
	w.ok(err)
	t.Cleanup(func() { _ = w.db.Close() })
	w.defs, w.part, w.stores.db = manage.NewLedger(w.db), transfer.NewLedger(w.db), w.db
	for i := range 3 {
		w.partitions = append(w.partitions, bucket.Partition{Instance: fmt.Sprint("store-", i)})
	}
	w.places, err = placement.New(w.partitions, 100)
	w.ok(err)
	return w
}

func (w *cluster) node() *transfer.Service {
	w.Helper()
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: w.defs})
	w.ok(err)
	return transfer.New(transfer.Config{Budgets: budgets, Pages: w.defs, Stores: w.stores,
		Health: w.stores, Partitions: w.partitions, Places: w.places, Now: w.db.Now,
		Ledger: w.part})
}

func (w *cluster) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// create creates a budget in ledger mode.
func (w *cluster) create(d budget.Definition) bucket.BudgetRef {
	w.Helper()
	made, err := w.defs.Create(w.ctx, d, make([]bucket.Partition, d.BucketQuantity))
	w.ok(err)
	return bucket.BudgetRef{ID: made.Budget.ID}
}

// stored creates a budget in store mode whose buckets are placed on the first of the instances.
func (w *cluster) stored(d budget.Definition, instances int) bucket.BudgetRef {
	w.Helper()
	d.Durability = budget.Store
	w.ok(w.part.SetDraining(w.ctx, w.partitions, true)) // makes the partitions' rows
	w.ok(w.part.SetDraining(w.ctx, w.partitions, false))
	var keys []string
	for i := range d.BucketQuantity {
		keys = append(keys, placement.Key(d.Tenant, fmt.Sprintf("%s:bucket-%d", d.Name, i)))
	}
	partitions, ok := w.places.Partitions(keys, func(l bucket.Partition) bool {
		return l.Instance < fmt.Sprint("store-", instances)
	})
	if !ok {
		w.Fatal("no partition")
	}
	made, err := w.defs.Create(w.ctx, d, partitions)
	w.ok(err)
	return bucket.BudgetRef{ID: made.Budget.ID}
}

func (w *cluster) read(ref bucket.BudgetRef) bucket.Budget {
	w.Helper()
	b, err := w.defs.Budget(w.ctx, ref)
	w.ok(err)
	return b
}

// use deducts units from a bucket, as a flight does.
func (w *cluster) use(bucketID, units int64) {
	w.Helper()
	w.ok(w.db.Write(w.ctx, "test", func(t *engine.Tx) error {
		var entry int64
		if _, err := t.Get(&entry, `SELECT MAX(next_entry) FROM bucket_epoch WHERE bucket_id = ?`,
			bucketID); err != nil {
			return err
		}
		err := t.Hit(1, `INSERT INTO feed (bucket_id, first_entry, entries, units, body, created_at)
			VALUES (?, ?, 1, ?, ?, ?)`, bucketID, entry, units, []byte{}, engine.ToMS(t.Now))
		if err != nil {
			return err
		}
		return t.Hit(1, `UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - ?,
			used_quantity = used_quantity + ?, next_entry = next_entry + 1
			WHERE bucket_id = ? AND status = 'open'`, units, units, bucketID)
	}))
}

func (w *cluster) figures(ref bucket.BudgetRef) (f struct{ Undistributed, Remaining int64 }) {
	w.Helper()
	got, err := w.defs.Figures(w.ctx, ref.ID)
	w.ok(err)
	f.Undistributed, f.Remaining = got.Undistributed, got.InBuckets
	return f
}

// loop returns the loop with a name.
func loop(t *testing.T, s *transfer.Service, set transfer.Settings,
	name string) func(context.Context) error {
	for _, l := range s.Loops(set) {
		if l.Name == name {
			return l.RunOnce
		}
	}
	t.Fatalf("no loop %q", name)
	return nil
}
