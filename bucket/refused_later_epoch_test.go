package bucket_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// standing is a clock that stands still: what a node remembers never gets old by it.
type standing struct {
	bucket.SystemClock
	at time.Time
}

func (c *standing) Now() time.Time { return c.at }

// TestRefusalDrainsALaterEpoch: a node remembers a bucket as closed, through another it got another epoch, whose log has
// an entry that no ledger has yet. After the budget's end the node still answers a repetition of that entry with its
// outcome, and does not refuse what was accepted (I4).
func TestRefusalDrainsALaterEpoch(t *testing.T) {
	w := newStoreWorld(t)
	ctx := context.Background()
	v, dead := w.victim()
	d := promo("later", 1000, 2)
	d.EndAt = time.Now().Add(time.Hour).Truncate(time.Millisecond)
	ref := w.create(v, d)
	key, used := "", int64(0) // of the first bucket
	ask := func(s *bucket.Service, id string, amount int64) (bucket.DeductAnswer, error) {
		return s.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: id, Amount: amount, Key: key})
	}
	w.until("a key of the first bucket", func() bool {
		key = fmt.Sprint("k", used)
		a, err := ask(v, key, 1)
		if err != nil {
			t.Fatal(err)
		}
		used++
		return a.Bucket == "later:bucket-0"
	})
	w.settled(v, ref, used)
	if _, err := v.Offline(ctx, ref, "later:bucket-0"); err != nil {
		t.Fatal(err)
	}
	set := storeQuick()
	set.Chores, set.Refresh, set.Audit = time.Hour, time.Hour, time.Hour
	w.clock = &standing{at: time.Now()}
	s := w.node(set)
	if w.budget(ref).Buckets[0].Epoch.Status.Live() {
		t.Fatal("its epoch is not closed")
	}
	if _, err := s.View(ctx, ref); err != nil { // it remembers the budget
		t.Fatal(err)
	}
	dead.dead.Store(true)
	if _, err := ask(v, "x", 7); err != nil {
		t.Fatal(err)
	}
	w.ahead.Store(int64(2 * time.Hour))
	if a, err := ask(s, "x", 7); err != nil || !a.Replayed || a.Amount != 7 {
		t.Errorf("what was accepted: %+v, %v", a, err)
	}
	if _, err := ask(s, "y", 7); !budget.Is(err, budget.BudgetExpired) {
		t.Errorf("what was not: %v", err)
	}
}
