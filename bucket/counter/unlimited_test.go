package counter_test

import (
	"context"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// unlimited returns a definition in store mode without a total.
func unlimited(name string, buckets int) budget.Definition {
	return budget.Definition{Tenant: "shop", Name: name, Unit: budget.Count, Unlimited: true,
		Durability: budget.Store, BucketQuantity: buckets}
}

// TestUnlimited checks that a budget without a total covers any amount, that only its limits refuse,
// and that its units neither come from U nor go there.
func TestUnlimited(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		d := unlimited("ads", 2)
		d.RoutingDimension = "user"
		d.Limits = &budget.Limits{List: []budget.Limit{{Name: "cap", Dimension: "user", Max: 2,
			Enforce: true, Measure: budget.MeasureCount,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
		b := w.create(d)
		take := func(id, user string, amount int64) error {
			r := request(b, id, amount)
			r.Dimensions = map[string]string{"user": user}
			a, err := w.node.Deduct(w.Context(), r)
			if err == nil && !a.Unlimited {
				w.Errorf("%s: %+v", id, a)
			}
			return err
		}
		// Together they are above the largest amount, in the same bucket and in others.
		for i := range 6 {
			w.ok(take(name(i), string(rune('a'+i/2)), budget.MaxAmount))
			w.run("store sync")
		}
		if err := take("third", "a", 1); !budget.Is(err, budget.LimitExceeded) {
			w.Errorf("above the limit: %v", err)
		}
		w.ok(take(name(0), "a", budget.MaxAmount)) // a repeat
		v, err := w.node.Rollback(w.Context(), bucket.RollbackRequest{Budget: ref(b),
			RequestID: name(5), Key: "c"})
		w.ok(err)
		if v.RolledBack != budget.MaxAmount {
			w.Errorf("rollback: %+v", v)
		}
		w.ok(take("again", "c", 7))
		w.run("store sync")
		w.run("store epochs")
		if got := w.books(b.ID); got.T+got.F+got.U+got.Q+got.X != 0 {
			w.Errorf("%+v", got)
		}
	})
}

// TestUnlimitedIsLost checks that a lost store of a budget without a total leaves nothing in
// quarantine, and that deductions continue.
func TestUnlimitedIsLost(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(unlimited("ads", 1))
	w.deduct(b, "one", 5)
	w.run("store sync")
	w.flush(0)
	_ = w.try("store sync") // the partition is verified again
	w.deduct(b, "two", 6)
	w.run("store sync")
	w.run("store epochs")
	if got := w.books(b.ID); got.T+got.F+got.U+got.Q+got.X != 0 || got.S != 11 {
		w.Errorf("%+v", got)
	}
}

// TestUnlimitedBuckets checks that the buckets of a budget without a total can go offline and
// online, apply, recycle and move, and that no unit is counted meanwhile.
func TestUnlimitedBuckets(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(unlimited("ads", 2))
		bk := b.Buckets[0]
		other := w.partitions[0]
		if bk.Partition == other {
			other = w.partitions[1]
		}
		verb := func(do func(context.Context, bucket.BudgetRef, string) (bucket.BucketView, error)) func() error {
			return func() error { _, err := do(w.Context(), ref(b), bk.Key); return err }
		}
		for i, step := range []func() error{
			func() error { return nil },
			verb(w.moves.Offline), verb(w.moves.Online), verb(w.moves.ApplyTo),
			func() error { _, err := w.moves.Recycle(w.Context(), ref(b)); return err },
			func() error { return w.node.Move(w.Context(), b.ID, bk.ID, other) },
		} {
			w.ok(step())
			if w.read(b.ID).Buckets[0].Online {
				for n := range 4 {
					w.deduct(b, name(10*i+n), 5)
					w.rollback(b, name(10*i+n), "", 3)
				}
			}
			w.run("store sync")
			w.run("store epochs")
			if got := w.books(b.ID); got.T+got.F+got.U+got.Q+got.X != 0 {
				w.Errorf("step %d: %+v", i, got)
			}
			found, away, err := w.node.Compare(w.Context(), w.read(b.ID))
			if len(found)+len(away) > 0 || err != nil {
				w.Errorf("step %d: %v, unchecked %v, %v", i, found, away, err)
			}
		}
		if got := w.books(b.ID); got.S != 5*4*2 {
			w.Errorf("%+v", got)
		}
	})
}
