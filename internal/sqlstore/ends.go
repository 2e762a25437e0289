package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// lockWithBudgets locks epochs whose budgets the caller does not name: it looks for them, locks the
// budgets in the order of their ids, then the epochs. An epoch that does not exist is missing.
func (t *tx) lockWithBudgets(op string, refs []bucket.Ref) (map[position]*epochRow, map[int64]*budgetRow, error) {
	positions := make([]position, len(refs))
	for i, ref := range refs {
		positions[i] = at(ref)
	}
	found, err := t.readEpochs(positions, "")
	if err != nil || len(found) == 0 {
		return nil, nil, err
	}
	ids := map[int64]bool{}
	for _, row := range found {
		ids[row.Budget] = true
	}
	budgets, err := t.lockBudgets(slices.Collect(maps.Keys(ids)))
	if err != nil {
		return nil, nil, err
	}
	rows, err := t.lockEpochs(positions...)
	return rows, budgets, err
}

const (
	selectBudgets = `SELECT ` + budgetColumns + `
		FROM budget_management_bucket /*by PRIMARY*/ WHERE id IN (`
	changeLists = `UPDATE budget_management_bucket /*by PRIMARY*/ SET list_version = list_version + $value
		WHERE `
	addToU = `UPDATE budget_management_bucket /*by PRIMARY*/ SET
		undistributed_quantity = undistributed_quantity + $value, out_quantity = out_quantity - $value
		WHERE `
	addToUWhere = `id = ? AND undistributed_quantity + ? >= 0`
)

// lockBudgets locks rows of budgets in the order of their ids; one that does not exist is missing.
func (t *tx) lockBudgets(ids []int64) (map[int64]*budgetRow, error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	out := make(map[int64]*budgetRow, len(ids))
	for chunk := range slices.Chunk(slices.Compact(ids), listChunk) {
		args := t.numbersOf(chunk)
		var rows []budgetRow
		query := selectBudgets + repeat("?", ",", len(args)) + `) ORDER BY id` + locked
		if err := t.list(&rows, query, args...); err != nil {
			return nil, err
		}
		for i := range rows {
			out[rows[i].ID] = &rows[i]
		}
	}
	return out, nil
}

// listsChanged is listChanged for several budgets, which are locked.
func (t *tx) listsChanged(changes map[int64]int) error {
	rows := make([]rowChange, 0, len(changes))
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		rows = append(rows, rowChange{key: []any{id}, values: []any{changes[id]}, where: []any{id}})
	}
	return t.changeRows(changeLists, `id = ?`, `id = ?`, rows)
}

// addUndistributedAll is addUndistributed for several budgets, which are locked.
func (t *tx) addUndistributedAll(units map[int64]int64) error {
	rows := make([]rowChange, 0, len(units))
	for _, id := range slices.Sorted(maps.Keys(units)) {
		if n := units[id]; n != 0 {
			rows = append(rows, rowChange{key: []any{id}, values: []any{n, n}, where: []any{id, n}})
		}
	}
	return t.changeRows(addToU, `id = ?`, addToUWhere, rows)
}

const (
	selectMissing = `SELECT COALESCE(SUM(amount), 0) FROM grant_log
		WHERE bucket_id = ? AND epoch = ? AND number > ? AND status = 'pending'`
	voidGrants = `UPDATE grant_log /*by PRIMARY*/ SET status = 'void' WHERE `
	voidWhere  = `(bucket_id = ? AND epoch = ? AND status = 'pending')`
	endEpochs  = `UPDATE bucket_epoch /*by PRIMARY*/ SET status = ?,
		closed_quantity = closed_quantity + outstanding_quantity, outstanding_quantity = 0 WHERE `
	endWhere = `(bucket_id = ? AND epoch = ? AND outstanding_quantity = ?
		AND status IN ('opening', 'open', 'closing'))`
	resetCounts = `UPDATE sharding_budget_management_bucket /*by PRIMARY*/ SET out_cnt = 0,
		is_idle = CASE WHEN status = 'online' THEN 1 ELSE 0 END WHERE `
	resetWhere      = `(id = ? AND epoch = ?)`
	selectCollected = `SELECT g.bucket_id, g.epoch, e.activation, g.number, g.amount FROM grant_log g
		JOIN bucket_epoch e ON e.bucket_id = g.bucket_id AND e.epoch = g.epoch WHERE g.request_key = ?`
)

