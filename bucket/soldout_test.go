package bucket_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
)

// callCounts is what the stores were asked for: calls of a verb, and the operations in them.
type callCounts struct {
	mu         sync.Mutex
	calls, ops map[string]int
}

// countCalls counts the calls to all stores of a world in memory; before its nodes start.
func (w *world) countCalls() *callCounts {
	c := &callCounts{calls: map[string]int{}, ops: map[string]int{}}
	for _, server := range w.servers {
		server.Hook = func(call memstore.Call) memstore.Fault {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !call.After && call.Index == 0 {
				c.calls[call.Verb]++
			}
			if !call.After {
				c.ops[call.Verb]++
			}
			return memstore.Proceed
		}
	}
	return c
}

// of returns how many calls of a verb there were, and operations in them.
func (c *callCounts) of(verb string) (calls, ops int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[verb], c.ops[verb]
}

// reset counts from 0 again.
func (c *callCounts) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.calls)
	clear(c.ops)
}

// inVirtualTime runs a test so that nothing in it grows old because the machine is busy. What a node left behind it,
// such as the watch of a committer, ends within the minute after it.
func inVirtualTime(t *testing.T, test func(*testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		test(t)
		time.Sleep(time.Minute)
	})
}

// overTime is inVirtualTime as a test of its own.
func overTime(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { inVirtualTime(t, test) })
}

// TestOneCallPerLane: a batch of different ids asks each lane once, whatever the number of its budgets and buckets.
func TestOneCallPerLane(t *testing.T) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		overTime(t, string(durability), func(t *testing.T) {
			const budgets, buckets, each = 5, 12, 30
			w := newWorld(t)
			w.durability = durability
			c := w.countCalls()
			s := w.node(quick)
			var requests []bucket.DeductRequest
			for i := range budgets {
				ref := w.create(s, promo(fmt.Sprint("budget-", i), 1_000_000, buckets))
				for j := range each {
					requests = append(requests, bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint(i, "-", j), Amount: 1})
				}
			}
			for range 2 { // with the first one the lanes and budgets are made known
				for i := range requests {
					requests[i].RequestID += "-again"
				}
				c.reset()
				for i, r := range s.DeductAll(context.Background(), requests) {
					if r.Err != nil {
						t.Errorf("%d: %v", i, r.Err)
					}
				}
			}
			if calls, ops := c.of("deduct"); ops != budgets*each || calls > len(w.servers) {
				t.Errorf("%d calls with %d operations; want %d, in a call per lane", calls, ops, budgets*each)
			}
		})
	}
}

// soldOut creates a budget and deducts all of it through a node, a unit each, under the ids returned.
func soldOut(t *testing.T, w *world, s *bucket.Service) (ref bucket.BudgetRef, ids []string) {
	t.Helper()
	const total = 60
	ref = w.create(s, promo("sold", total, 6))
	for i := range total {
		ids = append(ids, fmt.Sprint("sold-", i))
		if _, err := deduct(s, ref, ids[i], 1); err != nil {
			t.Fatal(err)
		}
	}
	w.settled(s, ref, total)
	return ref, ids
}

// exhausted reports a call that was not refused as exhausted.
func exhausted(t *testing.T, what string, err error) {
	t.Helper()
	if !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestRefusalsAskNoBucket: once a node knows the sell-out it asks no store for new ids, and a repetition of an accepted
// one gets its outcome all the same. In store mode a repetition's own bucket may have it in its records only, so each
// new id is asked for there, once, and nowhere else.
func TestRefusalsAskNoBucket(t *testing.T) {
	for durability, most := range map[budget.Durability]int{budget.Ledger: 0, budget.Store: 1} {
		overTime(t, string(durability), func(t *testing.T) {
			w := newWorld(t)
			w.durability = durability
			c := w.countCalls()
			s := w.node(quick)
			ref, ids := soldOut(t, w, s)
			_, err := deduct(s, ref, "first", 1)
			exhausted(t, "the first", err)
			c.reset()
			const alone, together = 40, 60
			for i := range alone {
				_, err := deduct(s, ref, fmt.Sprint("alone-", i), 1+int64(i%3))
				exhausted(t, "alone", err)
			}
			var requests []bucket.DeductRequest
			for i := range together {
				requests = append(requests, bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("together-", i), Amount: 1})
			}
			for _, r := range s.DeductAll(context.Background(), requests) {
				exhausted(t, "together", r.Err)
			}
			if _, ops := c.of("deduct"); ops > most*(alone+together) {
				t.Errorf("%d refusals asked %d times for units", alone+together, ops)
			}
			for _, id := range ids[:20] {
				if a, err := deduct(s, ref, id, 1); err != nil || !a.Replayed {
					t.Errorf("%s again: %+v, %v", id, a, err)
				}
			}
			w.settled(s, ref, 60)
		})
	}
}

