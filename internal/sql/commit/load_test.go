package commit_test

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestChangedLimitIsLoaded checks that a limit whose window changed starts from the true count,
// less the units that were given back.
func TestChangedLimitIsLoaded(t *testing.T) {
	each(t, 100, 1, []budget.Limit{perUser("amount", 50, budget.MeasureAmount)}, func(w *world) {
		w.commit(w.asks(0, "a", 7, user("u")), w.asks(0, "b", 9, user("u")), w.asks(0, "c", 2, user("v")))
		w.Exec([]any{`INSERT INTO give_back (budget_id, request_id, kind, rollback_id, amount, is_whole,
			is_direct, bucket_id, epoch, created_at) VALUES (?, ?, 'rollback', ?, 4, 0, 0, ?, 1, 0)`, w.b.ID,
			[]byte("b"), []byte("r"), w.b.Buckets[0].ID}, []any{`UPDATE bucket_epoch SET
			used_quantity = used_quantity - 4, returning_quantity = 4`})
		changed := perUser("amount", 15, budget.MeasureAmount)
		changed.Window = budget.LimitWindow{Kind: budget.WindowLifetime}
		newer := *w.b
		newer.Version = 2
		newer.Limits = limit.Change(w.b.Limits, []budget.Limit{changed}, w.DB.Now())
		w.b = &newer
		var err error
		w.set, err = limit.Compile(newer.Limits)
		w.OK(err)
		w.Exec([]any{`UPDATE bucket_epoch SET definition_version = 2`})
		out := w.want([]bucket.Verdict{bucket.Limited, bucket.Accepted}, w.asks(0, "d", 4, user("u")),
			w.asks(0, "e", 3, user("u")))
		if used := out[0].Refused[0].Used; used != 7+9-4 {
			t.Errorf("the limit reports %d used, want 12", used)
		}
		w.want([]bucket.Verdict{bucket.Limited, bucket.Accepted}, w.asks(0, "f", 1, user("u")),
			w.asks(0, "g", 13, user("v")))
	})
}

// TestManyBuckets checks that operations in more buckets than a flight may have are all written, in
// as few flights as possible.
func TestManyBuckets(t *testing.T) {
	const buckets = 520
	each(t, 2*buckets, buckets, nil, func(w *world) {
		ops, want := make([]bucket.Operation, buckets), make([]bucket.Verdict, buckets)
		for i := range ops {
			ops[i], want[i] = w.asks(i, fmt.Sprint("r", i), 1), bucket.Accepted
		}
		w.want(want, ops...)
		if packets, locking := w.decider.Forms(); packets+locking != 2 {
			t.Errorf("%d packets and %d locking transactions, want 2 together", packets, locking)
		}
		if n := w.figure(`SELECT COUNT(*) FROM bucket_epoch WHERE outstanding_quantity = 1`); n != buckets {
			t.Errorf("%d buckets gave a unit, want %d", n, buckets)
		}
		w.consistent()
	})
}
