package usage

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/limit"
)

const (
	// nearestReads is how many values one call of Nearest reads at most.
	nearestReads = 10_000
	// nearestPage is how many rows are read at a time. A row of a sliding limit has a count per slot.
	nearestPage = 1000
)

// Nearest lists the values that have used the largest shares of their maximums of a limit, in the
// present window. It reads the counters of at most 10,000 values. Errors: BudgetNotFound; Invalid
// without such a limit; LedgerModeOnly; Unavailable.
func (s *Service) Nearest(ctx context.Context, r bucket.NearestRequest) (bucket.Nearest, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err == nil {
		err = b.NeedsRows("nearest",
			"ask a check for one value, with `budgetctl check` or POST /v1/checks")
	}
	if err != nil {
		return bucket.Nearest{}, err
	}
	if err := b.UnknownZone(); err != nil {
		return bucket.Nearest{}, err
	}
	var l *limit.Limit
	if set := b.LimitSet(); set != nil {
		l = set.Limit(r.Limit)
	}
	if l == nil {
		return bucket.Nearest{}, &budget.Error{Code: budget.Invalid, Op: "nearest",
			Message: "the budget has no such limit", Fields: []budget.FieldError{{
				Field: "name", Message: "must be the name of a limit of the budget"}}}
	}
	var got bucket.Nearest
	err = s.DB.Read(ctx, "nearest", func(reader *engine.Reader) error {
		got, err = nearest(reader, counters.Key{Budget: b.ID, Dimension: l.Dimension}, l,
			nearestReads, r.Most, engine.ToMS(s.DB.Now()))
		return err
	})
	return got, s.failed(err)
}

// nearest reads the counters of up to most values in the order of their keys, and returns those
// that have used the largest shares, at most keep. Counts that are only in the ledger make the
// answer incomplete.
func nearest(r *engine.Reader, after counters.Key, l *limit.Limit, most, keep int, nowMS int64) (
	out bucket.Nearest, err error) {
	for {
		page := min(nearestPage, most-out.Read)
		// One row more than the page says whether others follow.
		found, err := counters.ReadAfter(r, after, page+1)
		if err != nil {
			return bucket.Nearest{}, err
		}
		more := len(found) > page
		found = found[:min(page, len(found))]
		bounds, err := boundsOf(r, l, found)
		if err != nil {
			return bucket.Nearest{}, err
		}
		for i := range found {
			row := &found[i]
			out.Values = append(out.Values, row.Counts.State(l, row.Key.Value,
				bounds, row.Key.Budget, nowMS))
			after, out.Read = row.Key, out.Read+1
		}
		out.Values = limit.Nearest(out.Values, keep)
		if !more || out.Read >= most {
			out.Complete = !more && l.Settled(nowMS)
			return out, nil
		}
	}
}

// boundsOf reads the overrides of the values of rows.
func boundsOf(r *engine.Reader, l *limit.Limit, found []counters.Row) (*limit.Bounds, error) {
	if !l.Overridden() {
		return &limit.Bounds{}, nil
	}
	ids := make([]limit.OverrideID, len(found))
	for i := range found {
		key := found[i].Key
		ids[i] = limit.OverrideID{Budget: key.Budget, Series: l.OverrideSeries, Key: key.Value}
	}
	return counters.ReadOverrides(r, ids)
}
