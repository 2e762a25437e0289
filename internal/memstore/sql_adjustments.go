package memstore

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

type adjusted struct {
	state    bucket.AdjustmentState
	replayed bool
}

// Adjust begins or continues an append or a shrink. See bucket.Adjustments.
func (s *SQL) Adjust(ctx context.Context, adjustment bucket.Adjustment) (
	bucket.AdjustmentState, bool, error) {
	adjustment.Deadline = toMillisecond(adjustment.Deadline)
	r, err := transact(ctx, s, "Adjust", func(now time.Time) (adjusted, error) {
		b, err := s.find(adjustment.Budget)
		if err != nil {
			return adjusted{}, err
		}
		defer s.verify(b)
		row := b.adjustments[adjustment.RequestID]
		switch {
		case adjustment.Continue && (row == nil || row.state == bucket.AdjustmentRefused):
			return adjusted{state: bucket.AdjustmentRefused}, nil
		case row == nil || row.state == bucket.AdjustmentRefused:
			return b.adjust(adjustment, now)
		case row.Quantity != adjustment.Quantity:
			return adjusted{}, budget.Refuse(budget.RequestConflict, "adjust",
				"adjustment %q was recorded with a quantity of %d", row.RequestID, row.Quantity)
		case row.state == bucket.AdjustmentDone:
			return adjusted{bucket.AdjustmentDone, !adjustment.Began(row.Nonce)}, nil
		}
		b.pendingShrink += row.Quantity
		return b.shrink(row, now)
	})
	return r.state, r.replayed, err
}

// adjust begins an adjustment. The total must stay at least 1 when all pending shrinks are done,
// too.
func (b *sqlBudget) adjust(a bucket.Adjustment, now time.Time) (adjusted, error) {
	total := b.definition.TotalQuantity
	if a.Quantity == 0 || a.Quantity > budget.MaxAmount-total || total-b.pendingShrink+a.Quantity < 1 {
		return adjusted{}, &budget.Error{Code: budget.Invalid, Op: "adjust", Fields: []budget.FieldError{{
			Field: "quantity",
			Message: fmt.Sprintf("must leave the total of %d, less %d of pending shrinks, within 1 to %d",
				total, b.pendingShrink, budget.MaxAmount),
		}}}
	}
	row := &sqlAdjustment{Adjustment: a}
	b.adjustments[a.RequestID] = row
	if a.Quantity > 0 {
		return b.settle(row, now)
	}
	return b.shrink(row, now)
}

// shrink settles, keeps or refuses a shrink that is not counted among the pending ones.
func (b *sqlBudget) shrink(row *sqlAdjustment, now time.Time) (adjusted, error) {
	units, f := -row.Quantity, b.figures()
	if b.undistributed+b.unfunded >= units {
		return b.settle(row, now)
	}
	available := f.Undistributed + f.Unfunded + f.Remaining + f.Unsettled + f.Returning - b.pendingShrink
	if available < units || !row.Deadline.IsZero() && !now.Before(row.Deadline) {
		row.state = bucket.AdjustmentRefused
		b.topUp(now) // an append may have waited for it
		e := budget.Refuse(budget.AmountExceedsRemaining, "adjust",
			"%d cannot be taken out of budget %q", units, b.definition.Name)
		e.Available = &available
		return adjusted{state: bucket.AdjustmentRefused}, e
	}
	row.state = bucket.AdjustmentPending
	b.pendingShrink += units
	return adjusted{state: bucket.AdjustmentPending}, nil
}

// settle changes T and U.
func (b *sqlBudget) settle(row *sqlAdjustment, now time.Time) (adjusted, error) {
	row.state = bucket.AdjustmentDone
	if short := -row.Quantity - b.unfunded; short > 0 {
		b.takeBack(short)
	}
	b.unfunded += row.Quantity
	b.definition.TotalQuantity += row.Quantity
	if row.Quantity > 0 {
		b.topUp(now)
	}
	b.definition.Version++
	b.definition.UpdatedAt = now
	return adjusted{state: bucket.AdjustmentDone}, nil
}
