package sqlstore

import (
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

const selectBudgetByName = `SELECT ` + budgetColumns + ` FROM budget_management_bucket
	WHERE tenant = ? AND name = ?`

// Budget reads a budget with its bucket list. The row with the versions is read first, so a list
// that changes in between is newer than its version says, never older.
func (db *DB) Budget(ctx context.Context, ref bucket.BudgetRef) (bucket.Budget, error) {
	var out bucket.Budget
	err := db.read(ctx, "read", func(r *reader) error {
		var err error
		out, err = r.view(ref)
		return err
	})
	return out, err
}

func (r *reader) view(ref bucket.BudgetRef) (bucket.Budget, error) {
	row, err := r.find(ref)
	if err != nil {
		return bucket.Budget{}, err
	}
	if row == nil {
		return bucket.Budget{}, budget.Refuse(budget.BudgetNotFound, "read",
			"tenant %q has no budget %q", ref.Tenant, ref.Name)
	}
	rows, err := r.buckets(row.ID)
	if err != nil {
		return bucket.Budget{}, err
	}
	for i := range rows { // whoever knows an epoch knows the limits that it began with
		row.LimitsVersion = max(row.LimitsVersion, rows[i].LimitsVersion)
	}
	d, err := r.withLimits(row)
	if err != nil {
		return bucket.Budget{}, err
	}
	out := bucket.Budget{
		Definition: d, ListVersion: row.ListVersion, Period: row.period(),
		Buckets: make([]bucket.Bucket, len(rows)),
	}
	for i := range rows {
		out.Buckets[i] = rows[i].bucket()
	}
	return out, nil
}

// find reads a budget's row by its id, or by tenant and name: nil when no budget has that name.
func (r *reader) find(ref bucket.BudgetRef) (*budgetRow, error) {
	if ref.ID != 0 {
		return r.budget("read", ref.ID, "")
	}
	var row budgetRow
	found, err := r.get(&row, selectBudgetByName, []byte(ref.Tenant), []byte(ref.Name))
	if err != nil || !found {
		return nil, err
	}
	return &row, nil
}

// Conditions of a page of budgets; the statuses are budget.Definition.StatusAt in SQL.
const (
	selectPage = `SELECT ` + budgetColumns + ` FROM budget_management_bucket
		WHERE parent_id = 0 AND id > ?`
	whereTenant = ` AND tenant = ?`
	whereType   = ` AND type = ?`
	pageOrder   = ` ORDER BY id LIMIT ?`

	whereExpired   = ` AND end_ms <> 0 AND end_ms <= ?`
	whereRunning   = ` AND (end_ms = 0 OR end_ms > ?)`
	wherePaused    = whereRunning + ` AND status = 'paused'`
	wherePending   = whereRunning + ` AND status <> 'paused' AND start_ms > ?`
	whereEffective = whereRunning + ` AND status <> 'paused' AND start_ms <= ?`
)

// Budgets reads a page of definitions in the order of their ids. The status is that at SQL's time.
func (db *DB) Budgets(ctx context.Context, page bucket.Page) ([]budget.Definition, error) {
	query, args := strings.Builder{}, []any{page.AfterID}
	query.WriteString(selectPage)
	where := func(condition string, values ...any) {
		query.WriteString(condition)
		args = append(args, values...)
	}
	if page.Tenant != "" {
		where(whereTenant, []byte(page.Tenant))
	}
	if page.Type != "" {
		where(whereType, string(page.Type))
	}
	now := toMS(db.Now())
	switch page.Status {
	case "":
	case budget.Expired:
		where(whereExpired, now)
	case budget.Paused:
		where(wherePaused, now)
	case budget.Pending:
		where(wherePending, now, now)
	case budget.Effective:
		where(whereEffective, now, now)
	default:
		return nil, budget.Refuse(budget.Invalid, "list", "there is no status %q", page.Status)
	}
	where(pageOrder, page.Size)
	var out []budget.Definition
	err := db.read(ctx, "list", func(r *reader) error {
		var rows []budgetRow
		err := r.list(&rows, query.String(), args...)
		if err != nil {
			return err
		}
		out = make([]budget.Definition, len(rows))
		for i := range rows {
			if out[i], err = r.withLimits(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const selectVersions = `SELECT id, version, list_version FROM budget_management_bucket
	WHERE id IN (`

// Versions reads the versions of many budgets.
func (db *DB) Versions(ctx context.Context, ids []int64) (map[int64]bucket.Version, error) {
	out := make(map[int64]bucket.Version, len(ids))
	err := db.read(ctx, "read", func(r *reader) error {
		for chunk := range slices.Chunk(ids, listChunk) {
			args := r.numbersOf(chunk)
			var rows []struct {
				ID          int64 `db:"id"`
				Version     int64 `db:"version"`
				ListVersion int64 `db:"list_version"`
			}
			if err := r.list(&rows, selectVersions+repeat("?", ",", len(args))+")", args...); err != nil {
				return err
			}
			for _, row := range rows {
				out[row.ID] = bucket.Version{Definition: row.Version, List: row.ListVersion}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// numbersOf makes the arguments of a list of numbers.
func (r *reader) numbersOf(numbers []int64) (args []any) {
	for _, n := range padded(r.conn.dialect, numbers) {
		args = append(args, n)
	}
	return args
}
