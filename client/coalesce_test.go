//go:build go1.25

package client_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
)

// told is the answer to one caller.
type told struct {
	answer *client.DeductAnswer
	err    error
}

// crowd starts callers one after the other, each once the previous one waits, so that the batches
// are deterministic. It runs in a synctest bubble.
type crowd struct {
	client *client.Client
	told   map[string]told
	mu     sync.Mutex
	all    sync.WaitGroup
}

func newCrowd(c *client.Client) *crowd { return &crowd{client: c, told: map[string]told{}} }

func (w *crowd) come(ctx context.Context, ids ...string) {
	for _, id := range ids {
		w.all.Go(func() {
			a, err := ask(ctx, w.client, id)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.told[id] = told{a, err}
		})
		synctest.Wait()
	}
}

// outcomes waits for all callers and returns their outcomes: "accepted", or kind and code.
func (w *crowd) outcomes() map[string]string {
	w.all.Wait()
	got := map[string]string{}
	for id, heard := range w.told {
		got[id] = "accepted"
		if heard.err != nil {
			got[id] = strings.TrimSpace(fmt.Sprintf("%d %s", client.KindOf(heard.err), client.CodeOf(heard.err)))
		}
	}
	return got
}

// slow lets every call take 10 ms. Call n, counted from 1, fails as replies[n] says.
func (s *till) slow(replies map[int]luck) {
	n := 0
	s.wire = func([]string) luck {
		n++
		f := replies[n]
		if f.delay == 0 {
			f.delay = 10 * time.Millisecond
		}
		return f
	}
}

func one(bounds client.Coalescing) client.Option {
	bounds.Calls = 1
	return client.WithCoalescing(bounds)
}

func TestCoalescingSendsWaitingDeductionsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(nil)
		w := newCrowd(s.customer(t, 1, one(client.Coalescing{Items: 3})))
		began := time.Now()
		w.come(t.Context(), "a", "b", "c", "d", "e", "f")
		w.outcomes()
		if took := time.Since(began); took != 30*time.Millisecond {
			t.Errorf("took %s, want three calls of 10 ms without pauses", took)
		}
		w.come(t.Context(), "g")
		w.outcomes()
		want := []string{"deduct a", "batch b c d", "batch e f", "deduct g"}
		if diff := cmp.Diff(want, s.log()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		for id, heard := range w.told {
			if heard.err != nil || heard.answer.RequestID != id || heard.answer.Attempts != 1 {
				t.Errorf("%s heard %+v, %v", id, heard.answer, heard.err)
			}
		}
	})
}

func TestCoalescingUsesAllItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(nil)
		w := newCrowd(s.customer(t, 1, client.WithCoalescing(client.Coalescing{Calls: 2})))
		w.come(t.Context(), "a", "b", "c", "d")
		w.outcomes()
		if diff := cmp.Diff([]string{"deduct a", "deduct b", "batch c d"}, s.log()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// TestCoalescingKeepsTheOrderOfOneID checks that two deductions with one id are sent in the order of
// their calls, because the service executes them in that order.
func TestCoalescingKeepsTheOrderOfOneID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(map[int]luck{2: {before: true}})
		c := s.customer(t, 3, one(client.Coalescing{}))
		var replayed [3]bool
		var all sync.WaitGroup
		for n, id := range []string{"busy", "a", "a"} {
			all.Go(func() {
				a, err := ask(t.Context(), c, id)
				replayed[n] = err == nil && a.Replayed
			})
			synctest.Wait()
		}
		all.Wait()
		if calls := s.log(); calls[1] != "batch a a" || s.records["a"].executed != 1 || replayed[1] == replayed[2] {
			t.Errorf("calls %v, %+v, replayed %v", calls, s.records["a"], replayed)
		}
	})
}

func TestCoalescingBoundsItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(nil)
		w := newCrowd(s.customer(t, 1, one(client.Coalescing{Queue: 2})))
		w.come(t.Context(), "a", "b", "c", "d")
		got := w.outcomes()
		want := map[string]string{"a": "accepted", "b": "accepted", "c": "accepted", "d": "4"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		err := w.told["d"].err
		if !errors.Is(err, client.ErrQueueFull) || client.Unreachable(err) || s.records["d"] != nil {
			t.Errorf("the deduction without room: unreachable %t, %v", client.Unreachable(err), err)
		}
		if want := "deduct: nothing was sent to http://till: " + client.ErrQueueFull.Error(); err.Error() != want {
			t.Errorf("message %q, want %q", err, want)
		}
	})
}

func TestCoalescingRetriesWhenTheQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.wire = func([]string) luck { return luck{delay: time.Millisecond} }
		c := s.customer(t, 50, one(client.Coalescing{Items: 1, Queue: 1}))
		w := newCrowd(c)
		w.come(t.Context(), "a", "b", "c", "d", "e")
		for id, got := range w.outcomes() {
			if got != "accepted" {
				t.Errorf("%s: %s", id, got)
			}
		}
	})
}

func TestACallerLeavesBeforeItsDeductionIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(nil)
		w := newCrowd(s.customer(t, 5, one(client.Coalescing{})))
		w.come(t.Context(), "a", "b")
		ctx, leave := context.WithCancel(t.Context())
		w.come(ctx, "gone")
		w.come(t.Context(), "c")
		leave()
		synctest.Wait()
		w.mu.Lock()
		err := w.told["gone"].err
		w.mu.Unlock()
		if client.KindOf(err) != budget.NotDone || !errors.Is(err, context.Canceled) || client.Unreachable(err) {
			t.Errorf("kind %d, want NotDone at once: %v", client.KindOf(err), err)
		}
		w.outcomes()
		if diff := cmp.Diff([]string{"deduct a", "batch b c"}, s.log()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

func TestACallerLeavesAfterItsDeductionIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(nil)
		w := newCrowd(s.customer(t, 5, one(client.Coalescing{})))
		ctx, leave := context.WithCancel(t.Context())
		w.come(t.Context(), "a", "b")
		w.come(ctx, "gone")
		time.Sleep(15 * time.Millisecond)
		leave()
		synctest.Wait()
		w.mu.Lock()
		err := w.told["gone"].err
		w.mu.Unlock()
		var unknown *client.UnknownOutcome
		if !errors.As(err, &unknown) || unknown.RequestID != "gone" || !errors.Is(err, context.Canceled) {
			t.Errorf("error %#v, want an unknown outcome at once", err)
		}
		got := w.outcomes()
		want := map[string]string{"a": "accepted", "b": "accepted", "gone": "5 outcome_unknown"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
	})
}

// TestACallThatNobodyWaitsForEnds checks that a call ends once all of its callers have left, so that
// the next one can begin.
func TestACallThatNobodyWaitsForEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(map[int]luck{1: {delay: 90 * time.Millisecond}})
		w := newCrowd(s.customer(t, 1, one(client.Coalescing{})))
		began := time.Now()
		ctx, leave := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer leave()
		w.come(ctx, "gone")
		w.come(t.Context(), "a")
		w.outcomes()
		if took := time.Since(began); took != 15*time.Millisecond {
			t.Errorf("took %s, want 5 ms until the first caller left, and 10 ms for the second", took)
		}
	})
}

// TestAFaultyDeductionSpoilsNoBatch checks that the client itself refuses a faulty deduction, as
// without coalescing.
func TestAFaultyDeductionSpoilsNoBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(nil)
		alone, together := s.customer(t, 1), s.customer(t, 1, one(client.Coalescing{}))
		for _, wrong := range []struct{ budget, id string }{{"b", "\xff"}, {"", "a"}, {"..", "a"}} {
			order := client.DeductRequest{RequestID: wrong.id, Amount: 1}
			_, want := alone.Deduct(t.Context(), wrong.budget, order)
			_, got := together.Deduct(t.Context(), wrong.budget, order)
			if client.KindOf(want) != budget.Faulty || client.KindOf(got) != budget.Faulty {
				t.Errorf("%q of %q: %v, want %v", wrong.id, wrong.budget, got, want)
			}
		}
		if calls := s.log(); len(calls) > 0 {
			t.Errorf("sent: %v", calls)
		}
	})
}

