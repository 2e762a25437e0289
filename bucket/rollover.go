package bucket

import (
	"context"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// refusalAt is Definition.RefusalAt, and PeriodExhausted before the open period begins: between two
// windows nothing can be deducted; BudgetExhausted after the last one.
func (b *Budget) refusalAt(now time.Time) *budget.Error {
	if refusal := b.RefusalAt(now); refusal != nil {
		return refusal
	}
	if b.Period.Over {
		if _, follows := allocation.Next(b.Definition, b.Period, now); follows {
			return nil
		}
		refusal := budget.Refuse(budget.BudgetExhausted, "deduct", "the last period of budget %s ended at %s", b.Name,
			b.Period.End.Format(time.RFC3339))
		refusal.Available = new(int64)
		return refusal
	}
	if !now.Before(b.Period.Start) {
		return nil
	}
	refusal := budget.Refuse(budget.PeriodExhausted, "deduct", "budget %s releases units again at %s", b.Name,
		b.Period.Start.Format(time.RFC3339))
	refusal.RetryAfter = b.Period.Start.Sub(now)
	return refusal
}

// exhausted refuses an amount above I3's sum: PeriodExhausted where a later period may cover it, else
// BudgetExhausted.
func (b *Budget) exhausted(c Cover, amount int64, now time.Time) *budget.Error {
	available := c.Sum()
	at := time.Time{}
	if available+c.Later >= amount {
		at = allocation.ScheduleOf(b.Definition).RetryAt(now, c.Later)
	}
	refusal := budget.Refuse(budget.BudgetExhausted, "deduct", "budget %s has %d left, %d were asked for",
		b.Name, available, amount)
	if !at.IsZero() {
		refusal = budget.Refuse(budget.PeriodExhausted, "deduct",
			"this period of budget %s has %d left, %d were asked for; the next one begins at %s", b.Name,
			available, amount, at.Format(time.RFC3339))
		refusal.RetryAfter = at.Sub(now)
	}
	refusal.Available = &available
	return refusal
}

// remaining sets what the budget, and for a daily one its period, has left by a sum.
func (d *DeductAnswer) remaining(b *Budget, c Cover) {
	d.BudgetRemaining, d.Unlimited = c.Sum()+c.Later, b.Unlimited
	if b.Type == budget.Daily {
		units := c.Sum()
		d.PeriodRemaining = &units
	}
}

// until is the instant of the lane's clock at which a period ends there; 0: never.
func (l *lane) until(p budget.Period) int64 {
	if p.End.IsZero() {
		return 0
	}
	return max(p.End.UnixMilli()+l.ahead.Load(), 1)
}

// compareClocks measures by how much the lane's clock is ahead of SQL's, to half a round trip. The first one of
// at most `soon` is taken, or else the shortest of a few, as NTP's clock filter does (RFC 5905, 10): windows of limits and
// ends of periods are judged by it.
func (s *Service) compareClocks(ctx context.Context, l *lane) error {
	const few, soon = 5, 20 * time.Millisecond
	for i, shortest := 0, time.Duration(math.MaxInt64); i < few && shortest > soon; i++ {
		began, asked := s.now(), s.sql.Now()
		at, err := l.instance.Time(ctx, l.id)
		if err != nil {
			return err
		}
		if trip := s.now() - began; trip < shortest {
			shortest = trip
			l.ahead.Store(at.Sub(asked.Add(trip / 2)).Milliseconds())
		}
	}
	return nil
}

// turn waits for the roll-over of a budget whose period is over, which this request asks for: the
// budgets that are asked for go first (DESIGN 7).
func (a *attempt) turn(ctx context.Context, round int) (DeductAnswer, bool, error) {
	_, err := a.s.turning.do(ctx, a.entry.id, struct{}{})
	if err != nil {
		return a.waitFor(ctx, round, err)
	}
	a.reread(ctx)
	if a.entry.value.Load().Period.OverAt(a.s.sql.Now()) {
		return a.wait(ctx, round) // the end was reached by this node's clock and not by SQL's
	}
	return DeductAnswer{}, false, nil
}

// turnFirst rolls a budget over before it is changed, if that is due and possible: an append is for the periods
// to come, not for those that nobody has rolled over yet.
func (s *Service) turnFirst(ctx context.Context, entry *cached) {
	if p := entry.value.Load().Period; p.Over || !p.OverAt(s.sql.Now()) {
		return
	}
	if _, err := s.turning.do(ctx, entry.id, struct{}{}); err != nil {
		s.log.Warn("budget not rolled over yet", "budget", entry.id, "error", err)
	}
}

// rollOverDue rolls over the budgets whose period is over.
func (s *Service) rollOverDue(ctx context.Context) {
	ids, err := s.sql.Over(ctx, choresLimit)
	if err != nil {
		s.failed("sql", err)
		return
	}
	var all errgroup.Group
	const workers = 8
	all.SetLimit(workers)
	for _, id := range ids {
		place := s.turns.take()
		all.Go(func() error {
			s.turns.wait(place)
			if _, err := s.turning.do(ctx, id, struct{}{}); err != nil && ctx.Err() == nil {
				s.log.Warn("budget not rolled over yet", "budget", id, "error", err)
			}
			return nil
		})
	}
	_ = all.Wait() // each has said what failed
}

// rollOverFor is one roll-over for all who wait for it.
func (s *Service) rollOverFor(budgetID int64, wishes []struct{}) []result[struct{}] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	out := make([]result[struct{}], len(wishes))
	err := s.rollOver(ctx, budgetID)
	for i := range out {
		out[i].err = err
	}
	return out
}

