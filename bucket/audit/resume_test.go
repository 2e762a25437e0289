package audit_test

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestResume checks that the halt of a bucket whose figures disagree stays and names them, and
// that it is lifted once they agree. Meanwhile no key is routed to the bucket.
func TestResume(t *testing.T) {
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
		if _, err := w.s.Resume(w.Ctx, ref, key); !budget.Is(err, budget.BucketHalted) {
			w.Errorf("while its figures disagree: %v", err)
		}
		if got := w.halted(b); len(got) != 1 {
			w.Errorf("halted: %v", got)
		}
		w.Exec([]any{`UPDATE bucket_epoch SET used_quantity = used_quantity + 1 WHERE bucket_id = ?`, id})
		for range 2 { // a repetition is harmless
			view, err := w.s.Resume(w.Ctx, ref, "bucket-1")
			if w.OK(err); view.Key != key || view.Epoch.Halted != "" {
				w.Errorf("%+v", view)
			}
		}
		b = w.find(b.ID)
		w.deduct(operation(b, 1, "c", 1))
		w.clean(b)
		if _, err := w.s.Resume(w.Ctx, ref, "bucket-7"); !budget.Is(err, budget.BucketNotFound) {
			w.Errorf("no such bucket: %v", err)
		}
		reached := false
		for i := range 50 {
			reached = reached || b.Route(string(rune('a'+i))).ID == id
		}
		if !reached {
			w.Error("no key goes to the bucket after its halt was lifted")
		}
	})
}
