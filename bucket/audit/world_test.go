package audit_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/audit"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// world is a database with the parts that write deductions, and the service under test.
type world struct {
	*fixture.World
	defs    *manage.Ledger
	commits *commit.Decider
	returns *hold.Ledger
	budgets *bucket.Budgets
	seen    *seen
	s       *audit.Service
}

func each(t *testing.T, run func(w *world)) {
	fixture.OnEveryEngine(t, func(f *fixture.World) { run(newWorld(f)) })
}

func newWorld(f *fixture.World) *world {
	w := &world{World: f, defs: manage.NewLedger(f.DB), commits: commit.New(f.DB),
		returns: hold.NewLedger(f.DB), seen: &seen{}}
	var err error
	w.budgets, err = bucket.NewBudgets(bucket.BudgetsConfig{Definitions: w.defs, Size: 100})
	w.OK(err)
	w.s = audit.New(audit.Config{DB: f.DB, Budgets: w.budgets, Observer: w.seen})
	return w
}

// make creates a budget as a caller does.
func (w *world) make(name string, total int64, buckets int, edits ...func(*budget.Definition)) *bucket.Budget {
	w.Helper()
	d := budget.Definition{Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets}
	for _, edit := range edits {
		edit(&d)
	}
	made, err := w.defs.Create(w.Ctx, d, make([]bucket.Partition, buckets))
	w.OK(err)
	return w.find(made.Budget.ID)
}

func (w *world) find(id int64) *bucket.Budget {
	w.Helper()
	b, err := w.budgets.Find(w.Ctx, bucket.BudgetRef{ID: id})
	w.OK(err)
	return b
}

// operation makes a deduction from the i-th bucket.
func operation(b *bucket.Budget, i int, id string, amount int64, edits ...func(*ledger.Request)) bucket.Operation {
	op := bucket.Operation{Budget: b, Bucket: b.Buckets[i].ID, Request: ledger.Request{ID: id,
		Amount: amount, Nonce: "nonce..."}}
	for _, edit := range edits {
		edit(&op.Request)
	}
	op.Request.Fingerprint = ledger.RequestFingerprint(amount, "", op.Request)
	op.Charges, _ = b.LimitSet().Charges(amount, ledger.ReadDimensions(op.Request.Dimensions), nil)
	return op
}

// deduct commits deductions that must be accepted.
func (w *world) deduct(ops ...bucket.Operation) {
	w.Helper()
	out, err := w.commits.Commit(w.Ctx, ops)
	w.OK(err)
	for i := range out {
		if out[i].Verdict != bucket.Accepted {
			w.Fatalf("%s: verdict %d", ops[i].Request.ID, out[i].Verdict)
		}
	}
}

func (w *world) settle(orders ...hold.Order) {
	w.Helper()
	out, err := w.returns.Execute(w.Ctx, orders)
	w.OK(err)
	for i := range out {
		w.OK(out[i].Err)
	}
}

func (w *world) audit(b *bucket.Budget) bucket.AuditReport {
	w.Helper()
	report, err := w.s.Audit(w.Ctx, bucket.BudgetRef{ID: b.ID})
	w.OK(err)
	return report
}

// clean ends the test unless an audit finds nothing.
func (w *world) clean(b *bucket.Budget) {
	w.Helper()
	if r := w.audit(b); !r.OK || r.Discrepancies != nil || r.Unchecked != nil {
		w.Fatalf("%v, unchecked %v", r.Discrepancies, r.Unchecked)
	}
}

// halted lists the buckets of a budget that are halted, by ordinal, with their epochs.
func (w *world) halted(b *bucket.Budget) (out []string) {
	w.Helper()
	for i := range b.Buckets {
		for e := int64(1); e <= w.Newest(b.Buckets[i].ID).Number; e++ {
			if w.Epoch(b.Buckets[i].ID, e).Halted != "" {
				out = append(out, fmt.Sprintf("%d:%d", i, e))
			}
		}
	}
	return out
}

func above(r *ledger.Request) { r.Above = ledger.AboveAvailable }

func asHold(r *ledger.Request) { r.HoldTTL = time.Hour.Milliseconds() }

// seen is an observer that remembers what looks found.
type seen struct {
	mu         sync.Mutex
	books      int
	gap        int64
	halts      int
	largest    []bucket.BudgetFigures
	all        ledger.Figures
	unfinished map[string]int
	stranded   [3]int64
}

func (o *seen) Discrepancies(n int, gap int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.books, o.gap = n, gap
}

func (o *seen) Halted() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.halts++
}

func (o *seen) Budgets(largest []bucket.BudgetFigures, all bucket.BudgetFigures) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.largest, o.all = largest, all.Figures
}

func (o *seen) Unfinished(kind string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unfinished == nil {
		o.unfinished = map[string]int{}
	}
	o.unfinished[kind] = n
}

func (o *seen) Stranded(unreachable, recyclable, atRisk int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stranded = [3]int64{unreachable, recyclable, atRisk}
}

func (o *seen) PartitionCall(context.Context, bucket.Partition, int, time.Duration) {}
func (o *seen) Commit(context.Context, int, time.Duration)                          {}
func (o *seen) Failed(string, budget.Code)                                          {}
func (o *seen) Moved(string, int64)                                                 {}
func (o *seen) HoldsExpired(int)                                                    {}
func (o *seen) HoldsOpen(int)                                                       {}
func (o *seen) Lag(bucket.Partition, time.Duration)                                 {}

// eachFar runs a test whose clock goes far from the database server's.
func eachFar(t *testing.T, run func(w *world)) {
	const tolerance = 100 * 365 * 24 * time.Hour
	t.Run("sqlite", func(t *testing.T) {
		fixture.On(t, engine.Config{Driver: "sqlite", DSN: filepath.Join(t.TempDir(), "budgetd.db"),
			ClockTolerance: tolerance}, func(f *fixture.World) { run(newWorld(f)) })
	})
	t.Run("mariadb", func(t *testing.T) {
		fixture.On(t, engine.Config{Driver: "mysql", DSN: testservers.SharedMariaDB(t).NewDatabase(t),
			ClockTolerance: tolerance}, func(f *fixture.World) { run(newWorld(f)) })
	})
}
