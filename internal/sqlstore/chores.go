package sqlstore

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
)

const (
	selectUnfinished = `SELECT ` + laneEpochColumns + `
		FROM bucket_epoch e /*by bucket_epoch_unfinished*/
		JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
		WHERE e.is_unfinished = 1 AND e.status IN ('opening', 'closing') AND LENGTH(e.fenced) = 0`
	selectUnfinishedOf = `SELECT ` + laneEpochColumns + ` FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE b.budget_id = ? AND e.status IN ('opening', 'closing')` + inKeyOrder
	selectFenced = `SELECT ` + laneEpochColumns + `
		FROM bucket_epoch e /*by bucket_epoch_unfinished*/
		JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
		WHERE e.is_unfinished = 1 AND LENGTH(e.fenced) > 0` + inKeyOrder + ` LIMIT ?`
	grantColumns = `SELECT g.bucket_id, g.epoch, g.number, g.amount, e.activation, b.instance, b.lane`
	joinGrants   = ` JOIN bucket_epoch e ON e.bucket_id = g.bucket_id AND e.epoch = g.epoch
		JOIN sharding_budget_management_bucket b ON b.id = g.bucket_id
		WHERE g.status = 'pending' AND e.status IN ('opening', 'open') AND LENGTH(e.fenced) = 0`
	grantOrder            = ` ORDER BY g.bucket_id, g.epoch, g.number`
	selectPendingGrants   = grantColumns + ` FROM grant_log g /*by grant_log_status*/` + joinGrants
	selectPendingGrantsOf = grantColumns + ` FROM grant_log g` + joinGrants +
		` AND b.budget_id = ? AND e.epoch = b.epoch` + grantOrder
	selectReturningBudgets = `SELECT DISTINCT budget_id FROM bucket_epoch
		WHERE has_returns = 1 ORDER BY budget_id LIMIT ?`
	selectShrinks = `SELECT budget_id, request_id, quantity, deadline_ms FROM adjustment
		WHERE status = 'pending' ORDER BY budget_id, request_id LIMIT ?`
	// selectSpare finds budgets with units to hand out that nobody would ask for: all that is online
	// has ended, or a part of it has, on whatever lane; and somebody could take them.
	selectSpare = `SELECT u.id FROM budget_management_bucket u /*by budget_management_bucket_units*/
		WHERE u.has_undistributed = 1 AND (NOT EXISTS (
			SELECT 1 FROM sharding_budget_management_bucket b /*by budget_id*/
			WHERE b.budget_id = u.id AND b.status = 'online')
			OR EXISTS (SELECT 1 FROM sharding_budget_management_bucket b /*by budget_id*/
			WHERE b.budget_id = u.id AND b.is_idle = 1))
		AND EXISTS (SELECT 1 FROM sharding_budget_management_bucket b /*by budget_id*/
			WHERE b.budget_id = u.id AND b.is_idle = 0
			AND b.offline_by NOT IN ('operator', 'resize')` + notDraining
	selectIdle = `) UNION SELECT b.budget_id
		FROM sharding_budget_management_bucket b /*by sharding_budget_management_bucket_idle*/
		WHERE b.is_idle = 1` + notDraining
	// notDraining leaves out buckets that get their next epoch elsewhere: see Move.
	notDraining = ` AND NOT EXISTS (SELECT 1 FROM lane l
		WHERE l.instance = b.instance AND l.lane = b.lane AND l.is_draining = 1)`
	selectResizes = `SELECT id FROM budget_management_bucket /*by budget_management_bucket_resize*/
		WHERE resize_quantity > 0 ORDER BY resize_quantity, id LIMIT ?`
	selectRuns = `SELECT budget_id, number, created_at FROM run /*by run_active*/
		WHERE active = 1 ORDER BY created_at LIMIT ?`
)

// Unfinished reads at most limit elements of each kind of work that somebody began.
func (db *DB) Unfinished(ctx context.Context, limit int, without ...bucket.Lane) (
	out bucket.Unfinished, err error) {
	others, args := notOn(without)
	args = append(args, limit)
	err = db.read(ctx, "unfinished", func(r *reader) error {
		out = bucket.Unfinished{}
		if out.Epochs, err = r.epochsOf(selectUnfinished+others+inKeyOrder+` LIMIT ?`, args...); err != nil {
			return err
		}
		if out.Grants, err = r.pendingGrants(selectPendingGrants+others+grantOrder+` LIMIT ?`, args...); err != nil {
			return err
		}
		if err = r.list(&out.Returning, selectReturningBudgets, limit); err != nil {
			return err
		}
		if out.Shrinks, err = r.shrinks(limit); err != nil {
			return err
		}
		if out.Fenced, err = r.epochsOf(selectFenced, limit); err != nil {
			return err
		}
		lanes := args[:len(args)-1]
		if err = r.list(&out.Offline, selectSpare+others+selectIdle+others+` ORDER BY 1 LIMIT ?`,
			append(slices.Clone(lanes), args...)...); err != nil {
			return err
		}
		if err = r.list(&out.Resizes, selectResizes, limit); err != nil {
			return err
		}
		slices.Sort(out.Resizes)
		if out.Runs, err = r.openRuns(selectRuns, limit); err != nil {
			return err
		}
		out.Recycles, err = r.openRecycles(limit)
		return err
	})
	if err != nil {
		return bucket.Unfinished{}, err
	}
	return out, nil
}

// notOn is the condition that a bucket is on none of the lanes, with its arguments.
func notOn(lanes []bucket.Lane) (condition string, args []any) {
	for _, lane := range lanes {
		args = append(args, []byte(lane.Instance), lane.Index)
	}
	return repeat(` AND NOT (b.instance = ? AND b.lane = ?)`, "", len(lanes)), args
}

