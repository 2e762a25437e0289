package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// open makes a period the budget's, with a row of its own.
func (b *sqlBudget) open(p budget.Period) {
	p.Start, p.End = toStart(p.Start), toEnd(p.End)
	b.periods = append(b.periods, &ledger.PeriodFigures{Period: p})
	b.undistributed += p.Funded
	b.rollOver = time.Time{}
	if !p.Over {
		b.rollOver = p.End
	}
	p.Funded, p.Carried, p.Before = 0, 0, 0
	b.period = p
}

// periodRows returns the rows of budget_period.
func (b *sqlBudget) periodRows() (out []ledger.PeriodFigures) {
	for _, p := range b.periods {
		row := *p
		row.Over = row.Over && row.Number == b.period.Number // the end of the budget, as it stands
		out = append(out, row)
	}
	return out
}

// releasable is what apply and hand-out may take.
func (b *sqlBudget) releasable(now time.Time) int64 {
	if b.period.OverAt(now) {
		return 0
	}
	return max(b.undistributed-max(b.pendingShrink-b.unfunded, 0), 0)
}

// commitsEnd is the EndAt of an epoch of the open period.
func (b *sqlBudget) commitsEnd() time.Time {
	if b.definition.Durability == budget.Store {
		return time.Time{}
	}
	return b.period.End
}

// fund moves units F -> U of the open period.
func (b *sqlBudget) fund(units int64) {
	b.unfunded -= units
	b.undistributed += units
	b.periods[b.period.Number-1].Funded += units
}

// takeBack moves units U -> F for a shrink: first what the period got of F, then what others left to it.
func (b *sqlBudget) takeBack(units int64) {
	funded := min(units, b.periods[b.period.Number-1].Funded)
	b.fund(-funded)
	if carried := units - funded; carried > 0 {
		m := allocation.Movement{Unfunded: carried}
		b.left(b.period.Number, m)
		b.move(m)
		b.undistributed -= carried
	}
}

// topUp gives the open period its part of an append.
func (b *sqlBudget) topUp(now time.Time) {
	if !b.period.OverAt(now) {
		p := b.periods[b.period.Number-1].Period
		b.fund(allocation.TopUp(b.definition, p,
			allocation.Fundable(b.definition, b.unfunded, b.pendingShrink)))
	}
}

// comeBack moves units that have left an epoch to where its period says.
func (b *sqlBudget) comeBack(e *sqlEpoch, never, late int64) {
	if e.Period == b.period.Number && !b.period.Over || safeguard.Off(safeguard.PeriodOfReturns) {
		b.undistributed += never + late
		return
	}
	m := allocation.Return(b.definition, b.period, never, late)
	b.left(e.Period, m)
	if m.Undistributed > 0 {
		b.periods[b.period.Number-1].Carried += m.Undistributed
	}
	b.move(m)
}

// left notes what left a period that is over.
func (b *sqlBudget) left(number int64, m allocation.Movement) {
	if m == (allocation.Movement{}) {
		return
	}
	row := b.periods[number-1]
	row.Returned += m.Unfunded
	row.Passed += m.Undistributed
	row.Forfeited += m.Forfeited
}

func (b *sqlBudget) move(m allocation.Movement) {
	b.unfunded += m.Unfunded
	b.undistributed += m.Undistributed
	b.forfeited += m.Forfeited
}

// endPeriodAt moves the end of the open period, for its live epochs too. What was given back after an end
// that has moved on is not late.
func (b *sqlBudget) endPeriodAt(end, due, now time.Time) {
	end, due = toEnd(end), toEnd(due)
	if end.Equal(b.period.End) && due.Equal(b.rollOver) {
		return
	}
	b.listVersion++
	if b.rollOver = due; b.period.Over {
		return
	}
	b.period.End = end
	b.periods[b.period.Number-1].End = end
	for _, shard := range b.buckets {
		if e := shard.newest(); e.Status.Live() && e.Period == b.period.Number {
			e.EndAt = b.commitsEnd()
		}
		for _, e := range shard.epochs {
			if e.Period == b.period.Number && (end.IsZero() || now.Before(end)) {
				e.Late = 0
			}
		}
	}
}

