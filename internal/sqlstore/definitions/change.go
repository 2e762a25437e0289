package definitions

import (
	"bytes"
	"context"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/trail"
)

const (
	updateBudget = `UPDATE budget_management_bucket SET name = ?, gl_code = ?, unit = ?,
		status = ?, status_due_ms = ?, is_paused = ?, is_archived = ?, sharding_quantity = ?,
		adjust_cnt = ?, start_ms = ?, end_ms = ?, type_rule = ?, timezone = ?, unused = ?,
		late_refund = ?,
		version = version + 1, updated_at = ? WHERE id = ? AND version = ?`
	renameBuckets = `UPDATE sharding_budget_management_bucket /*by PRIMARY*/
		SET sharding_bucket_key = $value WHERE `
	movePeriodEnd = `UPDATE budget_management_bucket SET period_end_ms = ?, roll_over_ms = ?,
		list_version = list_version + 1 WHERE id = ?`
	moveEndOfPeriod = `UPDATE budget_period SET end_ms = ? WHERE budget_id = ? AND number = ?`
	// judgeAgain makes live epochs refuse operations that were judged by an older definition or
	// another end of their period.
	judgeAgain = `UPDATE bucket_epoch /*by PRIMARY*/ SET definition_version = ?, period_end_ms = ?
		WHERE `
	judgeWhere = `(bucket_id = ? AND epoch = ?)`
	selectLate = `SELECT e.bucket_id, e.epoch FROM bucket_epoch e /*by bucket_epoch_units*/
		WHERE e.budget_id = ? AND e.has_units = 1 AND e.late_quantity > 0 AND e.period = ?
		ORDER BY e.bucket_id, e.epoch`
	countNamed = `SELECT COUNT(*) FROM budget_management_bucket WHERE tenant = ? AND name = ?`
	setInTime  = `UPDATE bucket_epoch /*by PRIMARY*/ SET late_quantity = 0 WHERE `
)

// Change changes a definition and raises its version. Under the locks of all live epochs it also
// raises their definition version and changes their end, so that every later commit obeys the new
// definition (I8). It hands out what the open period gets beyond its units under a new rule.
// BucketQuantity also changes the number of buckets in ledger mode (see resize). All of this is one
// transaction.
//
// Errors: BudgetNotFound; VersionConflict; Invalid; BudgetNotOver; NameTaken; LedgerModeOnly for
// another number of buckets in store mode; Unavailable; OutcomeUnknown. Keeps I1.
func (p *Part) Change(ctx context.Context, id int64, change bucket.Change) (
	out manage.Changed, err error) {
	tried := budget.Definition{} // what an earlier attempt wrote, committed or not
	first := int64(0)            // the id of the first of the buckets that a resize may add
	if n := change.BucketQuantity; n != nil && *n > 0 && *n <= budget.MaxBuckets {
		if first, err = p.db.TakeIDs(ctx, engine.SequenceBucket, *n); err != nil {
			return out, err
		}
	}
	err = p.db.Write(ctx, "change", func(t *engine.Tx) error {
		out = manage.Changed{}
		row, err := rows.LockBudget(t, "change", id)
		if err != nil {
			return err
		}
		before, err := withLimits(&t.Reader, row)
		if err != nil {
			return err
		}
		if t.Unsure && tried.ID != 0 && sameChange(before, tried) {
			out.Definition, out.IsDue = before, row.Due(t.Now)
			return nil
		}
		after, err := judge(before, change, t.Now)
		if err != nil {
			return err
		}
		if err := free(t, before, after); err != nil {
			return err
		}
		tried = after
		if err := attest(ctx, before, after); err != nil {
			return err
		}
		undistributed := row.Undistributed
		c := &changing{t: t, row: row, before: before, after: after, first: first}
		if err := c.write(change.Limits != nil); err != nil {
			return err
		}
		if after.Name != before.Name {
			if err := c.rename(); err != nil {
				return err
			}
		}
		switch {
		case after.BucketQuantity != before.BucketQuantity:
			err = c.resize()
		case row.Undistributed > undistributed:
			err = c.handOut()
		}
		out.Definition, out.IsDue = after, row.Due(t.Now)
		return err
	})
	if err != nil {
		return manage.Changed{}, err
	}
	return out, nil
}

// free refuses a new name that another budget has, and an archival while units are held.
func free(t *engine.Tx, before, after budget.Definition) error {
	if after.Name != before.Name {
		var other int
		_, err := t.Get(&other, countNamed, []byte(after.Tenant), []byte(after.Name))
		switch {
		case err != nil:
			return err
		case other > 0:
			return budget.Refuse(budget.NameTaken, "change", "the tenant has another budget %q", after.Name)
		}
	}
	if !after.Archived || before.Archived {
		return nil
	}
	all, err := figuresByID(&t.Reader, []int64{before.ID})
	if held := all[before.ID].Held; err == nil && held > 0 {
		return budget.Refuse(budget.BudgetNotOver, "change",
			"budget %s has %d units in open holds: confirm them, roll them back or let them expire first",
			before.Name, held)
	}
	return err
}