// judging counts the looks at a budget's ids and sum, and holds them up while it is shut. One of them may be torn.
type judging struct {
	bucket.SQL
	asked, ids atomic.Int64
	torn       atomic.Int64                  // which look shows no units, counted as asked; 0: none
	shut       atomic.Pointer[chan struct{}] // nil: it is open
}

func (j *judging) Judge(ctx context.Context, budgetID int64, ids []string) (bucket.Judgement, error) {
	torn := j.asked.Add(1) == j.torn.Load()
	j.ids.Add(int64(len(ids)))
	if shut := j.shut.Load(); shut != nil {
		<-*shut
	}
	got, err := j.SQL.Judge(ctx, budgetID, ids)
	if torn {
		got.Cover = bucket.Cover{}
	}
	return got, err
}

// TestTornLook: one statement that shows a commit without one that was made before it, so that units are in neither
// place, refuses nobody: neither where the sell-out is remembered nor where it is not, nor in a dry run (I3).
func TestTornLook(t *testing.T) {
	for torn := range int64(4) {
		for _, remembers := range []bool{true, false} {
			overTime(t, fmt.Sprintf("look %d, remembered %v", torn, remembers), func(t *testing.T) {
				w := newWorld(t)
				w.durability = budget.Ledger
				a := w.node(quick)
				j := &judging{SQL: w.sql}
				w.sql = j
				b := w.node(quick)
				ref, _ := soldOut(t, w, a)
				if remembers {
					_, err := deduct(b, ref, "first", 1)
					exhausted(t, "the first", err)
				}
				if _, err := a.Adjust(context.Background(), bucket.AdjustRequest{Budget: ref, RequestID: "more", Quantity: 5}); err != nil {
					t.Fatal(err)
				}
				for _, call := range []func(id string) error{
					func(id string) error {
						got, err := b.DryRun(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 1})
						return cmp.Or(err, got.Err)
					},
					func(id string) error { _, err := deduct(b, ref, id, 1); return err },
				} {
					j.asked.Store(0)
					j.torn.Store(torn)
					if err := call("after"); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestRepeatElsewhereAfterTheSellOut: a repeat of an accepted id through a node that never heard of it, after the budget was
// sold out, gets the original outcome, found by the look that would refuse a new id, whether that node remembers the sell-out
// or not (I4). In store mode the bucket's store has forgotten the id too.
func TestRepeatElsewhereAfterTheSellOut(t *testing.T) {
	const total = 12
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		for _, remembers := range []bool{false, true} {
			overTime(t, fmt.Sprintf("%s, remembered %v", durability, remembers), func(t *testing.T) {
				w, forget := newForgetfulWorld(t)
				w.durability = durability
				a := w.node(storeQuick())
				ref := w.create(a, promo("sold", total, 1))
				var originals []bucket.DeductAnswer
				for i := range total {
					got, err := deduct(a, ref, fmt.Sprint("sold-", i), 1)
					if err != nil || got.Replayed {
						t.Fatalf("%+v, %v", got, err)
					}
					originals = append(originals, got)
				}
				w.settled(a, ref, total)
				forget()
				j := &judging{SQL: w.sql}
				w.sql = j
				b := w.node(storeQuick())
				if remembers {
					_, err := deduct(b, ref, "new", 1)
					exhausted(t, "a new id", err)
				}
				j.ids.Store(0)
				for _, original := range originals {
					got, err := deduct(b, ref, original.RequestID, 1)
					if err != nil || !got.Replayed || got.Amount != 1 || got.State != original.State ||
						got.Bucket != original.Bucket || got.Receipt != original.Receipt {
						t.Errorf("%+v, %v; it was %+v", got, err, original)
					}
				}
				if ids := j.ids.Load(); ids != total {
					t.Errorf("%d ids in the looks for %d repeats", ids, total)
				}
				_, err := deduct(b, ref, "newer", 1)
				exhausted(t, "a new id after them", err)
				w.settled(a, ref, total)
			})
		}
	}
}

// TestRefusalsShareOneLook: callers who are refused side by side are in one statement: those who come while it is under
// way are in the next one.
func TestRefusalsShareOneLook(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		const callers = 50
		w := newWorld(t)
		w.durability = budget.Ledger
		j := &judging{SQL: w.sql}
		w.sql = j
		s := w.node(quick)
		ref, ids := soldOut(t, w, s)
		_, err := deduct(s, ref, "first", 1)
		exhausted(t, "the first", err)
		shut := make(chan struct{})
		j.shut.Store(&shut)
		j.asked.Store(0)
		j.ids.Store(0)
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				_, err := deduct(s, ref, fmt.Sprint("new-", i), 1)
				exhausted(t, "a new id", err)
			})
		}
		all.Go(func() {
			if a, err := deduct(s, ref, ids[7], 1); err != nil || !a.Replayed {
				t.Errorf("an accepted id: %+v, %v", a, err)
			}
		})
		synctest.Wait() // one statement is under way, for one id; all others wait
		if asked := j.asked.Load(); asked != 1 {
			t.Errorf("%d statements under way", asked)
		}
		close(shut)
		all.Wait()
		// A refusal takes two statements, of which one has its id (see judgeAll). At first one caller may be alone in them,
		// and the accepted id is one that this node remembers.
		if asked, ids := j.asked.Load(), j.ids.Load(); asked > 4 || ids != callers {
			t.Errorf("%d statements with %d ids for %d new ones", asked, ids, callers)
		}
	})
}

