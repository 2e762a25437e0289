package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// holdRequest asks for a hold of 5 units.
func holdRequest(ref bucket.BudgetRef, id, group string, ttl time.Duration) bucket.DeductRequest {
	return bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 5, HoldTTL: ttl, Group: group}
}

func TestHolds(t *testing.T) { everywhere(t, holds) }

func holds(t *testing.T, w *world) {
	s, other := w.node(quick), w.node(quick)
	ref := w.create(s, promo("holds", 1000, 3))
	ctx := context.Background()
	take := func(id, group string, ttl time.Duration) bucket.DeductAnswer {
		t.Helper()
		a, err := s.Deduct(ctx, holdRequest(ref, id, group, ttl))
		if err != nil || a.State != ledger.StateHeld {
			t.Fatalf("%s: %+v, %v", id, a, err)
		}
		return a
	}
	a := take("part", "", time.Hour)
	for range 2 {
		got, err := other.Confirm(ctx, bucket.ConfirmRequest{Budget: ref, RequestID: "part", Amount: 2, Receipt: a.Receipt})
		if err != nil || len(got) != 1 || got[0].State != ledger.StateUsed || got[0].Confirmed != 2 || got[0].RolledBack != 3 {
			t.Fatalf("confirm: %+v, %v", got, err)
		}
	}
	again, err := other.Deduct(ctx, holdRequest(ref, "part", "", time.Hour))
	if err != nil || !again.Replayed || again.State != ledger.StateUsed || again.HoldUntil.IsZero() {
		t.Errorf("repeated: %+v, %v", again, err)
	}
	if _, err := other.Deduct(ctx, holdRequest(ref, "part", "", time.Minute)); !budget.Is(err, budget.RequestConflict) {
		t.Errorf("with another ttl: %v", err)
	}
	for i := range 4 {
		take(fmt.Sprint("g", i), "g", time.Hour)
	}
	if got, err := other.Extend(ctx, bucket.ExtendRequest{Budget: ref, Group: "g", HoldTTL: 2 * time.Hour}); err != nil || len(got) != 4 {
		t.Errorf("extend: %+v, %v", got, err)
	}
	for i := range 2 {
		got, err := other.Confirm(ctx, bucket.ConfirmRequest{Budget: ref, Group: "g"})
		if err != nil || len(got) != 4 || got[3].RequestID != "g3" || got[3].State != ledger.StateUsed || got[3].Replayed != (i == 1) {
			t.Fatalf("group: %+v, %v", got, err)
		}
	}
	late, err := s.Deduct(ctx, holdRequest(ref, "late", "g", time.Hour))
	if w.durability == budget.Ledger && !budget.Is(err, budget.GroupClosed) || w.durability == budget.Store && err != nil {
		t.Errorf("late: %+v, %v", late, err)
	}
	if _, err := s.Cancel(ctx, ref, "late"); err != nil {
		t.Error(err)
	}
	take("back-1", "b", time.Hour)
	take("back-2", "b", time.Hour)
	if got, err := other.RollbackGroup(ctx, bucket.RollbackRequest{Budget: ref, Group: "b"}); err != nil || len(got) != 2 ||
		got[0].State != ledger.StateRolledBack {
		t.Errorf("rollback: %+v, %v", got, err)
	}
	take("gone", "", time.Millisecond)
	w.until("the hold has expired", func() bool {
		v, err := s.Deduction(ctx, ref, "gone")
		return err == nil && v.State == ledger.StateExpired && v.RolledBack == 5
	})
	if _, err := s.Confirm(ctx, bucket.ConfirmRequest{Budget: ref, RequestID: "gone"}); !budget.Is(err, budget.HoldExpired) {
		t.Errorf("confirm after the end: %v", err)
	}
	f := w.quiet(s, ref).Figures
	if f.Used != 2+20 || f.Held != 0 {
		t.Errorf("%+v", f)
	}
}

// stuckHold is SQL whose oldest hold that is due cannot be ended; before it there is a row without a hold.
type stuckHold struct {
	bucket.SQL
	err   error
	stuck atomic.Bool
}

func (q *stuckHold) ExpireHolds(ctx context.Context, limit, skip int) (bucket.Expired, error) {
	switch {
	case !q.stuck.Load():
		return q.SQL.ExpireHolds(ctx, limit, skip)
	case skip == 0 && limit == 1:
		return bucket.Expired{Found: 1}, nil
	case skip <= 1:
		return bucket.Expired{}, q.err
	}
	return q.SQL.ExpireHolds(ctx, limit, skip-1)
}

// writer is a function that takes what is written.
type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestStuckHold: one hold that cannot be ended holds up no other, is ended as soon as it can be, and is reported.
func TestStuckHold(t *testing.T) {
	for name, err := range map[string]error{
		"a row that cannot be written":          errors.New("this row cannot be written"),
		"a row that it belongs to is not there": &budget.Error{Code: budget.Unavailable, Message: "done again too often"},
	} {
		t.Run(name, func(t *testing.T) { aStuckHold(t, err) })
	}
}

