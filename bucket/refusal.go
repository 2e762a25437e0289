package bucket

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// This file decides when a refused request may be tried again, for every refusal that depends on
// state. RetryAfter is set only if the request may be accepted then under the present definition.
// Never says that it cannot be accepted. If neither is set, the time is not known.

// RefusalNow returns what UnknownZone or Definition.RefusalAt returns if that is not nil. Otherwise
// it returns PeriodExhausted before the open period begins, because nothing can be deducted between
// two windows, and BudgetExhausted after the last period. The amount decides which later period is
// worth waiting for.
func (b *Budget) RefusalNow(amount int64, now time.Time) *budget.Error {
	if b.unknown != nil {
		return b.unknown
	}
	if refusal := b.RefusalAt(now); refusal != nil {
		return refusal
	}
	switch {
	case b.Period.Over:
		if _, follows := allocation.Next(b.Definition, b.Period, now); follows {
			return nil
		}
		e := budget.Refuse(budget.BudgetExhausted, "deduct",
			"the last period of budget %s ended at %s", b.Name, b.Period.End.Format(time.RFC3339))
		e.Available, e.Never = new(int64), true
		return e
	case !now.Before(b.Period.Start):
		if b.begun != nil && !b.begun.Load() {
			b.begun.Store(true)
		}
		return nil
	case b.begun != nil && b.begun.Load():
		return nil
	}
	// The units of the coming period, and what is left for later ones, are not known here; the whole
	// total is an upper bound. The coming period is the first that may have the amount, so the search
	// begins at its start.
	before := budget.Period{Start: b.Period.Start, End: b.Period.Start}
	at, can := allocation.Covered(b.Definition, before,
		allocation.Supply{NotFunded: b.TotalQuantity}, amount)
	if !can {
		e := budget.Refuse(budget.BudgetExhausted, "deduct",
			"no period of budget %s ever has the %d that were asked for", b.Name, amount)
		e.Available, e.Never = new(int64), true
		return e
	}
	return retryAt(budget.Refuse(budget.PeriodExhausted, "deduct",
		"budget %s releases units again at %s", b.Name, at.Format(time.RFC3339)), at, now)
}

// Exhausted returns the refusal of an amount above I3's sum. It is PeriodExhausted if, by the rule
// and with units carried over, a later period can have that much unless units are deducted until
// then; the error names the instant. Otherwise it is BudgetExhausted, with Never set if the amount
// is above what the budget, or any of its periods, can ever have.
func (b *Budget) Exhausted(c ledger.Availability, amount int64, now time.Time) *budget.Error {
	available := min(c.Sum(), budget.MaxAmount)
	var e *budget.Error
	at, can := allocation.Covered(b.Definition, b.Period,
		allocation.Supply{Left: available, NotFunded: c.Later}, amount)
	switch {
	case can:
		e = retryAt(budget.Refuse(budget.PeriodExhausted, "deduct",
			"this period of budget %s has %d left, %d were asked for; a period that begins at %s "+
				"can have that much", b.Name, available, amount, at.Format(time.RFC3339)), at, now)
	case amount > b.TotalQuantity:
		e = budget.Refuse(budget.BudgetExhausted, "deduct",
			"budget %s has %d left, %d were asked for, and its total is %d", b.Name, available,
			amount, b.TotalQuantity)
		e.Never = true
	case amount > allocation.Most(b.Definition):
		e = budget.Refuse(budget.BudgetExhausted, "deduct",
			"this period of budget %s has %d left, %d were asked for, and no period ever has more "+
				"than %d", b.Name, available, amount, allocation.Most(b.Definition))
		e.Never = true
	default:
		e = budget.Refuse(budget.BudgetExhausted, "deduct",
			"budget %s has %d left, %d were asked for", b.Name, available, amount)
	}
	e.Available = &available
	return e
}

// LimitExceeded returns the refusal by limits. It lists all of them and names the one that resets
// last, because an earlier retry would be refused. Never is set if a limit never allows the amount,
// or the budget ends before it does. The error is Invalid if a count would exceed budget.MaxAmount.
func (b *Budget) LimitExceeded(refused []budget.LimitState, now time.Time) *budget.Error {
	if len(refused) == 0 {
		return &budget.Error{Code: budget.Internal, Op: "deduct", Message: "no limit was exceeded"}
	}
	if e := overflow(refused); e != nil {
		return e
	}
	list := slices.SortedFunc(slices.Values(refused), resetsLater)
	last := &list[0]
	e := budget.Refuse(budget.LimitExceeded, "deduct", "limit %s of %s %q is used up: %d of %d",
		last.Limit, last.Dimension, last.Value, last.Used, last.Max)
	e.Limit, e.Limits = last, list
	switch {
	case last.Never():
		e = budget.Refuse(budget.LimitExceeded, "deduct",
			"limit %s of %s %q: the request asks for %d, at most %d are ever allowed", last.Limit,
			last.Dimension, last.Value, last.Asked, last.Max)
		e.Limit, e.Limits, e.Never = last, list, true
	case last.ResetAt.IsZero():
		e.Message += "; its window never ends"
	default:
		at, can := allocation.Opens(b.Definition, last.ResetAt)
		if !can {
			e.Never = true
			e.Message += ", and the budget ends before that resets"
			return e
		}
		if last.Used < last.Max {
			e.Message += ", too little is left"
		}
		return retryAt(e, at, now)
	}
	return e
}

// resetsLater orders limits that refuse: first those that never allow the amount, then those whose
// window never ends, then by reset time, latest first.
func resetsLater(a, b budget.LimitState) int {
	rank := func(s *budget.LimitState) int {
		switch {
		case s.Never():
			return 0
		case s.ResetAt.IsZero():
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(&a), rank(&b)), b.ResetAt.Compare(a.ResetAt),
		strings.Compare(a.Limit, b.Limit))
}

// overflow returns the refusal of counts that would exceed budget.MaxAmount, or nil.
func overflow(refused []budget.LimitState) *budget.Error {
	e := &budget.Error{Code: budget.Invalid, Op: "deduct",
		Message: "what a limit has counted would pass the largest number"}
	for i := range refused {
		if s := &refused[i]; s.Overflow {
			e.Fields = append(e.Fields, budget.FieldError{Field: "counts." + s.Limit,
				Message: "is too large: what is counted of this value must stay within 9007199254740991"})
		}
	}
	if e.Fields == nil {
		return nil
	}
	return e
}

// retryAt sets RetryAfter to the time until at, rounded up to whole milliseconds.
func retryAt(e *budget.Error, at, now time.Time) *budget.Error {
	const step = time.Millisecond
	e.RetryAfter = max((at.Sub(now) + step - 1).Truncate(step), step)
	return e
}
