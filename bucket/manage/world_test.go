package manage_test

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

var (
	_ bucket.Definitions = (*manage.Ledger)(nil)
)

// world is a part of a database, and what tests do to the rest of it.
type world struct {
	*testing.T
	ctx   context.Context
	part  *manage.Ledger
	db    *engine.DB
	ahead atomic.Int64 // of this machine's clock, ns
}

// onEveryEngine runs a test on SQLite and on MariaDB.
func onEveryEngine(t *testing.T, test func(*world)) {
	t.Run("sqlite", func(t *testing.T) {
		test(newWorld(t, "sqlite", filepath.Join(t.TempDir(), "budgetd.db")))
	})
	t.Run("mariadb", func(t *testing.T) {
		test(newWorld(t, "mysql", testservers.SharedMariaDB(t).NewDatabase(t)))
	})
}

func newWorld(t *testing.T, driver, dsn string) *world {
	t.Helper()
	w := &world{T: t, ctx: t.Context()}
	db, err := engine.Open(t.Context(), engine.Config{Driver: driver, DSN: dsn,
		Clock: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	w.db, w.part = db, manage.NewLedger(db)
	return w
}

// later lets time pass.
func (w *world) later(d time.Duration) { w.ahead.Add(int64(d)) }

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// refused checks an error's code.
func (w *world) refused(err error, want budget.Code) *budget.Error {
	w.Helper()
	e, _ := err.(*budget.Error)
	if !budget.Is(err, want) {
		w.Fatalf("%v, want %s", err, want)
	}
	return e
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: %+v, want %+v", what, got, want)
	}
}

func partitions(n int) (out []bucket.Partition) {
	for i := range n {
		out = append(out, bucket.Partition{Instance: fmt.Sprint("store-", i%3), Index: i / 3})
	}
	return out
}

// promo is a definition in ledger mode.
func promo(name string, total int64, buckets int) budget.Definition {
	return budget.Definition{Tenant: "shop", Name: name, Unit: budget.Count, Type: budget.Promo,
		Durability: budget.Ledger, TotalQuantity: total, BucketQuantity: buckets}
}

// daily is a definition that gives each day of UTC a quantity.
func daily(name string, total, quantity int64, unused budget.Where) budget.Definition {
	d := promo(name, total, 2)
	d.Type = budget.Daily
	d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: quantity, Unused: unused}
	return d
}

func (w *world) create(d budget.Definition) bucket.Budget {
	w.Helper()
	homes := make([]bucket.Partition, max(d.BucketQuantity, 1))
	if d.Durability == budget.Store {
		homes = partitions(len(homes))
	}
	made, err := w.part.Create(w.ctx, d, homes)
	w.ok(err)
	if !made.New {
		w.Fatalf("%q existed", d.Name)
	}
	w.conserved(made.Budget.ID)
	return made.Budget
}

func (w *world) read(id int64) bucket.Budget {
	w.Helper()
	b, err := w.part.Budget(w.ctx, bucket.BudgetRef{ID: id})
	w.ok(err)
	return b
}

func (w *world) figures(id int64) ledger.Figures {
	w.Helper()
	f, err := w.part.Figures(w.ctx, id)
	w.ok(err)
	f.Period, f.PeriodUnits, f.PeriodUsed, f.PeriodBefore = budget.Period{}, 0, 0, 0
	return f
}

// has checks a budget's figures.
func (w *world) has(id int64, want ledger.Figures) {
	w.Helper()
	equal(w, "figures", w.figures(id), want)
}

func (w *world) adjust(id int64, request string, quantity int64) (manage.Adjusted, error) {
	return w.part.Adjust(w.ctx, manage.Adjustment{Budget: id, RequestID: request, Quantity: quantity,
		Deadline: w.db.Now().Add(time.Minute)})
}

