package counter

import (
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// termsOf returns the Terms of a budget for an instant. All operations of a call share them.
func termsOf(st *deduct.State, b *bucket.Budget, nowMS int64) *bucket.Terms {
	if t := st.Terms.Load(); t != nil && t.Of == b && nowMS < t.UntilMS {
		return &t.Terms
	}
	t := newTerms(b, nowMS)
	st.Terms.Store(t)
	return &t.Terms
}

func newTerms(b *bucket.Budget, nowMS int64) *deduct.Terms {
	const longest = 1 << 62
	t := &deduct.Terms{Of: b, UntilMS: longest}
	if !b.Period.End.IsZero() {
		t.EndMS = b.Period.End.UnixMilli()
	}
	if !b.EndAt.IsZero() && (t.EndMS == 0 || b.EndAt.UnixMilli() < t.EndMS) {
		t.EndMS = b.EndAt.UnixMilli()
	}
	t.LimitsVersion = b.LimitsVersion()
	for _, l := range b.LimitSet().List {
		x := bucket.LimitTerms{Name: l.Name, Changed: l.ChangedVersion, Kind: l.Window.Kind,
			LengthMS: l.Window.Length.Milliseconds(), SlotMS: l.Window.Slot.Milliseconds(), Max: l.Max,
			Measure: l.Measure}
		if !l.Enforce {
			x.Max = budget.MaxAmount
		}
		if l.Window.Kind == budget.WindowCalendar {
			usage := limit.NewUsage(l, "", nowMS)
			x.FromMS, x.ToMS = usage.LedgerSpan()
			t.UntilMS = min(t.UntilMS, x.ToMS)
		}
		t.Limits = append(t.Limits, x)
	}
	return t
}

// Count implements deduct.Home.
func (s *Service) Count(o *deduct.Op, now time.Time) error {
	o.Terms = termsOf(o.State, o.Budget, max(now.UnixMilli(), o.StoreMS))
	set, r := o.Budget.LimitSet(), o.Request
	var empty []budget.FieldError
	if value, carried := r.Dimensions[o.Budget.RoutingDimension]; carried && value == "" {
		empty = append(empty, budget.FieldError{Field: "dimensions." + o.Budget.RoutingDimension,
			Message: "must not be empty: limits count for it"})
	}
	if counts, err := o.CountsLimits(empty...); !counts {
		return err
	}
	o.Value, o.Counts, o.Max = r.Dimensions[o.Budget.RoutingDimension], nil, nil
	o.Bounds = nil
	if o.Value == "" || len(set.List) == 0 {
		return nil
	}
	if err := bound(o, set); err != nil {
		return err
	}
	for i, l := range set.List {
		counted, own := r.Counts[l.Name]
		if own && o.Counts == nil {
			o.Counts = make([]int64, len(set.List))
			for j, x := range set.List {
				o.Counts[j] = r.Amount
				if x.Measure == budget.MeasureCount {
					o.Counts[j] = 1
				}
			}
		}
		if own {
			o.Counts[i] = counted
		}
	}
	return nil
}

// bound sets by which maximums the store judges the value, if they are others than the limits'.
func bound(o *deduct.Op, set *limit.Set) error {
	for i, l := range set.List {
		own, err := o.Budget.Bound(l, o.Value)
		if err != nil {
			return err
		}
		if own == (limit.Bound{Max: l.Max}) {
			continue
		}
		if o.Bounds == nil {
			o.Bounds, o.Max = make([]limit.Bound, len(set.List)), make([]int64, len(set.List))
			for j, other := range set.List {
				o.Bounds[j], o.Max[j] = limit.Bound{Max: other.Max}, o.Terms.Limits[j].Max
			}
		}
		if o.Bounds[i] = own; l.Enforce {
			o.Max[i] = own.Max
		}
		if own.Exempt {
			o.Max[i] = budget.MaxAmount
		}
	}
	return nil
}

// limitStates returns the states of the limits that the operation counts against.
func limitStates(o *deduct.Op) (states []budget.LimitState) {
	eachCharge(o, func(charge *limit.Charge, usage *limit.Usage) {
		states = append(states, charge.State(usage))
	})
	return states
}

// refusedBy lists the limits that refused the operation, as ledger mode does.
func refusedBy(o *deduct.Op) (refused []budget.LimitState) {
	eachCharge(o, func(charge *limit.Charge, usage *limit.Usage) {
		refused = append(refused, limit.Exceeded([]limit.Charge{*charge}, []*limit.Usage{usage})...)
	})
	return refused
}

// eachCharge calls do for each limit that the operation counts against, with what the store
// counted.
func eachCharge(o *deduct.Op, do func(*limit.Charge, *limit.Usage)) {
	set, r := o.Budget.LimitSet(), o.Request
	if len(o.Stored.Limits) != len(set.List) {
		return
	}
	charges, _ := set.Charges(r.Amount, r.Dimensions, r.Counts)
	for i := range charges {
		charge := &charges[i]
		at := slices.Index(set.List, charge.Limit)
		var slots []limit.Slot
		if o.Stored.Slots != nil {
			slots = o.Stored.Slots[at]
		}
		usage := limit.NewUsage(charge.Limit, charge.Key, o.StoreMS)
		if o.Bounds != nil {
			usage.Bound = o.Bounds[at]
		}
		usage.Restore(o.Stored.Limits[at].Used, o.Stored.Limits[at].ResetMS, slots)
		do(charge, &usage)
	}
}
