package bucket_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/metrics"
)

// looks counts how often a node tells what is at risk.
type looks struct {
	*metrics.Metrics
	n atomic.Int64
}

func (l *looks) AtRisk(units int64) {
	l.Metrics.AtRisk(units)
	l.n.Add(1)
}

// TestAtRiskInTheMetrics: what the loss of every store would quarantine is all that buckets of budgets in store
// mode hold by the ledger: while it is behind that includes what was accepted, afterwards it does not, and it is
// 0 when all is used. Budgets in ledger mode risk nothing.
func TestAtRiskInTheMetrics(t *testing.T) {
	w, told := newStoreWorld(t), &looks{Metrics: metrics.New("test")}
	w.observer = told
	set := storeQuick()
	set.Audit = 20 * time.Millisecond
	s := w.node(set)
	w.durability = budget.Ledger
	safe := w.create(s, promo("safe", 500, 2))
	if _, err := deduct(s, safe, "first", 1); err != nil {
		t.Fatal(err)
	}
	w.durability = budget.Store
	const enough = 5 // looks, of which the first may have begun before
	is := func(when string, units float64) {
		t.Helper()
		from := told.n.Load()
		w.until(when, func() bool { return told.n.Load() >= from+enough })
		if got := metric(t, told.Metrics, "budgetd_at_risk_units"); got != units {
			t.Errorf("%s: %v are at risk, want %v", when, got, units)
		}
	}
	is("without a budget in store mode", 0)
	ref := w.create(s, promo("risky", 1000, 3))
	for i := range 30 {
		if _, err := deduct(s, ref, fmt.Sprint("first", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	w.settled(s, ref, 30)
	is("when the ledger has everything", 970)
	w.fails("Commit")
	for i := range 50 {
		if _, err := deduct(s, ref, fmt.Sprint("o", i), 2); err != nil {
			t.Fatal(err)
		}
	}
	is("while the ledger is behind", 970)
	w.fails()
	w.settled(s, ref, 130)
	is("when the ledger has followed", 870)
	if _, err := again(s, ref, "the rest", 870); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 1000)
	is("when all is used", 0)
}
