package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
)

// perUser is a budget in store mode in which nobody gets more than 3 in a year, and 5 ever.
func perUser(name string) budget.Definition {
	d := promo(name, 100_000, 4)
	d.RoutingDimension = "user"
	d.Limits = &budget.Limits{List: []budget.Limit{
		{Name: "per-year", Dimension: "user", Max: 3, Measure: budget.MeasureCount, Enforce: true,
			Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Year}},
		{Name: "ever", Dimension: "user", Max: 5, Measure: budget.MeasureCount, Enforce: true,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
	return d
}

func deductFor(s *bucket.Service, ref bucket.BudgetRef, user, id string) (bucket.DeductAnswer, error) {
	return s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 1,
		Dimensions: map[string]string{"user": user}})
}

// wantUsed fails unless a deduction is refused because that many are used of that limit.
func wantUsed(t testing.TB, err error, limit string, used int64) {
	t.Helper()
	var e *budget.Error
	if !errors.As(err, &e) || e.Code != budget.LimitExceeded || e.Limit == nil || e.Limit.Limit != limit ||
		e.Limit.Used != used || e.Limit.Dimension != "user" {
		t.Fatalf("answered %v, want %s used %d times", err, limit, used)
	}
}

// TestLimitsInStoreMode: 64 callers through two nodes; nobody gets more than the maximum, and nobody less; a
// refusal says why, a repetition replays.
func TestLimitsInStoreMode(t *testing.T) {
	w := newStoreWorld(t)
	nodes := []*bucket.Service{w.node(storeQuick()), w.node(storeQuick())}
	ref := w.create(nodes[0], perUser("people"))
	const callers, users = 64, 10
	var accepted [users]atomic.Int64
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for user := range users {
				a, err := deductFor(nodes[caller%2], ref, fmt.Sprint("u", user), fmt.Sprint(caller, "-", user))
				switch {
				case err == nil:
					accepted[user].Add(1)
					if len(a.Limits) != 2 || a.Limits[0].Used != a.Limits[1].Used || a.Limits[0].Max != 3 ||
						a.Limits[0].ResetAt.IsZero() || !a.Limits[1].ResetAt.IsZero() {
						t.Errorf("limits %+v", a.Limits)
					}
				case !budget.Is(err, budget.LimitExceeded):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for user := range users {
		if n := accepted[user].Load(); n != 3 {
			t.Errorf("user %d got %d", user, n)
		}
	}
	_, err := deductFor(nodes[0], ref, "u1", "more")
	wantUsed(t, err, "per-year", 3)
	w.settled(nodes[0], ref, 3*users)
	first, err := deductFor(nodes[0], ref, "u99", "again")
	if err != nil || first.Limits[0].Used != 1 {
		t.Fatal(first, err)
	}
	if a, err := deductFor(nodes[1], ref, "u99", "again"); err != nil || !a.Replayed {
		t.Fatal(a, err)
	}
	if _, err := deduct(nodes[0], ref, "nobody's", 1); !budget.Is(err, budget.Invalid) {
		t.Errorf("without the dimension: %v", err)
	}
}

// threeFor makes a world in which user "ann" has taken 3.
func threeFor(t *testing.T) (*storeWorld, *bucket.Service, bucket.BudgetRef) {
	w := newStoreWorld(t)
	s, ref := threeIn(w)
	return w, s, ref
}

func threeIn(w *storeWorld) (*bucket.Service, bucket.BudgetRef) {
	t := w.t
	s := w.node(storeQuick())
	ref := w.create(s, perUser("people"))
	for i := range 3 {
		if _, err := deductFor(s, ref, "ann", fmt.Sprint("a", i)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := deductFor(s, ref, "ann", "refused")
	wantUsed(t, err, "per-year", 3)
	return s, ref
}

// sureDeduct repeats a deduction until it is not unavailable.
func sureDeduct(w *storeWorld, s *bucket.Service, ref bucket.BudgetRef, user, id string) (a bucket.DeductAnswer, err error) {
	w.t.Helper()
	w.until("answered", func() bool {
		a, err = deductFor(s, ref, user, id)
		return err == nil || budget.CodeOf(err).Kind() != budget.NotDone && budget.CodeOf(err).Kind() != budget.MayBeDone
	})
	return a, err
}

// TestLimitsSurviveTheirStore: where the counters are gone, what the ledger has is counted.
func TestLimitsSurviveTheirStore(t *testing.T) {
	for name, lose := range map[string]func(*storeWorld, *bucket.Service, bucket.BudgetRef){
		"restarted": func(w *storeWorld, _ *bucket.Service, _ bucket.BudgetRef) { w.restart() },
		"empty": func(w *storeWorld, _ *bucket.Service, _ bucket.BudgetRef) {
			for _, server := range w.servers {
				server.Lose()
			}
		},
		"another number of buckets": func(w *storeWorld, s *bucket.Service, ref bucket.BudgetRef) {
			n := 9
			if _, err := s.Change(context.Background(), ref, bucket.Change{BucketQuantity: &n}); err != nil {
				w.t.Fatal(err)
			}
			w.until("resized", func() bool {
				v, err := s.View(context.Background(), ref)
				return err == nil && v.Definition.BucketQuantity == n
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, s, ref := threeFor(t)
			w.settled(s, ref, 3)
			lose(w, s, ref)
			_, err := sureDeduct(w, s, ref, "ann", "after")
			wantUsed(t, err, "per-year", 3)
			if a, err := sureDeduct(w, s, ref, "bob", "bob's"); err != nil || a.Limits[0].Used != 1 {
				t.Fatal(a, err)
			}
		})
	}
}

// TestLimitChangedInStoreMode: what counts anew begins with the true count; another maximum holds at once.
func TestLimitChangedInStoreMode(t *testing.T) {
	_, s, ref := threeFor(t)
	list := perUser("people").Limits.List
	list[0].Window = budget.LimitWindow{Kind: budget.WindowSliding, Length: 48 * time.Hour, Slot: time.Hour}
	list[0].Max = 4
	if _, err := s.Change(context.Background(), ref, bucket.Change{Limits: &list}); err != nil {
		t.Fatal(err)
	}
	a, err := deductFor(s, ref, "ann", "fourth")
	if err != nil || a.Limits[0].Used != 4 || a.Limits[1].Used != 4 {
		t.Fatal(a, err)
	}
	_, err = deductFor(s, ref, "ann", "fifth")
	wantUsed(t, err, "per-year", 4)
}

// TestRollbackGivesBackInStoreMode: a rollback gives back to its windows, once however often it is told, and
// whoever could not tell the store then does it with the next repetition.
func TestRollbackGivesBackInStoreMode(t *testing.T) {
	var deaf atomic.Bool
	w := newStoreWorld(t)
	for _, server := range w.servers {
		server.Hook = func(c memstore.Call) memstore.Fault {
			if c.Verb == "unload" && deaf.Load() {
				return memstore.Refuse
			}
			return memstore.Proceed
		}
	}
	s, ref := threeIn(w)
	back := func(id string) {
		t.Helper()
		_, err := s.Rollback(context.Background(), bucket.RollbackRequest{Budget: ref, RequestID: id})
		if err != nil {
			t.Fatal(err)
		}
	}
	back("a0")
	back("a0")
	if a, err := deductFor(s, ref, "ann", "b0"); err != nil || a.Limits[0].Used != 3 || a.Limits[1].Used != 3 {
		t.Fatal(a, err)
	}
	_, err := deductFor(s, ref, "ann", "b1")
	wantUsed(t, err, "per-year", 3)
	deaf.Store(true)
	back("a1")
	_, err = sureDeduct(w, s, ref, "ann", "b1")
	wantUsed(t, err, "per-year", 3)
	deaf.Store(false)
	back("a1")
	if a, err := sureDeduct(w, s, ref, "ann", "b1"); err != nil || a.Limits[0].Used != 3 {
		t.Fatal(a, err)
	}
	if _, err := s.Cancel(context.Background(), ref, "b1"); err != nil {
		t.Fatal(err)
	}
	if a, err := deductFor(s, ref, "ann", "b2"); err != nil || a.Limits[0].Used != 3 {
		t.Fatal(a, err)
	}
}

// TestHoldsGiveBackInStoreMode: a group of holds that is rolled back no longer counts.
func TestHoldsGiveBackInStoreMode(t *testing.T) {
	w := newStoreWorld(t)
	s := w.node(storeQuick())
	ref := w.create(s, perUser("people"))
	for i := range 3 {
		if _, err := s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("h", i), Amount: 1,
			Dimensions: map[string]string{"user": "ann"}, HoldTTL: time.Hour, Group: "cart"}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := deductFor(s, ref, "ann", "a")
	wantUsed(t, err, "per-year", 3)
	if _, err := s.RollbackGroup(context.Background(), bucket.RollbackRequest{Budget: ref, Group: "cart"}); err != nil {
		t.Fatal(err)
	}
	if a, err := deductFor(s, ref, "ann", "a"); err != nil || a.Limits[0].Used != 1 {
		t.Fatal(a, err)
	}
}

// slowClock is a store that takes 1.5 s to tell its time, the first time.
type slowClock struct {
	bucket.Instance
	told atomic.Bool
}

func (c *slowClock) Time(ctx context.Context, at bucket.Lane) (time.Time, error) {
	now, err := c.Instance.Time(ctx, at)
	if err == nil && c.told.CompareAndSwap(false, true) {
		time.Sleep(1500 * time.Millisecond)
	}
	return now, err
}

// TestClockToldLate: a clock that was told late is asked for again; half a second of an error would be in every
// window.
func TestClockToldLate(t *testing.T) {
	w := newStoreWorld(t)
	connect := w.connect
	w.connect = func() map[string]bucket.Instance {
		out := connect()
		for name, instance := range out {
			out[name] = &slowClock{Instance: instance}
		}
		return out
	}
	s := w.node(storeQuick())
	d := promo("windows", 1000, 4)
	d.RoutingDimension = "user"
	d.Limits = &budget.Limits{List: []budget.Limit{{Name: "first", Dimension: "user", Max: 3, Measure: budget.MeasureCount,
		Enforce: true, Window: budget.LimitWindow{Kind: budget.WindowFirstHit, Length: time.Hour}}}}
	ref := w.create(s, d)
	for i := range 12 { // on all lanes
		began := time.Now()
		a, err := deductFor(s, ref, fmt.Sprint("u", i), fmt.Sprint("o", i))
		if err != nil {
			t.Fatal(err)
		}
		const off = 500 * time.Millisecond
		if at := a.Limits[0].ResetAt.Add(-time.Hour); at.Before(began.Add(-off)) || at.After(time.Now().Add(off)) {
			t.Errorf("counted at %s by the lane's clock, called at %s", at, began)
		}
	}
}

// TestFirstLimitMovesNoID: an id keeps its bucket when its budget gets its first limit and loses its last one, though it
// came with a key that is not its routing dimension's value: a repetition replays through a node that never saw it (I4).
func TestFirstLimitMovesNoID(t *testing.T) {
	w := newStoreWorld(t)
	s, other := w.node(storeQuick()), w.node(storeQuick())
	t.Cleanup(func() { w.fails() }) // so that they can be stopped
	d := promo("routes", 1000, 8)
	d.RoutingDimension = "user"
	ref, limits := w.create(s, d), perUser("").Limits.List
	ask := func(node *bucket.Service, i int) (bucket.DeductAnswer, error) {
		return node.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("o", i), Amount: 1,
			Key: fmt.Sprint("k", i), Dimensions: map[string]string{"user": fmt.Sprint("u", i)}})
	}
	const ids = 20
	replay := func(when string) {
		for i := range 2 * ids {
			if a, err := ask(other, i); err != nil || !a.Replayed {
				t.Fatalf("%s, %d: %+v, %v", when, i, a, err)
			}
		}
	}
	change := func(list []budget.Limit) {
		if _, err := s.Change(context.Background(), ref, bucket.Change{Limits: &list}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * quick.Refresh) // both nodes hear of it
	}
	for i := range ids {
		if _, err := ask(s, i); err != nil {
			t.Fatal(err)
		}
	}
	w.fails("Commit") // nobody but the stores knows them
	for i := ids; i < 2*ids; i++ {
		if _, err := ask(s, i); err != nil {
			t.Fatal(err)
		}
	}
	change(limits)
	replay("with the first limit")
	w.fails()
	change(nil)
	replay("without the last limit")
	w.settled(s, ref, 2*ids)
}

// TestRepetitionThatLimitsCannotJudge: an id that was accepted before its budget had limits, without what they need, is
// still told so, or that it cannot be known yet; never that the request is wrong (I4).
func TestRepetitionThatLimitsCannotJudge(t *testing.T) {
	w := newStoreWorld(t)
	s, other := w.node(storeQuick()), w.node(storeQuick())
	t.Cleanup(func() { w.fails() }) // so that they can be stopped
	d := promo("unfit", 1000, 4)
	d.RoutingDimension = "user"
	ref, limits := w.create(s, d), perUser("").Limits.List
	w.fails("Commit")
	if _, err := deduct(s, ref, "x", 5); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Change(context.Background(), ref, bucket.Change{Limits: &limits}); err != nil {
		t.Fatal(err)
	}
	w.until("the other node has heard of the limits", func() bool {
		b, err := other.View(context.Background(), ref)
		return err == nil && b.Definition.Limits != nil
	})
	if _, err := deduct(other, ref, "x", 5); !budget.Is(err, budget.Unavailable) {
		t.Errorf("while its log cannot be drained: %v", err)
	}
	w.fails()
	if a, err := deduct(other, ref, "x", 5); err != nil || !a.Replayed {
		t.Errorf("a repetition: %+v, %v", a, err)
	}
	if _, err := deduct(other, ref, "y", 5); !budget.Is(err, budget.Invalid) {
		t.Errorf("another request without a user: %v", err)
	}
}
