package deduct_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
)

// node starts a service on books.
func node(t testing.TB, b *books, change func(*deduct.Config)) *deduct.Service {
	t.Helper()
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: b})
	if err != nil {
		t.Fatal(err)
	}
	config := deduct.Config{Budgets: budgets, Ledger: b, Lookup: b, Rollover: b}
	if change != nil {
		change(&config)
	}
	s, err := deduct.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func request(a *account, id string, amount int64) bucket.DeductRequest {
	return bucket.DeductRequest{Budget: bucket.BudgetRef{Tenant: a.Tenant, Name: a.Name}, RequestID: id, Amount: amount}
}

func TestAccepted(t *testing.T) {
	b := newBooks()
	a := b.add("sale", 100, 1, 100)
	s := node(t, b, nil)
	got, err := s.Deduct(context.Background(), request(a, "o1", 30))
	want := bucket.DeductAnswer{RequestID: "o1", Amount: 30, State: "used", Bucket: "sale:bucket-0", BucketRemaining: 70,
		BudgetRemaining: 70, Receipt: "1000.1"}
	got.Limits = nil
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	again, err := s.Deduct(context.Background(), request(a, "o1", 30))
	want.Replayed = true
	if err != nil || fmt.Sprint(again) != fmt.Sprint(want) {
		t.Errorf("repeated: %+v, %v, want %+v", again, err, want)
	}
	if _, err := s.Deduct(context.Background(), request(a, "o1", 31)); !budget.Is(err, budget.RequestConflict) {
		t.Errorf("another amount: %v", err)
	}
	if units, rows := b.used(a.ID); units != 30 || rows != 1 {
		t.Errorf("%d units in %d rows", units, rows)
	}
}

// TestEachForItself checks that an error of one request in a batch is only its own answer.
func TestEachForItself(t *testing.T) {
	b := newBooks()
	a, paused := b.add("mixed", 100, 2, 50), b.add("paused", 100, 1, 100)
	b.change(paused.ID, func(a *account) { a.Paused = true })
	s := node(t, b, nil)
	if _, err := s.Deduct(context.Background(), request(a, "old", 3)); err != nil {
		t.Fatal(err)
	}
	hold, short, group := request(a, "hold", 5), request(a, "short", 5), request(a, "group", 5)
	hold.HoldTTL, short.HoldTTL, group.Group = time.Minute, time.Microsecond, "g"
	requests := []bucket.DeductRequest{request(a, "a", 10), request(a, "old", 3), request(a, "old", 4),
		request(paused, "p", 1), {Budget: bucket.BudgetRef{ID: 999}, RequestID: "x", Amount: 1}, hold, short, group,
		request(a, "too much", 101), request(a, "a", 10), request(a, "a", 11)}
	want := []budget.Code{"", "", budget.RequestConflict, budget.BudgetPaused, budget.BudgetNotFound, "", budget.Invalid,
		budget.Invalid, budget.BudgetExhausted, "", budget.RequestConflict}
	for i, r := range s.DeductAll(context.Background(), requests) {
		if code := budget.CodeOf(r.Err); code != want[i] {
			t.Errorf("%d %s: %v, want %q", i, requests[i].RequestID, r.Err, want[i])
		}
		if replayed := i == 1 || i == 9; r.Answer.Replayed != replayed {
			t.Errorf("%d %s: %+v", i, requests[i].RequestID, r.Answer)
		}
	}
	if units, rows := b.used(a.ID); units != 18 || rows != 3 {
		t.Errorf("%d units in %d rows", units, rows)
	}
}

