package manage

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/limit/overrides"
)

const (
	overrideColumns = `SELECT o.series, o.value, o.long_value, o.max_quantity, o.is_exempt
		FROM limit_override o `
	selectAfter = overrideColumns + `/*by PRIMARY*/ WHERE o.budget_id = ? AND o.series = ?
		AND o.value > ? ORDER BY o.value LIMIT ?`
	selectOne = overrideColumns + `/*by PRIMARY*/ WHERE o.budget_id = ? AND o.series = ?
		AND o.value = ?`
	selectSince = overrideColumns + `/*by limit_override_version*/ WHERE o.budget_id = ?
		AND o.version > ? AND o.version <= ?`
	selectRemoved = `SELECT o.series, o.value FROM limit_override_removed o WHERE o.budget_id = ?
		AND o.version > ? AND o.version <= ?`
)

// Overrides reads overrides of a limit: see Service.Overrides.
func (l *Ledger) Overrides(ctx context.Context, r bucket.OverridesRequest) (
	out bucket.Overrides, err error) {
	read := rows.Reading{Ref: r.Budget, ListLess: true}
	if err := l.db.Look(ctx, "overrides", read.Queries); err != nil {
		return out, err
	}
	b, err := read.Budget("overrides")
	if err != nil {
		return out, err
	}
	of := limitOf(&b, r.Limit)
	if of == nil {
		return out, noLimit("overrides")
	}
	out.Count = of.OverrideCount
	query, args := selectAfter, []any{b.ID, of.OverrideSeries, []byte(r.After), r.Most}
	if r.Values != nil {
		row, ok := books.NewOverride(b.ID, budget.Override{Values: r.Values}, of.Dimensions())
		if !ok {
			return out, &budget.Error{Code: budget.Invalid, Op: "overrides",
				Message: "the value is not one of the limit", Fields: []budget.FieldError{badValue(of)}}
		}
		query, args = selectOne, []any{b.ID, of.OverrideSeries, []byte(row.Value)}
	}
	found, err := engine.List[books.Override](ctx, l.db, "overrides", query, args...)
	for i := range found {
		out.List = append(out.List, overrideOf(&found[i], of))
		out.Last = found[i].Value
	}
	return out, err
}

// limitOf returns a limit of a budget, or nil.
func limitOf(b *bucket.Budget, name string) *budget.Limit {
	if b.Limits == nil {
		return nil
	}
	for i := range b.Limits.List {
		if b.Limits.List[i].Name == name {
			return &b.Limits.List[i]
		}
	}
	return nil
}

// OverridesOf implements overrides.Rows.
func (l *Ledger) OverridesOf(ctx context.Context, budgetID, series int64, after string, most int) (
	[]overrides.Row, error) {
	found, err := engine.List[books.Override](ctx, l.db, "read overrides", selectAfter, budgetID,
		series, []byte(after), most)
	return rowsOf(found, false), err
}

// OverridesSince implements overrides.Rows.
func (l *Ledger) OverridesSince(ctx context.Context, budgetID, version, until int64) (
	out []overrides.Row, err error) {
	err = l.db.Read(ctx, "read overrides", func(r *engine.Reader) error {
		var removed, set []books.Override
		if err := r.List(&removed, selectRemoved, budgetID, version, until); err != nil {
			return err
		}
		if err := r.List(&set, selectSince, budgetID, version, until); err != nil {
			return err
		}
		out = append(rowsOf(removed, true), rowsOf(set, false)...)
		return nil
	})
	return out, err
}

func rowsOf(found []books.Override, removed bool) []overrides.Row {
	out := make([]overrides.Row, len(found))
	for i, row := range found {
		out[i] = overrides.Row{Series: row.Series, Key: row.Value, Removed: removed,
			Bound: limit.Bound{Max: row.Max, Exempt: row.Exempt == 1}}
	}
	return out
}
