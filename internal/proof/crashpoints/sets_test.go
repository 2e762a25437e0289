package crashpoints

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/auditor"
)

// second is the name of the other budget of a set.
func second(b *bucket.Budget) bucket.BudgetRef {
	return bucket.BudgetRef{Tenant: "default", Name: b.Name + "-2"}
}

// beside creates the other budget, and executes acts.
func beside(acts ...act) func(w *world) {
	return func(w *world) {
		_, _, err := w.other.Create(w.Context(), budget.Definition{Tenant: "default", Name: second(w.b).Name,
			Unit: budget.Count, Type: budget.Promo, Durability: w.d, TotalQuantity: units, BucketQuantity: 3})
		w.ok(err)
		prepare(acts...)(w)
	}
}

// set deducts from both budgets under an id of the tenant.
func set(first, other int64, ttl time.Duration) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		a, err := n.Deduct(ctx, bucket.DeductRequest{Budget: bucket.BudgetRef{Tenant: "default"}, RequestID: b.Name,
			HoldTTL: ttl, Legs: []bucket.DeductRequest{{Budget: bucket.BudgetRef{ID: b.ID}, Amount: first},
				{Budget: second(b), Amount: other}}})
		told := string(a.State)
		for _, l := range a.Legs {
			told += fmt.Sprintf(", %s %d %s", l.Budget, l.Amount, l.Receipt)
		}
		return told, &a.Replayed, err
	}
}

// toldOf returns a set as a text.
func toldOf(v *bucket.DeductionView) string {
	told := string(v.State)
	for _, l := range v.Legs {
		told += fmt.Sprintf(", %s %d-%d %s", l.State, l.Amount, l.RolledBack, l.Budget)
	}
	return told
}

// ofSet names the set of a budget.
func ofSet(b *bucket.Budget) bucket.RollbackRequest {
	return bucket.RollbackRequest{Budget: bucket.BudgetRef{Tenant: "default"}, RequestID: b.Name}
}

// backSet rolls back the set, or parts of its legs.
func backSet(first, other int64) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		r := ofSet(b)
		if first > 0 {
			r.RollbackID, r.Amounts = "r", map[string]int64{b.Name: first, second(b).Name: other}
		}
		v, err := n.Rollback(ctx, r)
		return toldOf(&v), &v.Replayed, err
	}
}

// has checks S and H of the other budget.
func has(used, held int64) func(w *world) {
	return func(w *world) {
		report, err := auditor.Audit(w.Context(), w.s.rows, map[string]auditor.Redis{
			"m": auditor.Server(w.s.redis), "n": auditor.Server(w.s.redis)})
		w.ok(err)
		if b := report.Budgets[second(w.b).Name]; b.Used != used || b.Held != held {
			w.Errorf("the other budget: S is %d and H %d, want %d and %d", b.Used, b.Held, used, held)
		}
	}
}

// TestSets executes the verbs of sets over two budgets.
func TestSets(t *testing.T) {
	hour := time.Hour
	crash(t, budget.Ledger, []verb{
		{name: "set", before: beside(), call: set(10, 20, 0), used: 10, rest: true, check: has(20, 0)},
		{name: "set that gathers", before: beside(), call: set(10, 90, 0), used: 10, rest: true, check: has(90, 0)},
		{name: "hold", before: beside(), call: set(10, 20, hour), held: 10, rest: true, check: has(0, 20)},
		{name: "part", before: beside(set(10, 20, 0)), call: backSet(4, 5), used: 6, rest: true, check: has(15, 0)},
		{name: "rollback", before: beside(set(10, 20, hour)), call: backSet(0, 0), rest: true, check: has(0, 0)},
		{name: "confirm", before: beside(set(10, 20, hour)), call: func(ctx context.Context, n *node,
			b *bucket.Budget) (string, *bool, error) {
			list, err := n.holds.Confirm(ctx, bucket.ConfirmRequest{Budget: ofSet(b).Budget, RequestID: b.Name,
				Amounts: map[string]int64{b.Name: 6}})
			if err != nil {
				return "", new(bool), err
			}
			return toldOf(&list[0]), &list[0].Replayed, nil
		}, used: 6, rest: true, check: has(20, 0)},
		{name: "expire", before: func(w *world) {
			beside(set(10, 20, hour))(w)
			w.exec(`UPDATE hold SET hold_until_ms = 1`)
			w.exec(`UPDATE hold SET due_ms = 1 WHERE due_ms > 0`)
		}, call: loop("holds"), rest: true, check: has(0, 0)},
		{name: "cancel", before: beside(set(10, 20, 0)), call: cancelSet, rest: true, check: has(0, 0)},
		{name: "cancel before", before: beside(), call: cancelSet, rest: true, check: has(0, 0)},
	})
}

