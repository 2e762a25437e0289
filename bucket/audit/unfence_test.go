package audit_test

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestUnfence checks that the fence of a bucket whose figures disagree stays and names them, and
// that it is lifted once they agree. Meanwhile no key is routed to the bucket.
func TestUnfence(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("sale", 100, 2)
		w.deduct(operation(b, 0, "a", 7), operation(b, 1, "b", 9))
		key, id := b.Buckets[1].Key, b.Buckets[1].ID
		ref := bucket.BudgetRef{ID: b.ID}
		w.Exec([]any{`UPDATE bucket_epoch SET used_quantity = used_quantity - 1 WHERE bucket_id = ?`, id})
		if w.audit(b).OK {
			w.Fatal("the audit found nothing")
		}
		b, err := w.budgets.Reload(w.Ctx, b.ID)
		w.OK(err)
		for i := range 50 {
			if got := b.Route(string(rune('a' + i))); got == nil || got.ID == id {
				w.Fatalf("key %d goes to %+v", i, got)
			}
		}
		if _, err := w.s.Unfence(w.Ctx, ref, key); !budget.Is(err, budget.BucketFenced) {
			w.Errorf("while its figures disagree: %v", err)
		}
		if got := w.fenced(b); len(got) != 1 {
			w.Errorf("fenced: %v", got)
		}
		w.Exec([]any{`UPDATE bucket_epoch SET used_quantity = used_quantity + 1 WHERE bucket_id = ?`, id})
		for range 2 { // a repetition is harmless
			view, err := w.s.Unfence(w.Ctx, ref, "bucket-1")
			if w.OK(err); view.Key != key || view.Epoch.Fenced != "" {
				w.Errorf("%+v", view)
			}
		}
		b = w.find(b.ID)
		w.deduct(operation(b, 1, "c", 1))
		w.clean(b)
		if _, err := w.s.Unfence(w.Ctx, ref, "bucket-7"); !budget.Is(err, budget.BucketNotFound) {
			w.Errorf("no such bucket: %v", err)
		}
		reached := false
		for i := range 50 {
			reached = reached || b.Route(string(rune('a'+i))).ID == id
		}
		if !reached {
			w.Error("no key goes to the bucket after its fence was lifted")
		}
	})
}