// attest records a change of a definition for the audit log.
func attest(ctx context.Context, before, after budget.Definition) error {
	entry := trail.FromContext(ctx)
	if entry == nil {
		return nil
	}
	was, err := creationOf(before).text()
	if err != nil {
		return err
	}
	is, err := creationOf(after).text()
	entry.Change(before.Tenant, before.Name, []byte(was), []byte(is))
	return err
}

// judge returns the definition after a change.
func judge(before budget.Definition, change bucket.Change, now time.Time) (
	after budget.Definition, err error) {
	if change.IfVersion != 0 && change.IfVersion != before.Version {
		return after, budget.Refuse(budget.VersionConflict, "change",
			"budget %q is at version %d, not %d", before.Name, before.Version, change.IfVersion)
	}
	after = change.Of(before)
	if change.BucketQuantity != nil {
		after.BucketQuantity = *change.BucketQuantity
	}
	if limit.UnknownZone("change", before) != nil { // and after, unless the change gives others
		if e := limit.UnknownZone("change", after); e != nil {
			return after, e
		}
	}
	faults := append(allocation.CheckDefinition(after), limit.CheckDefinition(after)...)
	if change.StartAt != nil && !before.StartAt.After(now) {
		faults = append(faults, budget.FieldError{Field: "start_at",
			Message: "can be corrected only before the budget begins"})
	}
	if change.EndAt != nil && !change.AllowPast {
		faults = append(faults, budget.CheckEnd(after.EndAt, now)...)
	}
	if len(faults) > 0 {
		return after, &budget.Error{Code: budget.Invalid, Op: "change", Fields: faults}
	}
	if before.Durability == budget.Store && after.BucketQuantity != before.BucketQuantity {
		return after, budget.Refuse(budget.LedgerModeOnly, "change",
			"the number of buckets of budget %q is fixed: it is in store mode", before.Name)
	}
	if change.Limits != nil {
		after.Limits = limit.Change(limit.Zoned(before), limit.Zoned(after).List, now)
	}
	if after.Archived && after.StatusAt(now) != budget.Expired {
		return after, budget.Refuse(budget.BudgetNotOver, "change",
			"budget %s is %s: only one whose end has passed can be archived", before.Name,
			after.StatusAt(now))
	}
	after.StartAt = engine.FromMS(engine.ToMS(after.StartAt))
	after.EndAt = engine.FromMS(engine.EndMS(after.EndAt))
	after.Version, after.UpdatedAt = before.Version+1, now
	return after, nil
}

// sameChange reports whether the recorded definition is the one that was tried: same version, same
// values.
func sameChange(recorded, tried budget.Definition) bool {
	return recorded.Version == tried.Version && recorded.UpdatedAt.Equal(tried.UpdatedAt) &&
		recorded.Name == tried.Name && recorded.GLCode == tried.GLCode &&
		recorded.Unit == tried.Unit && recorded.StartAt.Equal(tried.StartAt) &&
		recorded.Archived == tried.Archived &&
		recorded.Paused == tried.Paused && recorded.ShardingQuantity == tried.ShardingQuantity &&
		recorded.AdjustCnt == tried.AdjustCnt && recorded.BucketQuantity == tried.BucketQuantity &&
		recorded.EndAt.Equal(tried.EndAt) && recorded.LateRefund == tried.LateRefund &&
		recorded.Timezone == tried.Timezone &&
		bytes.Equal(rows.WriteRule(recorded.Rule), rows.WriteRule(tried.Rule)) &&
		limit.EncodeAll(recorded.Limits) == limit.EncodeAll(tried.Limits)
}

// changing is a change of a definition whose budget is locked.
type changing struct {
	t             *engine.Tx
	row           *rows.Budget
	before, after budget.Definition
	first         int64 // the id of the first of new buckets
}

