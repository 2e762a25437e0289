package manage_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// TestRepeatsOfUnknownOutcomes checks that create, append, shrink and resize take effect once if
// they are repeated after a lost reply, that of COMMIT included.
func TestRepeatsOfUnknownOutcomes(t *testing.T) {
	proxy, dsn := throughProxy(t)
	w := newWorld(t, "mysql", dsn)
	cuts := 0
	// disturbed runs a step while every k-th reply is lost, and repeats it without losses if its
	// outcome is unknown. It reports whether the first run succeeded.
	disturbed := func(k int, step func() error) (known bool) {
		t.Helper()
		w.ok(proxy.Set(testservers.Rule{Disturbance: testservers.CutReply, OneIn: k}))
		err := step()
		cuts += proxy.Hits()
		w.ok(proxy.Set(testservers.Rule{}))
		if err == nil {
			return true
		}
		if kind := budget.CodeOf(err).Kind(); kind != budget.NotDone && kind != budget.MayBeDone {
			t.Fatal(err)
		}
		w.ok(step())
		return false
	}
	for k := 2; k <= 16; k++ {
		name := fmt.Sprint("b", k)
		made := manage.Created{}
		known := disturbed(k, func() (err error) {
			made, err = w.part.Create(w.ctx, promo(name, 100, 3), make([]bucket.Partition, 3))
			return err
		})
		if known && !made.New {
			t.Errorf("every %dth reply was lost: Create does not report its own budget as new", k)
		}
		id := made.Budget.ID
		w.conserved(id)
		for _, quantity := range []int64{20, -50} {
			disturbed(k, func() error {
				_, err := w.adjust(id, strings.Repeat("x", int(100+quantity)), quantity)
				return err
			})
			w.conserved(id)
		}
		equal(w, "total", w.figures(id).Total, 70)
		n, before := 5, w.read(id).Version
		known = disturbed(k, func() error {
			_, err := w.part.Change(w.ctx, id, bucket.Change{BucketQuantity: &n})
			return err
		})
		w.conserved(id)
		after := w.read(id)
		equal(w, "buckets", len(after.Buckets), 5)
		if known && after.Version != before+1 {
			t.Errorf("every %dth reply was lost: the version is %d, want %d", k, after.Version, before+1)
		}
	}
	if cuts < 15 {
		t.Errorf("only %d replies were lost", cuts)
	}
}

// TestLostCommitOfAChange checks that a change whose COMMIT lost its reply finds what it wrote, and
// answers with it: the version has risen by one.
func TestLostCommitOfAChange(t *testing.T) {
	proxy, dsn := throughProxy(t)
	lost := 0
	db, err := engine.Open(t.Context(), engine.Config{Driver: "mysql", DSN: dsn,
		Sleep: func(context.Context, time.Duration) error {
			lost += proxy.Hits()
			return proxy.Set(testservers.Rule{})
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	w := &world{T: t, ctx: t.Context(), db: db, part: manage.NewLedger(db)}
	b := w.create(promo("b", 100, 3))
	for i, change := range []bucket.Change{{BucketQuantity: new(5)}, {Paused: new(true)}, {Name: new("c")},
		{Limits: &[]budget.Limit{{Name: "l", Dimension: "user", Max: 5, Enforce: true, Measure: budget.MeasureCount,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}} {
		// The LOAD is answered, the SAVE is not.
		w.ok(proxy.Set(testservers.Rule{Disturbance: testservers.CutReply, OneIn: 2}))
		changed, err := w.part.Change(w.ctx, b.ID, change)
		if lost == 0 || err != nil {
			t.Errorf("%d: %v, %d replies were lost", i, err, lost)
		}
		lost = 0
		equal(w, "version", w.read(b.ID).Version, int64(2+i))
		equal(w, "answer", changed.Budget, w.read(b.ID))
		w.conserved(b.ID)
	}
}

// throughProxy returns the DSN of a database that is reached through a proxy.
func throughProxy(t *testing.T) (*testservers.Proxy, string) {
	t.Helper()
	server := testservers.SharedMariaDB(t)
	dsn := server.NewDatabase(t)
	proxy := testservers.NewProxy(t, server.Addr())
	through := strings.Replace(dsn, server.Addr(), proxy.Addr(), 1)
	if through == dsn {
		t.Fatalf("%s does not name %s", dsn, server.Addr())
	}
	return proxy, through
}
