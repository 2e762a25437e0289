package bucket

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Confirm uses held units: of one hold, the whole or a part, the rest of which returns, or of all holds of
// a group, which is closed by it. There is one confirm per hold; repeating it answers the same, also after
// the hold's time. It answers one view, or one per member of the group, by request id.
//
// Errors: BudgetNotFound; Invalid where not exactly one of request id and group is given, or an amount with
// a group; DeductionNotFound, which is not final, as the deduction may still be under way; RequestVoid;
// RequestConflict where another amount was confirmed; HoldExpired; NotHeld; AmountExceedsRemaining;
// Unavailable; OutcomeUnknown: repeat it. Safe for concurrent use.
func (s *Service) Confirm(ctx context.Context, r ConfirmRequest) ([]DeductionView, error) {
	if r.Group != "" && r.Amount != 0 {
		return nil, invalid("confirm", "amount", "must not be given with a group, which is confirmed as a whole")
	}
	if r.Amount != 0 && !budget.ValidAmount(r.Amount) {
		return nil, invalid("confirm", "amount", fmt.Sprintf("must be 1 … %d", budget.MaxAmount))
	}
	return s.settleHolds(ctx, "confirm", r.Budget, HoldOrder{RequestID: r.RequestID, Group: r.Group}, r.Receipt,
		func(ctx context.Context, order HoldOrder) ([]Held, error) { return s.sql.Confirm(ctx, order, r.Amount) })
}

// Extend makes a hold, or all that are held of a group, end HoldTTL from now, by SQL's clock. It may be
// repeated, and each time counts from then. Answer and errors as Confirm; NotHeld where it was confirmed.
func (s *Service) Extend(ctx context.Context, r ExtendRequest) ([]DeductionView, error) {
	if !budget.ValidHoldTTL(r.HoldTTL) {
		return nil, invalidTTL("extend")
	}
	return s.settleHolds(ctx, "extend", r.Budget, HoldOrder{RequestID: r.RequestID, Group: r.Group}, r.Receipt,
		func(ctx context.Context, order HoldOrder) ([]Held, error) { return s.sql.Extend(ctx, order, r.HoldTTL) })
}

// RollbackGroup gives back all that is left of a group's deductions, held or used, and closes the group.
// Repeating it answers the same. It answers one view per member, by request id. Errors: BudgetNotFound;
// Invalid; DeductionNotFound, which is not final; Unavailable; OutcomeUnknown: repeat it. Safe for
// concurrent use.
func (s *Service) RollbackGroup(ctx context.Context, r RollbackRequest) ([]DeductionView, error) {
	if r.Group == "" || r.RollbackID != "" || r.Amount != 0 {
		return nil, invalid("rollback", "group", "must be given, without a rollback id and an amount")
	}
	return s.settleHolds(ctx, "rollback", r.Budget, HoldOrder{RequestID: r.RequestID, Group: r.Group}, r.Receipt,
		func(ctx context.Context, order HoldOrder) ([]Held, error) {
			return s.sql.RollbackGroup(ctx, order.Budget, order.Group)
		})
}

// settleHolds runs a step about a hold or a group. In store mode what was accepted before the call is
// brought into the ledger first: for a group always, for one hold where the ledger does not have it.
func (s *Service) settleHolds(ctx context.Context, op string, ref BudgetRef, order HoldOrder, at string,
	step func(context.Context, HoldOrder) ([]Held, error)) ([]DeductionView, error) {
	if (order.RequestID == "") == (order.Group == "") {
		return nil, invalid(op, "request_id", "exactly one of request_id and group must be given")
	}
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.StepTimeout)
	defer cancel()
	order.Budget = entry.id
	if order.Group != "" {
		if err := s.findable(ctx, entry, ""); err != nil {
			return nil, err
		}
	}
	got, err := step(ctx, order)
	if budget.Is(err, budget.DeductionNotFound) && order.Group == "" && entry.value.Load().inStoreMode() {
		if err := s.findable(ctx, entry, at); err != nil {
			return nil, err
		}
		got, err = step(ctx, order)
	}
	if err != nil {
		return nil, s.sqlFailed(err)
	}
	views := make([]DeductionView, len(got))
	for i, h := range got {
		s.countsReturned(ctx, entry, h.Deduction)
		views[i] = s.deductionView(entry, h.Deduction, h.Replayed)
	}
	return views, nil
}

