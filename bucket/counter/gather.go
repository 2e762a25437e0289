package counter

import (
	"context"
)

// mostRounds bounds the steps in which the buckets of one budget are closed: 1,024 buckets take 64.
const mostRounds = 100

// Gather closes epochs until U and F have so many units, or until no open epoch has any. It returns an
// error where a store cannot be reached; what the others brought stays in U.
func (s *Service) Gather(ctx context.Context, budgetID, units int64) error {
	var first error
	for range mostRounds {
		donors, err := s.ledger.Supply.Collect(ctx, budgetID, 0, units)
		if err != nil || len(donors) == 0 {
			return orFirst(first, err)
		}
		if err := s.push(ctx, donors, -1); err != nil {
			return err
		}
	}
	return first
}

func orFirst(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

// Redistribute brings all units of a budget's buckets back to the total and hands them out again evenly: a
// recycle. It may be interrupted and repeated at any time. Errors: Unavailable, OutcomeUnknown, also where
// a store is down; the others are done.
func (s *Service) Redistribute(ctx context.Context, budgetID int64) error {
	b, err := s.budgets.Reload(ctx, budgetID)
	if err != nil {
		return err
	}
	s.syncBudget(ctx, b, s.clock.Now())
	gathered := s.Gather(ctx, budgetID, b.TotalQuantity)
	begun, err := s.ledger.Supply.Spread(ctx, budgetID)
	if err == nil {
		err = s.push(ctx, begun, -1)
	}
	return orFirst(gathered, err)
}

// ShrinkLoop closes epochs of budgets whose pending shrinks wait for units. The shrinks themselves are done
// by package manage.
type ShrinkLoop struct{ s *Service }

// RunOnce looks once. Error: the first that it met.
func (g *ShrinkLoop) RunOnce(ctx context.Context) error {
	list, err := g.s.ledger.Supply.Shrinking(ctx)
	for _, shrink := range list {
		b, e := g.s.budgets.Reload(ctx, shrink.Budget)
		if e == nil {
			g.s.syncBudget(ctx, b, g.s.clock.Now())
			var donors []int64
			// U has less than is pending: what comes is kept from being applied for.
			donors, e = g.s.ledger.Supply.Collect(ctx, b.ID, 0, shrink.Units)
			if e == nil {
				e = g.s.push(ctx, donors, 0)
			}
		}
		err = orFirst(err, e)
	}
	return err
}
