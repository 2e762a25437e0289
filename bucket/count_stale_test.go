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
)

// TestLoadedForSomethingElse: what an attempt has loaded for a counter is good for that counter only. Before it
// asks the store again the limit may count something else, or the counters may have begun anew.
func TestLoadedForSomethingElse(t *testing.T) {
	for name, meanwhile := range map[string]func(*storeWorld, *bucket.Service, bucket.BudgetRef){
		"the limit is another": func(w *storeWorld, s *bucket.Service, ref bucket.BudgetRef) {
			list := perUser("people").Limits.List
			list[0].Window = budget.LimitWindow{Kind: budget.WindowFirstHit, Length: 48 * time.Hour}
			if _, err := s.Change(context.Background(), ref, bucket.Change{Limits: &list}); err != nil {
				w.t.Fatal(err)
			}
		},
		"the store is another": func(w *storeWorld, s *bucket.Service, ref bucket.BudgetRef) {
			if _, err := sureDeduct(w, s, ref, "ann", "meanwhile"); err != nil {
				w.t.Fatal(err)
			}
			w.settled(s, ref, 3)
			for _, server := range w.servers {
				server.Lose()
			}
			if _, err := sureDeduct(w, s, ref, "bob", "bob's"); err != nil {
				w.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			var act atomic.Pointer[func()]
			hook := w.model.Hook
			w.model.Hook = func(method string, before bool) error {
				if method == "LoadLimits" && !before {
					if do := act.Swap(nil); do != nil {
						(*do)()
					}
				}
				return hook(method, before)
			}
			s, other := w.node(storeQuick()), w.node(storeQuick())
			ref := w.create(s, perUser("people"))
			taken := 3
			if name == "the store is another" {
				taken = 2
			}
			for i := range taken {
				if _, err := deductFor(s, ref, "ann", fmt.Sprint("a", i)); err != nil {
					t.Fatal(err)
				}
			}
			w.settled(s, ref, int64(taken))
			w.restart()
			by := s
			if taken == 2 {
				by = other
			}
			do := func() { meanwhile(w, by, ref) }
			act.Store(&do)
			_, err := sureDeduct(w, s, ref, "ann", "after")
			wantUsed(t, err, "per-year", 3)
		})
	}
}

// TestLimitChangedInTheFirstInstantOfItsWindow: what was counted before the change, in the very millisecond with
// which the new window begins, counts in it.
func TestLimitChangedInTheFirstInstantOfItsWindow(t *testing.T) {
	w := newStoreWorld(t)
	clock := func() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }
	hook := w.model.Hook
	w.model = memstore.NewSQL(clock)
	w.model.Hook, w.sql = hook, w.model
	for _, server := range w.servers {
		server.Now = clock
	}
	s := w.node(storeQuick())
	ref := w.create(s, perUser("people"))
	if _, err := sureDeduct(w, s, ref, "ann", "before"); err != nil {
		t.Fatal(err)
	}
	list := perUser("people").Limits.List
	list[0].Window.Every = budget.Minute
	if _, err := s.Change(context.Background(), ref, bucket.Change{Limits: &list}); err != nil {
		t.Fatal(err)
	}
	if a, err := sureDeduct(w, s, ref, "ann", "after"); err != nil || a.Limits[0].Used != 2 {
		t.Errorf("%+v, %v", a.Limits, err)
	}
}
