package bucket_test

import (
	"context"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
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
