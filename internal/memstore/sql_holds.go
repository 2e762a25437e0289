package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Confirm uses held units. See bucket.Holds.
func (s *SQL) Confirm(ctx context.Context, order bucket.HoldOrder, amount int64) ([]bucket.Held, error) {
	return transact(ctx, s, "Confirm", func(now time.Time) ([]bucket.Held, error) {
		b, err := s.find(order.Budget)
		if err != nil {
			return nil, err
		}
		if order.Group != "" {
			members := b.members(order.Group)
			use, replay, err := members.Confirm(now)
			if err != nil {
				return nil, err
			}
			if !replay {
				b.groups[order.Group] = ledger.GroupUsed
			}
			for _, end := range use {
				s.endHold(b, end, now)
			}
			s.verify(b)
			return b.answers(members, replay), nil
		}
		d, err := b.hold("confirm", order.RequestID)
		if err != nil {
			return nil, err
		}
		end, replay, err := ledger.DecideConfirm(*d, b.holdEnds[order.RequestID], amount, now)
		if err != nil {
			return nil, err
		}
		if !replay {
			s.endHold(b, end, now)
			s.verify(b)
		}
		return []bucket.Held{{Deduction: *d, Replayed: replay}}, nil
	})
}

// Extend makes holds last longer. See bucket.Holds.
func (s *SQL) Extend(ctx context.Context, order bucket.HoldOrder, ttl time.Duration) ([]bucket.Held, error) {
	return transact(ctx, s, "Extend", func(now time.Time) ([]bucket.Held, error) {
		b, err := s.find(order.Budget)
		if err != nil {
			return nil, err
		}
		var longer []ledger.Deduction
		if order.Group != "" {
			longer, err = b.members(order.Group).Extend(now)
		} else if d, absent := b.hold("extend", order.RequestID); absent != nil {
			err = absent
		} else {
			longer, err = []ledger.Deduction{*d}, ledger.DecideExtend(*d, now)
		}
		if err != nil {
			return nil, err
		}
		var out []bucket.Held
		for i := range longer {
			d := b.deductions[longer[i].RequestID]
			d.HoldUntil = toMillisecond(now.Add(ttl))
			out = append(out, bucket.Held{Deduction: *d})
		}
		s.verify(b)
		return out, nil
	})
}

// RollbackGroup gives back what is left of a group. See bucket.Holds.
func (s *SQL) RollbackGroup(ctx context.Context, budgetID int64, group string) ([]bucket.Held, error) {
	return transact(ctx, s, "RollbackGroup", func(now time.Time) ([]bucket.Held, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, err
		}
		members := b.members(group)
		back, replay, err := members.Rollback()
		if err != nil {
			return nil, err
		}
		b.groups[group] = ledger.GroupRolledBack
		for _, r := range back {
			s.giveBack(b, b.deductions[r.RequestID], r, now)
		}
		s.verify(b)
		return b.answers(members, replay), nil
	})
}

// ExpireHolds ends holds whose time is up. See bucket.Holds.
func (s *SQL) ExpireHolds(ctx context.Context, limit, skip int) (bucket.Expired, error) {
	return transact(ctx, s, "ExpireHolds", func(now time.Time) (bucket.Expired, error) {
		var due []*ledger.Deduction
		for _, b := range s.budgets {
			for _, d := range b.holds {
				if ledger.DueHold(*d, now) {
					due = append(due, d)
				}
			}
		}
		slices.SortFunc(due, func(x, y *ledger.Deduction) int {
			return cmp.Or(x.HoldUntil.Compare(y.HoldUntil), cmp.Compare(x.Budget, y.Budget),
				cmp.Compare(x.RequestID, y.RequestID))
		})
		due = due[min(skip, len(due)):]
		due = due[:min(limit, len(due))]
		slices.SortFunc(due, func(x, y *ledger.Deduction) int {
			return cmp.Or(cmp.Compare(x.Budget, y.Budget), cmp.Compare(x.RequestID, y.RequestID))
		})
		out := bucket.Expired{Found: len(due)}
		for _, d := range due {
			b, end := s.budgets[d.Budget-1], ledger.Expire(*d)
			s.endHold(b, end, now)
			out.Holds++
			out.Units += end.Returned
			if n := len(out.Budgets); n == 0 || out.Budgets[n-1] != d.Budget {
				out.Budgets = append(out.Budgets, d.Budget)
			}
		}
		for _, id := range out.Budgets {
			s.verify(s.budgets[id-1])
		}
		return out, nil
	})
}