// UnfinishedOf reads the opening and closing epochs and the pending grants of one budget.
func (db *DB) UnfinishedOf(ctx context.Context, budgetID int64) (out bucket.Unfinished, err error) {
	err = db.read(ctx, "unfinished", func(r *reader) error {
		out = bucket.Unfinished{}
		if out.Epochs, err = r.epochsOf(selectUnfinishedOf, budgetID); err != nil {
			return err
		}
		out.Grants, err = r.pendingGrants(selectPendingGrantsOf, budgetID)
		return err
	})
	if err != nil {
		return bucket.Unfinished{}, err
	}
	return out, nil
}

func (r *reader) pendingGrants(query string, args ...any) ([]bucket.PendingGrant, error) {
	var rows []struct {
		Bucket     int64  `db:"bucket_id"`
		Epoch      int64  `db:"epoch"`
		Number     int64  `db:"number"`
		Amount     int64  `db:"amount"`
		Activation int64  `db:"activation"`
		Instance   string `db:"instance"`
		Lane       int    `db:"lane"`
	}
	if err := r.list(&rows, query, args...); err != nil {
		return nil, err
	}
	out := make([]bucket.PendingGrant, len(rows))
	for i, row := range rows {
		out[i] = bucket.PendingGrant{
			Lane: bucket.Lane{Instance: row.Instance, Index: row.Lane},
			Order: bucket.GrantOrder{
				Ref:    bucket.Ref{Bucket: row.Bucket, Epoch: row.Epoch, Activation: row.Activation},
				Number: row.Number, Amount: row.Amount,
			},
		}
	}
	return out, nil
}

func (r *reader) shrinks(limit int) ([]bucket.Adjustment, error) {
	var rows []struct {
		Budget     int64  `db:"budget_id"`
		RequestID  string `db:"request_id"`
		Quantity   int64  `db:"quantity"`
		DeadlineMS int64  `db:"deadline_ms"`
	}
	if err := r.list(&rows, selectShrinks, limit); err != nil {
		return nil, err
	}
	out := make([]bucket.Adjustment, len(rows))
	for i, row := range rows {
		out[i] = bucket.Adjustment{
			Budget: row.Budget, RequestID: row.RequestID, Quantity: row.Quantity,
			Deadline: fromMS(row.DeadlineMS),
		}
	}
	return out, nil
}

func (r *reader) openRuns(query string, limit int) ([]bucket.OpenRun, error) {
	var rows []struct {
		Budget    int64 `db:"budget_id"`
		Number    int64 `db:"number"`
		CreatedAt int64 `db:"created_at"`
	}
	if err := r.list(&rows, query, limit); err != nil {
		return nil, err
	}
	out := make([]bucket.OpenRun, len(rows))
	for i, row := range rows {
		out[i] = bucket.OpenRun{Budget: row.Budget, Number: row.Number, Since: fromMS(row.CreatedAt)}
	}
	return out, nil
}

const (
	selectRun = `SELECT number, target_bucket, target_epoch, target_activation, units FROM run
		WHERE budget_id = ? AND active = 1`
	takeRunNumber = `UPDATE budget_management_bucket SET next_run = next_run + 1 WHERE id = ?`
	selectNextRun = `SELECT next_run FROM budget_management_bucket WHERE id = ?`
	insertRun     = `INSERT INTO run (budget_id, number, kind, status, active, target_bucket,
		target_epoch, target_activation, units, moved, created_at, ended_at)`
	endRun = `UPDATE run SET status = 'done', active = NULL, moved = ?, ended_at = ?
		WHERE budget_id = ? AND number = ? AND active = 1`
)

// BeginRun starts a run unless one is going on, and returns the one that goes on.
func (db *DB) BeginRun(ctx context.Context, run bucket.Run) (out bucket.Run, err error) {
	err = db.write(ctx, "collect", func(t *tx) error {
		if _, err := t.lockBudget("collect", run.Budget); err != nil {
			return err
		}
		var row struct {
			Number     int64 `db:"number"`
			Bucket     int64 `db:"target_bucket"`
			Epoch      int64 `db:"target_epoch"`
			Activation int64 `db:"target_activation"`
			Units      int64 `db:"units"`
		}
		found, err := t.get(&row, selectRun, run.Budget)
		if err != nil {
			return err
		}
		if found {
			out = bucket.Run{Budget: run.Budget, Number: row.Number, Units: row.Units,
				Target: bucket.Ref{Bucket: row.Bucket, Epoch: row.Epoch, Activation: row.Activation}}
			return nil
		}
		out = run
		if _, err := t.get(&out.Number, selectNextRun, run.Budget); err != nil {
			return err
		}
		if err := t.hit(1, takeRunNumber, run.Budget); err != nil {
			return err
		}
		return t.insert(insertRun, 12, []any{run.Budget, out.Number, "collect", "open", 1,
			run.Target.Bucket, run.Target.Epoch, run.Target.Activation, run.Units, 0, toMS(t.now), 0})
	})
	if err != nil {
		return bucket.Run{}, err
	}
	return out, nil
}

// EndRun ends a run and notes what it moved; ending it twice is harmless. Error: BudgetNotFound.
func (db *DB) EndRun(ctx context.Context, budgetID, number int64, moved int64) error {
	return db.write(ctx, "collect", func(t *tx) error {
		if _, err := t.lockBudget("collect", budgetID); err != nil {
			return err
		}
		_, err := t.exec(endRun, moved, toMS(t.now), budgetID, number)
		return err
	})
}
