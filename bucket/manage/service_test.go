package manage_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/placement"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

var (
	_ manage.Budgets = (*bucket.Budgets)(nil)
)

// caller is a service on a database of its own, with three instances.
type caller struct {
	*manage.Service
	t             *testing.T
	part          *manage.Ledger
	db            *engine.DB
	full          map[string]bool // instances that accept no buckets
	rolls, learnt int
}

func newCaller(t *testing.T) *caller {
	t.Helper()
	db, err := engine.Open(t.Context(), engine.Config{Driver: "sqlite",
		DSN: filepath.Join(t.TempDir(), "budgetd.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	var partitions []bucket.Partition
	for i := range 3 {
		partitions = append(partitions, bucket.Partition{Instance: fmt.Sprint("store-", i)})
	}
	places, err := placement.New(partitions, 100)
	if err != nil {
		t.Fatal(err)
	}
	w := &caller{t: t, db: db, part: manage.NewLedger(db), full: map[string]bool{}}
	w.know(partitions)
	w.Service = &manage.Service{Ledger: w.part, Budgets: w, Periods: w, Stores: w, Fit: fit, Places: places,
		Takes: func(l bucket.Partition) bool { return !w.full[l.Instance] }, Clock: bucket.SystemClock{},
		Nonce: func() string { return "nonce" }, Log: slog.New(slog.DiscardHandler),
		Timeout: 10 * time.Second}
	return w
}

// Find is the cache of budgets, without caching.
func (w *caller) Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error) {
	b, err := w.part.Budget(ctx, ref)
	return &b, err
}

// Fresh finds nothing.
func (w *caller) Fresh(bucket.BudgetRef) *bucket.Budget { return nil }

// Learn and Forget count the calls.
func (w *caller) Learn(move func() (bucket.Budget, error)) (*bucket.Budget, error) {
	w.learnt++
	b, err := move()
	return &b, err
}

func (w *caller) Forget(int64) { w.learnt++ }

// RollOver counts what it is asked for.
func (w *caller) RollOver(context.Context, int64) error {
	w.rolls++
	return nil
}

// know inserts the rows of partitions that were reached.
func (w *caller) know(partitions []bucket.Partition) {
	w.t.Helper()
	part := transfer.NewLedger(w.db)
	for _, on := range []bool{true, false} {
		if err := part.SetDraining(w.t.Context(), partitions, on); err != nil {
			w.t.Fatal(err)
		}
	}
}

// fit, Push and Recall are the stores, which take everything.
func fit(context.Context, []bucket.Partition) error { return nil }

func (w *caller) Push(context.Context, int64) error { return nil }

func (w *caller) Recall(context.Context, int64, int64) error { return nil }

func (w *caller) refused(err error, want budget.Code) {
	w.t.Helper()
	if !budget.Is(err, want) {
		w.t.Fatalf("%v, want %s", err, want)
	}
}

func (w *caller) create(d budget.Definition) bucket.Budget {
	w.t.Helper()
	v, created, err := w.Create(w.t.Context(), d)
	if err != nil || !created || v.Replayed {
		w.t.Fatalf("created %v, replayed %v, %v", created, v.Replayed, err)
	}
	return w.read(v.Definition.ID)
}

// read reads a budget.
func (w *caller) read(id int64) bucket.Budget {
	w.t.Helper()
	b, err := w.part.Budget(w.t.Context(), bucket.BudgetRef{ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func perInstance(b bucket.Budget) (out []int) {
	load := map[string]int{}
	for _, one := range b.Ring() {
		load[one.Partition.Instance]++
	}
	for _, n := range load {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// stored is a definition in store mode.
func stored(name string, total int64, buckets int) budget.Definition {
	d := promo(name, total, buckets)
	d.Durability = budget.Store
	return d
}

// TestCreatePlacesEvenly checks that buckets of store mode are spread over the instances that take
// them, and that those of ledger mode are on none.
func TestCreatePlacesEvenly(t *testing.T) {
	w := newCaller(t)
	b := w.create(stored("four", 100, 4))
	equal(t, "four on three", perInstance(b), []int{1, 1, 2})
	w.full["store-1"] = true
	equal(t, "four on two", perInstance(w.create(stored("two", 100, 4))), []int{2, 2})
	w.full["store-0"], w.full["store-2"] = true, true
	_, _, err := w.Create(t.Context(), stored("none", 100, 4))
	w.refused(err, budget.Unavailable)
	for _, one := range w.create(promo("rows", 100, 4)).Buckets {
		equal(t, "in ledger mode", one.Partition, bucket.Partition{})
	}
}

// TestStoreModeNeedsAnInstance checks that a budget in store mode is refused on a node without
// instances, also by a dry run, with what to configure; and that ledger mode needs none.
func TestStoreModeNeedsAnInstance(t *testing.T) {
	w := newCaller(t)
	var err error
	if w.Places, err = placement.New(nil, 100); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		d := stored("b", 100, 0)
		d.DryRun = dry
		_, _, err := w.Create(t.Context(), d)
		w.refused(err, budget.Invalid)
		fault := err.(*budget.Error).Fields[0]
		if fault.Field != "durability" || !strings.Contains(fault.Message, `add one under "instances"`) {
			t.Errorf("%+v", fault)
		}
	}
	w.create(promo("b", 100, 0))
}

// TestDefaultNumberOfBuckets checks that the default number depends on the units of a period, not
// on the total.
func TestDefaultNumberOfBuckets(t *testing.T) {
	w := newCaller(t)
	year := promo("year", 3_650_000, 0)
	year.Type, year.Rule = budget.Daily, &budget.Rule{Kind: budget.Calendar, Every: budget.Day,
		Quantity: 10_000}
	unlimited := promo("unlimited", 0, 0)
	unlimited.Unlimited = true
	for _, test := range []struct {
		d    budget.Definition
		want int
	}{
		{year, 10}, {unlimited, 1}, {promo("small", 500, 0), 1}, {promo("large", 1_000_000, 0), 64},
		{promo("asked", 10, 100), 100}, {stored("on-three", 10_000, 0), 12},
	} {
		b := w.create(test.d)
		equal(t, test.d.Name, len(b.Buckets), test.want)
		v, created, err := w.Create(t.Context(), test.d)
		if err != nil || created || !v.Replayed || v.Definition.ID != b.ID {
			t.Errorf("%s again: created %v, %+v, %v", test.d.Name, created, v, err)
		}
	}
}

func TestCreateListsFaults(t *testing.T) {
	w := newCaller(t)
	d := promo("Bad Name", -1, 0)
	d.Unit = ""
	_, _, err := w.Create(t.Context(), d)
	w.refused(err, budget.Invalid)
	var fields []string
	for _, fault := range err.(*budget.Error).Fields {
		fields = append(fields, fault.Field)
	}
	equal(t, "faults", fields, []string{"name", "unit", "total_quantity"})
	w.create(promo("taken", 10, 1))
	_, _, err = w.Create(t.Context(), promo("taken", 11, 1))
	w.refused(err, budget.NameTaken)
}

func TestChangeOfTheNumberOfBuckets(t *testing.T) {
	w := newCaller(t)
	b := w.create(promo("b", 120, 6))
	n := 2
	v, err := w.Change(t.Context(), bucket.BudgetRef{ID: b.ID}, bucket.Change{BucketQuantity: &n})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "remaining", v.Figures.InBuckets, 120)
	fewer := w.read(b.ID)
	equal(t, "outstanding", fewer.Buckets[0].Epoch.Outstanding, 60)
	n = 6
	_, err = w.Change(t.Context(), bucket.BudgetRef{ID: b.ID}, bucket.Change{BucketQuantity: &n})
	if err != nil {
		t.Fatal(err)
	}
	after := w.read(b.ID)
	equal(t, "buckets", len(after.Ring()), 6)
	equal(t, "rollovers while the period is open", w.rolls, 0)
	equal(t, "learnt", w.learnt, 2)
	n = 5000
	_, err = w.Change(t.Context(), bucket.BudgetRef{ID: b.ID}, bucket.Change{BucketQuantity: &n})
	w.refused(err, budget.Invalid)
	_, err = w.Change(t.Context(), bucket.BudgetRef{ID: 99}, bucket.Change{BucketQuantity: &n})
	w.refused(err, budget.BudgetNotFound)
}

// later is a clock that is some time ahead.
type later struct {
	bucket.SystemClock
	by time.Duration
}

func (l later) Now() time.Time { return time.Now().Add(l.by) }

// TestPeriodOverFirst checks that a budget whose period has ended is rolled over before it changes.
func TestPeriodOverFirst(t *testing.T) {
	w := newCaller(t)
	d := promo("days", 100, 1)
	d.Type, d.Timezone, d.EndAt = budget.Daily, "UTC", time.Now().AddDate(0, 0, 30)
	d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day}
	b := w.create(d)
	append := func(id string) {
		t.Helper()
		r := bucket.AdjustRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: id, Quantity: 1}
		if _, err := w.Adjust(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	append("today")
	equal(t, "rollovers today", w.rolls, 0)
	w.Clock = later{by: 24 * time.Hour}
	append("tomorrow")
	equal(t, "rollovers tomorrow", w.rolls, 1)
	gl := "1"
	if _, err := w.Change(t.Context(), bucket.BudgetRef{ID: b.ID}, bucket.Change{GLCode: &gl}); err != nil {
		t.Fatal(err)
	}
	equal(t, "rollovers before a change", w.rolls, 2)
}

func TestAdjust(t *testing.T) {
	w := newCaller(t)
	w.create(promo("b", 120, 3))
	ref := bucket.BudgetRef{Tenant: "shop", Name: "b"}
	for _, step := range []struct{ quantity, total int64 }{{30, 150}, {-100, 50}} {
		r := bucket.AdjustRequest{Budget: ref, RequestID: fmt.Sprint(step.quantity),
			Quantity: step.quantity}
		v, err := w.Adjust(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "remaining", v.Figures.InBuckets, step.total)
		equal(t, "total", v.Definition.TotalQuantity, step.total)
	}
	_, err := w.Adjust(t.Context(), bucket.AdjustRequest{Budget: ref, RequestID: "all", Quantity: -50})
	w.refused(err, budget.Invalid)
	views, err := w.List(t.Context(), bucket.Page{Size: 10})
	if err != nil || len(views) != 1 || views[0].Figures.Total != 50 {
		t.Errorf("%+v, %v", views, err)
	}
}