// CloseEpoch ends a closing epoch by its close entry. See bucket.Transfers. Keeps I1.
func (db *DB) CloseEpoch(ctx context.Context, budgetID int64, ref bucket.Ref, close ledger.Entry,
	target *bucket.Target) (order *bucket.GrantOrder, err error) {
	tried := false // an earlier attempt closed it, committed or not
	err = db.write(ctx, "close", func(t *tx) error {
		order = nil
		b, err := t.lockBudget("close", budgetID)
		if err != nil {
			return err
		}
		positions := []position{at(ref)}
		if target != nil {
			positions = append(positions, at(target.Ref))
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
		to, atMost := (*epochRow)(nil), int64(0)
		if target != nil {
			to, atMost = rows[at(target.Ref)], target.AtMost
		}
		order, err = t.closeInto(b, row, close, to, atMost)
		tried = err == nil
		return err
	})
	if err != nil {
		return nil, err
	}
	return order, nil
}

// closeInto ends an epoch and moves its units, or atMost of them if that is set, into another one of its
// period, and back what that cannot take.
func (t *tx) closeInto(b *budgetRow, row *epochRow, close ledger.Entry, to *epochRow, atMost int64) (
	*bucket.GrantOrder, error) {
	var missing int64
	if _, err := t.get(&missing, selectMissing, row.Bucket, row.Number, close.Number); err != nil {
		return nil, err
	}
	units, err := ledger.CloseAmount(row.epoch(), close, missing)
	if err != nil {
		return nil, err
	}
	if err := t.end(ledger.Closed, row); err != nil {
		return nil, err
	}
	if to == nil || to.Budget != row.Budget || to.Period != row.Period || to.Period != b.Period || !to.mayGrow() || units == 0 ||
		safeguard.Off(safeguard.CollectAtOnce) {
		return nil, t.comeBack(b, coming{row: row, never: units})
	}
	part := units
	if atMost > 0 {
		part = min(part, atMost)
	}
	orders, err := t.grant(0, granting{to, part, collectKey(row)})
	if err != nil {
		return nil, err
	}
	return &orders[0], t.comeBack(b, coming{row: row, never: units - part})
}

// end moves locked epochs to a final status and takes their units out of O; the caller puts them
// somewhere. Grants that no log showed are void; a bucket's next epoch counts its applications anew.
func (t *tx) end(status ledger.Status, rows ...*epochRow) error {
	var keys, ends []any
	changes := map[int64]int{}
	for _, row := range rows {
		keys = append(keys, row.Bucket, row.Number)
		ends = append(ends, row.Bucket, row.Number, row.Outstanding)
		changes[row.Budget]++
	}
	if err := t.execAll(voidGrants, voidWhere, keys); err != nil {
		return err
	}
	if err := t.hitAll(endEpochs, []any{string(status)}, endWhere, ends); err != nil {
		return err
	}
	if err := t.execAll(resetCounts, resetWhere, keys); err != nil {
		return err
	}
	return t.listsChanged(changes)
}

// execAll is hitAll for rows that need not match.
func (t *tx) execAll(update, where string, keys []any) error {
	columns := strings.Count(where, "?")
	for chunk := range slices.Chunk(keys, columns*t.conn.dialect.updateRows) {
		if _, err := t.exec(update+repeat(where, " OR ", len(chunk)/columns), chunk...); err != nil {
			return err
		}
	}
	return nil
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
func (db *DB) Lose(ctx context.Context, ref bucket.Ref) (bool, error) {
	lost, err := db.LoseAll(ctx, []bucket.Ref{ref})
	return len(lost) > 0, err
}

// LoseAll is Lose for many epochs in one transaction. See bucket.Transfers. Keeps I1.
func (db *DB) LoseAll(ctx context.Context, refs []bucket.Ref) (lost []bucket.Ref, err error) {
	if len(refs) == 0 {
		return nil, nil
	}
	tried := map[position]bool{} // an earlier attempt lost them, committed or not
	err = db.write(ctx, "lose", func(t *tx) error {
		lost = nil
		rows, budgets, err := t.lockWithBudgets("lose", refs)
		if err != nil {
			return err
		}
		var live []*epochRow
		units, older := map[int64]int64{}, map[int64][]coming{}
		for _, p := range slices.SortedFunc(maps.Keys(rows), comparePositions) {
			switch row := rows[p]; {
			case row.live():
				live = append(live, row)
				if b := budgets[row.Budget]; row.Period == b.Period && b.IsOver == 0 {
					units[row.Budget] += row.Outstanding
				} else {
					older[row.Budget] = append(older[row.Budget], coming{row: row, never: row.Outstanding})
				}
			case !t.unsure || !tried[p] || row.Status != string(ledger.Lost):
				continue
			}
			tried[p] = true
			lost = append(lost, rows[p].ref())
		}
		if err := t.end(ledger.Lost, live...); err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(older)) {
			if err := t.comeBack(budgets[id], older[id]...); err != nil {
				return err
			}
		}
		return t.addUndistributedAll(units)
	})
	if err != nil {
		return nil, err
	}
	return lost, nil
}
