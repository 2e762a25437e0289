package bucket_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// countedSums is SQL that counts its reads of what remains of budgets, each of which hangs while they are said to.
type countedSums struct {
	bucket.SQL
	hang  atomic.Bool
	reads atomic.Int64
}

func (q *countedSums) Covers(ctx context.Context, ids []int64) (map[int64]bucket.Cover, error) {
	q.reads.Add(1)
	if q.hang.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return q.SQL.Covers(ctx, ids)
}

// TestSumsOfABatch: a batch with one id for many budgets is done together; what remains of them is read with one look,
// and it waits no longer than a single deduction for a look that hangs.
func TestSumsOfABatch(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		q := &countedSums{SQL: w.model}
		w.sql = q
		set := quick
		set.StepTimeout = time.Second
		s := w.node(set)
		const budgets = 40
		var refs []bucket.BudgetRef
		for i := range budgets {
			refs = append(refs, w.create(s, promo("b"+strconv.Itoa(i), 100, 1)))
		}
		for round, remaining := range []int64{99, 99, 97} { // the second is told what the first was
			q.hang.Store(round == 1)
			time.Sleep(2 * time.Second) // older than answers may show
			q.reads.Store(0)
			var requests []bucket.DeductRequest
			for _, ref := range refs {
				requests = append(requests, bucket.DeductRequest{Budget: ref, RequestID: strconv.Itoa(round), Amount: 1})
			}
			began := time.Now()
			results := s.DeductAll(context.Background(), requests)
			if took := time.Since(began); took > time.Second {
				t.Errorf("round %d took %v", round, took)
			}
			for i, r := range results {
				if r.Err != nil || r.Answer.BudgetRemaining != remaining {
					t.Errorf("round %d, budget %d: %+v, %v", round, i, r.Answer, r.Err)
				}
			}
			if n := q.reads.Load(); n != 1 {
				t.Errorf("round %d: %d reads of sums", round, n)
			}
		}
	})
}

// hungLane is an instance that answers no deductions while it hangs.
type hungLane struct {
	bucket.Instance
	hangs *atomic.Bool
}

func (i *hungLane) Deduct(ctx context.Context, lane bucket.Lane, operations []bucket.Operation) ([]bucket.Reply, error) {
	if i.hangs.Load() {
		<-ctx.Done()
		return nil, &budget.Error{Code: budget.OutcomeUnknown, Op: "deduct", Err: ctx.Err()}
	}
	return i.Instance.Deduct(ctx, lane, operations)
}

// TestLateLane: a store that hangs holds up no deduction of the same batch in another one.
func TestLateLane(t *testing.T) {
	for _, hung := range []string{"m0", "m1", "m2"} {
		overTime(t, hung, func(t *testing.T) {
			w := newWorld(t)
			hangs, connect := &atomic.Bool{}, w.connect
			w.connect = func() map[string]bucket.Instance {
				all := connect()
				all[hung] = &hungLane{all[hung], hangs}
				return all
			}
			set := quick
			set.Deadline, set.StepTimeout = 2*time.Second, 5*time.Second
			s := w.node(set)
			ref := w.create(s, promo("b", 6000, 6))
			hangs.Store(true)
			requests := make([]bucket.DeductRequest, 60)
			for i := range requests {
				requests[i] = bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("o", i), Key: fmt.Sprint("k", i), Amount: 1}
			}
			accepted, unknown := 0, 0
			for i, r := range s.DeductAll(context.Background(), requests) {
				switch {
				case r.Err == nil:
					accepted++
				case budget.Is(r.Err, budget.OutcomeUnknown):
					unknown++
				default:
					t.Errorf("%d: %v", i, r.Err)
				}
			}
			if accepted < 20 || unknown < 5 || accepted+unknown != len(requests) {
				t.Errorf("%d accepted, %d unknown", accepted, unknown)
			}
			hangs.Store(false)
			time.Sleep(2 * set.StepTimeout) // the call that hangs ends, and the lane is in use again
			for _, r := range s.DeductAll(context.Background(), requests) {
				if r.Err != nil {
					t.Error(r.Err)
				}
			}
			w.settled(s, ref, int64(len(requests)))
		})
	}
}
