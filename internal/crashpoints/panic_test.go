package crashpoints

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// panicking is SQL of which the first call that only background work makes panics.
type panicking struct {
	bucket.SQL
	done bool
}

func (p *panicking) Reached(ctx context.Context, lanes []bucket.Lane) error {
	if !p.done {
		p.done = true
		panic("planted")
	}
	return p.SQL.Reached(ctx, lanes)
}

// TestPanicOfBackgroundWork: a world tells of one, and where it was.
func TestPanicOfBackgroundWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := wide
		in.durability = budget.Ledger
		w := newWorld(t, in, 90)
		w.configure = func(c *bucket.Config) { c.SQL = &panicking{SQL: c.SQL} }
		w.budget = bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: name}
		w.start()
		w.must(create())
		w.settle()
		w.leave()
		if len(w.faults) != 1 || !strings.Contains(w.faults[0], "panicked") ||
			!strings.Contains(w.faults[0], "planted") || !strings.Contains(w.faults[0], "watchLanes") {
			t.Errorf("faults %q", w.faults)
		}
	})
}
