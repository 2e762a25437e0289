package usage_test

import (
	"context"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/bucket/usage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/ledger"
)

// world is a database with the parts that write deductions, and the service under test.
type world struct {
	*fixture.World
	defs    *manage.Ledger
	commits *commit.Decider
	budgets *bucket.Budgets
	reads   *counting
	s       *usage.Service
	d       *deduct.Service
	turns   int
}

// counting counts the calls of the reads.
type counting struct {
	*commit.Decider
	hints, exacts int
}

func (c *counting) Availability(ctx context.Context, ids []int64, exact bool) (map[int64]ledger.Availability, error) {
	if exact {
		c.exacts++
	} else {
		c.hints++
	}
	return c.Decider.Availability(ctx, ids, exact)
}

// turner rolls budgets over and counts that.
type turner struct{ w *world }

func (r turner) RollOver(ctx context.Context, id int64) error {
	r.w.turns++
	_, _, err := transfer.NewLedger(r.w.DB).RollOver(ctx, id)
	return err
}

func each(t *testing.T, run func(w *world)) {
	fixture.OnEveryEngine(t, func(f *fixture.World) {
		w := &world{World: f, defs: manage.NewLedger(f.DB), commits: commit.New(f.DB)}
		w.reads = &counting{Decider: w.commits}
		var err error
		w.budgets, err = bucket.NewBudgets(bucket.BudgetsConfig{Definitions: w.defs, Size: 100})
		w.OK(err)
		w.s = usage.New(usage.Config{DB: f.DB, Budgets: w.budgets})
		w.d, err = deduct.New(deduct.Config{Budgets: w.budgets, Lookup: w.reads, Rollover: turner{w},
			Now: f.DB.Now})
		w.OK(err)
		run(w)
	})
}

func (w *world) make(name string, total int64, edits ...func(*budget.Definition)) *bucket.Budget {
	w.Helper()
	d := budget.Definition{Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: total, BucketQuantity: 2}
	for _, edit := range edits {
		edit(&d)
	}
	made, err := w.defs.Create(w.Ctx, d, make([]bucket.Partition, 2))
	w.OK(err)
	return w.find(made.Budget.ID)
}

func (w *world) find(id int64) *bucket.Budget {
	w.Helper()
	b, err := w.budgets.Reload(w.Ctx, id)
	w.OK(err)
	return b
}

// limits sets the limits of a budget.
func limits(list ...budget.Limit) func(*budget.Definition) {
	return func(d *budget.Definition) { d.Limits = &budget.Limits{List: list} }
}

func perUser(name string, most int64, measure budget.Measure, every budget.Every, zone string) budget.Limit {
	return budget.Limit{Name: name, Dimension: "user", Max: most, Measure: measure, Enforce: true,
		Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: every, Timezone: zone}}
}

func user(name string) map[string]string { return map[string]string{"user": name} }

// deduct commits a deduction and returns its outcome.
func (w *world) deduct(b *bucket.Budget, id string, amount int64, dimensions map[string]string) bucket.Outcome {
	w.Helper()
	op := bucket.Operation{Budget: b, Bucket: b.Route(id).ID, Request: ledger.Request{ID: id,
		Amount: amount, Nonce: "nonce...", Dimensions: ledger.Dimensions(dimensions)}}
	op.Request.Fingerprint = ledger.RequestFingerprint(amount, "", op.Request)
	op.Charges, _ = b.LimitSet().Charges(amount, dimensions, nil)
	out, err := w.commits.Commit(w.Ctx, []bucket.Operation{op})
	w.OK(err)
	return out[0]
}

func (w *world) accepted(b *bucket.Budget, id string, amount int64, dimensions map[string]string) {
	w.Helper()
	if out := w.deduct(b, id, amount, dimensions); out.Verdict != bucket.Accepted {
		w.Fatalf("%s: verdict %d", id, out.Verdict)
	}
}

func ask(b *bucket.Budget, amount int64, dimensions map[string]string) bucket.CheckRequest {
	return bucket.CheckRequest{Budget: bucket.BudgetRef{ID: b.ID}, Amount: amount, Dimensions: dimensions}
}

// check makes one check and compares the code of its answer, "" for accepted.
func (w *world) check(b *bucket.Budget, amount int64, dimensions map[string]string,
	want budget.Code) bucket.CheckAnswer {
	w.Helper()
	a := w.d.Check(w.Ctx, []bucket.CheckRequest{ask(b, amount, dimensions)})[0]
	if got := codeOf(a.Err); got != want {
		w.Errorf("check of %d, %v: %v, want %q", amount, dimensions, a.Err, want)
	}
	return a
}

func codeOf(err error) budget.Code {
	if err == nil {
		return ""
	}
	return budget.CodeOf(err)
}
