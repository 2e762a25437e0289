package row_test

import (
	"context"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestLooksTwice checks that units that return between the two reads of the sum are given out (I3).
func TestLooksTwice(t *testing.T) {
	b := newBooks()
	a := b.add("returns", 100, 1, 100)
	s := node(t, b, nil)
	if _, err := s.Deduct(context.Background(), request(a, "o1", 100)); err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	b.before = func(call string) error {
		if call == "covers" { // the first read has ended
			a.epochs[a.Buckets[0].ID].Outstanding = 5
		}
		return nil
	}
	b.mu.Unlock()
	if got, err := s.Deduct(context.Background(), request(a, "o2", 1)); err != nil || got.BucketRemaining != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAcceptedMeanwhile checks that a repeat is not refused by a transaction in which its id was
// still new, if another node accepted the id while that transaction waited (I4).
func TestAcceptedMeanwhile(t *testing.T) {
	for name, refusal := range map[string]struct {
		during string
		change func(a *account)
	}{
		"exhausted": {"gather", func(a *account) {
			for _, e := range a.epochs {
				e.Outstanding = 0
			}
		}},
		"group closed": {"commit", func(a *account) { a.closedGroups["g"] = true }},
		"limited":      {"commit", func(*account) {}}, // its own row has used it up
	} {
		t.Run(name, func(t *testing.T) {
			b := newBooks()
			a := b.add("sale", 100, 2, 50)
			a.Limits = &budget.Limits{List: []budget.Limit{perUser("units", 5, budget.Day)}}
			s := node(t, b, nil)
			call := request(a, "o1", 5)
			call.Dimensions = map[string]string{"user": "ann"}
			if name == "group closed" {
				call.Group, call.HoldTTL = "g", time.Minute
			}
			if _, err := s.Deduct(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			id := bucket.ID{Budget: a.ID, RequestID: "o1"}
			b.mu.Lock()
			accepted := b.rows[id]
			delete(b.rows, id) // as if the other node's commit were still under way
			if name == "exhausted" {
				clear(b.tallies)
				for _, e := range a.epochs {
					e.Outstanding = 4
				}
			}
			b.before = func(what string) error {
				if what == refusal.during {
					refusal.change(a)
				}
				return nil
			}
			b.after = func(what string) error {
				if what == refusal.during {
					b.rows[id] = accepted
				}
				return nil
			}
			b.mu.Unlock()
			if got, err := s.Deduct(t.Context(), call); err != nil || !got.Replayed {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
