package bucket_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// newForgetfulWorld is a store world whose stores forget all request ids, except cancelled ones, when told to.
func newForgetfulWorld(t *testing.T) (w *storeWorld, forget func()) {
	var ahead atomic.Int64
	w = newStoreWorld(t)
	for _, server := range w.servers {
		server.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	return w, func() { ahead.Add(int64(time.Hour)) } // longer than records are kept
}

// TestLimitRefusalOfAForgottenID: an id that was accepted, and that its store has forgotten before it came into the
// ledger, is not refused by the limit that it used up itself, but answered once the ledger has it (I4). Limits go on
// refusing new ids without a drain for each.
func TestLimitRefusalOfAForgottenID(t *testing.T) {
	w, forget := newForgetfulWorld(t)
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
	forget()
	second := w.node(set) // knows nothing of what the first one accepted
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

// TestConflictWithAForgottenID: an id that was accepted, forgotten by its store and accepted with another amount is the
// ledger's as it was accepted first: its repetition is no conflict (I4), that of the other is one.
func TestConflictWithAForgottenID(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("the ledger is late: ", late), func(t *testing.T) {
			w, forget := newForgetfulWorld(t)
			s := w.node(storeQuick())
			ref := w.create(s, promo("twice", 100, 1))
			if late {
				w.fails("Commit")
			}
			if _, err := deduct(s, ref, "id", 1); err != nil {
				t.Fatal(err)
			}
			if !late {
				w.settled(s, ref, 1)
				s = w.node(storeQuick()) // one that does not remember the id itself
			}
			forget()
			if a, err := deduct(s, ref, "id", 2); err != nil || a.Replayed {
				t.Fatalf("%+v, %v", a, err)
			}
			w.fails()
			if a, err := deduct(s, ref, "id", 1); err != nil || !a.Replayed || a.Amount != 1 {
				t.Errorf("as it was accepted first: %+v, %v", a, err)
			}
			if _, err := deduct(s, ref, "id", 2); !budget.Is(err, budget.RequestConflict) {
				t.Errorf("as it was accepted then: %v", err)
			}
			w.settled(s, ref, 1)
		})
	}
}
