package transfer_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// clock stands still until it is moved. It starts at the real time.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = to
}

// world is a database under test.
type world struct {
	*testing.T
	ctx     context.Context
	clock   *clock
	dsn     string
	db      *engine.DB
	defs    *manage.Ledger
	part    *transfer.Ledger
	budgets []int64
}

// start is when the first day of most tests begins.
var start = time.Date(2031, time.March, 3, 0, 0, 0, 0, time.UTC)

const dayLong = 24 * time.Hour

// everywhere runs a test on SQLite and on MariaDB, and ends it with the arithmetic of the audit.
func everywhere(t *testing.T, test func(w *world)) {
	for _, driver := range []string{"sqlite", "mysql"} {
		t.Run(driver, func(t *testing.T) {
			w := newWorld(t, driver)
			test(w)
			w.audit()
		})
	}
}

func newWorld(t *testing.T, driver string) *world {
	t.Helper()
	w := &world{T: t, ctx: t.Context(), clock: &clock{now: time.Now().Truncate(time.Millisecond)}}
	config := engine.Config{Driver: driver, Clock: w.clock.Now,
		ClockTolerance: 100 * 365 * dayLong} // the clock is the test's
	config.DSN = filepath.Join(t.TempDir(), "budgetd.db")
	if driver == "mysql" {
		config.DSN = testservers.SharedMariaDB(t).NewDatabase(t)
	}
	w.dsn = config.DSN
	var err error
	if w.db, err = engine.Open(w.ctx, config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.db.Close() })
	w.defs, w.part = manage.NewLedger(w.db), transfer.NewLedger(w.db)
	w.until(0)
	return w
}

// until moves SQL's clock, as estimated by this node, to a time after start.
func (w *world) until(d time.Duration) { w.at(start.Add(d)) }

func (w *world) at(to time.Time) { w.clock.set(w.clock.Now().Add(to.Sub(w.db.Now()))) }

// partition returns the partition of the i-th bucket of a budget in store mode.
func partition(i int) bucket.Partition {
	return bucket.Partition{Instance: fmt.Sprintf("store-%d", i%3), Index: i / 3}
}

func promo(name string, total int64, buckets int) budget.Definition {
	return budget.Definition{Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets}
}

func stored(name string, total int64, buckets int) budget.Definition {
	d := promo(name, total, buckets)
	d.Durability = budget.Store
	return d
}

// day is the rule of most tests: 40 units a day.
func day(unused budget.Where) budget.Rule {
	return budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 40, Unused: unused}
}

// daily creates a budget whose first day begins at start, in UTC, with two buckets.
func (w *world) daily(name string, total int64, rule budget.Rule,
	edits ...func(*budget.Definition)) bucket.Budget {
	w.Helper()
	w.until(0)
	d := promo(name, total, 2)
	d.Type, d.Rule, d.StartAt = budget.Daily, &rule, start
	for _, edit := range edits {
		edit(&d)
	}
	return w.create(d)
}

func (w *world) create(d budget.Definition) bucket.Budget {
	w.Helper()
	homes := make([]bucket.Partition, d.BucketQuantity)
	if d.Durability == budget.Store {
		for i := range homes {
			homes[i] = partition(i)
		}
		w.ok(w.part.SetDraining(w.ctx, homes, true)) // makes the partitions' rows
		w.ok(w.part.SetDraining(w.ctx, homes, false))
	}
	made, err := w.defs.Create(w.ctx, d, homes)
	if err != nil || !made.New {
		w.Fatalf("create %s: new %v, %v", d.Name, made.New, err)
	}
	w.budgets = append(w.budgets, made.Budget.ID)
	return made.Budget
}

func (w *world) read(id int64) bucket.Budget {
	w.Helper()
	b, err := w.defs.Budget(w.ctx, bucket.BudgetRef{ID: id})
	w.ok(err)
	return b
}

