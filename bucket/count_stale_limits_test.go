package bucket_test

import (
	"context"
	"fmt"
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
