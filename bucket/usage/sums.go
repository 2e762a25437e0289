package usage

import (
	"context"
	"maps"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	isFirst   = `v.counted_at = d.counted_at`
	itsExtras = ` FROM extra x /*by PRIMARY*/ WHERE x.budget_id = d.budget_id
		AND x.request_id = d.request_id AND x.created_at = v.counted_at`
	// Amounts are added up in two halves, so that no sum overflows an integer: unlimited budgets
	// have no bound.
	selectUsage = `SELECT COALESCE(SUM(CASE WHEN ` + isFirst + ` THEN 1 ELSE 0 END), 0) AS calls,
		COALESCE(SUM(CASE WHEN ` + isFirst + ` THEN d.amount & 1048575 ELSE 0 END), 0) AS low,
		COALESCE(SUM(CASE WHEN ` + isFirst + ` THEN d.amount >> 20 ELSE 0 END), 0) AS high,
		COALESCE(SUM(CASE WHEN ` + isFirst + ` THEN (SELECT SUM(g.amount)
			FROM give_back g /*by PRIMARY*/ WHERE g.budget_id = d.budget_id
			AND g.request_id = d.request_id AND g.number = 0) ELSE 0 END), 0) AS rolled_back,
		COALESCE(SUM((SELECT SUM(x.amount & 1048575)` + itsExtras + `)), 0) AS extra_low,
		COALESCE(SUM((SELECT SUM(x.amount >> 20)` + itsExtras + `)), 0) AS extra_high,
		COALESCE(SUM((SELECT SUM(x.back_quantity)` + itsExtras + `)), 0) AS extra_back
		FROM deduction_value v /*by PRIMARY*/`
	// lastMS is later than every instant in the ledger.
	lastMS = int64(1) << 53
)

// Usage sums the deductions that carry all of the dimensions' values and were counted in a span, to
// exclusive, with the rows' current amounts, and what deductions took above their holds in it. A
// zero instant means no bound. Errors: BudgetNotFound; LedgerModeOnly; Invalid without a dimension;
// Unavailable.
func (s *Service) Usage(ctx context.Context, r bucket.UsageRequest) (bucket.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err == nil {
		err = b.NeedsRows("usage", "ask a check for the limits of the value")
	}
	if err != nil {
		return bucket.Usage{}, err
	}
	if len(r.Dimensions) == 0 {
		return bucket.Usage{}, &budget.Error{Code: budget.Invalid, Op: "usage",
			Message: "at least one dimension must be given", Fields: []budget.FieldError{{
				Field: "dimensions", Message: "must not be empty"}}}
	}
	names := slices.Sorted(maps.Keys(r.Dimensions))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = r.Dimensions[name]
	}
	fromMS, toMS := int64(0), lastMS
	if !r.From.IsZero() {
		fromMS = r.From.UnixMilli()
	}
	if !r.To.IsZero() {
		toMS = r.To.UnixMilli()
	}
	query, args := counters.Carrying(selectUsage, b.ID, names, values, fromMS, toMS)
	var row struct {
		Calls      int64 `db:"calls"`
		Low        int64 `db:"low"`
		High       int64 `db:"high"`
		RolledBack int64 `db:"rolled_back"`
		ExtraLow   int64 `db:"extra_low"`
		ExtraHigh  int64 `db:"extra_high"`
		ExtraBack  int64 `db:"extra_back"`
	}
	err = s.DB.Read(ctx, "usage", func(r *engine.Reader) error {
		_, err := r.Get(&row, query, args...)
		return err
	})
	return bucket.Usage{Calls: row.Calls,
		Amount:     joined(row.High+row.ExtraHigh, row.Low+row.ExtraLow),
		RolledBack: min(row.RolledBack+row.ExtraBack, budget.MaxAmount)}, s.failed(err)
}

// joined returns high * 2^20 + low, at most budget.MaxAmount.
func joined(high, low int64) int64 {
	const half = 20
	if high > budget.MaxAmount>>half {
		return budget.MaxAmount
	}
	return min(high<<half+low, budget.MaxAmount)
}
