package sqlstore

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/limit"
)

// cachedLimitSets is of how many budgets the compiled limits are remembered.
const cachedLimitSets = 10_000

// limitSetKey names the limits of a budget as of one of their versions: they never change under it.
type limitSetKey struct{ budget, version int64 }

const (
	// selectLimitSet reads a budget's limits with their version, in one statement: one moment.
	selectLimitSet = `SELECT b.limits_version, b.durability, l.definition, l.changed_version, l.changed_ms
		FROM budget_management_bucket b LEFT JOIN budget_limit l ON l.budget_id = b.id
		WHERE b.id = ? ORDER BY l.ordinal`
	insertLimit = `INSERT INTO budget_limit (budget_id, name, definition, ordinal, changed_version,
		changed_ms)`
	limitWidth          = 6
	deleteLimits        = `DELETE FROM budget_limit WHERE budget_id = ?`
	updateLimitsVersion = `UPDATE budget_management_bucket SET limits_version = ? WHERE id = ?`
	selectNewestOf      = `SELECT e.bucket_id, e.epoch FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch WHERE b.budget_id = ?` + inKeyOrder
	setLimitsVersion = `UPDATE bucket_epoch /*by PRIMARY*/ SET limits_version = ? WHERE `
)

// limitRow is a row of budget_limit; selectLimitSet adds its budget's columns.
type limitRow struct {
	Version        int64  `db:"limits_version"`
	Durability     string `db:"durability"`
	Definition     []byte `db:"definition"`
	ChangedVersion *int64 `db:"changed_version"`
	ChangedMS      *int64 `db:"changed_ms"`
}

func (r *limitRow) limit() (budget.Limit, error) {
	l, err := limit.Decode(r.Definition)
	if err != nil {
		return l, defect("a limit that cannot be read: %v", err)
	}
	l.ChangedVersion, l.ChangedAt = orZero(r.ChangedVersion), fromMS(orZero(r.ChangedMS))
	return l, nil
}

// withLimits is the budget's definition with its limits, as they stand when it is called.
func (r *reader) withLimits(row *budgetRow) (budget.Definition, error) {
	d := row.definition()
	if row.LimitsVersion == 0 {
		return d, nil
	}
	var err error
	d.Limits, _, err = r.limits(row.ID)
	return d, err
}

// createLimits inserts the limits of a new budget and returns them; without any their version is 0.
func (t *tx) createLimits(id int64, limits *budget.Limits) (*budget.Limits, error) {
	if limits == nil || len(limits.List) == 0 {
		return &budget.Limits{}, nil
	}
	limits = limit.Begin(limits.List, t.now)
	return limits, t.insertLimits(id, limits)
}

func (t *tx) insertLimits(id int64, limits *budget.Limits) error {
	var args []any
	for i, l := range limits.List {
		args = append(args, id, []byte(l.Name), limit.Encode(l), i, l.ChangedVersion, toMS(l.ChangedAt))
	}
	return t.insert(insertLimit, limitWidth, args)
}

// changeLimits replaces the limits of a locked budget, and writes their version on the newest epoch of
// each of its buckets, all locked in order: whatever is committed or given back after this transaction
// knows them, and nothing that does not (I8).
func (t *tx) changeLimits(d budget.Definition) error {
	var newest []struct {
		Bucket int64 `db:"bucket_id"`
		Epoch  int64 `db:"epoch"`
	}
	if err := t.list(&newest, selectNewestOf, d.ID); err != nil {
		return err
	}
	positions, keys := make([]position, len(newest)), []any(nil)
	for i, p := range newest {
		positions[i] = position{p.Bucket, p.Epoch}
		keys = append(keys, p.Bucket, p.Epoch)
	}
	if !safeguard.Off(safeguard.LimitsVersion) {
		if _, err := t.lockEpochs(positions...); err != nil {
			return err
		}
		err := t.hitAll(setLimitsVersion, []any{d.Limits.Version}, `(bucket_id = ? AND epoch = ?)`, keys)
		if err != nil {
			return err
		}
	}
	if err := t.hit(1, updateLimitsVersion, d.Limits.Version, d.ID); err != nil {
		return err
	}
	if _, err := t.exec(deleteLimits, d.ID); err != nil {
		return err
	}
	return t.insertLimits(d.ID, d.Limits)
}

var noLimits = &limit.Set{}

// limitSet returns the limits of a budget as of a version that a locked epoch has. Where the budget has another version by now the transaction is done again.
func (t *tx) limitSet(budgetID, version int64) (*limit.Set, error) {
	if version == 0 {
		return noLimits, nil
	}
	if set, ok := t.db.limitSets.Get(limitSetKey{budgetID, version}); ok {
		return set, nil
	}
	set, err := t.readLimitSet(t.db, budgetID)
	if err != nil {
		return nil, err
	}
	if set.Version != version && len(set.List) > 0 && !safeguard.Off(safeguard.LimitsVersion) {
		return nil, errAgain
	}
	if safeguard.Off(safeguard.LimitsVersion) {
		t.db.limitSets.Add(limitSetKey{budgetID, version}, set)
	}
	return set, nil
}

// limits reads the limits of a budget and their version, of one moment, and its durability.
func (r *reader) limits(budgetID int64) (*budget.Limits, budget.Durability, error) {
	var rows []limitRow
	if err := r.list(&rows, selectLimitSet, budgetID); err != nil {
		return nil, "", err
	}
	if len(rows) == 0 {
		return nil, "", budget.Refuse(budget.BudgetNotFound, "limits", "there is no budget %d", budgetID)
	}
	limits := &budget.Limits{Version: rows[0].Version, List: make([]budget.Limit, 0, len(rows))}
	for i := range rows {
		if rows[i].Definition == nil {
			continue
		}
		l, err := rows[i].limit()
		if err != nil {
			return nil, "", err
		}
		limits.List = append(limits.List, l)
	}
	return limits, budget.Durability(rows[0].Durability), nil
}

// readLimitSet reads the limits of a budget as they stand, and remembers them by their version.
func (r *reader) readLimitSet(db *DB, budgetID int64) (*limit.Set, error) {
	limits, durability, err := r.limits(budgetID)
	if err != nil {
		return nil, err
	}
	set, err := limit.Compile(limits)
	if err != nil {
		return nil, defect("limits of budget %d: %v", budgetID, err)
	}
	set.InStores = durability == budget.Store
	db.limitSets.Add(limitSetKey{budgetID, set.Version}, set)
	return set, nil
}
