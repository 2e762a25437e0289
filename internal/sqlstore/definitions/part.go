// Package definitions creates, changes and reads budgets.
//
// # Modes
//
// In ledger mode one commit completes a budget and its buckets: epochs begin open. In store mode
// they begin opening, with a pending grant, until their stores have them.
//
// # Versions
//
// Every change raises the budget's version. In the same transaction, under their locks, it raises
// the definition version of all live epochs. A commit that was judged by an older definition is
// judged again. So a pause, an end, a limit or a rule applies to every later commit at once (I8).
//
// # Unlimited budgets
//
// An unlimited budget has no total. T, F, U and the O of its epochs are always 0, it makes no
// grants, and movements between the budget and its buckets move nothing. Flights neither judge nor
// change O of its epochs. A deduction only adds to S or H, and a rollback only subtracts from them,
// without R. S and H of an epoch saturate at budget.MaxAmount. The equation of I1 does not apply to
// it.
package definitions

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/limit"
)

// Part reads and writes the definitions in a database. It is safe for concurrent use.
type Part struct{ db *engine.DB }

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }

// Budget reads a budget with its bucket list, in one round trip. It reads the row with the versions
// first, so a list or limits that change meanwhile are newer than their version, never older.
// Errors: BudgetNotFound, also if the budget with that id belongs to a tenant other than the
// reference's; Unavailable.
func (p *Part) Budget(ctx context.Context, ref bucket.BudgetRef) (out bucket.Budget, err error) {
	var found []rows.Budget
	var limits []limitRow
	var list []rows.Bucket
	err = p.db.Look(ctx, "read", func(begin func() *engine.Statement) ([]*engine.Statement, []any) {
		found, limits, list = nil, nil, nil
		texts := []*engine.Statement{begin(), begin(), begin()}
		texts[0].SQL(selectBudgets)
		named(texts[0], "id", ref)
		texts[1].SQL(rows.SelectBuckets)
		named(texts[1], "b.budget_id", ref)
		texts[1].SQL(rows.InOrdinalOrder)
		texts[2].SQL(selectLimits)
		named(texts[2], "b.id", ref)
		texts[2].SQL(inLimitOrder)
		return texts, []any{&found, &list, &limits}
	})
	if err == nil && len(found) == 0 {
		err = notFound("read", ref)
	}
	if err != nil {
		return out, err
	}
	out.Definition, err = limited(found[0].Definition(), limits)
	out.ListVersion, out.Period = found[0].ListVersion, found[0].PeriodNow()
	out.Buckets = make([]bucket.Bucket, len(list))
	for i := range list {
		out.Buckets[i] = list[i].View()
	}
	return out, err
}

// named writes the condition that a column has the number of a budget, which is named by its id or
// by tenant and name. One that is named by its id must belong to the tenant, if there is one.
func named(s *engine.Statement, column string, ref bucket.BudgetRef) {
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

const selectOwned = `SELECT COUNT(*) FROM budget_management_bucket WHERE id = ? AND tenant = ?`

// Belongs reports whether a tenant has a budget with an id. A budget of another tenant takes as
// long as one that does not exist. Error: Unavailable.
func (p *Part) Belongs(ctx context.Context, tenant string, id int64) (bool, error) {
	var n int
	err := p.db.Read(ctx, "read", func(r *engine.Reader) error {
		_, err := r.Get(&n, selectOwned, id, []byte(tenant))
		return err
	})
	return n > 0, err
}

const selectBudgets = `SELECT ` + rows.BudgetColumns + ` FROM budget_management_bucket WHERE `

const (
	selectVersions = `SELECT id, version, list_version
		FROM budget_management_bucket /*by PRIMARY*/ WHERE `
	sumVersions = `SELECT COUNT(*) AS exist, COALESCE(SUM(version), 0) AS version,
		COALESCE(SUM(list_version), 0) AS list_version
		FROM budget_management_bucket /*by PRIMARY*/ WHERE `
)

// Versions reads the versions of many budgets. The result has no element for a budget that does not
// exist.
func (p *Part) Versions(ctx context.Context, ids []int64) (map[int64]bucket.Version, error) {
	found, err := readVersions(ctx, p, selectVersions, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]bucket.Version, len(found))
	for _, row := range found {
		out[row.ID] = bucket.Version{Definition: row.Version, List: row.ListVersion}
	}
	return out, nil
}

// VersionSum reads how many of the budgets exist and the sums of their versions. The database
// answers with one row for many budgets, which costs a fraction of Versions.
func (p *Part) VersionSum(ctx context.Context, ids []int64) (
	exist int, sum bucket.Version, err error) {
	found, err := readVersions(ctx, p, sumVersions, ids)
	for _, row := range found {
		exist += row.Exist
		sum.Definition += row.Version
		sum.List += row.ListVersion
	}
	return exist, sum, err
}

// versionRow is a row of selectVersions or sumVersions.
type versionRow struct {
	ID          int64 `db:"id"`
	Exist       int   `db:"exist"`
	Version     int64 `db:"version"`
	ListVersion int64 `db:"list_version"`
}

