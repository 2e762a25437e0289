package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// newVoidWorld is a store world in which "x" was cancelled, with a hand on the stores' clock.
func newVoidWorld(t *testing.T, clock bucket.Clock) (*storeWorld, *bucket.Service, bucket.BudgetRef, *atomic.Int64) {
	t.Helper()
	w, ahead := newStoreWorld(t), &atomic.Int64{}
	w.clock = clock
	for _, server := range w.servers {
		server.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	}
	s := w.node(storeQuick())
	ref := w.create(s, promo("void", 1000, 1))
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Cancel(context.Background(), ref, "x"); err != nil || v.State != ledger.StateVoid {
		t.Fatalf("%+v, %v", v, err)
	}
	return w, s, ref, ahead
}

func wantVoid(t *testing.T, s *bucket.Service, ref bucket.BudgetRef) {
	t.Helper()
	if a, err := deduct(s, ref, "x", 100); !budget.Is(err, budget.RequestVoid) {
		t.Errorf("a cancelled id: %+v, %v", a, err)
	}
}

// TestVoidOutlivesTheRecordWindow: an id whose cancel was told void is not told accepted when its deduct
// comes later than stores remember deductions (I4, I7).
func TestVoidOutlivesTheRecordWindow(t *testing.T) {
	w, s, ref, ahead := newVoidWorld(t, nil)
	ahead.Store(int64(time.Hour))
	if _, err := deduct(s, ref, "other", 1); err != nil {
		t.Fatal(err)
	}
	wantVoid(t, s, ref)
	wantVoid(t, w.node(storeQuick()), ref)
	w.settled(s, ref, 2)
}

// TestVoidOutlivesItsEpoch: nor in an epoch that began after the cancel, once that is no longer young
// (I4, I7).
func TestVoidOutlivesItsEpoch(t *testing.T) {
	clock := &stepped{}
	w, s, ref, _ := newVoidWorld(t, clock)
	w.restart()
	w.until("replaced", func() bool { return w.newestEpoch(ref) > 1 })
	if _, err := deduct(s, ref, "other", 1); err != nil {
		t.Fatal(err)
	}
	wantVoid(t, s, ref)
	clock.back.Store(-int64(time.Hour))
	if _, err := deduct(s, ref, "later", 1); err != nil {
		t.Fatal(err)
	}
	wantVoid(t, s, ref)
	w.settled(s, ref, 3)
}

// TestRepeatOfACancelledDeduction: an id that was accepted, forgotten by its store and cancelled has a
// void record and a deduction that was given back: a repetition is told what became of it (I4).
func TestRepeatOfACancelledDeduction(t *testing.T) {
	w, s, ref, ahead := newVoidWorld(t, nil)
	if _, err := deduct(s, ref, "done", 7); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 8)
	ahead.Store(int64(time.Hour))
	v, err := s.Cancel(context.Background(), ref, "done")
	if err != nil || v.State != ledger.StateRolledBack {
		t.Fatalf("%+v, %v", v, err)
	}
	for _, node := range []*bucket.Service{s, w.node(storeQuick())} {
		a, err := deduct(node, ref, "done", 7)
		if err != nil || !a.Replayed || a.State != ledger.StateRolledBack {
			t.Errorf("the repetition: %+v, %v", a, err)
		}
	}
	w.settled(s, ref, 1)
}

// TestVoidsCannotBeRead: while a node cannot know what was cancelled before an epoch began it accepts
// nothing there (I4, I7); an epoch that it knows serves on.
func TestVoidsCannotBeRead(t *testing.T) {
	w, s, ref, _ := newVoidWorld(t, nil)
	w.fails("Voids")
	if _, err := deduct(s, ref, "known", 1); err != nil {
		t.Errorf("an epoch that is known: %v", err)
	}
	other := w.node(storeQuick())
	if a, err := deduct(other, ref, "y", 1); !budget.Is(err, budget.Unavailable) {
		t.Errorf("another node: %+v, %v", a, err)
	}
	w.fails()
	if _, err := deduct(other, ref, "y", 1); err != nil {
		t.Errorf("once it can: %v", err)
	}
	w.settled(s, ref, 3)
}
