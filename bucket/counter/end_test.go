package counter_test

import (
	"context"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// TestRevivedAfterItsEnd ends the period of a promo budget and returns units after it. Once the end
// is removed, the whole total can be deducted at once.
func TestRevivedAfterItsEnd(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		d := promo("sale", 1000, 4)
		d.EndAt = w.db.Now().Add(time.Hour)
		b := w.create(d)
		w.deduct(b, "a", 100)
		w.clock.Advance(time.Hour + time.Second)
		w.run("store rollover")
		w.run("store sync")
		w.run("store epochs")
		w.rollback(b, "a", "", 0)
		w.run("store sync")
		never := time.Time{}
		_, err := w.defs.Change(w.Context(), b.ID, bucket.Change{EndAt: &never})
		w.ok(err)
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
		defer cancel() // the service's deadline is the machine's clock, which is an hour behind
		_, err = w.node.Deduct(ctx, request(w.read(b.ID), "again", 1000))
		w.ok(err)
		w.settled(b, books{T: 1000, S: 1000})
	})
}
