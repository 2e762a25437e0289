package hold

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// heldSet carries out an order on the hold that a set is.
func (s *Service) heldSet(ctx context.Context, ref bucket.BudgetRef, parts map[string]int64,
	o Order) ([]bucket.DeductionView, error) {
	if o.RequestID == "" {
		return nil, invalid(string(o.Kind), "request_id", "must be given")
	}
	view, err := s.onSet(ctx, ref.Tenant, parts, o)
	if err != nil {
		return nil, err
	}
	return []bucket.DeductionView{view}, nil
}

// onSet carries out an order on a set of a tenant: on all of its legs or on none. parts are the
// parts of legs, by the names of their budgets.
func (s *Service) onSet(ctx context.Context, tenant string, parts map[string]int64, o Order) (
	bucket.DeductionView, error) {
	if parts != nil {
		o.Amounts = make(map[int64]int64, len(parts))
	}
	for name, units := range parts {
		b, err := s.budgets.Find(ctx, bucket.BudgetRef{Tenant: tenant, Name: name})
		switch {
		case err != nil:
			return bucket.DeductionView{}, err
		case !budget.ValidAmount(units):
			return bucket.DeductionView{}, invalid(string(o.Kind), "amounts",
				"must have amounts above 0")
		}
		o.Amounts[b.ID] = units
	}
	o.RequestID = ledger.SetID(tenant, o.RequestID)
	got := s.submit(ctx, o)
	if got.Err != nil {
		return bucket.DeductionView{}, s.failed(got.Err)
	}
	return s.viewOfSet(ctx, &got.Deduction, got.Legs, got.Replayed)
}

// readSet reads a set of a tenant. OnlyBy leaves those of other principals out.
func (s *Service) readSet(ctx context.Context, r *bucket.RollbackRequest) (
	view bucket.DeductionView, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.set.StepTime)
	defer cancel()
	id := bucket.ID{RequestID: ledger.SetID(r.Budget.Tenant, r.RequestID)}
	found, err := s.ledger.Recorded(ctx, []bucket.ID{id})
	if err != nil {
		return view, s.failed(err)
	}
	owner, known := found[id]
	if !known || r.OnlyBy != "" && owner.By != r.OnlyBy {
		return view, budget.Refuse(budget.DeductionNotFound, "read",
			"the set %q is not in the ledger", r.RequestID)
	}
	list, _ := owner.Legs.List()
	ids := make([]bucket.ID, len(list))
	for i, l := range list {
		ids[i] = bucket.ID{Budget: l.Budget, RequestID: ledger.LegID(0, r.RequestID)}
	}
	if found, err = s.ledger.Recorded(ctx, ids); err != nil {
		return view, s.failed(err)
	}
	legs := make([]ledger.Deduction, len(ids))
	for i, id := range ids {
		legs[i] = found[id]
	}
	return s.viewOfSet(ctx, &owner, legs, false)
}

// viewOfSet returns a set as shown to callers.
func (s *Service) viewOfSet(ctx context.Context, owner *ledger.Deduction,
	legs []ledger.Deduction, replayed bool) (bucket.DeductionView, error) {
	v := bucket.DeductionView{RequestID: ledger.CallerID(owner.RequestID), State: owner.State,
		HoldUntil: owner.HoldUntil, ExpiresAs: owner.ExpiresAs, Group: ledger.CallerID(owner.Group),
		Reference: owner.Reference,
		CountedAt: owner.CountedAt, Replayed: replayed}
	list, _ := owner.Legs.List()
	for i := range legs {
		b, err := s.budgets.Find(ctx, bucket.BudgetRef{ID: legs[i].Budget})
		if err != nil {
			return v, err
		}
		leg := viewOf(b, &legs[i], replayed)
		leg.Budget = b.Name
		if source := list[i].Source; source != 0 {
			if i == 0 || list[i-1].Source != source {
				first, err := s.budgets.Find(ctx, bucket.BudgetRef{ID: source})
				if err != nil {
					return v, err
				}
				v.Legs = append(v.Legs, bucket.DeductionView{Budget: first.Name, State: leg.State,
					Dimensions: leg.Dimensions})
			}
			addPart(&v.Legs[len(v.Legs)-1], leg, legs[i].Left() > 0)
		} else {
			v.Legs = append(v.Legs, leg)
		}
		if legs[i].Left() > 0 || i == 0 {
			v.State = legs[i].State
		}
	}
	return v, nil
}

// addPart adds what a source gave to a leg, whose state is that of the parts of which anything is
// left.
func addPart(leg *bucket.DeductionView, part bucket.DeductionView, isLeft bool) {
	leg.Parts = append(leg.Parts, part)
	leg.Amount += part.Amount
	leg.RolledBack += part.RolledBack
	leg.Confirmed += part.Confirmed
	if isLeft {
		leg.State = part.State
	}
}
