package bucket_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestNodeThatKnowsOlderLimits: a new limit counts what a node takes that has not heard of it, also where that counts
// nothing in the limits it knows, or knows none (I6).
func TestNodeThatKnowsOlderLimits(t *testing.T) {
	for name, before := range map[string][]string{"none": nil, "another": {"per-year"}} {
		t.Run(name, func(t *testing.T) {
			w := newStoreWorld(t)
			slow := storeQuick()
			slow.Refresh = time.Minute
			s, other := w.node(storeQuick()), w.node(slow)
			d := perUser("people")
			all := d.Limits.List
			counts := map[string]int64{}
			d.Limits = &budget.Limits{}
			for i := range before {
				d.Limits.List = append(d.Limits.List, all[i])
				counts[before[i]] = 0
			}
			ref := w.create(s, d)
			ask := func(node *bucket.Service, i int) error {
				_, err := node.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("o", i),
					Amount: 1, Dimensions: map[string]string{"user": "ann"}, Counts: counts})
				return err
			}
			if err := ask(other, 0); err != nil {
				t.Fatal(err)
			}
			list := append(d.Limits.List[:len(before):len(before)], all[1]) // 5 ever
			if _, err := s.Change(context.Background(), ref, bucket.Change{Limits: &list}); err != nil {
				t.Fatal(err)
			}
			for i, node := range []*bucket.Service{s, other, s, other} {
				if err := ask(node, 1+i); err != nil {
					t.Fatal(err)
				}
			}
			wantUsed(t, ask(s, 5), "ever", 5)
			wantUsed(t, ask(other, 6), "ever", 5)
			w.settled(s, ref, 5)
		})
	}
}

// TestOlderLimitsWithoutSQL: a node that knows older limits than a bucket, and cannot read the newer ones, says that it
// cannot judge now, and does not ask without a pause.
func TestOlderLimitsWithoutSQL(t *testing.T) {
	w := newStoreWorld(t)
	var reads atomic.Int64
	hook := w.model.Hook
	w.model.Hook = func(method string, before bool) error {
		if method == "Budget" && before {
			reads.Add(1)
		}
		return hook(method, before)
	}
	slow := storeQuick()
	slow.Refresh = time.Minute
	s, other := w.node(storeQuick()), w.node(slow)
	t.Cleanup(func() { w.fails() }) // so that they can be stopped
	ref := w.create(s, perUser("people"))
	if _, err := deductFor(other, ref, "ann", "a"); err != nil {
		t.Fatal(err)
	}
	list := perUser("people").Limits.List[:1]
	if _, err := s.Change(context.Background(), ref, bucket.Change{Limits: &list}); err != nil {
		t.Fatal(err)
	}
	if _, err := deductFor(s, ref, "ann", "b"); err != nil {
		t.Fatal(err)
	}
	w.fails("*")
	before := reads.Load()
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err := other.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: "c", Amount: 1,
		Dimensions: map[string]string{"user": "ann"}})
	if budget.CodeOf(err).Kind() != budget.NotDone {
		t.Errorf("answered %v, want unavailable", err)
	}
	if n := reads.Load() - before; n > 200 {
		t.Errorf("the definition was asked for %d times in 300 ms", n)
	}
}