// TestItemsHaveTheErrorsOfSingleCalls checks that the caller of an item gets the same error as for a
// single call.
func TestItemsHaveTheErrorsOfSingleCalls(t *testing.T) {
	for _, code := range []string{"unavailable", "outcome_unknown", "limit_exceeded", "budget_exhausted", "budget_paused"} {
		t.Run(code, func(t *testing.T) {
			s := newTill()
			s.item = func(string) string { return code }
			_, want := ask(t.Context(), s.withRetryAfter(t), "a")
			synctest.Test(t, func(t *testing.T) {
				s := newTill()
				s.slow(nil)
				s.item = func(string) string { return code }
				w := newCrowd(s.customer(t, 1, one(client.Coalescing{})))
				w.come(t.Context(), "busy", "a", "b")
				w.outcomes()
				got := w.told["a"].err
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got\n%#v\nwant\n%#v", got, want)
				}
				if got.Error() != want.Error() || client.KindOf(got) != client.KindOf(want) {
					t.Errorf("got\n%v\nwant\n%v", got, want)
				}
				var first, second *client.Problem
				if errors.As(got, &first) && errors.As(w.told["b"].err, &second) && first == second {
					t.Error("two callers share one error value")
				}
			})
		})
	}
}

func TestItemsHaveTheOutcomeOfTheirBatch(t *testing.T) {
	tests := []struct {
		name    string
		reply   luck
		outcome string
		calls   []string
	}{
		{"lost", luck{before: true}, "5 outcome_unknown", []string{"batch a b c d"}},
		{"too late", luck{delay: time.Second}, "5 outcome_unknown", []string{"batch a b c d"}},
		{"unavailable", luck{status: 503, code: "unavailable"}, "4 unavailable", []string{"batch a b c d"}},
		{"unknown", luck{status: 504, code: "outcome_unknown"}, "5 outcome_unknown", []string{"batch a b c d"}},
		{"a bad gateway", luck{status: 502}, "5 outcome_unknown", []string{"batch a b c d"}},
		{"unauthenticated", luck{status: 401, code: "unauthenticated"}, "1 unauthenticated", []string{"batch a b c d"}},
		{"too large: two of half the size", luck{status: 413, code: "too_large"}, "accepted",
			[]string{"batch a b c d", "batch a b", "batch c d"}},
		{"malformed: each alone", luck{status: 400, code: "malformed"}, "accepted",
			[]string{"batch a b c d", "deduct a", "deduct b", "deduct c", "deduct d"}},
		{"a server without batches: each alone", luck{status: 404}, "accepted",
			[]string{"batch a b c d", "deduct a", "deduct b", "deduct c", "deduct d"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTill()
				s.slow(map[int]luck{2: test.reply})
				w := newCrowd(s.customer(t, 1, one(client.Coalescing{})))
				w.come(t.Context(), "busy", "a", "b", "c", "d")
				got := w.outcomes()
				for _, id := range []string{"a", "b", "c", "d"} {
					if got[id] != test.outcome {
						t.Errorf("%s: %s, want %s", id, got[id], test.outcome)
					}
				}
				if diff := cmp.Diff(test.calls, s.log()[1:]); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestCoalescingLearnsWhatTheServerTakes checks that batches become shorter after a 413, and grow
// again only after shorter ones were accepted.
func TestCoalescingLearnsWhatTheServerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.wire = func(ids []string) luck {
			f := luck{delay: 10 * time.Millisecond}
			if len(ids) > 4 {
				f.status, f.code = 413, "too_large"
			}
			return f
		}
		w := newCrowd(s.customer(t, 1, one(client.Coalescing{})))
		w.come(t.Context(), "busy")
		for n := range 16 {
			w.come(t.Context(), fmt.Sprint(n))
		}
		for id, got := range w.outcomes() {
			if got != "accepted" {
				t.Errorf("%s: %s", id, got)
			}
		}
		if calls := s.log(); len(calls) > 10 {
			t.Errorf("%d calls: %q", len(calls), calls)
		}
	})
}

// TestWhatIsSentAgainGoesFirst checks that the items of a split batch are sent before later
// deductions, so that one with the same id does not overtake.
func TestWhatIsSentAgainGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(map[int]luck{2: {status: 413, code: "too_large"}})
		c := s.customer(t, 1, one(client.Coalescing{}))
		w := newCrowd(c)
		w.come(t.Context(), "busy", "x", "a")
		time.Sleep(15 * time.Millisecond) // x and a were sent
		later, err := ask(t.Context(), c, "a")
		w.outcomes()
		want := []string{"deduct busy", "batch x a", "deduct x", "deduct a", "deduct a"}
		if diff := cmp.Diff(want, s.log()); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if first := w.told["a"]; err != nil || first.err != nil || first.answer.Replayed || !later.Replayed {
			t.Errorf("first %+v, later %+v, %v", first, later, err)
		}
	})
}