// checkHold refuses a hold that cannot be; ttl 0 and no group: none is asked for.
func checkHold(ttl time.Duration, group string) error {
	switch {
	case group != "" && ttl == 0:
		return invalid("deduct", "group", "needs a hold_ttl: a group is one of holds")
	case ttl != 0 && !budget.ValidHoldTTL(ttl):
		return invalidTTL("deduct")
	case len(group) > budget.MaxRequestIDBytes:
		return invalid("deduct", "group", fmt.Sprintf("must not be longer than %d bytes", budget.MaxRequestIDBytes))
	}
	return nil
}

func invalidTTL(op string) error {
	return invalid(op, "hold_ttl", fmt.Sprintf("must be %v … %v, in whole milliseconds", budget.MinHoldTTL,
		budget.MaxHoldTTL))
}

func invalid(op, field, message string) error {
	return &budget.Error{Code: budget.Invalid, Op: op, Message: field + " " + message,
		Fields: []budget.FieldError{{Field: field, Message: message}}}
}

// groupClosed is the refusal of a hold whose group was closed before its commit: its id stays free. As with overLimit,
// the id may be in the ledger by another entry.
func (a *attempt) groupClosed(ctx context.Context) (DeductAnswer, error) {
	return a.refuse(ctx, budget.Refuse(budget.GroupClosed, "deduct",
		"group %q was confirmed or rolled back and takes no other hold", a.request.Group))
}

// expiry is how the expiry of holds goes on. Only its loop uses it.
type expiry struct {
	limit   int           // how many are ended in a transaction
	skipped int           // how many of the oldest were passed over since all were looked at
	failed  error         // of the last of those that could not be ended
	before  bool          // whether there were such ones the last time as well
	say     time.Duration // when they are reported again
}

// expireHolds gives back what is held too long, in transactions of many holds, until none is due. Every node
// does so: who comes second finds nothing left to do. A transaction that fails is tried with half as many holds
// at the next round of the chores; one hold that cannot be ended (its rows are not what they must be) is passed
// over until all others were looked at, so that it holds nobody up.
func (s *Service) expireHolds(ctx context.Context) {
	const atOnce, rounds = 500, 200
	e := &s.expiry
	if e.limit == 0 {
		e.limit = atOnce
	}
	for range rounds {
		step, cancel := s.bounded(ctx)
		got, err := s.sql.ExpireHolds(step, e.limit, e.skipped)
		cancel()
		if err != nil {
			s.failed("sql", err)
			if e.limit > 1 {
				e.limit /= 2
			} else {
				e.skipped++
				e.failed = err
			}
			return
		}
		if got.Holds > 0 {
			s.observer.HoldsExpired(got.Holds)
			s.observer.Moved("expire", got.Units)
			s.log.Info("holds expired", "holds", got.Holds, "units", got.Units, "budgets", len(got.Budgets))
			for _, id := range got.Budgets {
				s.quiet.Remove(id)
			}
		}
		if got.Holds == 0 { // another node was faster, or they are no holds
			e.skipped += got.Found
		}
		if got.Found < e.limit {
			s.lookedAtAll(e)
			return
		}
		if e.limit = min(2*e.limit, atOnce); ctx.Err() != nil {
			return
		}
	}
}

// lookedAtAll begins anew with the oldest hold. One that could not be ended twice, although the database answers, is
// reported: once was its absence.
func (s *Service) lookedAtAll(e *expiry) {
	const every = time.Minute
	if e.failed != nil {
		if now := s.now(); e.before && due(now, e.say, every) {
			s.log.Error("a hold cannot be ended; the others are", "error", e.failed)
			e.say = now + every
		}
		e.limit = 1
	}
	e.before, e.skipped, e.failed = e.failed != nil, 0, nil
}

// openHoldsLimit is up to how many open holds are counted.
const openHoldsLimit = 100_000

// countHolds tells the metrics how many holds are open.
func (s *Service) countHolds(ctx context.Context) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	n, err := s.sql.OpenHolds(step, openHoldsLimit)
	if err != nil {
		s.failed("sql", err)
		return
	}
	s.observer.HoldsOpen(n)
}
