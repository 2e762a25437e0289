package deduct_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
)

// witness counts what the transactions of a ledger answer.
type witness struct {
	deduct.Ledger
	verdicts map[bucket.Verdict]int
	brought  int
}

func (w *witness) Commit(ctx context.Context, ops []bucket.Operation) ([]bucket.Outcome, error) {
	out, err := w.Ledger.Commit(ctx, ops)
	for i := range out {
		w.verdicts[out[i].Verdict]++
	}
	return out, err
}

func (w *witness) Bring(ctx context.Context, recent map[int64]int64, ops []bucket.Operation) (
	[]bucket.Outcome, error) {
	w.brought++
	return w.Ledger.Bring(ctx, recent, ops)
}

// TestContractionIsKnown checks that a node whose own transaction has left one bucket online sends
// what follows to that bucket, whatever the ring says, before it reads the definition again.
func TestContractionIsKnown(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		ref := d.create(t, promo("sale", 200, 4))
		w := &witness{Ledger: d.part, verdicts: map[bucket.Verdict]int{}}
		s := d.node(t, func(c *deduct.Config) { c.Ledger = w })
		sold := int64(0)
		sell := func(id string, amount int64) {
			t.Helper()
			r := bucket.DeductRequest{Budget: ref, RequestID: id, Amount: amount}
			if _, err := s.Deduct(t.Context(), r); err != nil {
				t.Fatalf("%s: %v", id, err)
			}
			sold += amount
		}
		for i := 0; w.brought == 0; i++ {
			sell(fmt.Sprint("first-", i), 20)
		}
		clear(w.verdicts)
		for i := 0; sold < 200; i++ {
			sell(fmt.Sprint("then-", i), 5)
		}
		if n := w.verdicts[bucket.Accepted]; n == 0 || len(w.verdicts) > 1 || w.brought > 1 {
			t.Errorf("after the contraction: %v, brought %d times", w.verdicts, w.brought)
		}
	})
}