// TestSellOut sells a budget through two nodes to callers with single requests and batches, with
// ids that come twice. Every unit is sold, each id once, and every refusal is final.
func TestSellOut(t *testing.T) {
	b := newBooks()
	const total, callers, batches, size = 900, 6, 8, 30
	a := b.add("sale", total, 5, 100)
	nodes := []*deduct.Service{node(t, b, nil), node(t, b, nil)}
	accepted := &answers{t: t, answers: map[string]bucket.DeductAnswer{}, refused: map[string]bool{}}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for n := range batches {
				requests := make([]bucket.DeductRequest, size)
				for i := range requests {
					requests[i] = request(a, fmt.Sprintf("%d-%d-%d", caller, n, i&^1), 1) // each id twice
				}
				s := nodes[(caller+n)%2]
				if caller%3 > 0 {
					accepted.note(requests, s.DeductAll(context.Background(), requests))
					continue
				}
				for _, r := range requests {
					got, err := s.Deduct(context.Background(), r)
					accepted.note([]bucket.DeductRequest{r}, []bucket.DeductResult{{Answer: got, Err: err}})
				}
			}
		})
	}
	all.Wait()
	wanted := callers * batches * size / 2
	sold := min(total, wanted)
	if units, rows := b.used(a.ID); units != int64(sold) || rows != sold {
		t.Errorf("%d units in %d rows, want %d", units, rows, sold)
	}
	if len(accepted.answers) != sold || len(accepted.refused) != wanted-sold || accepted.originals != sold {
		t.Errorf("%d accepted, %d of them as the first, %d refused of %d", len(accepted.answers),
			accepted.originals, len(accepted.refused), wanted)
	}
}

// answers collects answers and checks that an accepted id is never refused later.
type answers struct {
	t         *testing.T
	mu        sync.Mutex
	answers   map[string]bucket.DeductAnswer
	originals int
	refused   map[string]bool
}

func (a *answers) note(requests []bucket.DeductRequest, results []bucket.DeductResult) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, r := range results {
		id := requests[i].RequestID
		_, before := a.answers[id]
		switch {
		case r.Err == nil:
			if !r.Answer.Replayed {
				a.originals++
			}
			a.answers[id] = r.Answer
		case !budget.Is(r.Err, budget.BudgetExhausted):
			a.t.Errorf("%s: %v", id, r.Err)
		case before:
			a.t.Errorf("%s was refused after it was accepted", id)
		default:
			a.refused[id] = true
		}
	}
}

// TestNotEnough checks that units in other buckets are found, and that a refusal of what nothing
// covers names what there is.
func TestNotEnough(t *testing.T) {
	b := newBooks()
	a := b.add("spread", 100, 4, 10)
	s := node(t, b, nil)
	got, err := s.Deduct(context.Background(), request(a, "big", 95))
	if err != nil || got.BudgetRemaining != 5 {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = s.Deduct(context.Background(), request(a, "more", 6))
	var refusal *budget.Error
	if !errors.As(err, &refusal) || refusal.Code != budget.BudgetExhausted || *refusal.Available != 5 {
		t.Errorf("%v", err)
	}
	if repeat, err := s.Deduct(context.Background(), request(a, "big", 95)); err != nil || !repeat.Replayed {
		t.Errorf("a repeat after the sell-out: %+v, %v", repeat, err)
	}
	commits := b.count("commit")
	if _, err = s.Deduct(context.Background(), request(a, "another", 6)); !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("%v", err)
	}
	if n := b.count("commit"); n != commits {
		t.Errorf("a hopeless request began %d transactions", n-commits)
	}
	b.change(a.ID, func(a *account) { a.undistributed += 10 })
	if _, err = s.Deduct(context.Background(), request(a, "more", 6)); err != nil {
		t.Errorf("after units came: %v", err)
	}
}