// TestUnitsComeBackAnywhere: after both nodes have refused, units that were given back through one of them are given out
// by the other at once: the first call after the acknowledgement is accepted (I3).
func TestUnitsComeBackAnywhere(t *testing.T) {
	ctx := context.Background()
	ways := map[string]func(s *bucket.Service, ref bucket.BudgetRef, id string) error{
		"append": func(s *bucket.Service, ref bucket.BudgetRef, _ string) error {
			_, err := s.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: "more", Quantity: 5})
			return err
		},
		"rollback": func(s *bucket.Service, ref bucket.BudgetRef, id string) error {
			_, err := s.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: id, Amount: 5})
			return err
		},
		"rollback of a part": func(s *bucket.Service, ref bucket.BudgetRef, id string) error {
			_, err := s.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: id, RollbackID: "part", Amount: 3})
			return err
		},
		"cancel": func(s *bucket.Service, ref bucket.BudgetRef, id string) error {
			_, err := s.Cancel(ctx, ref, id)
			return err
		},
	}
	everywhere(t, func(t *testing.T, w *world) {
		a, b := w.node(quick), w.node(quick)
		for n, way := range slices.Sorted(maps.Keys(ways)) {
			ref := w.create(a, promo(fmt.Sprint("back-", n), 60, 6))
			for i := range 12 {
				if _, err := deduct(a, ref, fmt.Sprint("sold-", i), 5); err != nil {
					t.Fatal(err)
				}
			}
			w.settled(a, ref, 60)
			for i, s := range []*bucket.Service{a, b, a, b} {
				_, err := deduct(s, ref, fmt.Sprint("refused-", i), 3)
				exhausted(t, way+": sold out", err)
			}
			if err := ways[way](a, ref, "sold-4"); err != nil {
				t.Fatalf("%s: %v", way, err)
			}
			if got, err := deduct(b, ref, "after", 3); err != nil || got.Replayed {
				t.Errorf("%s: at once, through the other: %+v, %v", way, got, err)
			}
		}
	})
}

// TestExpiredHoldsComeBackAnywhere: as TestUnitsComeBackAnywhere, for a hold whose time passes.
func TestExpiredHoldsComeBackAnywhere(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		a, b := w.node(quick), w.node(quick)
		ref := w.create(a, promo("held", 5, 3))
		held, err := a.Deduct(context.Background(), holdRequest(ref, "held", "", 3*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range []*bucket.Service{a, b} {
			_, err := deduct(s, ref, fmt.Sprint("refused-", i), 5)
			exhausted(t, "held", err)
		}
		w.until("expired", func() bool {
			d, err := recorded(a, ref, held.RequestID)
			return err == nil && d.RolledBack == 5
		})
		if got, err := deduct(b, ref, "after", 5); err != nil || got.Replayed {
			t.Errorf("at once, through the other: %+v, %v", got, err)
		}
		w.settled(a, ref, 5)
	})
}
