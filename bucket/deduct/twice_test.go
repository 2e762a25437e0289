package deduct_test

import (
	"context"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
)

// TestAcceptedMeanwhile checks that a repeat is not refused by a transaction in which its id was
// still new, if another node accepted the id while that transaction waited (I4).
func TestAcceptedMeanwhile(t *testing.T) {
	for name, refusal := range map[string]struct {
		during string
		change func(a *account)
	}{
		"exhausted": {"bring", func(a *account) {
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
				clear(b.usages)
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

// late is books whose first commit has no answer and lands only when Bring begins, while a Commit in
// between guesses that the bucket has too little.
type late struct {
	*books
	commits int
}

func (l *late) Commit(ctx context.Context, ops []bucket.Operation) ([]bucket.Outcome, error) {
	if l.commits++; l.commits == 1 {
		return nil, &budget.Error{Code: budget.OutcomeUnknown, Op: "commit"}
	}
	out := make([]bucket.Outcome, len(ops))
	for i := range out {
		out[i] = bucket.Outcome{Verdict: bucket.Short, Guess: true}
	}
	return out, nil
}

func (l *late) Bring(ctx context.Context, recent map[int64]int64, ops []bucket.Operation) (
	[]bucket.Outcome, error) {
	if _, err := l.books.Commit(ctx, ops); err != nil {
		return nil, err
	}
	return l.books.Bring(ctx, recent, ops)
}

// TestGuess checks that a guess refuses nobody whose earlier attempt may still be under way (I4):
// only a transaction decides.
func TestGuess(t *testing.T) {
	b := newBooks()
	a := b.add("sale", 10, 1, 10)
	l := &late{books: b}
	s := node(t, b, func(c *deduct.Config) { c.Ledger = l })
	b.mu.Lock()
	b.before = func(call string) error {
		if call == "twice" {
			t.Error("the sums were read, which decide nothing about the earlier attempt")
		}
		return nil
	}
	b.mu.Unlock()
	got, err := s.Deduct(t.Context(), request(a, "o1", 10))
	if err != nil || got.Replayed || got.Amount != 10 {
		t.Errorf("%+v, %v", got, err)
	}
}
