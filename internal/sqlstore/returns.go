package sqlstore

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// Rollback moves units of a deduction S -> R. See bucket.Returns. Keeps I1, I5.
func (db *DB) Rollback(ctx context.Context, order bucket.RollbackOrder) (
	d ledger.Deduction, replayed bool, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	err = db.write(ctx, "rollback", func(t *tx) error {
		id := bucket.ID{Budget: order.Budget, RequestID: order.RequestID}
		found, err := t.lockDeduction(id)
		if err != nil {
			return err
		}
		if found == nil {
			if _, err := t.budget("rollback", order.Budget, ""); err != nil {
				return err
			}
			return budget.Refuse(budget.DeductionNotFound, "rollback",
				"request %q has not been deducted", order.RequestID)
		}
		earlier, err := t.rollback(id, order.RollbackID)
		if err != nil {
			return err
		}
		units, replay, err := ledger.DecideRollback(found.deduction, earlier, order.Amount)
		if err != nil {
			return err
		}
		if replay {
			d, replayed = found.deduction, !(t.unsure && tried)
			return nil
		}
		replayed, tried = false, true
		d, err = t.giveBack(found, ledger.Rollback{
			Budget: order.Budget, RequestID: order.RequestID, RollbackID: order.RollbackID,
			Amount: units, Whole: order.Amount == 0,
		})
		return err
	})
	if err != nil {
		return ledger.Deduction{}, false, err
	}
	return d, replayed, nil
}

const insertTombstone = `INSERT INTO deduction (budget_id, request_id, state, amount, rolled_back,
	fingerprint, nonce, counted_at) VALUES (?, ?, 'void', 0, 0, ?, ?, ?)`

// Cancel rolls back what is left of a deduction, or leaves a tombstone. See bucket.Returns. Keeps
// I1, I4, I5.
func (db *DB) Cancel(ctx context.Context, budgetID int64, requestID string) (
	d ledger.Deduction, err error) {
	err = db.write(ctx, "cancel", func(t *tx) error {
		found, err := t.lockDeduction(bucket.ID{Budget: budgetID, RequestID: requestID})
		if err != nil {
			return err
		}
		if found == nil {
			if _, err := t.budget("cancel", budgetID, ""); err != nil {
				return err
			}
		}
		d, err = t.cancel(found, budgetID, requestID)
		return err
	})
	if err != nil {
		return ledger.Deduction{}, err
	}
	return d, nil
}

// cancel gives back what is left of a locked deduction; nil: there is none, so it leaves a tombstone.
func (t *tx) cancel(found *lockedDeduction, budgetID int64, requestID string) (
	ledger.Deduction, error) {
	if found == nil {
		d := ledger.Deduction{
			Budget: budgetID, RequestID: requestID, State: ledger.StateVoid, CountedAt: t.now,
		}
		if safeguard.Off(safeguard.Tombstone) {
			return d, nil
		}
		return d, t.hit(1, insertTombstone, budgetID, []byte(requestID), []byte{}, []byte{}, toMS(t.now))
	}
	d := found.deduction
	left := d.Amount - d.RolledBack
	if left == 0 {
		return d, nil
	}
	return t.giveBack(found, ledger.Rollback{
		Budget: budgetID, RequestID: requestID, RollbackID: ledger.CancelID, Amount: left, Whole: true,
	})
}

// lockedDeduction is a locked deduction with its own epoch and its bucket's newest, locked too.
type lockedDeduction struct {
	deduction   ledger.Deduction
	own, newest *epochRow
	// periodEndMS is the end of the period in which it was used; 0: none.
	periodEndMS int64
}

// selectWithNewest reads a deduction and the number of its bucket's newest epoch.
const selectWithNewest = `SELECT ` + deductionColumns + `,
	(SELECT MAX(n.epoch) FROM bucket_epoch n WHERE n.bucket_id = d.bucket_id) AS newest,
	(SELECT p.end_ms FROM bucket_epoch o JOIN budget_period p ON p.budget_id = o.budget_id AND p.number = o.period
		WHERE o.bucket_id = d.bucket_id AND o.epoch = d.epoch) AS period_end
	FROM deduction d /*by PRIMARY*/ WHERE d.budget_id = ? AND d.request_id = ?`

type deductionWithNewest struct {
	deductionRow
	Newest    *int64 `db:"newest"`
	PeriodEnd *int64 `db:"period_end"`
}