// rollOver ends a budget's period, if it is over by SQL's clock, and opens the next: see
// Periods.RollOver. In store mode the period's epochs are closed first, as far as their stores can be
// reached, because their logs say what was used.
func (s *Service) rollOver(ctx context.Context, budgetID int64) error {
	b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		s.failed("sql", err)
		return err
	}
	if b.inStoreMode() && b.Period.OverAt(s.sql.Now()) && !b.Period.Over {
		if err := s.closePeriod(ctx, &b); err != nil {
			return err
		}
	}
	done, err := s.sql.RollOver(ctx, budgetID, s.unusable()...)
	if err != nil {
		s.failed("sql", err)
		return err
	}
	if !done.Done {
		return nil
	}
	s.log.Info("budget rolled over", "budget", b.Name, "period", done.Period.Number, "over", done.Period.Over)
	s.carryOut(ctx, done.Handout)
	s.forgetEnded(ctx, &b)
	s.quiet.Remove(budgetID)
	return nil
}

// closePeriod ends the live epochs of a budget's period through their stores; those out of reach stay.
func (s *Service) closePeriod(ctx context.Context, b *Budget) error {
	var all errgroup.Group
	const workers = 8
	all.SetLimit(workers)
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if !bk.Epoch.Status.Live() || bk.Epoch.Fenced != "" || !s.reachable(bk.Lane, bk.Ref()) {
			continue
		}
		place := s.turns.take()
		all.Go(func() error {
			s.turns.wait(place)
			if bk.Epoch.Status == ledger.Opening {
				s.open(ctx, bk.Lane, []Ref{bk.Ref()})
			}
			return s.endEpoch(ctx, b.ID, bk.Lane, bk.Ref(), ByService, true, nil)
		})
	}
	return all.Wait()
}

// forgetEnded removes the balances that a roll-over in ledger mode has left in the stores.
func (s *Service) forgetEnded(ctx context.Context, b *Budget) {
	if b.inStoreMode() {
		return
	}
	refs := map[Lane][]Ref{}
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.Epoch.Status.Live() && bk.Epoch.Fenced == "" && s.reachable(bk.Lane, bk.Ref()) {
			refs[bk.Lane] = append(refs[bk.Lane], bk.Ref())
		}
	}
	for _, id := range inOrder(refs) {
		if err := s.lanes[id].instance.Forget(ctx, id, refs[id]); err != nil {
			s.failed("store", err)
		}
	}
}