// adjusts adjusts a budget; it must be done.
func (w *world) adjusts(id int64, request string, quantity int64) manage.Adjusted {
	w.Helper()
	out, err := w.adjust(id, request, quantity)
	w.ok(err)
	equal(w, "state", out.State, bucket.AdjustmentDone)
	w.conserved(id)
	return out
}

func (w *world) change(id int64, c bucket.Change) manage.Changed {
	w.Helper()
	out, err := w.part.Change(w.ctx, id, c)
	w.ok(err)
	w.conserved(id)
	return out
}

// exec changes one row as another part of the database would.
func (w *world) exec(query string, args ...any) {
	w.Helper()
	w.ok(w.db.Write(w.ctx, "test", func(t *engine.Tx) error { return t.Hit(1, query, args...) }))
}

// partition makes a partition known: a store that was reached under incarnation 7.
func (w *world) partition(instance string) {
	w.Helper()
	w.exec(`INSERT INTO store_partition (instance, partition_number, identity, incarnation, since_incarnation, began_at)
		VALUES (?, 0, ?, 7, 7, 1)`, []byte(instance), []byte("run"))
}

const ofBucket = ` WHERE bucket_id = ? AND status IN ('opening', 'open', 'closing')`

// use moves units O -> S of a bucket, hold O -> H, and back S -> R.
func (w *world) use(b bucket.Bucket, units int64) {
	w.Helper()
	w.exec(`UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - ?,
		used_quantity = used_quantity + ?`+ofBucket, units, units, b.ID)
}

func (w *world) hold(b bucket.Bucket, units int64) {
	w.Helper()
	w.exec(`UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - ?,
		held_quantity = held_quantity + ?`+ofBucket, units, units, b.ID)
}

func (w *world) back(b bucket.Bucket, units int64) {
	w.Helper()
	w.exec(`UPDATE bucket_epoch SET used_quantity = used_quantity - ?,
		returning_quantity = returning_quantity + ?`+ofBucket, units, units, b.ID)
}

const (
	// selectGrants lists epochs whose columns are not what their grants give.
	selectGrants = `SELECT e.bucket_id FROM bucket_epoch e WHERE e.budget_id = ? AND
		e.outstanding_quantity + e.held_quantity + e.used_quantity + e.returning_quantity
		+ e.closed_quantity + e.swept_quantity <>
		(SELECT COALESCE(SUM(g.amount), 0) FROM grant_log g WHERE g.bucket_id = e.bucket_id
			AND g.epoch = e.epoch)`
	// selectPeriods lists budgets whose columns are not what their periods and adjustments give.
	selectPeriods = `SELECT u.id FROM budget_management_bucket u WHERE u.id = ?
		AND (u.unfunded_quantity <> u.total_quantity
			- (SELECT SUM(p.funded_quantity - p.returned_quantity)
				FROM budget_period p WHERE p.budget_id = u.id)
		OR u.total_quantity <> (SELECT SUM(a.quantity) FROM adjustment a
			WHERE a.budget_id = u.id AND a.status = 'done'))`
)

// conserved checks I1: T is where its terms are, and columns are what rows give.
func (w *world) conserved(id int64) {
	w.Helper()
	if f := w.figures(id); f.Total != f.Sum() {
		w.Fatalf("the total is %d, its parts add up to %d: %+v", f.Total, f.Sum(), f)
	}
	w.ok(w.db.Read(w.ctx, "test", func(r *engine.Reader) error {
		for _, query := range []string{selectGrants, selectPeriods} {
			var wrong []int64
			if err := r.List(&wrong, query, id); err != nil {
				return err
			}
			if len(wrong) > 0 {
				w.Errorf("%v: %s", wrong, query)
			}
		}
		return nil
	}))
}

// unchanged checks that calls change nothing.
func (w *world) unchanged(id int64, what string, calls func()) {
	w.Helper()
	before, figures := w.read(id), w.figures(id)
	calls()
	equal(w, what, w.read(id), before)
	equal(w, what, w.figures(id), figures)
}