// lockDeduction locks what a rollback changes, in the order epochs, deduction. nil when there is no
// such deduction. Where its bucket got another epoch meanwhile, the transaction is done again.
func (t *tx) lockDeduction(id bucket.ID) (*lockedDeduction, error) {
	var before, after deductionWithNewest
	key := []any{id.Budget, []byte(id.RequestID)}
	found, err := t.get(&before, selectWithNewest, key...)
	if err != nil || !found {
		return nil, err
	}
	d := before.deduction()
	if d.State == ledger.StateVoid {
		return &lockedDeduction{deduction: d}, nil // it stays what it is
	}
	own := position{d.Position.Bucket, d.Position.Epoch}
	newest := position{own.bucket, orZero(before.Newest)}
	rows, err := t.lockEpochs(own, newest)
	if err != nil {
		return nil, err
	}
	if found, err = t.get(&after, selectWithNewest+locked, key...); err != nil {
		return nil, err
	}
	out := &lockedDeduction{deduction: after.deduction(), own: rows[own], newest: rows[newest],
		periodEndMS: orZero(after.PeriodEnd)}
	switch {
	case !found || out.own == nil || out.newest == nil || out.deduction.Position != d.Position:
		return nil, defect("the deduction %q of budget %d or its epoch is gone", id.RequestID, id.Budget)
	case orZero(after.Newest) != newest.epoch:
		return nil, errAgain // made before the lock: whoever makes the next one locks this one first
	}
	return out, nil
}

const selectRollback = `SELECT amount, is_whole, entry FROM rollback_log
	WHERE budget_id = ? AND request_id = ? AND rollback_id = ?`

// rollback reads a recorded rollback, nil if there is none.
func (t *tx) rollback(id bucket.ID, rollbackID string) (*ledger.Rollback, error) {
	var row struct {
		Amount  int64  `db:"amount"`
		IsWhole int64  `db:"is_whole"`
		Entry   *int64 `db:"entry"`
	}
	found, err := t.get(&row, selectRollback, id.Budget, []byte(id.RequestID), []byte(rollbackID))
	if err != nil || !found {
		return nil, err
	}
	return &ledger.Rollback{
		Budget: id.Budget, RequestID: id.RequestID, RollbackID: rollbackID, Amount: row.Amount,
		Whole: row.IsWhole == 1, Entry: orZero(row.Entry),
	}, nil
}