func readVersions(ctx context.Context, p *Part, query string, ids []int64) (
	found []versionRow, err error) {
	err = p.db.Read(ctx, "read", func(r *engine.Reader) error {
		found = nil // of an attempt that failed
		for chunk := range slices.Chunk(ids, engine.ListChunk) {
			var read []versionRow
			s := r.Statement()
			s.SQL(query)
			s.Numbers("id", chunk)
			if err := r.RowsOf(&read, s); err != nil {
				return err
			}
			found = append(found, read...)
		}
		return nil
	})
	return found, err
}

const (
	// selectLimits reads limits of budgets with their version in one statement, hence in one
	// snapshot.
	selectLimits = `SELECT b.id, b.limits_version, l.definition, l.changed_version, l.changed_ms
		FROM budget_management_bucket b LEFT JOIN budget_limit l ON l.budget_id = b.id WHERE `
	inLimitOrder = ` ORDER BY b.id, l.ordinal`
	insertLimit  = `INSERT INTO budget_limit (budget_id, name, definition, ordinal, changed_version,
		changed_ms)`
	limitWidth          = 6
	deleteLimits        = `DELETE FROM budget_limit WHERE budget_id = ?`
	updateLimitsVersion = `UPDATE budget_management_bucket SET limits_version = ? WHERE id = ?`
)

// withLimits returns a budget's definition with its present limits.
func withLimits(r *engine.Reader, row *rows.Budget) (budget.Definition, error) {
	d := row.Definition()
	if row.LimitsVersion == 0 {
		return d, nil
	}
	all, err := limitsOf(r, []int64{row.ID})
	d.Limits = all[row.ID]
	return d, err
}

// limitsOf reads the limits of budgets.
func limitsOf(r *engine.Reader, ids []int64) (map[int64]*budget.Limits, error) {
	out := make(map[int64]*budget.Limits, len(ids))
	err := inChunks(ids, func(keys [][]any) error {
		var read []limitRow
		s := r.Statement()
		s.SQL(selectLimits)
		s.Tuples([]string{"b.id"}, keys)
		s.SQL(inLimitOrder)
		if err := r.RowsOf(&read, s); err != nil {
			return err
		}
		return addLimits(out, read)
	})
	return out, err
}

// limitRow is a row of selectLimits.
type limitRow struct {
	Budget         int64  `db:"id"`
	Version        int64  `db:"limits_version"`
	Definition     []byte `db:"definition"`
	ChangedVersion *int64 `db:"changed_version"`
	ChangedMS      *int64 `db:"changed_ms"`
}

// limited returns a definition with the limits of its budget.
func limited(d budget.Definition, read []limitRow) (budget.Definition, error) {
	all := map[int64]*budget.Limits{}
	err := addLimits(all, read)
	d.Limits = all[d.ID]
	return d, err
}

// addLimits adds the limits of budgets that have or had any.
func addLimits(out map[int64]*budget.Limits, read []limitRow) error {
	for _, row := range read {
		if row.Version == 0 {
			continue
		}
		limits := out[row.Budget]
		if limits == nil {
			limits = &budget.Limits{Version: row.Version}
			out[row.Budget] = limits
		}
		if row.Definition == nil || row.ChangedVersion == nil || row.ChangedMS == nil {
			continue // the budget has no limits any more
		}
		l, err := limit.Decode(row.Definition)
		if err != nil {
			return engine.Defect("a limit of budget %d cannot be read: %v", row.Budget, err)
		}
		l.ChangedVersion, l.ChangedAt = *row.ChangedVersion, engine.FromMS(*row.ChangedMS)
		limits.List = append(limits.List, l)
	}
	return nil
}

// insertLimits writes the limits of a budget.
func insertLimits(t *engine.Tx, id int64, limits *budget.Limits) error {
	if limits == nil {
		return nil
	}
	var args []any
	for i, l := range limits.List {
		args = append(args, id, []byte(l.Name), limit.Encode(l), i, l.ChangedVersion,
			engine.ToMS(l.ChangedAt))
	}
	return t.Insert(insertLimit, limitWidth, args)
}

// replaceLimits replaces the limits of a locked budget.
func replaceLimits(t *engine.Tx, d budget.Definition) error {
	if err := t.Hit(1, updateLimitsVersion, d.Limits.Version, d.ID); err != nil {
		return err
	}
	if _, err := t.Exec(deleteLimits, d.ID); err != nil {
		return err
	}
	return insertLimits(t, d.ID, d.Limits)
}

// inChunks calls fn with as many ids at a time as one statement may list, each as a key.
func inChunks(ids []int64, fn func(keys [][]any) error) error {
	for len(ids) > 0 {
		n := min(len(ids), engine.ListChunk)
		keys := make([][]any, n)
		for i, id := range ids[:n] {
			keys[i] = []any{id}
		}
		if err := fn(keys); err != nil {
			return err
		}
		ids = ids[n:]
	}
	return nil
}
