package definitions_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestRepeatsOfUnknownOutcomes checks that create, append, shrink and resize take effect once if
// they are repeated after a lost reply, that of COMMIT included.
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
	for k := 5; k <= 26; k++ {
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
