package hold

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// above is a confirm or a step above the hold whose bucket lacks units. It is a transaction under
// the budget's lock. One that finds that it lacks rows of limits changes nothing, and is run again
// with them.
type above struct {
	orders    []ledger.Order // the only one
	keys      []books.CounterID
	overrides []limit.OverrideID
	spans     []books.UsageSpan
	bounds    limit.Bounds
	lacks     bool
	tried     bool // an earlier attempt wrote it, committed or not
	unsure    bool
	failed    error
}

// errLacks ends a transaction that lacks rows.
var errLacks = &budget.Error{Code: budget.Internal, Message: "a confirm that lacks rows of limits"}

// mostLacks bounds the transactions of one confirm: for the limits, for what they count, and again
// for each change of them.
const mostLacks = 8

// confirmAbove carries out a confirm or a step above the hold whose bucket lacks units: under the
// budget's lock, after a rollover if one is due, with units of the whole budget.
func (l *Ledger) confirmAbove(ctx context.Context, o Order) (out Result) {
	a := &above{orders: []ledger.Order{o}}
	id := books.ID{Budget: o.Budget, RequestID: o.RequestID}
	for range mostLacks {
		load := bookkeeper.AboveHold(id, books.Earlier(&o), a.limits(o.Budget), &a.failed)
		load = append(load, counters.EventsOf(a.spans, &a.failed)...)
		a.lacks = false
		_, err := bookkeeper.Whole(ctx, l.db, string(o.Kind), o.Budget, load,
			func(b *books.Books, u *books.Budget) (err error) {
				out, err = a.confirm(b, u)
				return err
			}, nil)
		switch {
		case a.lacks:
		case err != nil:
			return Result{Err: err}
		default:
			return out
		}
	}
	return Result{Err: &budget.Error{Code: budget.Unavailable, Op: string(o.Kind),
		Message: "the limits of the budget keep changing"}}
}

// limits returns the queries of a budget's limits, and of their rows as far as they are known.
func (a *above) limits(budgetID int64) []bookkeeper.Query {
	a.bounds = limit.Bounds{}
	out := append([]bookkeeper.Query{bookkeeper.Limits(budgetID)}, bookkeeper.Counters(a.keys)...)
	return append(out, counters.Overrides(a.overrides, &a.bounds)...)
}

// confirm decides in one attempt.
func (a *above) confirm(b *books.Books, u *books.Budget) (out Result, err error) {
	if err, a.failed = a.failed, nil; err != nil {
		return out, err
	}
	sets := map[int64]*limit.Set{}
	if u.LimitsVersion > 0 {
		if sets[u.ID], err = b.LimitsOf(u); err == nil {
			err = a.compare(b, sets)
		}
		if err != nil {
			return out, err
		}
	}
	b.Bounds = a.bounds
	if out, err = b.ConfirmAbove(u, &a.orders[0], sets); err != nil {
		return out, err
	}
	a.unsure = a.unsure || b.Unsure
	done := out.Err == nil && !out.Replayed
	if a.unsure && a.tried {
		out.Replayed = false
	}
	a.tried = a.tried || done
	return out, nil
}

// compare compares the rows of limits that a confirm needs with those that were loaded. Error:
// errLacks if it needs others.
func (a *above) compare(b *books.Books, sets map[int64]*limit.Set) error {
	keys, err := b.CountersToLock(a.orders, sets)
	if err != nil {
		return err
	}
	overrides := b.OverridesToRead(a.orders, sets)
	if !slices.Equal(keys, a.keys) || !slices.Equal(overrides, a.overrides) {
		a.keys, a.overrides, a.spans, a.lacks = keys, overrides, nil, true
		return errLacks
	}
	spans, err := b.LimitsToLoad(a.orders, sets)
	if len(spans) > 0 {
		a.spans, a.lacks = append(a.spans, spans...), true
		return errLacks
	}
	return err
}
