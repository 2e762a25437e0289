package deduct_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
)

// TestMixedCalls checks that single calls and batches of several amounts, with ids that come twice,
// through two nodes, lose and double no deduction, and that nothing is refused that the budget
// covers (I2, I3, I4).
func TestMixedCalls(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			b := newBooks()
			patient := func(c *deduct.Config) { c.Settings = patient }
			const budgets, callers, each = 3, 4, 40
			var all []*account
			for i := range budgets {
				all = append(all, b.add(fmt.Sprint("b", i), 400, 4, 50))
			}
			nodes := []*deduct.Service{node(t, b, patient), node(t, b, patient)}
			var run sync.WaitGroup
			var mu sync.Mutex
			accepted := map[bucket.ID]int64{}
			check := func(a *account, r *bucket.DeductRequest, answer *bucket.DeductAnswer, err error) {
				var refusal *budget.Error
				switch {
				case err == nil:
					mu.Lock()
					accepted[bucket.ID{Budget: a.ID, RequestID: r.RequestID}] = r.Amount
					mu.Unlock()
					if answer.BudgetRemaining < answer.BucketRemaining || answer.BudgetRemaining > 400-r.Amount {
						t.Errorf("%s: %+v", r.RequestID, answer)
					}
				case !errors.As(err, &refusal) || refusal.Code != budget.BudgetExhausted:
					t.Errorf("%s: %v", r.RequestID, err)
				default:
					b.change(a.ID, func(a *account) {
						if left := a.available().Sum(); left >= r.Amount { // it never grows
							t.Errorf("%s: %d refused, %d are left", r.RequestID, r.Amount, left)
						}
					})
				}
			}
			for caller := range callers {
				run.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(caller)+2))
					for n := range each {
						a, s := all[random.IntN(budgets)], nodes[random.IntN(2)]
						requests := make([]bucket.DeductRequest, 1+random.IntN(6))
						for i := range requests {
							id := fmt.Sprintf("%d-%d-%d", caller, n, i)
							if random.IntN(4) == 0 { // one that another caller uses too
								id = fmt.Sprintf("%d-%d", n, i)
							}
							requests[i] = request(a, id, int64(1+len(id)%5))
						}
						if len(requests) == 1 {
							got, err := s.Deduct(context.Background(), requests[0])
							check(a, &requests[0], &got, err)
							continue
						}
						for i, r := range s.DeductAll(context.Background(), requests) {
							check(a, &requests[i], &r.Answer, r.Err)
						}
					}
				})
			}
			run.Wait()
			rows := 0
			for _, a := range all {
				units, n := b.used(a.ID)
				rows += n
				if left := a.available().Sum(); units+left != 400 {
					t.Errorf("budget %d: %d used, %d left", a.ID, units, left)
				}
			}
			if rows != len(accepted) {
				t.Errorf("%d rows, %d accepted ids", rows, len(accepted))
			}
			if b.count("bring") == 0 || b.count("twice") == 0 || b.count("balances") == 0 {
				t.Error("nothing was short, sold out or repeated: the test tries too little")
			}
		})
	}
}