// write writes the new definition: the budget's row, its limits if they change, the open period,
// and the live epochs.
func (c *changing) write(limits bool) error {
	t, row, after := c.t, c.row, c.after
	status, due := rows.StatusOf(after, t.Now)
	err := t.Hit(1, updateBudget, []byte(after.Name), []byte(after.GLCode), string(after.Unit), status,
		due, moves.OneIf(after.Paused), moves.OneIf(after.Archived), after.ShardingQuantity,
		after.AdjustCnt, engine.ToMS(after.StartAt), engine.EndMS(after.EndAt),
		rows.WriteRule(after.Rule), []byte(after.Timezone), rows.UnusedColumn(after),
		string(after.LateRefund),
		engine.ToMS(after.UpdatedAt), after.ID, c.before.Version)
	if err != nil {
		return err
	}
	row.Name, row.GLCode, row.Unit = after.Name, after.GLCode, string(after.Unit)
	row.IsPaused, row.IsArchived = moves.OneIf(after.Paused), moves.OneIf(after.Archived)
	row.Sharding, row.AdjustCnt = after.ShardingQuantity, after.AdjustCnt
	row.StartMS, row.EndMS = engine.ToMS(after.StartAt), engine.EndMS(after.EndAt)
	row.TypeRule = rows.WriteRule(after.Rule)
	row.Timezone, row.LateRefund = after.Timezone, string(after.LateRefund)
	row.Version = after.Version
	if limits {
		row.LimitsVersion = after.Limits.Version
		if err := replaceLimits(t, after); err != nil {
			return err
		}
	}
	moved, err := c.period()
	if err != nil {
		return err
	}
	return c.epochs(moved)
}

// rename changes the keys of a renamed budget's buckets.
func (c *changing) rename() error {
	list, err := rows.LockBuckets(c.t, c.row.ID)
	if err != nil {
		return err
	}
	changes := make([]engine.RowChange, len(list))
	for i := range list {
		id, key := list[i].Epoch.Bucket, bucket.KeyOf(c.after.Name, list[i].Ordinal)
		changes[i] = engine.RowChange{Key: []any{id}, Values: []any{[]byte(key)}, Where: []any{id}}
	}
	return c.t.ChangeRows(renameBuckets, `id = ?`, `id = ?`, changes)
}

// handOut gives buckets the units that the open period got by the change.
func (c *changing) handOut() error {
	list, err := rows.LockBuckets(c.t, c.row.ID)
	if err != nil {
		return err
	}
	return moves.HandOut(c.t, c.row, moves.Apply, list)
}

// period gives the open period its end under the new definition and any additional units. moved
// reports whether the end changed.
func (c *changing) period() (moved bool, err error) {
	t, row := c.t, c.row
	p, err := moves.OpenPeriod(t, row)
	if err != nil {
		return false, err
	}
	end, due := allocation.Change(c.before, c.after, p, t.Now)
	moved = row.PeriodEndMS != engine.EndMS(end)
	if !moved && engine.ToMS(due) == row.RollOverMS {
		return false, moves.TopUp(t, row, c.after)
	}
	row.PeriodEndMS, row.RollOverMS = engine.EndMS(end), engine.ToMS(due)
	if err := moves.TopUp(t, row, c.after); err != nil {
		return false, err
	}
	if err := t.Hit(1, movePeriodEnd, row.PeriodEndMS, row.RollOverMS, row.ID); err != nil {
		return false, err
	}
	if row.IsOver == 1 {
		return false, nil
	}
	return moved, t.Hit(1, moveEndOfPeriod, row.PeriodEndMS, row.ID, row.Period)
}

// epochs locks the budget's live epochs, and writes the definition's version and the end of their
// period into them. If the end has moved later, units given back after the former end are no longer
// late.
func (c *changing) epochs(moved bool) error {
	t, row := c.t, c.row
	list, err := rows.Buckets(&t.Reader, row.ID)
	if err != nil {
		return err
	}
	var positions, late []rows.Position
	for i := range list {
		positions = append(positions, list[i].Position())
	}
	if moved && (row.PeriodEndMS == 0 || engine.ToMS(t.Now) < row.PeriodEndMS) {
		if late, err = listPositions(&t.Reader, selectLate, row.ID, row.Period); err != nil {
			return err
		}
	}
	locked, err := rows.LockEpochs(t, append(positions, late...))
	if err != nil {
		return err
	}
	var live, inTime []any
	for _, at := range positions {
		if e := locked[at]; e != nil && e.Live() && e.Period == row.Period {
			live = append(live, at.Bucket, at.Epoch)
		}
	}
	for _, at := range late {
		inTime = append(inTime, at.Bucket, at.Epoch)
	}
	err = t.HitAll(judgeAgain, []any{row.Version, row.PeriodEndMS}, judgeWhere, live)
	if err != nil {
		return err
	}
	return t.HitAll(setInTime, nil, judgeWhere, inTime)
}

// listPositions reads positions of epochs.
func listPositions(r *engine.Reader, query string, args ...any) (out []rows.Position, err error) {
	var found []struct {
		Bucket int64 `db:"bucket_id"`
		Epoch  int64 `db:"epoch"`
	}
	if err := r.List(&found, query, args...); err != nil {
		return nil, err
	}
	for _, f := range found {
		out = append(out, rows.Position{Bucket: f.Bucket, Epoch: f.Epoch})
	}
	return out, nil
}
