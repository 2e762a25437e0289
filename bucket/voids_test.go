package bucket_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
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

// TestBrokenOffCancel: a void record whose tombstone could not be made is not told as final until it is: a
// deduct of the id is unavailable, or finishes the cancel, which then holds for ever (I4, I7).
func TestBrokenOffCancel(t *testing.T) {
	w := newStoreWorld(t)
	s := w.node(storeQuick())
	ref := w.create(s, promo("void", 1000, 1))
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	w.fails("CancelKnown")
	if v, err := s.Cancel(context.Background(), ref, "x"); !budget.Is(err, budget.OutcomeUnknown) {
		t.Fatalf("cancelled: %+v, %v", v, err)
	}
	if a, err := deduct(s, ref, "x", 100); !budget.Is(err, budget.Unavailable) {
		t.Errorf("while it cannot be finished: %+v, %v", a, err)
	}
	w.fails()
	wantVoid(t, s, ref)
	w.restart()
	w.until("replaced", func() bool { return w.newestEpoch(ref) > 1 })
	wantVoid(t, s, ref)
	w.settled(s, ref, 1)
}

// TestCancelOfSomeBuckets: a cancel that has left a void record anywhere does not say that it changed nothing.
func TestCancelOfSomeBuckets(t *testing.T) {
	w := newStoreWorld(t)
	var refused, calls, records atomic.Int64 // the call that is refused, 0: none; calls of it and records since
	for _, server := range w.servers {
		server.Hook = func(c memstore.Call) memstore.Fault {
			switch {
			case c.Verb != "void":
			case c.After:
				records.Add(1)
			case c.Index == 0 && calls.Add(1) == refused.Load():
				return memstore.Refuse
			}
			return memstore.Proceed
		}
	}
	s := w.node(storeQuick())
	ref := w.create(s, promo("void", 1000, 8))
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	for call, want := range []budget.Code{"", budget.Unavailable, budget.OutcomeUnknown} {
		calls.Store(0)
		records.Store(0)
		refused.Store(int64(call))
		id := fmt.Sprint("x", call)
		_, err := s.Cancel(context.Background(), ref, id)
		if got := budget.CodeOf(err); got != want || (records.Load() == 0) != (want == budget.Unavailable) {
			t.Errorf("call %d refused: %v, and %d void records; want %q", call, err, records.Load(), want)
		}
		w.until("reached", func() bool {
			_, err := s.Cancel(context.Background(), ref, id)
			return err == nil
		})
	}
	w.settled(s, ref, 1)
}

// partly is a store that tells one of a call's void orders that its epoch is gone.
type partly struct {
	*memstore.Store
	on *atomic.Bool
}

func (p partly) Void(ctx context.Context, at bucket.Lane, orders []bucket.VoidOrder) ([]bucket.Reply, error) {
	if !p.on.Load() || len(orders) < 2 {
		return p.Store.Void(ctx, at, orders)
	}
	replies, err := p.Store.Void(ctx, at, orders[1:])
	return append(replies, bucket.Reply{Verdict: bucket.EpochGone}), err
}

// TestCancelOfSomeBucketsOfALane is TestCancelOfSomeBuckets for those of one call.
func TestCancelOfSomeBucketsOfALane(t *testing.T) {
	w := newStoreWorld(t)
	on := &atomic.Bool{}
	w.connect = func() map[string]bucket.Instance {
		out := map[string]bucket.Instance{}
		for name, server := range w.servers {
			out[name] = partly{server.Connect(), on}
		}
		return out
	}
	set := storeQuick()
	set.Deadline = 500 * time.Millisecond
	s := w.node(set)
	ref := w.create(s, promo("void", 1000, 8))
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	on.Store(true)
	if _, err := s.Cancel(context.Background(), ref, "x"); !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("some have a void record: %v", err)
	}
	on.Store(false)
	if v, err := s.Cancel(context.Background(), ref, "x"); err != nil || v.State != ledger.StateVoid {
		t.Errorf("repeated: %+v, %v", v, err)
	}
	wantVoid(t, s, ref)
	w.settled(s, ref, 1)
}