// TestChanges checks that the transaction sees a pause, an offline bucket and a period that is
// over, whatever the node has cached.
func TestChanges(t *testing.T) {
	b := newBooks()
	a := b.add("changing", 100, 3, 30)
	s := node(t, b, nil)
	deduct := func(id string) error {
		_, err := s.Deduct(context.Background(), request(a, id, 1))
		return err
	}
	if err := deduct("first"); err != nil {
		t.Fatal(err)
	}
	b.change(a.ID, func(a *account) { a.Paused = true; a.Version++ })
	if err := deduct("second"); !budget.Is(err, budget.BudgetPaused) {
		t.Errorf("paused: %v", err)
	}
	if err := deduct("first"); err != nil {
		t.Errorf("a repeat while it is paused: %v", err)
	}
	b.change(a.ID, func(a *account) { a.Paused = false; a.Version++ })
	time.Sleep(1100 * time.Millisecond) // I8
	if err := deduct("second"); err != nil {
		t.Errorf("resumed: %v", err)
	}
	b.change(a.ID, func(a *account) {
		for i := range a.Buckets[1:] {
			a.Buckets[i].Online = false
			a.epochs[a.Buckets[i].ID].Status = "closed"
		}
		a.ListVersion++
	})
	for i := range 20 {
		if err := deduct(fmt.Sprint("offline", i)); err != nil {
			t.Errorf("offline buckets: %v", err)
		}
	}
	now := time.Now()
	b.change(a.ID, func(a *account) {
		a.Period = budget.Period{Number: 1, Start: now.Add(-time.Hour), End: now.Add(-time.Minute)}
		a.ListVersion++
	})
	if err := deduct("turn"); err != nil || b.count("rollover") == 0 {
		t.Errorf("after the period: %v, %d rollovers", err, b.count("rollover"))
	}
}

// TestUnclear checks that a commit whose reply is lost is repeated with the same id and nonce, and
// that its actual outcome is answered.
func TestUnclear(t *testing.T) {
	for _, happened := range []bool{true, false} {
		b := newBooks()
		a := b.add("unclear", 100, 1, 100)
		lost := 1
		fault := func(call string) error {
			if call == "commit" && lost > 0 {
				lost--
				return &budget.Error{Code: budget.OutcomeUnknown, Op: "commit"}
			}
			return nil
		}
		if happened {
			b.after = fault
		} else {
			b.before = fault
		}
		s := node(t, b, nil)
		got, err := s.Deduct(context.Background(), request(a, "o1", 7))
		if err != nil || got.Replayed || got.BucketRemaining != 93 || got.BudgetRemaining != 93 {
			t.Errorf("happened %v: %+v, %v", happened, got, err)
		}
		lost = 1 << 30
		began := time.Now()
		_, err = s.Deduct(context.Background(), request(a, "o2", 7))
		if !budget.Is(err, budget.OutcomeUnknown) {
			t.Errorf("happened %v: %v after %v", happened, err, time.Since(began))
		}
	}
}

// TestDatabaseDown checks that the answer says that nothing happened, and why, if nothing was sent.
func TestDatabaseDown(t *testing.T) {
	b := newBooks()
	a := b.add("down", 100, 1, 100)
	s := node(t, b, nil)
	if _, err := s.Deduct(context.Background(), request(a, "o1", 1)); err != nil {
		t.Fatal(err)
	}
	b.before = func(string) error { return &budget.Error{Code: budget.Unavailable, Op: "commit"} }
	_, err := s.Deduct(context.Background(), request(a, "o2", 1))
	var e *budget.Error
	if !errors.As(err, &e) || e.Code != budget.Unavailable || e.Reason != budget.ReasonDatabaseDown {
		t.Errorf("%v", err)
	}
}

// TestUnitsReturned checks that no figure is below what the bucket has after a rollback through
// another node.
func TestUnitsReturned(t *testing.T) {
	b := newBooks()
	a := b.add("returns", 100, 1, 100)
	s := node(t, b, nil)
	if _, err := s.Deduct(context.Background(), request(a, "o1", 90)); err != nil {
		t.Fatal(err)
	}
	b.change(a.ID, func(a *account) { a.epochs[a.Buckets[0].ID].Outstanding += 90 })
	got, err := s.Deduct(context.Background(), request(a, "o2", 1))
	if err != nil || got.BucketRemaining != 99 || got.BudgetRemaining < 99 {
		t.Errorf("%+v, %v", got, err)
	}
}
