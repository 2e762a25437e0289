package definitions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/go-sql-driver/mysql"
)

// TestRepeatsOfUnknownOutcomes: a connection that ends before any one reply, that of COMMIT included,
// leaves no step done twice or halfway once it is repeated.
func TestRepeatsOfUnknownOutcomes(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	proxy := testservers.NewProxy(t, config.Addr)
	config.Addr = proxy.Addr()
	w := newWorld(t, "mysql", config.FormatDSN())
	cuts := 0
	// disturbed runs a step while every k-th reply is lost, and then once more.
	disturbed := func(k int, step func() error) {
		t.Helper()
		w.ok(proxy.Set(testservers.Rule{Disturbance: testservers.CutReply, OneIn: k}))
		err := step()
		cuts += proxy.Hits()
		w.ok(proxy.Set(testservers.Rule{}))
		switch budget.CodeOf(err).Kind() {
		case budget.NotDone, budget.MayBeDone:
			err = step()
		}
		w.ok(err)
	}
	for k := 5; k <= 29; k += 3 {
		name := fmt.Sprint("b", k)
		made := bucket.Budget{}
		disturbed(k, func() error {
			out, err := w.part.Create(w.ctx, promo(name, 100, 3), lanes(3))
			made = out.Budget
			return err
		})
		w.conserved(made.ID)
		for _, quantity := range []int64{20, -50} {
			disturbed(k, func() error {
				_, err := w.adjust(made.ID, strings.Repeat("x", int(100+quantity)), quantity)
				return err
			})
			w.conserved(made.ID)
		}
		equal(w, "total", w.figures(made.ID).Total, 70)
		n, before := 5, w.read(made.ID).Version
		disturbed(k, func() error {
			_, err := w.part.Change(w.ctx, made.ID, bucket.Change{BucketQuantity: &n}, lanes(n))
			return err
		})
		w.conserved(made.ID)
		after := w.read(made.ID)
		equal(w, "buckets", len(after.Buckets), 5)
		if after.Version > before+2 {
			t.Errorf("version %d after %d", after.Version, before)
		}
	}
	if cuts < 20 {
		t.Errorf("only %d replies were lost", cuts)
	}
}