func (w *world) figures(id int64) ledger.Figures {
	w.Helper()
	f, err := w.defs.Figures(w.ctx, id)
	w.ok(err)
	return f
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// rolledOver calls RollOver.
func (w *world) rolledOver(id int64) (transfer.RolledOver, error) {
	after, out, err := w.part.RollOver(w.ctx, id)
	if err == nil && (after.ID != id || after.Period.Number != out.Period.Number) {
		w.Errorf("after it the budget is %+v, not in period %d", after.Definition, out.Period.Number)
	}
	return out, err
}

func must[T any](v T, err error) func(w *world) T {
	return func(w *world) T {
		w.Helper()
		w.ok(err)
		return v
	}
}

func equal[T comparable](w *world, what string, got, want T) {
	w.Helper()
	if got != want {
		w.Errorf("%s: %v, want %v", what, got, want)
	}
}

func (w *world) refused(err error, code budget.Code) {
	w.Helper()
	if !budget.Is(err, code) {
		w.Errorf("%v, want %s", err, code)
	}
}

// change runs statements in one transaction, as another part of the database would.
func (w *world) change(statements func(t *engine.Tx) error) {
	w.Helper()
	w.ok(w.db.Write(w.ctx, "test", statements))
}

// use deducts units from a bucket's newest epoch as a flight does: O -> S, the deduction's row and
// the feed's.
func (w *world) use(bucketID int64, id string, units int64) {
	w.Helper()
	w.change(func(t *engine.Tx) error {
		var e struct {
			Epoch  int64 `db:"epoch"`
			Entry  int64 `db:"next_entry"`
			Budget int64 `db:"budget_id"`
		}
		_, err := t.Get(&e, `SELECT epoch, next_entry, budget_id FROM bucket_epoch WHERE bucket_id = ?
			ORDER BY epoch DESC LIMIT 1`, bucketID)
		if err != nil {
			return err
		}
		err = t.Hit(1, `UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - ?,
			used_quantity = used_quantity + ?, next_entry = next_entry + 1
			WHERE bucket_id = ? AND epoch = ? AND status = 'open' AND outstanding_quantity >= ?
			AND (period_end_ms = 0 OR period_end_ms > ?)`,
			units, units, bucketID, e.Epoch, units, engine.ToMS(t.Now))
		if err != nil {
			return err
		}
		err = t.Hit(1, `INSERT INTO deduction (budget_id, request_id, bucket_id, epoch, amount,
			fingerprint, nonce, counted_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, e.Budget, []byte(id),
			bucketID, e.Epoch, units, []byte{}, []byte{}, engine.ToMS(t.Now))
		if err != nil {
			return err
		}
		return t.Hit(1, `INSERT INTO feed (bucket_id, first_entry, entries, units, body, created_at)
			VALUES (?, ?, 1, ?, ?, ?)`, bucketID, e.Entry, units, []byte{}, engine.ToMS(t.Now))
	})
}

// giveBack rolls back units of a deduction into R, as after the end of its epoch; late means that
// its period was over.
func (w *world) giveBack(budgetID int64, id, rollback string, units int64, late bool) {
	w.Helper()
	w.change(func(t *engine.Tx) error {
		var d struct {
			Bucket int64 `db:"bucket_id"`
			Epoch  int64 `db:"epoch"`
		}
		_, err := t.Get(&d, `SELECT bucket_id, epoch FROM deduction
			WHERE budget_id = ? AND request_id = ?`, budgetID, []byte(id))
		if err != nil {
			return err
		}
		lateUnits := int64(0)
		if late {
			lateUnits = units
		}
		err = t.Hit(1, `UPDATE bucket_epoch SET used_quantity = used_quantity - ?,
			returning_quantity = returning_quantity + ?, late_quantity = late_quantity + ?
			WHERE bucket_id = ? AND epoch = ?`, units, units, lateUnits, d.Bucket, d.Epoch)
		if err != nil {
			return err
		}
		return t.Hit(1, `INSERT INTO give_back (budget_id, request_id, kind, rollback_id, amount,
			is_whole, is_direct, bucket_id, epoch, created_at)
			VALUES (?, ?, 'rollback', ?, ?, 0, 0, ?, ?, ?)`, budgetID, []byte(id), []byte(rollback),
			units, d.Bucket, d.Epoch, engine.ToMS(t.Now))
	})
}

// epochs reads all epochs of a budget with what they were granted.
func (w *world) epochs(id int64) (out []ledger.EpochFigures) {
	w.Helper()
	w.ok(w.db.Read(w.ctx, "test", func(r *engine.Reader) error {
		var list []books.Epoch
		err := r.List(&list, `SELECT `+rows.EpochColumns+` FROM bucket_epoch e
			WHERE e.budget_id = ? ORDER BY e.bucket_id, e.epoch`, id)
		if err != nil {
			return err
		}
		out = nil
		for i := range list {
			e := ledger.EpochFigures{Bucket: fmt.Sprint(list[i].Bucket), Row: list[i].Ledger(),
				Closed: list[i].Closed}
			if _, err := r.Get(&e.Granted, `SELECT COALESCE(SUM(amount), 0) FROM grant_log
				WHERE bucket_id = ? AND epoch = ?`, list[i].Bucket, list[i].Number); err != nil {
				return err
			}
			out = append(out, e)
		}
		return nil
	}))
	return out
}

// periods reads a budget's periods.
func (w *world) periods(id int64) (out []ledger.PeriodFigures) {
	w.Helper()
	var read []struct {
		Number    int64 `db:"number"`
		StartMS   int64 `db:"start_ms"`
		EndMS     int64 `db:"end_ms"`
		Funded    int64 `db:"funded_quantity"`
		Carried   int64 `db:"carried_quantity"`
		Before    int64 `db:"before_quantity"`
		Returned  int64 `db:"returned_quantity"`
		Passed    int64 `db:"passed_quantity"`
		Forfeited int64 `db:"forfeited_quantity"`
	}
	w.ok(w.db.Read(w.ctx, "test", func(r *engine.Reader) error {
		read = nil
		return r.List(&read, `SELECT number, start_ms, end_ms, funded_quantity, carried_quantity,
			before_quantity, returned_quantity, passed_quantity, forfeited_quantity
			FROM budget_period WHERE budget_id = ? ORDER BY number`, id)
	}))
	for _, p := range read {
		out = append(out, ledger.PeriodFigures{Period: budget.Period{Number: p.Number,
			Start: engine.FromMS(p.StartMS), End: engine.FromMS(p.EndMS), Funded: p.Funded,
			Carried: p.Carried, Before: p.Before}, Returned: p.Returned, Passed: p.Passed,
			Forfeited: p.Forfeited})
	}
	return out
}

// audit proves I1 of all budgets from their columns, periods and grants.
func (w *world) audit() {
	w.Helper()
	for _, id := range w.budgets {
		w.conserved(id)
	}
}

func (w *world) conserved(id int64) {
	w.Helper()
	f, epochs := w.figures(id), w.epochs(id)
	found := ledger.CheckBudget(f, f.Total, f.PendingShrink)
	for i := range epochs {
		found = append(found, ledger.CheckColumns(&epochs[i])...)
	}
	found = append(found, ledger.CheckPeriods(f, f.Period, w.periods(id), epochs)...)
	for _, d := range found {
		w.Errorf("budget %d: %s", id, d)
	}
}

// outstanding lists O of a budget's buckets, by ordinal.
func (w *world) outstanding(id int64) (out []int64) {
	w.Helper()
	b := w.read(id)
	for i := range b.Buckets {
		out = append(out, b.Buckets[i].Epoch.Outstanding)
	}
	return out
}

func (w *world) lies(what string, id int64, want ...int64) {
	w.Helper()
	if got := w.outstanding(id); !slices.Equal(got, want) {
		w.Errorf("%s: buckets hold %v, want %v", what, got, want)
	}
}

// returnable returns how much of a deduction is not given back, and whether its period has ended.
func (w *world) returnable(id string) (units int64, ended bool) {
	w.Helper()
	w.ok(w.db.Read(w.ctx, "test", func(r *engine.Reader) error {
		var d struct {
			Left   int64  `db:"units"`
			Status string `db:"status"`
			EndMS  int64  `db:"period_end_ms"`
		}
		_, err := r.Get(&d, `SELECT d.amount - (SELECT COALESCE(SUM(g.amount), 0) FROM give_back g
			WHERE g.budget_id = d.budget_id AND g.request_id = d.request_id) AS units, e.status,
			e.period_end_ms FROM deduction d
			JOIN bucket_epoch e ON e.bucket_id = d.bucket_id AND e.epoch = d.epoch
			WHERE d.request_id = ?`, []byte(id))
		units = d.Left
		ended = d.EndMS != 0 && d.EndMS <= engine.ToMS(w.db.Now())
		return err
	}))
	return units, ended
}

func (w *world) offline(budgetID, bucketID int64, by bucket.OfflineBy) error {
	_, err := w.part.Offline(w.ctx, budgetID, bucketID, by)
	return err
}

func (w *world) online(budgetID, bucketID int64) (int64, error) {
	got, err := w.part.Online(w.ctx, budgetID, bucketID)
	return got.Units, err
}
