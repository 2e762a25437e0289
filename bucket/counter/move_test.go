package counter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestMove checks that a bucket that moves to another partition keeps its records, counters and
// late sums.
func TestMove(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(promo("sale", 100, 1))
		bk := b.Buckets[0]
		other := w.partitions[1]
		if bk.Partition == other {
			other = w.partitions[0]
		}
		w.deduct(b, "one", 10)
		w.deduct(b, "two", 20)
		w.ok(w.node.Move(w.Context(), b.ID, bk.ID, other))
		if got := w.books(b.ID); got.S != 30 || got.U+got.O != 70 {
			w.Errorf("%+v", got)
		}
		if now := w.read(b.ID); now.Buckets[0].Partition != other {
			w.Errorf("partition %s", now.Buckets[0].Partition)
		}
		w.deduct(b, "three", 5)
		if again := w.deduct(b, "one", 10); !again.Replayed {
			w.Errorf("replay at the new place: %+v", again)
		}
		w.rollback(b, "two", "", 5) // of the epoch on the old partition: a late sum
		w.run("store sync")
		if got := w.books(b.ID); got.S != 30 || got.U+got.O+got.R != 70 {
			w.Errorf("%+v", got)
		}
		w.deduct(b, "rest", 70)
		w.refused(b, "more", 1, budget.BudgetExhausted)
		w.settled(b, books{T: 100, S: 100})
		w.ok(w.node.Move(w.Context(), b.ID, bk.ID, bk.Partition)) // and back
		if again := w.deduct(b, "three", 5); !again.Replayed {
			w.Errorf("replay at the old place: %+v", again)
		}
	})
}

// TestMoveAfterALoss checks that where a bucket has moved to after a loss, too, a missing record
// proves nothing until the record window is over.
func TestMoveAfterALoss(t *testing.T) {
	for _, copied := range []bool{false, true} {
		t.Run(fmt.Sprint("copied=", copied), func(t *testing.T) {
			w := onRedis(t, "sqlite", 2)
			d := promo("sale", 100, 1)
			d.OnLoss = budget.AssumeUnused
			b := w.create(d)
			bk := b.Buckets[0]
			w.deduct(b, "lost", 5)
			w.flush(bk.Partition.Index)
			_ = w.try("store sync") // the partition is verified again
			w.run("store sync")
			if copied { // an epoch of the new memory
				w.deduct(b, "new", 1)
			}
			w.ok(w.node.Move(t.Context(), b.ID, bk.ID, w.partitions[1-bk.Partition.Index]))
			r := bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "lost"}
			for range 2 {
				if v, err := w.node.Rollback(t.Context(), r); !budget.Is(err, budget.OutcomeUnknown) {
					t.Errorf("rollback: %+v, %v", v, err)
				}
				if v, err := w.node.Cancel(t.Context(), r); !budget.Is(err, budget.OutcomeUnknown) {
					t.Errorf("cancel: %+v, %v", v, err)
				}
			}
			w.age(11 * time.Minute)
			r.RequestID = "other"
			if v, err := w.node.Cancel(t.Context(), r); err != nil || v.State != ledger.StateVoid {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestShrink checks that a shrink that U does not cover waits until closed epochs have returned
// enough, and is then done although its caller is gone.
func TestShrink(t *testing.T) {
	w := onRedis(t, "sqlite", 2)
	b := w.create(promo("sale", 100, 4))
	w.deduct(b, "one", 10)
	w.run("store sync")
	order := manage.Adjustment{Budget: b.ID, RequestID: "less", Quantity: -60, Nonce: "n",
		Deadline: w.db.Now().Add(time.Minute)}
	got, err := w.defs.Adjust(t.Context(), order)
	w.ok(err)
	if got.State != bucket.AdjustmentPending {
		t.Fatalf("%+v", got)
	}
	operator := &manage.Service{Ledger: w.defs}
	w.ok(operator.FinishShrinks(t.Context()))
	w.settled(b, books{T: 100, O: 90, S: 10})
	for range 4 {
		w.run("store shrinks")
	}
	w.ok(operator.FinishShrinks(t.Context()))
	if left, err := w.defs.Shrinks(t.Context(), 10); err != nil || len(left) > 0 {
		t.Fatalf("%+v, %v, %+v", left, err, w.books(b.ID))
	}
	w.deduct(b, "rest", 30)
	w.refused(b, "more", 1, budget.BudgetExhausted)
	w.settled(b, books{T: 40, S: 40})
}

// TestCompare checks that audit 3 finds nothing on live traffic and brings SQL up to date, and that
// it finds a missing entry.
func TestCompare(t *testing.T) {
	w := onRedis(t, "sqlite", 2)
	b := w.create(promo("sale", 100, 4))
	for i := range 20 {
		w.deduct(b, name(i), 2)
		if i%7 == 0 {
			w.rollback(b, name(i), "", 1)
		}
		found, unchecked, err := w.node.Compare(t.Context(), b)
		w.ok(err)
		if len(found) > 0 || len(unchecked) > 0 {
			t.Fatalf("%v, unchecked %v", found, unchecked)
		}
		if got, want := w.books(b.ID).S, int64(2*(i+1)-i/7-1); got != want {
			t.Fatalf("SQL has %d units after it, want %d", got, want)
		}
	}
	bk := &w.read(b.ID).Buckets[0]
	w.forget(bk)
	found, _, err := w.node.Compare(t.Context(), b)
	w.ok(err)
	if len(found) != 1 || found[0].Bucket != bk.Key {
		t.Errorf("%v", found)
	}
}
