package bucket_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestLimitRefusalOfAForgottenID: an id that was accepted, and that its store has forgotten before it came into the
// ledger, is not refused by the limit that it used up itself, but answered once the ledger has it (I4). Limits go on
// refusing new ids without a drain for each.
func TestLimitRefusalOfAForgottenID(t *testing.T) {
	w, ahead := newStoreWorld(t), &atomic.Int64{}
	for _, server := range w.servers {
		server.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	set := storeQuick()
	set.Deadline = 500 * time.Millisecond
	first := w.node(set)
	definition := perUser("people")
	definition.Limits.List = definition.Limits.List[1:] // five ever
	ref := w.create(first, definition)
	w.fails("Commit")
	for i := range 5 {
		if _, err := deductFor(first, ref, "ann", fmt.Sprint("id-", i)); err != nil {
			t.Fatal(err)
		}
	}
	ahead.Store(int64(time.Hour)) // longer than records are kept
	second := w.node(set)         // and knows nothing of what the first one accepted
	if a, err := deductFor(second, ref, "ann", "id-4"); !budget.Is(err, budget.Unavailable) && !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("before it is in the ledger: %+v, %v", a, err)
	}
	w.fails()
	var answer bucket.DeductAnswer
	w.until("the id is answered", func() bool {
		var err error
		if answer, err = deductFor(second, ref, "ann", "id-4"); budget.Is(err, budget.LimitExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
	if !answer.Replayed || answer.Amount != 1 {
		t.Errorf("%+v", answer)
	}
	_, err := deductFor(second, ref, "ann", "new")
	wantUsed(t, err, "ever", 5)
	w.fails("Commit", "Budget", "Epochs")
	_, err = deductFor(second, ref, "ann", "newer")
	wantUsed(t, err, "ever", 5)
	w.fails()
	w.settled(first, ref, 5)
}