// Over lists budgets whose roll-over is due.
func (s *SQL) Over(ctx context.Context, limit int) ([]int64, error) {
	return transact(ctx, s, "Over", func(now time.Time) ([]int64, error) {
		var due []*sqlBudget
		for _, b := range s.budgets {
			if b.due(now) {
				due = append(due, b)
			}
		}
		slices.SortStableFunc(due, func(x, y *sqlBudget) int { return x.rollOver.Compare(y.rollOver) })
		var ids []int64
		for _, b := range due[:min(len(due), limit)] {
			ids = append(ids, b.definition.ID)
		}
		return ids, nil
	})
}

func (b *sqlBudget) due(now time.Time) bool { return !b.rollOver.IsZero() && !now.Before(b.rollOver) }

// RollOver ends a period that is over and opens the next. See bucket.Periods.
func (s *SQL) RollOver(ctx context.Context, budgetID int64, without ...bucket.Lane) (bucket.RolledOver, error) {
	return transact(ctx, s, "RollOver", func(now time.Time) (bucket.RolledOver, error) {
		b, err := s.find(budgetID)
		if err != nil || !b.due(now) {
			if err == nil {
				return bucket.RolledOver{Period: b.period}, nil
			}
			return bucket.RolledOver{}, err
		}
		held := int64(0)
		for _, shard := range b.buckets {
			e := shard.newest()
			switch inStore := b.definition.Durability == budget.Store; {
			case inStore && e.Status == ledger.Open:
				e.Status = ledger.Closing
			case !inStore && e.Status.Live() && e.Fenced == "":
				held += e.finish(ledger.Lost)
			}
		}
		for range bucket.PeriodsAtOnce {
			next, ok := allocation.Next(b.definition, b.period, now)
			used := int64(0)
			if ok {
				used = b.countedSince(next.Start)
			}
			turn := allocation.RollOver(b.definition, b.period, next, ok, allocation.Account{Unfunded: b.unfunded,
				Undistributed: b.undistributed, Held: held, Pending: b.pendingShrink, Used: used})
			b.left(b.period.Number, turn.Left)
			b.move(turn.Moved)
			b.undistributed -= turn.Period.Funded // open adds it
			b.open(turn.Period)
			if held = 0; b.period.Over || !b.period.OverAt(now) {
				break
			}
		}
		out := bucket.RolledOver{Done: true, Handout: s.settlePeriod(b, now, without)}
		out.Period = b.period
		s.verify(b)
		return out, nil
	})
}

// settlePeriod gives the buckets epochs and units of the period that was opened, or takes them offline.
func (s *SQL) settlePeriod(b *sqlBudget, now time.Time, without []bucket.Lane) (out bucket.Handout) {
	b.listVersion++
	if b.period.Over {
		for _, shard := range b.buckets {
			if shard.Online {
				shard.Online, shard.OfflineBy, shard.UpdatedAt = false, bucket.ByService, now
			}
		}
		return out
	}
	return s.settle(b, now, without)
}

// countedSince sums what was used since an instant before the end of the open or last period: of periods that begin there or
// later all that their epochs used.
func (b *sqlBudget) countedSince(start time.Time) (units int64) {
	if b.period.End.IsZero() || !start.Before(b.period.End) {
		return 0
	}
	for _, shard := range b.buckets {
		for _, e := range shard.epochs {
			p := b.periods[e.Period-1]
			switch {
			case !p.End.IsZero() && !p.End.After(toStart(start)):
				continue // of an earlier period, however late it was drained
			case !p.Start.Before(toStart(start)):
				units += e.Used + e.Held
				continue
			}
			for _, d := range e.deductions {
				if !d.CountedAt.Before(toStart(start)) {
					units += d.Amount - d.RolledBack
				}
			}
		}
	}
	return units
}
