package sqlstore

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectAdjustment = `SELECT quantity, nonce, status, deadline_ms FROM adjustment
		WHERE budget_id = ? AND request_id = ? /*locked*/`
	updateAdjustment = `UPDATE adjustment SET quantity = ?, fingerprint = ?, nonce = ?, status = ?,
		deadline_ms = ?, updated_at = ? WHERE budget_id = ? AND request_id = ?`
	adjustTotal = `UPDATE budget_management_bucket SET total_quantity = total_quantity + ?,
		unfunded_quantity = unfunded_quantity + ?, version = version + 1, updated_at = ?
		WHERE id = ? AND unfunded_quantity + ? >= 0`
	addPendingShrink = `UPDATE budget_management_bucket
		SET pending_shrink_quantity = pending_shrink_quantity + ? WHERE id = ?`
	selectUnits = `SELECT COALESCE(SUM(outstanding_quantity + returning_quantity), 0)
		FROM bucket_epoch /*by bucket_epoch_units*/ WHERE budget_id = ? AND has_units = 1`
)

type adjustmentRow struct {
	Quantity   int64  `db:"quantity"`
	Nonce      []byte `db:"nonce"`
	Status     string `db:"status"`
	DeadlineMS int64  `db:"deadline_ms"`
}

// adjusting is one adjustment under its budget's lock.
type adjusting struct {
	t      *tx
	budget *budgetRow
	order  bucket.Adjustment
	// known is the recorded row, nil if there is none.
	known *adjustmentRow
}

// Adjust begins or continues an append or a shrink. See bucket.Adjustments. A shrink may not leave
// less than 1 when all pending ones are done too. Keeps I1, I8.
func (db *DB) Adjust(ctx context.Context, order bucket.Adjustment) (
	state bucket.AdjustmentState, replayed bool, err error) {
	var refusal error // committed with the refused row
	err = db.write(ctx, "adjust", func(t *tx) error {
		refusal = nil
		b, err := t.lockBudget("adjust", order.Budget)
		if err != nil {
			return err
		}
		a := &adjusting{t: t, budget: b, order: order}
		var known adjustmentRow
		found, err := t.get(&known, selectAdjustment, order.Budget, []byte(order.RequestID))
		if err != nil {
			return err
		}
		if found {
			a.known = &known
		}
		state, replayed, err = a.run()
		if err != nil && state == bucket.AdjustmentRefused {
			refusal, err = err, nil
		}
		return err
	})
	if err != nil {
		return "", false, err
	}
	return state, replayed, refusal
}

func (a *adjusting) run() (bucket.AdjustmentState, bool, error) {
	if k := a.known; k != nil && k.Status != string(bucket.AdjustmentRefused) {
		if k.Quantity != a.order.Quantity {
			return "", false, budget.Refuse(budget.RequestConflict, "adjust",
				"adjustment %q was recorded with a quantity of %d", a.order.RequestID, k.Quantity)
		}
		if k.Status == string(bucket.AdjustmentDone) {
			return bucket.AdjustmentDone, !a.order.Began(string(k.Nonce)), nil
		}
		a.order.Deadline, a.order.Nonce = fromMS(k.DeadlineMS), string(k.Nonce)
		state, err := a.shrink(-k.Quantity)
		return state, false, err
	}
	if a.order.Continue {
		return bucket.AdjustmentRefused, false, nil
	}
	if err := a.check(); err != nil {
		return "", false, err
	}
	if a.order.Quantity > 0 {
		return bucket.AdjustmentDone, false, a.settle(0)
	}
	state, err := a.shrink(0)
	return state, false, err
}

// check refuses a quantity that would take the total out of its range, also when all pending
// shrinks are done.
func (a *adjusting) check() error {
	q, total, pending := a.order.Quantity, a.budget.Total, a.budget.PendingShrink
	if q != 0 && q <= budget.MaxAmount-total && total-pending+q >= 1 {
		return nil
	}
	return &budget.Error{Code: budget.Invalid, Op: "adjust", Fields: []budget.FieldError{{
		Field: "quantity",
		Message: fmt.Sprintf("must leave the total of %d, less %d of pending shrinks, within 1 to %d",
			total, pending, budget.MaxAmount),
	}}}
}

// shrink settles, keeps or refuses a shrink, of which own units are counted as pending so far.
func (a *adjusting) shrink(own int64) (bucket.AdjustmentState, error) {
	units := -a.order.Quantity
	if a.budget.Undistributed+a.budget.Unfunded >= units {
		return bucket.AdjustmentDone, a.settle(-own)
	}
	var held int64
	if _, err := a.t.get(&held, selectUnits, a.budget.ID); err != nil {
		return "", err
	}
	available := a.budget.Undistributed + a.budget.Unfunded + held - (a.budget.PendingShrink - own)
	deadline := a.order.Deadline
	if available < units || !deadline.IsZero() && !a.t.now.Before(deadline) {
		if err := a.note(bucket.AdjustmentRefused, -own); err != nil {
			return "", err
		}
		a.budget.PendingShrink -= own
		if err := a.t.topUp(a.budget, a.budget.definition()); err != nil {
			return "", err // an append may have waited for it
		}
		e := budget.Refuse(budget.AmountExceedsRemaining, "adjust",
			"budget %q has %d that can be taken back, %d were asked for", a.budget.Name, available, units)
		e.Available = &available
		return bucket.AdjustmentRefused, e
	}
	if own > 0 {
		return bucket.AdjustmentPending, nil
	}
	return bucket.AdjustmentPending, a.note(bucket.AdjustmentPending, units)
}

// settle changes T and what is pending. An append is for the periods left, the open one too; a shrink
// takes what is not funded first.
func (a *adjusting) settle(pending int64) error {
	q, b := a.order.Quantity, a.budget
	if short := -q - b.Unfunded; short > 0 {
		if err := a.t.takeBack(b, short); err != nil {
			return err
		}
	}
	if err := a.t.hit(1, adjustTotal, q, q, toMS(a.t.now), b.ID, q); err != nil {
		return err
	}
	b.Total, b.Unfunded = b.Total+q, b.Unfunded+q
	if q > 0 {
		if err := a.t.topUp(b, b.definition()); err != nil {
			return err
		}
	}
	return a.note(bucket.AdjustmentDone, pending)
}

// note writes the adjustment's row, and what is pending.
func (a *adjusting) note(state bucket.AdjustmentState, pending int64) error {
	if pending != 0 {
		if err := a.t.hit(1, addPendingShrink, pending, a.budget.ID); err != nil {
			return err
		}
	}
	o, now := a.order, toMS(a.t.now)
	fingerprint := []byte(ledger.Fingerprint(o.Quantity, "", "", ""))
	if a.known == nil {
		return a.t.insert(insertAdjustment, adjustmentWidth, []any{o.Budget, []byte(o.RequestID),
			o.Quantity, fingerprint, []byte(o.Nonce), string(state), toMS(o.Deadline), now, now})
	}
	return a.t.hit(1, updateAdjustment, o.Quantity, fingerprint, []byte(o.Nonce), string(state), toMS(o.Deadline), now,
		o.Budget, []byte(o.RequestID))
}
