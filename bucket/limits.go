package bucket

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// unlimited is the definition of a budget without a total of its own: T is MaxAmount, and only its limits bound what is
// deducted.
func unlimited(d budget.Definition) budget.Definition {
	if d.TotalQuantity == 0 {
		d.TotalQuantity = budget.MaxAmount
	}
	if d.Type == "" {
		d.Type = budget.Promo
	}
	return d
}

// limitSet is the budget's limits as it is cached, ready to judge by.
func (e *cached) limitSet() (*limit.Set, error) {
	b := e.value.Load()
	if b.Limits == nil {
		return &limit.Set{}, nil
	}
	if set := e.limits.Load(); set != nil && set.Version == b.Limits.Version {
		return set, nil
	}
	set, err := limit.Compile(b.Limits)
	if err != nil {
		return nil, &budget.Error{Code: budget.Internal, Op: "limits", Err: err}
	}
	e.limits.Store(set)
	return set, nil
}

// reachedKey names a value of a limit.
type reachedKey struct {
	budget       int64
	limit, value string
}

// reached is what was found to be used up; it only says to ask SQL before touching a bucket and never
// answers anybody.
type reached struct {
	version int64 // of the limits
	until   time.Time
}

// limits looks at a request before anything is sent for it: done where its limits cannot judge it, or where
// one of them is known to be used up and SQL, asked anew together with the id, says so still. In store mode
// the store judges.
func (a *attempt) limits(ctx context.Context, b *Budget) (DeductAnswer, bool, error) {
	if b.Limits == nil && a.request.Counts == "" {
		return DeductAnswer{}, false, nil
	}
	set, err := a.entry.limitSet()
	if err != nil {
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	}
	ask := LimitAsk{RequestID: a.id, Amount: a.amount, Dimensions: a.dimensions, Counts: a.counts}
	if why := a.entry.unfit(b, ask.Dimensions, ask.Counts); why != nil {
		if b.inStoreMode() {
			answer, err := a.refuseInStore(ctx, a.home(b), why)
			return answer, true, err
		}
		answer, err := a.refuse(ctx, why)
		return answer, true, err
	}
	if b.inStoreMode() {
		return DeductAnswer{}, false, nil
	}
	touches, _ := set.Touches(ask.Amount, ask.Dimensions, ask.Counts)
	if !a.s.mayBeReached(b, touches) {
		return DeductAnswer{}, false, nil
	}
	got, err := a.s.limitChecks.do(ctx, b.ID, ask)
	switch {
	case err != nil:
		return DeductAnswer{}, true, a.unresolved(ctx, err)
	case got.Recorded != nil:
		answer, err := a.answerRecorded(ctx, *got.Recorded)
		return answer, true, err
	case got.Refusal == nil:
		for _, touch := range touches {
			a.s.reached.Remove(reachedKey{b.ID, touch.Limit.Name, touch.Key})
		}
		return DeductAnswer{}, false, nil
	}
	if err := a.settled(ctx); err != nil {
		return DeductAnswer{}, true, err
	}
	a.noteReached(b, *got.Refusal)
	return DeductAnswer{}, true, limitExceeded(*got.Refusal, a.s.sql.Now())
}

// mayBeReached reports whether one of the limits was found to be used up and has not begun anew since.
func (s *Service) mayBeReached(b *Budget, touches []limit.Touch) bool {
	now := s.sql.Now()
	for _, touch := range touches {
		known, ok := s.reached.Get(reachedKey{b.ID, touch.Limit.Name, touch.Key})
		if ok && known.version == b.limitsVersion() && (known.until.IsZero() || now.Before(known.until)) {
			return true
		}
	}
	return false
}

// noteReached remembers a limit that nothing more fits in.
func (a *attempt) noteReached(b *Budget, state budget.LimitState) {
	set, err := a.entry.limitSet()
	if err != nil || state.Used < state.Max {
		return
	}
	touches, _ := set.Touches(a.amount, a.dimensions, a.counts)
	for _, touch := range touches {
		if touch.Limit.Name == state.Limit {
			a.s.reached.Add(reachedKey{b.ID, state.Limit, touch.Key}, reached{set.Version, state.ResetAt})
		}
	}
}

// overLimit is the refusal that the commit noted for an entry of this attempt: its id stays free. Another entry of the
// id, in another bucket, may have been counted by a commit beside this one: refuse looks for it.
func (a *attempt) overLimit(ctx context.Context, d *ledger.Duplicate) (DeductAnswer, bool, error) {
	r, ok := ledger.ReadLimitRefusal(d.Figures)
	if !ok {
		return DeductAnswer{}, true, &budget.Error{Code: budget.Internal, Op: "deduct",
			Err: errors.New("a limit's refusal cannot be read")}
	}
	if r.Missing {
		a.reread(ctx) // the limits have changed: the definition refuses now
		return DeductAnswer{}, false, nil
	}
	a.noteReached(a.entry.value.Load(), r.LimitState)
	answer, err := a.refuse(ctx, limitExceeded(r.LimitState, a.s.sql.Now()))
	return answer, true, err
}

// limitExceeded is the refusal by a limit that is used so far.
func limitExceeded(state budget.LimitState, now time.Time) *budget.Error {
	e := budget.Refuse(budget.LimitExceeded, "deduct", "limit %s of %s %q is used up: %d of %d",
		state.Limit, state.Dimension, state.Value, state.Used, state.Max)
	e.Limit = &state
	if !state.ResetAt.IsZero() {
		e.RetryAfter = max(state.ResetAt.Sub(now), time.Millisecond)
	}
	return e
}

// checkLimits judges asks of one budget with one look.
func (s *Service) checkLimits(budgetID int64, asks []LimitAsk) []result[LimitAnswer] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	answers, err := s.sql.CheckLimits(ctx, budgetID, asks)
	if err != nil {
		s.failed("sql", err)
		return failAll[LimitAnswer](len(asks), unavailable("check limits", err))
	}
	out := make([]result[LimitAnswer], len(asks))
	for i := range out {
		out[i].answer = answers[i]
	}
	return out
}

// expireCounters removes counters that count no longer.
func (s *Service) expireCounters(ctx context.Context) {
	const atOnce, rounds = 500, 20
	for range rounds {
		step, cancel := s.bounded(ctx)
		removed, err := s.sql.ExpireCounters(step, atOnce)
		cancel()
		if err != nil {
			s.failed("sql", err)
			return
		}
		if removed < atOnce {
			return
		}
	}
}
