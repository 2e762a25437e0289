package bucket_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestAmountBeyondTheWindow: an amount larger than the window is accepted as soon as the ledger has
// everything before it, and not sooner.
func TestAmountBeyondTheWindow(t *testing.T) {
	w := newStoreWorld(t)
	set := storeQuick()
	set.Deadline, set.WindowUnits, set.WindowTime = 400*time.Millisecond, 40, time.Hour
	s := w.node(set)
	ref := w.create(s, promo("large", 1000, 1))
	if _, err := deduct(s, ref, "first", 1); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 1)
	w.fails("Commit")
	if _, err := deduct(s, ref, "small", 30); err != nil {
		t.Fatal(err)
	}
	if _, err := deduct(s, ref, "large", 100); !budget.Is(err, budget.Unavailable) {
		t.Errorf("while the ledger is behind: %v", err)
	}
	w.fails()
	var answer bucket.DeductAnswer
	w.until("the ledger has what came before", func() bool {
		var err error
		answer, err = deduct(s, ref, "large", 100)
		return err == nil
	})
	if answer.Amount != 100 || answer.Replayed {
		t.Errorf("%+v", answer)
	}
	w.settled(s, ref, 131)
}
