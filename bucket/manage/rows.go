package manage

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
)

// Ledger stores definitions in the database. Each write is one transaction. Errors of every method:
// Unavailable (nothing was changed), and OutcomeUnknown for a write, which may then be repeated. It
// is safe for concurrent use.
type Ledger struct{ db *engine.DB }

// NewLedger returns the ledger of a database.
func NewLedger(db *engine.DB) *Ledger { return &Ledger{db: db} }

// Budget reads a budget with its bucket list, in one round trip: see rows.Reading. Errors:
// BudgetNotFound, also if the budget with that id belongs to a tenant other than the reference's;
// Unavailable.
func (l *Ledger) Budget(ctx context.Context, ref bucket.BudgetRef) (out bucket.Budget, err error) {
	read := rows.Reading{Ref: ref}
	if err := l.db.Look(ctx, "read", read.Queries); err != nil {
		return out, err
	}
	return read.Budget("read")
}

const selectOwned = `SELECT COUNT(*) FROM budget_management_bucket WHERE id = ? AND tenant = ?`

// Belongs reports whether a tenant has a budget with an id. A budget of another tenant takes as
// long as one that does not exist. Error: Unavailable.
func (l *Ledger) Belongs(ctx context.Context, tenant string, id int64) (bool, error) {
	var n int
	err := l.db.Read(ctx, "read", func(r *engine.Reader) error {
		_, err := r.Get(&n, selectOwned, id, []byte(tenant))
		return err
	})
	return n > 0, err
}

const (
	selectVersions = `SELECT id, version, list_version
		FROM budget_management_bucket /*by PRIMARY*/ WHERE `
	sumVersions = `SELECT COUNT(*) AS exist, COALESCE(SUM(version), 0) AS version,
		COALESCE(SUM(list_version), 0) AS list_version
		FROM budget_management_bucket /*by PRIMARY*/ WHERE `
)

// Versions reads the versions of many budgets. The result has no element for a budget that does not
// exist.
func (l *Ledger) Versions(ctx context.Context, ids []int64) (map[int64]bucket.Version, error) {
	found, err := readVersions(ctx, l, selectVersions, ids)
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
func (l *Ledger) VersionSum(ctx context.Context, ids []int64) (
	exist int, sum bucket.Version, err error) {
	found, err := readVersions(ctx, l, sumVersions, ids)
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

func readVersions(ctx context.Context, l *Ledger, query string, ids []int64) (
	found []versionRow, err error) {
	err = l.db.Read(ctx, "read", func(r *engine.Reader) error {
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