func aStuckHold(t *testing.T, err error) {
	w := newWorld(t)
	var reported atomic.Bool
	w.log = slog.New(slog.NewTextHandler(writer(func(line []byte) (int, error) {
		if bytes.Contains(line, []byte("a hold cannot be ended")) {
			reported.Store(true)
		}
		return len(line), nil
	}), nil))
	stuck := &stuckHold{SQL: w.sql, err: err}
	stuck.stuck.Store(true)
	w.sql = stuck
	s := w.node(quick)
	ref := w.create(s, promo("holds", 1000, 3))
	for i := range 20 {
		if _, err := s.Deduct(context.Background(), holdRequest(ref, fmt.Sprint("h", i), "", time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	expired := func() (n int) {
		for i := range 20 {
			v, err := s.Deduction(context.Background(), ref, fmt.Sprint("h", i))
			if err == nil && v.State == ledger.StateExpired {
				n++
			}
		}
		return n
	}
	w.until("all but one have expired", func() bool { return expired() == 19 })
	w.until("it is reported", reported.Load)
	stuck.stuck.Store(false)
	w.until("all have expired", func() bool { return expired() == 20 })
	if f := w.quiet(s, ref).Figures; f.Used != 0 || f.Held != 0 {
		t.Errorf("%+v", f)
	}
}

func TestHoldsRefused(t *testing.T) {
	w := newWorld(t)
	s := w.node(quick)
	ref := w.create(s, promo("holds", 1000, 3))
	ctx := context.Background()
	for name, r := range map[string]bucket.DeductRequest{
		"a group without a ttl":   holdRequest(ref, "x", "g", 0),
		"a negative ttl":          holdRequest(ref, "x", "", -time.Second),
		"too short":               holdRequest(ref, "x", "", time.Microsecond),
		"too long":                holdRequest(ref, "x", "", budget.MaxHoldTTL+time.Millisecond),
		"a part of a millisecond": holdRequest(ref, "x", "", 1500*time.Microsecond),
	} {
		if _, err := s.Deduct(ctx, r); !budget.Is(err, budget.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, r := range map[string]bucket.ConfirmRequest{
		"neither": {Budget: ref}, "both": {Budget: ref, RequestID: "x", Group: "g"},
		"an amount with a group": {Budget: ref, Group: "g", Amount: 1}, "a negative amount": {Budget: ref, RequestID: "x", Amount: -1},
	} {
		if _, err := s.Confirm(ctx, r); !budget.Is(err, budget.Invalid) {
			t.Errorf("confirm, %s: %v", name, err)
		}
	}
	if _, err := s.Extend(ctx, bucket.ExtendRequest{Budget: ref, RequestID: "x"}); !budget.Is(err, budget.Invalid) {
		t.Errorf("extend without a ttl: %v", err)
	}
	if _, err := s.RollbackGroup(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "x"}); !budget.Is(err, budget.Invalid) {
		t.Errorf("rollback without a group: %v", err)
	}
	if _, err := s.Confirm(ctx, bucket.ConfirmRequest{Budget: ref, RequestID: "x"}); !budget.Is(err, budget.DeductionNotFound) {
		t.Errorf("confirm of what never was: %v", err)
	}
}

// TestHoldsOfADeadOwner: 10,000 holds whose node is gone return to the unit, by any other node.
func TestHoldsOfADeadOwner(t *testing.T) {
	const owners, n = 50, 10_000
	w := newStoreWorld(t) // for its clock
	w.durability = budget.Ledger
	owner := w.node(quick)
	ref := w.create(owner, promo("dead", 100_000, 3))
	ctx := context.Background()
	var all sync.WaitGroup
	for i := range owners {
		all.Go(func() {
			for j := i; j < n; j += owners {
				if _, err := owner.Deduct(ctx, holdRequest(ref, fmt.Sprint("h", j), "", time.Hour)); err != nil {
					t.Errorf("hold %d: %v", j, err)
				}
			}
		})
	}
	all.Wait()
	step, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := owner.Stop(step); err != nil {
		t.Fatal(err)
	}
	if f, err := w.sql.Figures(ctx, 1); err != nil || f.Held != 5*n {
		t.Fatalf("held by nobody: %+v, %v", f, err)
	}
	w.ahead.Store(int64(time.Hour))
	heir := w.node(quick)
	w.until("all units are back", func() bool {
		v, err := heir.View(ctx, ref)
		return err == nil && v.Figures.Held == 0 && v.Figures.Returning == 0
	})
	if f := w.quiet(heir, ref).Figures; f.Used != 0 || f.Held != 0 || f.Undistributed+f.Remaining != 100_000 {
		t.Errorf("%+v", f)
	}
}
