package crashpoints

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// override sets and removes overrides of the limit l.
func override(set []budget.Override, remove ...string) act {
	return done(func(ctx context.Context, n *node, b *bucket.Budget) error {
		_, err := n.Override(ctx, bucket.OverrideRequest{Budget: bucket.BudgetRef{ID: b.ID}, Limit: "l",
			Set: set, Remove: remove})
		return err
	})
}

// redefine gives the limit l another maximum, and other overrides; nil leaves those it has.
func redefine(most int64, list []budget.Override) act {
	return done(func(ctx context.Context, n *node, b *bucket.Budget) error {
		var d budget.Definition
		limited(&d)
		d.Limits.List[0].Max, d.Limits.List[0].Overrides = most, list
		_, err := n.Change(ctx, bucket.BudgetRef{ID: b.ID}, bucket.Change{Limits: &d.Limits.List})
		return err
	})
}

// several returns overrides of n values, the maximum of each being its number.
func several(n int) (list []budget.Override) {
	for i := range n {
		list = append(list, budget.Override{Value: fmt.Sprint("v", i), Max: int64(i)})
	}
	return list
}

// owns checks the rows of a budget's overrides, that they are counted, and that each node judges by
// them.
func owns(want ...string) func(w *world) {
	return func(w *world) {
		rows, err := w.s.rows.QueryContext(w.Context(), `SELECT o.value, o.max_quantity, l.override_count
			FROM budget_limit l JOIN limit_override o ON o.budget_id = l.budget_id AND o.series = l.override_series
			WHERE l.budget_id = ? ORDER BY o.value`, w.b.ID)
		w.ok(err)
		defer rows.Close()
		var got []string
		for rows.Next() {
			var value string
			var most, count int
			w.ok(rows.Scan(&value, &most, &count))
			if got = append(got, fmt.Sprint(value, " ", most)); count != len(want) {
				w.Errorf("%d overrides are counted, want %d", count, len(want))
			}
		}
		w.ok(rows.Err())
		if !slices.Equal(got, want) {
			w.Errorf("the overrides are %q, want %q", got, want)
		}
		w.b = w.reload(w.b.ID)
		for _, one := range append(want, "other 50") {
			value, most, _ := strings.Cut(one, " ")
			request := bucket.DeductRequest{Budget: w.ref(), RequestID: "own-" + value, Amount: 99,
				Dimensions: map[string]string{"user": value}}
			_, err := w.other.Deduct(w.Context(), request)
			if e, _ := err.(*budget.Error); e == nil || e.Code != budget.LimitExceeded ||
				len(e.Limits) != 1 || fmt.Sprint(e.Limits[0].Max) != most {
				w.Errorf("%s is judged by %v", one, err)
			}
		}
	}
}

// removed checks that no row of a series that is gone is left.
func removed(w *world) {
	w.ok(w.other.loop(w.Context(), "limit counters"))
	var n int
	w.ok(w.s.rows.QueryRowContext(w.Context(), `SELECT (SELECT COUNT(*) FROM limit_override o
		WHERE o.budget_id = ? AND o.series NOT IN
			(SELECT l.override_series FROM budget_limit l WHERE l.budget_id = o.budget_id)) +
		(SELECT COUNT(*) FROM limit_override_series WHERE budget_id = ?)`, w.b.ID, w.b.ID).Scan(&n))
	if n != 0 {
		w.Errorf("%d rows of series that are gone are left", n)
	}
}

// overriding are the verbs that change overrides, in either mode.
func overriding() []verb {
	two := []budget.Override{{Value: "a", Max: 7}, {Value: "b", Max: 8}}
	return []verb{
		{name: "set overrides", define: limited, call: override(two), check: owns("a 7", "b 8")},
		{name: "change an override", define: limited, before: prepare(override(two)),
			call: override([]budget.Override{{Value: "b", Max: 9}}), check: owns("a 7", "b 9")},
		{name: "remove an override", define: limited, before: prepare(override(two)),
			call: override(nil, "a"), check: owns("b 8")},
		{name: "replace overrides", define: limited, before: prepare(override(two)),
			call: redefine(50, []budget.Override{{Value: "c", Max: 1}}), check: owns("c 1")},
		{name: "keep overrides", define: limited, before: prepare(redefine(40, nil), override(two)),
			call: redefine(50, nil), check: owns("a 7", "b 8")},
		{name: "remove a series", define: limited, before: func(w *world) {
			prepare(override(several(700)), redefine(50, two))(w)
			w.exec(`UPDATE limit_override_series SET gone_ms = 1 WHERE budget_id = ?`, w.b.ID)
		}, call: loop("limit counters"), check: func(w *world) { owns("a 7", "b 8")(w); removed(w) }},
	}
}

// TestOverridesInLedger changes overrides in ledger mode.
func TestOverridesInLedger(t *testing.T) { crash(t, budget.Ledger, overriding()) }

// TestOverridesInStore changes overrides in store mode.
func TestOverridesInStore(t *testing.T) { crash(t, budget.Store, overriding()) }
