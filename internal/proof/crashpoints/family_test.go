package crashpoints

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// childOf names the child of a budget.
func childOf(b *bucket.Budget) bucket.BudgetRef {
	return bucket.BudgetRef{Tenant: b.Tenant, Name: b.Name + "-child"}
}

// carve creates a child with a total.
func carve(total int64) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		v, created, err := n.Create(ctx, budget.Definition{Tenant: b.Tenant, Name: childOf(b).Name,
			ParentName: b.Name, Unit: b.Unit, Durability: budget.Ledger, Type: budget.Promo,
			TotalQuantity: total, BucketQuantity: 2})
		replayed := !created
		return fmt.Sprint(v.Definition.TotalQuantity), &replayed, err
	}
}

// adjustChild appends a quantity to the child, or shrinks it.
func adjustChild(quantity int64) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		v, err := n.Adjust(ctx, bucket.AdjustRequest{Budget: childOf(b), RequestID: "adj",
			Quantity: quantity})
		return fmt.Sprint(v.Definition.TotalQuantity), &v.Replayed, err
	}
}

// family checks that a child has its units, and that its parent has the others: both can be
// deducted to the last one.
func family(child int64) func(w *world) {
	return func(w *world) {
		parent, err := w.other.View(w.Context(), w.ref())
		w.ok(err)
		if parent.Figures.Allocated != child {
			w.Errorf("%d units are with the child, want %d", parent.Figures.Allocated, child)
		}
		for ref, left := range map[bucket.BudgetRef]int64{w.ref(): units - child, childOf(w.b): child} {
			_, err = w.other.Deduct(w.Context(), bucket.DeductRequest{Budget: ref, RequestID: "one too many",
				Amount: left + 1})
			if !budget.Is(err, budget.BudgetExhausted) {
				w.Errorf("%d of %d: %v", left+1, left, err)
			}
			_, err = w.other.Deduct(w.Context(), bucket.DeductRequest{Budget: ref, RequestID: "all",
				Amount: left})
			w.ok(err)
		}
	}
}

// ofChild does to the child what an act does to a budget.
func ofChild(do act) act {
	return func(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
		child, err := n.budgets.Find(ctx, childOf(b))
		if err != nil {
			return "", nil, err
		}
		return do(ctx, n, child)
	}
}

// closes closes the child.
func closes(ctx context.Context, n *node, b *bucket.Budget) (string, *bool, error) {
	v, err := n.manager.Close(ctx, childOf(b))
	return fmt.Sprint(v.Definition.TotalQuantity), nil, err
}

// closed checks that a child that has ended has what it used, and its parent all the rest.
func closed(used int64) func(w *world) {
	return func(w *world) {
		parent, err := w.other.View(w.Context(), w.ref())
		w.ok(err)
		child, err := w.other.View(w.Context(), childOf(w.b))
		w.ok(err)
		if parent.Figures.Allocated != used || child.Figures.Total != used || child.Status != budget.Expired {
			w.Errorf("%d units are with the child, want %d: %+v", parent.Figures.Allocated, used, child.Figures)
		}
	}
}
