package hold

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// waiter is a caller that waits until its order is carried out.
type waiter struct {
	order Order
	// state is waiting until a transaction takes the order or the caller gives up.
	state atomic.Uint32
	done  chan Result
}

const waiting, taken, left = 0, 1, 2

func overloaded(k Kind) *budget.Error {
	e := budget.Refuse(budget.Unavailable, string(k),
		"too many requests are waiting; repeat later")
	e.Reason, e.RetryAfter = budget.ReasonOverloaded, time.Second
	return e
}

// submit queues an order and waits for its result. If ctx ends before a transaction has taken the
// order, the result is Unavailable. If the transaction has not ended Grace after ctx, it is
// OutcomeUnknown.
func (s *Service) submit(ctx context.Context, o Order) Result {
	w := &waiter{order: o, done: make(chan Result, 1)}
	s.queue.Add(w)
	select {
	case got := <-w.done:
		return got
	case <-ctx.Done():
	}
	if w.state.CompareAndSwap(waiting, left) {
		return Result{
			Err: &budget.Error{Code: budget.Unavailable, Op: string(o.Kind), Err: ctx.Err(),
				Reason:  budget.ReasonOverloaded,
				Message: "the deadline passed before the transaction began; nothing was changed"},
		}
	}
	grace := time.NewTimer(s.set.Grace)
	defer grace.Stop()
	select {
	case got := <-w.done:
		return got
	case <-grace.C:
		return Result{Err: &budget.Error{Code: budget.OutcomeUnknown, Op: string(o.Kind),
			Err:     ctx.Err(),
			Message: "the deadline passed during the transaction; repeat the request"}}
	}
}

// run carries out the orders of one transaction. If the rows of one order are inconsistent, it
// gives each order a transaction of its own, so that only that order fails.
func (s *Service) run(waiters []*waiter) {
	var live []*waiter
	var orders []Order
	for _, w := range waiters {
		if w.state.CompareAndSwap(waiting, taken) {
			live = append(live, w)
			orders = append(orders, w.order)
		}
	}
	if len(live) == 0 {
		return
	}
	got, err := s.commit(orders)
	for i, w := range live {
		if err != nil && budget.CodeOf(err) == budget.Internal && len(orders) > 1 {
			alone, err := s.commit(orders[i : i+1])
			if err != nil {
				alone = []Result{{Err: err}}
			}
			w.done <- alone[0]
			continue
		}
		if err != nil {
			w.done <- Result{Err: err}
			continue
		}
		w.done <- got[i]
	}
}

func (s *Service) commit(orders []Order) ([]Result, error) {
	ctx, cancel := context.WithTimeout(context.Background(), s.set.StepTime)
	defer cancel()
	began := time.Now()
	got, err := s.execute(ctx, orders)
	if err != nil {
		return nil, err
	}
	if s.observer != nil {
		s.observer.Commit(ctx, len(orders), time.Since(began))
	}
	return got, nil
}
