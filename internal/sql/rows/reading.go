package rows

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// Reading is a budget that is read with its limits and its bucket list, without locks. The row with
// the versions is read first, so a list or limits that change meanwhile are newer than their
// version, never older.
type Reading struct {
	Ref bucket.BudgetRef
	// ListLess leaves the bucket list out.
	ListLess bool

	found  []books.Budget
	limits []limitRow
	list   []Bucket
}

const (
	selectBudgets = `SELECT ` + BudgetColumns + ` FROM budget_management_bucket WHERE `
	// selectLimits reads limits of budgets with their version in one statement, hence in one
	// snapshot. It does not sort, because a server that sorts texts writes them to a file first.
	selectLimits = `SELECT b.id, b.limits_version, b.overrides_version, l.ordinal, l.definition,
		l.changed_version, l.changed_ms, l.override_count, l.override_series
		FROM budget_management_bucket b LEFT JOIN budget_limit l ON l.budget_id = b.id
		WHERE `
)

// Queries are the SELECTs of the reading: see engine.Looks.
func (r *Reading) Queries(begin func() *engine.Statement) ([]*engine.Statement, []any) {
	r.found, r.limits, r.list = nil, nil, nil
	texts := []*engine.Statement{begin(), begin()}
	into := []any{&r.found, &r.limits}
	texts[0].SQL(selectBudgets)
	Named(texts[0], "id", r.Ref)
	texts[1].SQL(selectLimits)
	Named(texts[1], "b.id", r.Ref)
	if !r.ListLess {
		list := begin()
		list.SQL(SelectBuckets)
		Named(list, "b.budget_id", r.Ref)
		list.SQL(InOrdinalOrder)
		texts, into = append(texts, list), append(into, &r.list)
	}
	return texts, into
}

// Budget returns what was read. Error: BudgetNotFound, also if the budget with that id belongs to a
// tenant other than the reference's.
func (r *Reading) Budget(op string) (out bucket.Budget, err error) {
	if len(r.found) == 0 {
		return out, notFound(op, r.Ref)
	}
	row := &r.found[0]
	all := map[int64]*budget.Limits{}
	err = addLimits(all, r.limits)
	out.Definition = row.Definition()
	out.Limits, out.Ancestors = all[row.ID], row.Ancestors
	out.ListVersion, out.Period = row.ListVersion, row.PeriodNow()
	out.Buckets = make([]bucket.Bucket, len(r.list))
	for i := range r.list {
		out.Buckets[i] = r.list[i].View()
	}
	return out, err
}

// Named writes the condition that a column has the number of a budget, which is named by its id or
// by tenant and name. One that is named by its id must belong to the tenant, if there is one.
func Named(s *engine.Statement, column string, ref bucket.BudgetRef) {
	s.SQL(column + " = ")
	if ref.ID != 0 && ref.Tenant == "" {
		s.Number(ref.ID)
		return
	}
	s.SQL("(SELECT n.id FROM budget_management_bucket n WHERE n.tenant = ")
	s.Bytes(ref.Tenant)
	if ref.ID != 0 {
		s.SQL(" AND n.id = ")
		s.Number(ref.ID)
	} else {
		s.SQL(" AND n.name = ")
		s.Bytes(ref.Name)
	}
	s.SQL(")")
}

func notFound(op string, ref bucket.BudgetRef) error {
	switch {
	case ref.ID == 0:
		return budget.Refuse(budget.BudgetNotFound, op, "tenant %q has no budget %q", ref.Tenant,
			ref.Name)
	case ref.Tenant == "":
		return budget.Refuse(budget.BudgetNotFound, op, "there is no budget %d", ref.ID)
	}
	return budget.Refuse(budget.BudgetNotFound, op, "tenant %q has no budget %d", ref.Tenant, ref.ID)
}

// LimitsOf reads the limits of budgets.
func LimitsOf(r *engine.Reader, ids []int64) (map[int64]*budget.Limits, error) {
	out := make(map[int64]*budget.Limits, len(ids))
	for chunk := range slices.Chunk(ids, engine.ListChunk) {
		var read []limitRow
		s := r.Statement()
		s.SQL(selectLimits)
		s.Numbers("b.id", chunk)
		if err := r.RowsOf(&read, s); err != nil {
			return nil, err
		}
		if err := addLimits(out, read); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// limitRow is a row of selectLimits.
type limitRow struct {
	Budget         int64  `db:"id"`
	Version        int64  `db:"limits_version"`
	Overridden     int64  `db:"overrides_version"`
	Ordinal        *int64 `db:"ordinal"`
	Definition     []byte `db:"definition"`
	ChangedVersion *int64 `db:"changed_version"`
	ChangedMS      *int64 `db:"changed_ms"`
	Overrides      *int64 `db:"override_count"`
	Series         *int64 `db:"override_series"`
}

// addLimits adds the limits of budgets that have or had any.
func addLimits(out map[int64]*budget.Limits, read []limitRow) error {
	slices.SortFunc(read, func(a, b limitRow) int {
		if a.Ordinal == nil || b.Ordinal == nil { // then it is the only row of its budget
			return cmp.Compare(a.Budget, b.Budget)
		}
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(*a.Ordinal, *b.Ordinal))
	})
	for _, row := range read {
		if row.Version == 0 {
			continue
		}
		limits := out[row.Budget]
		if limits == nil {
			limits = &budget.Limits{Version: row.Version, OverridesVersion: row.Overridden}
			out[row.Budget] = limits
		}
		if row.Definition == nil || row.ChangedVersion == nil || row.ChangedMS == nil ||
			row.Overrides == nil || row.Series == nil {
			continue // the budget has no limits any more
		}
		l, err := limit.Decode(row.Definition)
		if err != nil {
			return engine.Defect("a limit of budget %d cannot be read: %v", row.Budget, err)
		}
		l.ChangedVersion, l.ChangedAt = *row.ChangedVersion, engine.FromMS(*row.ChangedMS)
		l.OverrideCount, l.OverrideSeries = *row.Overrides, *row.Series
		limits.List = append(limits.List, l)
	}
	return nil
}
