package bucket_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// named is a mode that answers with its name. The methods that it lacks are not called.
type named struct {
	bucket.Mode
	name string
}

func (n *named) Deduct(_ context.Context, r bucket.DeductRequest) (bucket.DeductAnswer, error) {
	return bucket.DeductAnswer{Bucket: n.name, RequestID: r.RequestID}, nil
}

func (n *named) DeductAll(ctx context.Context, requests []bucket.DeductRequest) []bucket.DeductResult {
	out := make([]bucket.DeductResult, len(requests))
	for i, r := range requests {
		out[i].Answer, out[i].Err = n.Deduct(ctx, r)
	}
	return out
}

func (n *named) Check(_ context.Context, requests []bucket.CheckRequest) []bucket.CheckAnswer {
	out := make([]bucket.CheckAnswer, len(requests))
	for i, r := range requests {
		out[i].Err = fmt.Errorf("%s %d", n.name, r.Amount)
	}
	return out
}

func façade(t *testing.T) *bucket.Service {
	t.Helper()
	d := newDefined(2) // b1 is in ledger mode, b2 in store mode
	b := d.budgets[2]
	b.Durability = budget.Store
	d.budgets[2] = b
	return &bucket.Service{Budgets: cache(t, d), Ledger: &named{name: "ledger"}, Store: &named{name: "store"}}
}

// TestModes checks that each request of a call goes to the mode of its budget, and that its answer
// has the request's index.
func TestModes(t *testing.T) {
	s := façade(t)
	var requests []bucket.DeductRequest
	for i := range 12 {
		requests = append(requests, bucket.DeductRequest{Budget: bucket.BudgetRef{ID: int64(i%3 + 1)}, RequestID: fmt.Sprint(i)})
	}
	for i, r := range s.DeductAll(context.Background(), requests) {
		mode := []string{"ledger", "store"}
		switch {
		case i%3 == 2:
			if !budget.Is(r.Err, budget.BudgetNotFound) {
				t.Errorf("%d: %v", i, r.Err)
			}
		case r.Err != nil || r.Answer.Bucket != mode[i%3] || r.Answer.RequestID != fmt.Sprint(i):
			t.Errorf("%d: %+v", i, r)
		}
		if got, err := s.Deduct(context.Background(), requests[i]); err == nil && got.Bucket != mode[i%3] {
			t.Errorf("%d alone: %+v", i, got)
		}
	}
	checks := []bucket.CheckRequest{{Budget: bucket.BudgetRef{ID: 2}, Amount: 1}, {Budget: bucket.BudgetRef{ID: 1}, Amount: 2}}
	for i, c := range s.Check(context.Background(), checks) {
		if want := []string{"store 1", "ledger 2"}[i]; c.Err == nil || c.Err.Error() != want {
			t.Errorf("check %d: %v, want %s", i, c.Err, want)
		}
	}
}

// TestLedgerModeOnly checks that a call that needs rows is refused for a budget in store mode, and
// that the refusal names the call and what to use instead.
func TestLedgerModeOnly(t *testing.T) {
	s, ctx, ref, size := façade(t), context.Background(), bucket.BudgetRef{ID: 2}, 3
	hold := bucket.DeductRequest{Budget: ref, RequestID: "h", Amount: 1, HoldTTL: 1}
	for call, do := range map[string]func() error{
		"hold":   func() error { _, err := s.Deduct(ctx, hold); return err },
		"hold ":  func() error { return s.DeductAll(ctx, []bucket.DeductRequest{hold})[0].Err },
		"hold  ": func() error { _, err := s.DryRun(ctx, hold); return err },
		"confirm": func() error {
			_, err := s.Confirm(ctx, bucket.ConfirmRequest{Budget: ref})
			return err
		},
		"extend":   func() error { _, err := s.Extend(ctx, bucket.ExtendRequest{Budget: ref}); return err },
		"rollback": func() error { _, err := s.RollbackGroup(ctx, bucket.RollbackRequest{Budget: ref}); return err },
		"bucket_quantity": func() error {
			_, err := s.Change(ctx, ref, bucket.Change{BucketQuantity: &size})
			return err
		},
	} {
		err := do()
		if !budget.Is(err, budget.LedgerModeOnly) || !strings.Contains(err.Error(), strings.TrimSpace(call)) {
			t.Errorf("%s: %v", call, err)
		}
		if budget.CodeOf(err).Kind() != budget.Refused {
			t.Errorf("%s is of kind %v", call, budget.CodeOf(err).Kind())
		}
	}
}
