package bucket_test

import (
	"context"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestRefusedShrinkStaysRefused: a node that found a shrink pending goes on with it after another one
// has refused it, and units have come back since: nothing happens, as its caller was told so (I8).
func TestRefusedShrinkStaysRefused(t *testing.T) { inEveryWorld(t, refusedShrinkStaysRefused) }

func refusedShrinkStaysRefused(t *testing.T, w *world) {
	s := w.node(quick)
	ref := w.create(s, promo("shrunk", 10, 1))
	ctx := context.Background()
	if _, err := deduct(s, ref, "all", 10); err != nil {
		t.Fatal(err)
	}
	found := bucket.Adjustment{Budget: ref.ID, RequestID: "less", Quantity: -5, Deadline: w.sql.Now().Add(time.Minute)}
	state, _, err := w.sql.Adjust(ctx, found)
	if state != bucket.AdjustmentRefused || !budget.Is(err, budget.AmountExceedsRemaining) {
		t.Fatalf("nothing is left: %s, %v", state, err)
	}
	if _, err := s.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "all"}); err != nil {
		t.Fatal(err)
	}
	found.Continue = true
	if state, _, err := w.sql.Adjust(ctx, found); state != bucket.AdjustmentRefused || err != nil {
		t.Errorf("going on with a refused shrink: %s, %v", state, err)
	}
	if v, err := s.View(ctx, ref); err != nil || v.Definition.TotalQuantity != 10 {
		t.Errorf("the total is %d, %v", v.Definition.TotalQuantity, err)
	}
	if v, err := s.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: "less", Quantity: -5}); err != nil ||
		v.Definition.TotalQuantity != 5 {
		t.Errorf("the id may be used again: total %d, %v", v.Definition.TotalQuantity, err)
	}
	w.settled(s, ref, 0)
}

// TestShrinkBesideABucketOutOfReach: a shrink that the buckets within reach cover is done although another one, which
// holds as much, cannot be reached.
func TestShrinkBesideABucketOutOfReach(t *testing.T) {
	w := newWorld(t)
	ref := w.create(w.node(slow()), promo("shrunk", 180, 6))
	first := w.budget(ref).Buckets[0]
	all := w.connect
	w.connect = func() map[string]bucket.Instance {
		out := all()
		delete(out, first.Lane.Instance)
		return out
	}
	v, err := w.node(slow()).Adjust(context.Background(), bucket.AdjustRequest{Budget: ref, RequestID: "less", Quantity: -30})
	if err != nil || v.Definition.TotalQuantity != 150 {
		t.Errorf("%+v, %v", v.Definition, err)
	}
	if got := w.budget(ref).Buckets[0].Epoch; got.Status != ledger.Open || got.Outstanding != 30 {
		t.Errorf("the one out of reach: %+v", got)
	}
}

// TestShrinkLeavesOffline: a shrink that takes back what a bucket holds which an operator is taking offline leaves it offline,
// and what finishes that before it is brought online again is the same.
func TestShrinkLeavesOffline(t *testing.T) { inEveryWorld(t, shrinkLeavesOffline) }

func shrinkLeavesOffline(t *testing.T, w *world) {
	s := w.node(slow())
	ref := w.create(s, promo("shrunk", 90, 3))
	ctx := context.Background()
	first := w.budget(ref).Buckets[0]
	if began, err := w.sql.Ending(ctx, ref.ID, first.Ref(), bucket.ByOperator, false); !began || err != nil {
		t.Fatal(began, err)
	}
	v, err := s.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: "less", Quantity: -30})
	if err != nil || v.Definition.TotalQuantity != 60 {
		t.Errorf("%+v, %v", v.Definition, err)
	}
	if got := w.budget(ref).Buckets[0]; got.Online || got.OfflineBy != bucket.ByOperator || got.Epoch.Status != ledger.Closed {
		t.Errorf("the one that an operator took offline: %+v", got)
	}
	if got, err := s.Online(ctx, ref, first.Key); err != nil || !got.Online {
		t.Errorf("online again: %+v, %v", got, err)
	}
}
