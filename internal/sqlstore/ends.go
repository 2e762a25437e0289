package sqlstore

import (
	"context"
	"maps"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// lockWithBudgets locks epochs whose budgets the caller does not name: it looks for them, locks the
// budgets in the order of their ids, then the epochs. An epoch that does not exist is missing.
func (t *tx) lockWithBudgets(op string, refs []bucket.Ref) (map[position]*epochRow, error) {
	positions := make([]position, len(refs))
	for i, ref := range refs {
		positions[i] = at(ref)
	}
	found, err := t.readEpochs(positions, "")
	if err != nil || len(found) == 0 {
		return nil, err
	}
	budgets := map[int64]bool{}
	for _, row := range found {
		budgets[row.Budget] = true
	}
	for _, id := range slices.Sorted(maps.Keys(budgets)) {
		if _, err := t.lockBudget(op, id); err != nil {
			return nil, err
		}
	}
	return t.lockEpochs(positions...)
}

// listsChanged is listChanged for several budgets, which are locked.
func (t *tx) listsChanged(changes map[int64]int) error {
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		if err := t.listChanged(id, changes[id]); err != nil {
			return err
		}
	}
	return nil
}

const (
	selectMissing = `SELECT COALESCE(SUM(amount), 0) FROM grant_log
		WHERE bucket_id = ? AND epoch = ? AND number > ? AND status = 'pending'`
	voidGrants = `UPDATE grant_log /*by PRIMARY*/ SET status = 'void'
		WHERE bucket_id = ? AND epoch = ? AND status = 'pending'`
	endEpoch = `UPDATE bucket_epoch SET status = ?,
		closed_quantity = closed_quantity + outstanding_quantity, outstanding_quantity = 0
		WHERE bucket_id = ? AND epoch = ? AND outstanding_quantity = ?
		AND status IN ('opening', 'open', 'closing')`
	resetCount = `UPDATE sharding_budget_management_bucket SET out_cnt = 0,
		is_idle = CASE WHEN status = 'online' THEN 1 ELSE 0 END WHERE id = ? AND epoch = ?`
	selectCollected = `SELECT g.bucket_id, g.epoch, e.activation, g.number, g.amount FROM grant_log g
		JOIN bucket_epoch e ON e.bucket_id = g.bucket_id AND e.epoch = g.epoch WHERE g.request_key = ?`
)

// CloseEpoch ends a closing epoch by its close entry. See bucket.Transfers. Keeps I1.
func (db *DB) CloseEpoch(ctx context.Context, budgetID int64, ref bucket.Ref, close ledger.Entry,
	target *bucket.Ref) (order *bucket.GrantOrder, err error) {
	tried := false // an earlier attempt closed it, committed or not
	err = db.write(ctx, "close", func(t *tx) error {
		order = nil
		if _, err := t.lockBudget("close", budgetID); err != nil {
			return err
		}
		positions := []position{at(ref)}
		if target != nil {
			positions = append(positions, at(*target))
		}
		rows, err := t.lockEpochs(positions...)
		if err != nil {
			return err
		}
		row := rows[at(ref)]
		if row == nil || row.Budget != budgetID {
			return ledger.ErrEnded
		}
		if t.unsure && tried && row.Status == string(ledger.Closed) {
			order, err = t.collected(row)
			return err
		}
		var to *epochRow
		if target != nil {
			to = rows[at(*target)]
		}
		order, err = t.closeInto(row, close, to)
		tried = err == nil
		return err
	})
	if err != nil {
		return nil, err
	}
	return order, nil
}

// closeInto ends an epoch and moves its units into another one, or to U where that cannot take
// them.
func (t *tx) closeInto(row *epochRow, close ledger.Entry, to *epochRow) (
	*bucket.GrantOrder, error) {
	var missing int64
	if _, err := t.get(&missing, selectMissing, row.Bucket, row.Number, close.Number); err != nil {
		return nil, err
	}
	units, err := ledger.CloseAmount(row.epoch(), close, missing)
	if err != nil {
		return nil, err
	}
	if err := t.end(row, ledger.Closed); err != nil {
		return nil, err
	}
	if to == nil || to.Budget != row.Budget || !to.mayGrow() || units == 0 {
		return nil, t.addUndistributed(row.Budget, units)
	}
	orders, err := t.grant(0, granting{to, units, collectKey(row)})
	if err != nil {
		return nil, err
	}
	return &orders[0], nil
}

// end moves a locked epoch to a final status and takes its units out of O; the caller puts them
// somewhere. Grants that no log showed are void; the bucket's next epoch counts its applications anew.
func (t *tx) end(row *epochRow, status ledger.Status) error {
	if _, err := t.exec(voidGrants, row.Bucket, row.Number); err != nil {
		return err
	}
	if err := t.hit(1, endEpoch, string(status), row.Bucket, row.Number, row.Outstanding); err != nil {
		return err
	}
	if _, err := t.exec(resetCount, row.Bucket, row.Number); err != nil {
		return err
	}
	return t.listChanged(row.Budget, 1)
}

// collected reads the grant that the end of an epoch became, nil if its units went to U.
func (t *tx) collected(donor *epochRow) (*bucket.GrantOrder, error) {
	var row struct {
		Bucket     int64 `db:"bucket_id"`
		Epoch      int64 `db:"epoch"`
		Activation int64 `db:"activation"`
		Number     int64 `db:"number"`
		Amount     int64 `db:"amount"`
	}
	found, err := t.get(&row, selectCollected, collectKey(donor))
	if err != nil || !found {
		return nil, err
	}
	return &bucket.GrantOrder{
		Ref:    bucket.Ref{Bucket: row.Bucket, Epoch: row.Epoch, Activation: row.Activation},
		Number: row.Number, Amount: row.Amount,
	}, nil
}

// Lose ends a live epoch of which nothing can be committed any more; its units go to U. The bucket
// stays in the bucket list if it is there: it is about to get a new epoch. Keeps I1.
func (db *DB) Lose(ctx context.Context, ref bucket.Ref) (lost bool, err error) {
	tried := false // an earlier attempt lost it, committed or not
	err = db.write(ctx, "lose", func(t *tx) error {
		lost = false
		rows, err := t.lockWithBudgets("lose", []bucket.Ref{ref})
		if err != nil {
			return err
		}
		row := rows[at(ref)]
		if row == nil || !row.live() {
			lost = row != nil && t.unsure && tried && row.Status == string(ledger.Lost)
			return nil
		}
		lost, tried = true, true
		if err := t.end(row, ledger.Lost); err != nil {
			return err
		}
		return t.addUndistributed(row.Budget, row.Outstanding)
	})
	return lost && err == nil, err
}