func cancelSet(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
	v, err := n.Cancel(ctx, ofSet(b))
	return toldOf(&v), nil, err
}

// drawn deducts from both budgets as sources of one leg, under an id of the tenant.
func drawn(amount int64, ttl time.Duration) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		a, err := n.Deduct(ctx, bucket.DeductRequest{Budget: bucket.BudgetRef{Tenant: "default"}, RequestID: b.Name,
			HoldTTL: ttl, Legs: []bucket.DeductRequest{{Amount: amount,
				From: []bucket.BudgetRef{{ID: b.ID}, second(b)}}}})
		told := string(a.State)
		for _, l := range a.Legs {
			for _, p := range l.Parts {
				told += fmt.Sprintf(", %s %d", p.Budget, p.Amount)
			}
		}
		return told, &a.Replayed, err
	}
}

// backLeg rolls back a part of the leg with sources, or confirms it.
func backLeg(amount int64, confirms bool) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		r := ofSet(b)
		parts := map[string]int64{b.Name: amount}
		if confirms {
			list, err := n.holds.Confirm(ctx,
				bucket.ConfirmRequest{Budget: r.Budget, RequestID: b.Name, Amounts: parts})
			list = append(list, bucket.DeductionView{})
			return toldOf(&list[0]), &list[0].Replayed, err
		}
		r.RollbackID, r.Amounts = "r", parts
		v, err := n.Rollback(ctx, r)
		return toldOf(&v), &v.Replayed, err
	}
}

// TestSetsFromSources executes the verbs of a leg that is taken from two budgets. The first one has
// 100 units, so that 130 need both.
func TestSetsFromSources(t *testing.T) {
	crash(t, budget.Ledger, []verb{
		{name: "deduct from one", before: beside(), call: drawn(10, 0), used: 10, rest: true, check: has(0, 0)},
		{name: "deduct from both", before: beside(), call: drawn(120, 0), used: 99, rest: true, check: has(21, 0)},
		{name: "part of both", before: beside(drawn(120, 0)), call: backLeg(40, false), used: 80, rest: true,
			check: has(0, 0)},
		{name: "confirm of one", before: beside(drawn(120, time.Hour)), call: backLeg(60, true), used: 60, rest: true,
			check: has(0, 0)},
		{name: "cancel", before: beside(drawn(120, 0)), call: cancelSet, rest: true, check: has(0, 0)},
	})
}

// charged makes the budget charge the other one, and executes acts.
func charged(acts ...act) func(w *world) {
	return func(w *world) {
		beside()(w)
		to, err := w.other.budgets.Find(w.Context(), second(w.b))
		w.ok(err)
		_, err = w.other.manager.Change(w.Context(), bucket.BudgetRef{ID: w.b.ID},
			bucket.Change{AlsoCharges: &budget.Charges{Names: []string{to.Name}}})
		w.ok(err)
		prepare(acts...)(w)
	}
}

// backs rolls back a part.
func backs(units int64) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		v, err := n.Rollback(ctx, bucket.RollbackRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: "a", RollbackID: "r",
			Amount: units})
		return fmt.Sprint(v.State, v.RolledBack), &v.Replayed, err
	}
}

// TestCharges executes the verbs of a budget that charges another one.
func TestCharges(t *testing.T) {
	crash(t, budget.Ledger, []verb{
		{name: "deduct", before: charged(), call: deducts("a", 10, nil), used: 10, rest: true, check: has(10, 0)},
		{name: "deduct that gathers", before: charged(), call: deducts("a", 90, nil), used: 90, rest: true, check: has(90, 0)},
		{name: "part", before: charged(deducts("a", 10, nil)), call: backs(4), used: 6, rest: true, check: has(6, 0)},
		{name: "confirm", before: charged(deducts("a", 10, holding(time.Hour, ""))),
			call: confirm(bucket.ConfirmRequest{RequestID: "a", Amount: 6}), used: 6, rest: true, check: has(6, 0)},
		{name: "confirm group", before: charged(deducts("a", 10, holding(time.Hour, "g")), deducts("b", 5, holding(time.Hour, "g"))),
			call: confirm(bucket.ConfirmRequest{Group: "g"}), used: 15, rest: true, check: has(15, 0)},
		{name: "expire", before: func(w *world) {
			charged(deducts("a", 10, holding(time.Hour, "")))(w)
			w.exec(`UPDATE hold SET hold_until_ms = 1`)
			w.exec(`UPDATE hold SET due_ms = 1 WHERE due_ms > 0`)
		}, call: loop("holds"), rest: true, check: has(0, 0)},
		{name: "cancel", before: charged(deducts("a", 10, nil)), call: cancel("a"), rest: true, check: has(0, 0)},
	})
}