// hold returns the row of a request id.
func (b *sqlBudget) hold(op, requestID string) (*ledger.Deduction, error) {
	if d := b.deductions[requestID]; d != nil {
		return d, nil
	}
	return nil, budget.Refuse(budget.DeductionNotFound, op, "request %q has not been deducted", requestID)
}

// members lists a group.
func (b *sqlBudget) members(group string) *ledger.Members {
	out := &ledger.Members{Group: group, State: ledger.GroupOpen}
	if state, found := b.groups[group]; found {
		out.State = state
	}
	for _, id := range slices.Sorted(maps.Keys(b.deductions)) {
		if d := b.deductions[id]; d.Group == group {
			out.Deductions = append(out.Deductions, *d)
		}
	}
	return out
}

// answers lists the members as they are now.
func (b *sqlBudget) answers(m *ledger.Members, replayed bool) (out []bucket.Held) {
	for _, d := range m.Deductions {
		out = append(out, bucket.Held{Deduction: *b.deductions[d.RequestID], Replayed: replayed})
	}
	return out
}

// endHold moves the units of a hold H -> S and H -> R with a row of how it ended.
func (s *SQL) endHold(b *sqlBudget, end ledger.HoldEnd, now time.Time) {
	d := b.deductions[end.RequestID]
	epoch := s.epoch(bucket.Ref{Bucket: d.Position.Bucket, Epoch: d.Position.Epoch})
	newest := epoch.bucket.newest()
	end.Entry, end.At = newest.NextEntry, now
	newest.NextEntry++
	epoch.bucket.record(end.Entry, feedRow{deduction: d, holdEnd: &end})
	b.holdEnds[end.RequestID] = &end
	epoch.sums.RolledBack += end.Returned
	epoch.sums.Noted += end.Returned
	left := d.Amount - d.RolledBack
	epoch.Held -= left
	epoch.sums.Held -= left
	delete(b.holds, d.RequestID)
	epoch.Used += left - end.Returned
	epoch.Returning += end.Returned
	if over := b.periods[epoch.Period-1].End; !over.IsZero() && !now.Before(over) {
		epoch.Late += end.Returned
	}
	*d = ledger.AfterEnd(*d, end)
}

// heldUnits counts what is left of the epoch's holds, from their rows.
func (e *sqlEpoch) heldUnits() (units int64) {
	for _, d := range e.deductions {
		units += ledger.HeldUnits(*d)
	}
	return units
}

// judgeGroups puts the groups before a judge of limits, which may be nil. In store mode no entry is
// refused, as its caller has been told "accepted".
func (b *sqlBudget) judgeGroups(limits ledger.Judge) ledger.Judge {
	if b.definition.Durability == budget.Store {
		return limits
	}
	return ledger.WithGroups(func(group string) bool {
		state, found := b.groups[group]
		return found && state != ledger.GroupOpen
	}, limits)
}

// OpenHolds counts holds. See bucket.Holds.
func (s *SQL) OpenHolds(ctx context.Context, limit int) (int, error) {
	return transact(ctx, s, "OpenHolds", func(time.Time) (n int, _ error) {
		for _, b := range s.budgets {
			for _, d := range b.holds {
				if d.State == ledger.StateHeld {
					n++
				}
			}
		}
		return min(n, limit), nil
	})
}
