package row

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/span"
	"github.com/budgetd/budgetd/budget"
)

// newFlights returns the queue of the node's flights. An operation waits for a flight in the air
// that has its id or a limit row of it.
func (s *Service) newFlights(away func() time.Duration) *batch.Queue[*op] {
	most := func(usual time.Duration) int {
		if away == nil {
			return batch.InTheAir(usual, 0)
		}
		return batch.InTheAir(usual, away())
	}
	return batch.New(batch.Config[*op]{Run: s.fly, Refuse: (*op).Overload, Owner: (*op).Owner,
		Key: func(o *op) int64 { return o.row.Bucket }, Keys: MaxFlightBuckets, Claims: claims,
		Most: most, Size: s.set.FlightRows, Bound: s.set.Queue})
}

// claims appends what an operation has for itself: its deduction, and its limit rows.
func claims(o *op, to []uint64) []uint64 {
	to = append(to, batch.Claim(o.Budget.ID, o.row.Request.ID))
	for i := range o.row.Touches {
		t := &o.row.Touches[i]
		to = append(to, batch.Claim(o.Budget.ID, t.Limit.Dimension, t.Key))
	}
	return to
}

// flights holds the lists of flights between their uses.
var flights = sync.Pool{New: func() any { return new(flight) }}

// flight is the operations of one flight.
type flight struct {
	ops  []*op
	rows []bucket.Operation
}

// fly commits the operations of one flight and returns them to their waves.
func (s *Service) fly(ops []*op) {
	f := flights.Get().(*flight)
	f.ops, f.rows = claim(ops, f.ops[:0], f.rows[:0])
	defer func() {
		clear(f.ops)
		clear(f.rows)
		flights.Put(f)
	}()
	if len(f.ops) == 0 {
		return
	}
	ctx, cancel := s.bounded()
	defer cancel()
	began := s.clock.Now()
	ctx, end := span.Flight(ctx, s.tracer, "flight", f.ops)
	outcomes, err := s.ledger.Commit(ctx, f.rows)
	end(err)
	s.handleOutcomes(ctx, stepCommitted, f.ops, outcomes, err, began)
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
				o.state.recent.Add(o.Request.Amount)
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
	outcomes, err := s.ledger.Bring(ctx, budgetID, st.recent.Usual(), rows)
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
