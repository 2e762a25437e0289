package row

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/span"
	"github.com/budgetd/budgetd/budget"
)

// slot runs the flights of its buckets, one after the other.
type slot struct {
	s     *Service
	queue *batch.Queue[*op]
	ops   []*op
	rows  []bucket.Operation
}

func (s *Service) newSlot() *slot {
	l := &slot{s: s}
	l.queue = batch.New(batch.Config[*op]{Run: l.fly, Refuse: (*op).Overload, Owner: (*op).Owner,
		Key: func(o *op) int64 { return o.row.Bucket }, Keys: MaxFlightBuckets,
		Size: s.set.FlightRows, Bound: s.set.Queue})
	return l
}

// slotIndex returns the slot of a bucket. All nodes must agree on it.
func (s *Service) slotIndex(bucketID int64) int {
	const golden = 0x9e3779b97f4a7c15    // the golden ratio, as in Fibonacci hashing
	h := uint64(bucketID) * golden >> 32 //nolint:gosec // a hash
	return int(h % uint64(len(s.slots))) //nolint:gosec // below the number of slots
}

// fly commits the operations of one flight and returns them to their waves.
func (l *slot) fly(ops []*op) {
	l.ops, l.rows = claim(ops, l.ops[:0], l.rows[:0])
	defer func() { clear(l.ops); clear(l.rows) }()
	if len(l.ops) == 0 {
		return
	}
	ctx, cancel := l.s.bounded()
	defer cancel()
	began := l.s.clock.Now()
	ctx, end := span.Flight(ctx, l.s.tracer, "flight", l.ops)
	outcomes, err := l.s.ledger.Commit(ctx, l.rows)
	end(err)
	l.s.handleOutcomes(ctx, stepCommitted, l.ops, outcomes, err, began)
}

// claim collects the operations whose requests still wait.
func claim(ops, claimed []*op, rows []bucket.Operation) ([]*op, []bucket.Operation) {
	for _, o := range ops {
		if o.Claim() {
			claimed = append(claimed, o)
			rows = append(rows, o.operation())
		}
	}
	return claimed, rows
}

var errOutcomes = &budget.Error{Code: budget.OutcomeUnknown, Op: "commit",
	Message: "not every deduction got an outcome"}

// handleOutcomes returns the operations of a transaction to their waves.
func (s *Service) handleOutcomes(ctx context.Context, step deduct.Step, ops []*op,
	outcomes []bucket.Outcome, err error, began time.Time) {
	if err == nil && len(outcomes) != len(ops) {
		err = errOutcomes
	}
	if err != nil {
		s.failed("sql", err)
	}
	rows, used := 0, int64(0)
	for i, o := range ops {
		o.Step, o.Err, o.outcome = step, err, nil
		if err == nil {
			o.outcome = &outcomes[i]
			if o.outcome.Verdict == bucket.Accepted {
				rows++
				o.Spent = o.state.Spent.Add(o.Request.Amount)
				o.state.recent.add(o.Request.Amount)
				if s.refills != nil && o.Budget.ID != used {
					used = o.Budget.ID
					s.refills.Used(used)
				}
			}
		}
	}
	if rows > 0 {
		s.observer.Commit(ctx, rows, s.clock.Now().Sub(began))
	}
	for _, o := range ops {
		o.Back(o.outcome == nil || o.outcome.Verdict != bucket.Accepted)
	}
}

// broughtOperations bounds the deductions of one Bring.
const broughtOperations = 512

// bring brings units for all operations of a budget that wait.
func (s *Service) bring(budgetID int64, ops []*op) {
	ops, rows := claim(ops, nil, nil)
	if len(ops) == 0 {
		return
	}
	ctx, cancel := s.bounded()
	defer cancel()
	began, st := s.clock.Now(), ops[0].state
	spent := st.Spent.Load()
	ctx, end := span.Flight(ctx, s.tracer, "bring", ops)
	outcomes, err := s.ledger.Bring(ctx, budgetID, st.recent.usual(), rows)
	end(err)
	for i := range outcomes {
		switch outcomes[i].Verdict {
		case bucket.Accepted:
			spent += rows[i].Request.Amount
			fallthrough
		case bucket.Exhausted:
			st.Note(&deduct.Sum{Cover: outcomes[i].Cover, At: began, Spent: spent})
		}
	}
	s.handleOutcomes(ctx, stepBrought, ops, outcomes, err, began)
}

// rollOver rolls over the period of a budget for the operations that found it over.
func (s *Service) rollOver(budgetID int64, ops []*op) {
	ctx, cancel := s.bounded()
	defer cancel()
	err := s.rollover.RollOver(ctx, budgetID)
	if err != nil {
		s.failed("sql", err)
		var known *budget.Error
		if !errors.As(err, &known) || known.Code.Kind() == budget.MayBeDone {
			err = deduct.Unavailable(err) // the rollover failed: nothing was deducted
		}
	}
	for _, o := range ops {
		o.Step, o.Err = stepTurned, err
		o.Back(true)
	}
}
