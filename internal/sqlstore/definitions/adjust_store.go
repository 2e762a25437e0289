package definitions

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
)

const (
	selectUnits = `SELECT COALESCE(SUM(outstanding_quantity + returning_quantity), 0)
		FROM bucket_epoch /*by bucket_epoch_units*/ WHERE budget_id = ? AND has_units = 1`
	selectShrinks = `SELECT budget_id, request_id, quantity, nonce, deadline_ms
		FROM adjustment /*by adjustment_status*/ WHERE status = 'pending'
		ORDER BY budget_id, request_id LIMIT ?`
)

// shrinkInStores completes, keeps or refuses a shrink in store mode. own is how many of its units
// are counted as pending so far. Only stores know what their buckets still hold, so O in SQL is an
// upper bound: a shrink that it covers stays pending and may be refused later.
func (a *adjusting) shrinkInStores(own int64) (out manage.Adjusted, err error) {
	b, units := a.budget, -a.order.Quantity
	if b.Undistributed+b.Unfunded >= units {
		if err := a.takeTotal(); err != nil {
			return out, err
		}
		return manage.Adjusted{State: bucket.AdjustmentDone}, a.note(bucket.AdjustmentDone, -own)
	}
	var held int64
	if _, err := a.t.Get(&held, selectUnits, b.ID); err != nil {
		return out, err
	}
	available := b.Undistributed + b.Unfunded + held - (b.PendingShrink - own)
	deadline := a.order.Deadline
	if available < units || !deadline.IsZero() && !a.t.Now.Before(deadline) {
		if err := a.note(bucket.AdjustmentRefused, -own); err != nil {
			return out, err
		}
		if err := moves.TopUp(a.t, b, b.Definition()); err != nil {
			return out, err // an append may have waited for this shrink
		}
		return manage.Adjusted{State: bucket.AdjustmentRefused}, tooMuch(b, available, units)
	}
	if own > 0 {
		return manage.Adjusted{State: bucket.AdjustmentPending}, nil
	}
	return manage.Adjusted{State: bucket.AdjustmentPending}, a.note(bucket.AdjustmentPending, units)
}

// Shrinks lists pending shrinks, for Adjust with Continue.
func (p *Part) Shrinks(ctx context.Context, limit int) (out []manage.Adjustment, err error) {
	err = p.db.Read(ctx, "shrinks", func(r *engine.Reader) error {
		out = nil
		var read []struct {
			Budget     int64  `db:"budget_id"`
			RequestID  []byte `db:"request_id"`
			Quantity   int64  `db:"quantity"`
			Nonce      []byte `db:"nonce"`
			DeadlineMS int64  `db:"deadline_ms"`
		}
		if err := r.List(&read, selectShrinks, limit); err != nil {
			return err
		}
		for _, row := range read {
			out = append(out, manage.Adjustment{Budget: row.Budget, RequestID: string(row.RequestID),
				Nonce: string(row.Nonce), Quantity: row.Quantity,
				Deadline: engine.FromMS(row.DeadlineMS), Continue: true})
		}
		return nil
	})
	return out, err
}