const (
	insertRollback = `INSERT INTO rollback_log (budget_id, request_id, rollback_id, amount, is_whole,
		bucket_id, epoch, entry, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	updateRolledBack = `UPDATE deduction SET rolled_back = ?, state = ?
		WHERE budget_id = ? AND request_id = ? AND rolled_back = ?`
	moveToReturning = `UPDATE bucket_epoch SET held_quantity = held_quantity - ?,
		used_quantity = used_quantity - ?, returning_quantity = returning_quantity + ?,
		late_quantity = late_quantity + ?
		WHERE bucket_id = ? AND epoch = ? AND held_quantity >= ? AND used_quantity >= ?`
	takeEntry = `UPDATE bucket_epoch SET next_entry = next_entry + 1
		WHERE bucket_id = ? AND epoch = ? AND next_entry = ?`
)

// giveBack writes a rollback that was decided, and lowers what it counted in.
func (t *tx) giveBack(l *lockedDeduction, r ledger.Rollback) (ledger.Deduction, error) {
	after, err := t.writeRollback(l, r)
	if err != nil {
		return after, err
	}
	return after, t.returnCounts(countsBack{l.deduction, after.RolledBack, l.newest.LimitsVersion})
}

// writeRollback is giveBack without the limits.
func (t *tx) writeRollback(l *lockedDeduction, r ledger.Rollback) (ledger.Deduction, error) {
	before := l.deduction
	after := ledger.AfterRollback(before, r.Amount)
	whole := 0
	if r.Whole {
		whole = 1
	}
	late := l.late(t.now, r.Amount)
	held, used := int64(0), r.Amount
	if before.State == ledger.StateHeld {
		held, used = r.Amount, 0
	}
	r.Entry = l.newest.NextEntry
	err := t.hit(1, insertRollback, r.Budget, []byte(r.RequestID), []byte(r.RollbackID), r.Amount,
		whole, before.Position.Bucket, before.Position.Epoch, r.Entry, toMS(t.now))
	if err != nil {
		return before, err
	}
	err = t.hit(1, updateRolledBack, after.RolledBack, string(after.State), r.Budget,
		[]byte(r.RequestID), before.RolledBack)
	if err != nil {
		return before, err
	}
	if before.State == ledger.StateHeld && after.State != ledger.StateHeld {
		if err := t.endOpenHolds(r.Budget, []byte(r.RequestID)); err != nil {
			return before, err
		}
	}
	err = t.hit(1, moveToReturning, held, used, r.Amount, late, l.own.Bucket, l.own.Number, held, used)
	if err != nil {
		return before, err
	}
	if err := t.hit(1, takeEntry, l.newest.Bucket, l.newest.Number, r.Entry); err != nil {
		return before, err
	}
	l.newest.NextEntry++
	return after, nil
}

// late is the part of units given back now that comes after the end of the deduction's period: all or
// nothing.
func (l *lockedDeduction) late(now time.Time, units int64) int64 {
	if l.periodEndMS != 0 && toMS(now) >= l.periodEndMS {
		return units
	}
	return 0
}

const (
	selectReturning = `SELECT e.bucket_id, e.epoch FROM bucket_epoch e
		WHERE e.budget_id = ? AND e.has_returns = 1` + inKeyOrder + ` LIMIT ?`
	sweepEpochs = `UPDATE bucket_epoch /*by PRIMARY*/
		SET swept_quantity = swept_quantity + returning_quantity, returning_quantity = 0,
		late_quantity = 0 WHERE `
	sweepWhere = `(bucket_id = ? AND epoch = ? AND returning_quantity = ?)`
)

// Sweep moves all R of a budget to U, in transactions of at most listChunk epochs. See bucket.Returns.
func (db *DB) Sweep(ctx context.Context, budgetID int64) (moved int64, err error) {
	for range sweepRounds {
		units, more, err := db.sweepSome(ctx, budgetID)
		moved += units
		if err != nil || !more {
			return moved, err
		}
	}
	return moved, nil // the rest is found again, as what comes meanwhile
}

// sweepRounds bounds the transactions of one Sweep.
const sweepRounds = 100

func (db *DB) sweepSome(ctx context.Context, budgetID int64) (moved int64, more bool, err error) {
	err = db.write(ctx, "sweep", func(t *tx) error {
		moved = 0
		b, err := t.lockBudget("sweep", budgetID)
		if err != nil {
			return err
		}
		var positions []position
		// The rows are found without locks and then locked by primary key, as every commit does.
		if err := t.listPositions(&positions, selectReturning, budgetID, listChunk); err != nil {
			return err
		}
		more = len(positions) == listChunk
		rows, err := t.lockEpochs(positions...)
		if err != nil {
			return err
		}
		var swept []any
		var back []coming
		for _, p := range positions {
			row := rows[p]
			if row == nil || row.Returning == 0 || row.Late > 0 && t.waits(b, row) {
				continue
			}
			swept = append(swept, p.bucket, p.epoch, row.Returning)
			moved += row.Returning
			back = append(back, coming{row: row, never: row.Returning - row.Late, late: row.Late})
		}
		if err := t.hitAll(sweepEpochs, nil, sweepWhere, swept); err != nil {
			return err
		}
		return t.comeBack(b, back...)
	})
	if err != nil {
		return 0, false, err
	}
	return moved, more, nil
}

// waits reports whether units that came back late wait for a roll-over: one that is due, as they are not for the
// period that it ends; or the one that ends their own period, which is over by the clock of whoever gave them back. A
// period whose end has moved on since ends too late for that: a rollback beside the change does not see the new end.
func (t *tx) waits(b *budgetRow, row *epochRow) bool {
	if b.due(t.now) {
		return true
	}
	soon := toMS(t.now.Add(2 * t.db.tolerance)) // as far as the clocks of two nodes may be apart
	return row.Period == b.Period && b.IsOver == 0 && b.PeriodEndMS != 0 && b.PeriodEndMS <= soon
}

const addUndistributed = `UPDATE budget_management_bucket
	SET undistributed_quantity = undistributed_quantity + ?, out_quantity = out_quantity - ?
	WHERE id = ? AND undistributed_quantity + ? >= 0`

// addUndistributed moves units into U, out of it where they are negative. The budget is locked.
func (t *tx) addUndistributed(budgetID, units int64) error {
	if units == 0 {
		return nil
	}
	return t.hit(1, addUndistributed, units, units, budgetID, units)
}
