package ledger_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

func TestDecideRollback(t *testing.T) {
	used := func(amount, rolledBack int64) ledger.Deduction {
		d := ledger.Deduction{RequestID: "order", Amount: amount, State: ledger.StateUsed}
		return ledger.AfterRollback(d, rolledBack)
	}
	void := ledger.Deduction{RequestID: "order", State: ledger.StateVoid}
	part := func(n int64) *ledger.Rollback { return &ledger.Rollback{RollbackID: "r", Amount: n} }
	whole := func(n int64) *ledger.Rollback {
		return &ledger.Rollback{RollbackID: "r", Amount: n, Whole: true}
	}
	const (
		conflict = budget.RequestConflict
		nothing  = budget.AlreadyRolledBack
		exceeds  = budget.AmountExceedsRemaining
		isVoid   = budget.RequestVoid
	)
	for name, test := range map[string]struct {
		deduction ledger.Deduction
		earlier   *ledger.Rollback
		amount    int64
		units     int64
		replay    bool
		code      budget.Code
		available int64
	}{
		"the whole":              {used(10, 0), nil, 0, 10, false, "", 0},
		"what is left of it":     {used(10, 4), nil, 0, 6, false, "", 0},
		"the last unit":          {used(10, 9), nil, 0, 1, false, "", 0},
		"a part":                 {used(10, 0), nil, 3, 3, false, "", 0},
		"a part that is all":     {used(10, 0), nil, 10, 10, false, "", 0},
		"exactly the rest":       {used(10, 4), nil, 6, 6, false, "", 0},
		"one more than the rest": {used(10, 4), nil, 7, 0, false, exceeds, 6},
		"more than was deducted": {used(10, 0), nil, 11, 0, false, exceeds, 10},
		"far more":               {used(10, 0), nil, budget.MaxAmount, 0, false, exceeds, 10},

		"nothing left, the whole": {used(10, 10), nil, 0, 0, false, nothing, 0},
		"nothing left, a part":    {used(10, 10), nil, 1, 0, false, nothing, 0},
		"nothing left, too much":  {used(10, 10), nil, 11, 0, false, nothing, 0},

		"the whole, repeated":                {used(10, 10), whole(10), 0, 10, true, "", 0},
		"the rest, repeated":                 {used(10, 10), whole(6), 0, 6, true, "", 0},
		"a part, repeated":                   {used(10, 3), part(3), 3, 3, true, "", 0},
		"a part, repeated with nothing left": {used(10, 10), part(3), 3, 3, true, "", 0},

		"a part under the id of the whole":  {used(10, 10), whole(10), 10, 0, false, conflict, 0},
		"the whole under the id of a part":  {used(10, 3), part(3), 0, 0, false, conflict, 0},
		"another part under its id":         {used(10, 3), part(3), 4, 0, false, conflict, 0},
		"too much under the id of a part":   {used(10, 3), part(3), 99, 0, false, conflict, 0},
		"conflict goes before nothing left": {used(10, 10), part(3), 4, 0, false, conflict, 0},

		"a tombstone":                          {void, nil, 0, 0, false, isVoid, 0},
		"a tombstone, a part":                  {void, nil, 5, 0, false, isVoid, 0},
		"a tombstone goes before the conflict": {void, part(3), 4, 0, false, isVoid, 0},
	} {
		t.Run(name, func(t *testing.T) {
			units, replay, err := ledger.DecideRollback(test.deduction, test.earlier, test.amount)
			if units != test.units || replay != test.replay || budget.CodeOf(err) != test.code {
				t.Errorf("%d, %v, %v; want %d, %v, %q", units, replay, err, test.units, test.replay, test.code)
			}
			if e, ok := err.(*budget.Error); ok && e.Available != nil && *e.Available != test.available {
				t.Errorf("%d available, want %d", *e.Available, test.available)
			} else if test.available != 0 && (!ok || e.Available == nil) {
				t.Errorf("no figure in %v", err)
			}
		})
	}
}

func TestAfterRollback(t *testing.T) {
	d := ledger.Deduction{Amount: 10, State: ledger.StateUsed, Nonce: "n"}
	for _, step := range []struct {
		units, rolledBack int64
		state             ledger.State
	}{
		{1, 1, ledger.StateUsed}, {8, 9, ledger.StateUsed}, {1, 10, ledger.StateRolledBack},
	} {
		d = ledger.AfterRollback(d, step.units)
		if d.RolledBack != step.rolledBack || d.State != step.state || d.Amount != 10 || d.Nonce != "n" {
			t.Errorf("after %d: %+v", step.units, d)
		}
	}
}

// TestRollbacksNeverGiveBackMore checks I5 over any sequence of rollbacks and repetitions.
func TestRollbacksNeverGiveBackMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := ledger.Deduction{RequestID: "order", State: ledger.StateUsed,
			Amount: rapid.Int64Range(1, 20).Draw(t, "amount")}
		done := map[string]*ledger.Rollback{}
		given := int64(0)
		for range rapid.IntRange(1, 12).Draw(t, "rollbacks") {
			id := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "id")
			amount := rapid.Int64Range(0, 12).Draw(t, "of")
			units, replay, err := ledger.DecideRollback(d, done[id], amount)
			if err != nil {
				continue
			}
			if replay {
				if units != done[id].Amount {
					t.Fatalf("replayed %d of %+v", units, done[id])
				}
				continue
			}
			done[id] = &ledger.Rollback{RollbackID: id, Amount: units, Whole: amount == 0}
			d = ledger.AfterRollback(d, units)
			given += units
			if units < 1 || given > d.Amount || given != d.RolledBack || amount != 0 && units != amount {
				t.Fatalf("gave %d, %d in all, of %+v", units, given, d)
			}
			if (d.State == ledger.StateRolledBack) != (given == d.Amount) {
				t.Fatalf("state %s with %d of %d given back", d.State, given, d.Amount)
			}
		}
	})
}
