package definitions

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/trail"
)

const (
	insertAdjustment = `INSERT INTO adjustment (budget_id, request_id, quantity, fingerprint, nonce,
		status, deadline_ms, created_at, updated_at)`
	adjustmentWidth = 9 // the number of columns
)

const (
	selectAdjustment = `SELECT quantity, nonce, status, deadline_ms FROM adjustment
		WHERE budget_id = ? AND request_id = ? /*locked*/`
	updateAdjustment = `UPDATE adjustment SET quantity = ?, fingerprint = ?, nonce = ?, status = ?,
		deadline_ms = ?, updated_at = ? WHERE budget_id = ? AND request_id = ?`
	adjustTotal = `UPDATE budget_management_bucket SET total_quantity = total_quantity + ?,
		unfunded_quantity = unfunded_quantity + ?, version = version + 1, updated_at = ?
		WHERE id = ? AND unfunded_quantity + ? >= 0`
	selectWithUnits = `SELECT e.bucket_id, e.epoch FROM bucket_epoch e /*by bucket_epoch_units*/
		WHERE e.budget_id = ? AND e.has_units = 1 ORDER BY e.bucket_id, e.epoch`
)

type adjustmentRow struct {
	Quantity   int64  `db:"quantity"`
	Nonce      []byte `db:"nonce"`
	Status     string `db:"status"`
	DeadlineMS int64  `db:"deadline_ms"`
}

// adjusting is an adjustment whose budget is locked.
type adjusting struct {
	t      *engine.Tx
	budget *rows.Budget
	order  manage.Adjustment
	// known is the recorded row, or nil.
	known *adjustmentRow
}

// Adjust appends units to a budget, or shrinks it, once per request id.
//
// An append raises T and F, tops up the open period, and hands out what the period got, in one
// transaction.
//
// A shrink takes units from F first, then from U, then from R and the O of as few buckets as
// needed, the fullest first. In ledger mode that is one transaction. In store mode a shrink that U
// and F do not cover is recorded as pending, and buckets may no longer apply for its units. A later
// call with Continue completes it when closed epochs have brought enough units, or refuses it at
// its deadline.
//
// Errors: BudgetNotFound; RequestConflict if the id has another quantity; Invalid if the total
// would leave 1 … budget.MaxAmount, or the budget is unlimited; AmountExceedsRemaining, with the
// units that can be taken back, if used and held units do not allow it; Unavailable;
// OutcomeUnknown. A refused id may be used again. Keeps I1, I2.
func (p *Part) Adjust(ctx context.Context, order manage.Adjustment) (
	out manage.Adjusted, err error) {
	var refusal error // committed with the refused row (store mode)
	err = p.db.Write(ctx, "adjust", func(t *engine.Tx) error {
		out, refusal = manage.Adjusted{}, nil
		b, err := rows.LockBudget(t, "adjust", order.Budget)
		if err != nil {
			return err
		}
		a := &adjusting{t: t, budget: b, order: order}
		var known adjustmentRow
		found, err := t.Get(&known, selectAdjustment, order.Budget, []byte(order.RequestID))
		if err != nil {
			return err
		}
		if found {
			a.known = &known
		}
		was := b.Total
		out, err = a.run()
		trail.FromContext(ctx).Change(b.Tenant, b.Name, totalOf(was), totalOf(b.Total))
		if err != nil && out.State == bucket.AdjustmentRefused {
			refusal, err = err, nil
		}
		return err
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return manage.Adjusted{}, err
	}
	return out, nil
}

// totalOf encodes the total of an adjusted budget for the audit log.
func totalOf(units int64) []byte { return fmt.Appendf(nil, `{"total_quantity":%d}`, units) }

func (a *adjusting) run() (manage.Adjusted, error) {
	if k := a.known; k != nil && k.Status != string(bucket.AdjustmentRefused) {
		if k.Quantity != a.order.Quantity {
			return manage.Adjusted{}, budget.Refuse(budget.RequestConflict, "adjust",
				"adjustment %q was recorded with a quantity of %d", a.order.RequestID, k.Quantity)
		}
		if k.Status == string(bucket.AdjustmentDone) {
			own := a.order.Nonce != "" && a.order.Nonce == string(k.Nonce)
			return manage.Adjusted{State: bucket.AdjustmentDone, Replayed: !own}, nil
		}
		a.order.Deadline, a.order.Nonce = engine.FromMS(k.DeadlineMS), string(k.Nonce)
		return a.shrinkInStores(-k.Quantity)
	}
	if a.order.Continue {
		return manage.Adjusted{State: bucket.AdjustmentRefused}, nil
	}
	if err := a.check(); err != nil {
		return manage.Adjusted{}, err
	}
	switch {
	case a.order.Quantity > 0:
		return a.append()
	case a.budget.Durability == string(budget.Store):
		return a.shrinkInStores(0)
	}
	return a.shrink()
}

// check refuses an adjustment of an unlimited budget, and one after which the total would be out of
// range, now or once all pending shrinks are done.
func (a *adjusting) check() error {
	q, total, pending := a.order.Quantity, a.budget.Total, a.budget.PendingShrink
	message := "belongs to a budget with a total: this one is unlimited"
	if a.budget.Unlimited == 0 {
		if q != 0 && q <= budget.MaxAmount-total && total-pending+q >= 1 {
			return nil
		}
		message = fmt.Sprintf("must leave a total of 1 to %d; it is %d now", budget.MaxAmount, total)
		if pending > 0 {
			message += fmt.Sprintf(", and shrinks by %d in all are pending", pending)
		}
	}
	return &budget.Error{Code: budget.Invalid, Op: "adjust", Fields: []budget.FieldError{{
		Field: "quantity", Message: message}}}
}

// append raises the total and hands out what the open period gets of it.
func (a *adjusting) append() (out manage.Adjusted, err error) {
	out.State = bucket.AdjustmentDone
	if err := a.total(); err != nil {
		return manage.Adjusted{}, err
	}
	if err := moves.TopUp(a.t, a.budget, a.budget.Definition()); err != nil {
		return manage.Adjusted{}, err
	}
	if err := a.note(bucket.AdjustmentDone, 0); err != nil {
		return manage.Adjusted{}, err
	}
	if a.budget.Releasable(a.t.Now) == 0 {
		return out, nil
	}
	list, err := rows.LockBuckets(a.t, a.budget.ID)
	if err != nil {
		return manage.Adjusted{}, err
	}
	return out, moves.HandOut(a.t, a.budget, moves.Apply, list)
}

// shrink takes units back in ledger mode. If it refuses, it changes nothing.
func (a *adjusting) shrink() (out manage.Adjusted, err error) {
	b, units := a.budget, -a.order.Quantity
	if b.Unfunded+b.Undistributed < units {
		if err := a.gather(units); err != nil {
			return manage.Adjusted{}, err
		}
	}
	if available := b.Unfunded + b.Undistributed; available < units {
		return manage.Adjusted{}, tooMuch(b, available, units)
	}
	if err := a.takeTotal(); err != nil {
		return manage.Adjusted{}, err
	}
	out.State = bucket.AdjustmentDone
	return out, a.note(bucket.AdjustmentDone, 0)
}

// tooMuch returns the refusal of a shrink by more than can be taken back.
func tooMuch(b *rows.Budget, available, units int64) error {
	e := budget.Refuse(budget.AmountExceedsRemaining, "adjust",
		"budget %q has %d that can be taken back, %d were asked for", b.Name, available, units)
	e.Available = &available
	return e
}

// gather moves units to F and U until these cover a shrink or no units are left: first all of R,
// then O, the fullest buckets first. Halted units stay. Rollbacks may bring units meanwhile, so
// before it gives up it looks again under the locks of the first look.
func (a *adjusting) gather(units int64) error {
	t, b := a.t, a.budget
	for range 2 {
		held, err := listPositions(&t.Reader, selectWithUnits, b.ID)
		if err != nil {
			return err
		}
		list, err := rows.Buckets(&t.Reader, b.ID)
		if err != nil {
			return err
		}
		locked, err := rows.LockEpochs(t, held)
		if err != nil {
			return err
		}
		var back []*rows.Epoch
		for _, at := range held {
			if e := locked[at]; e != nil && e.Halted == "" {
				back = append(back, e)
			}
		}
		if _, err := moves.Sweep(t, b, back...); err != nil {
			return err
		}
		err = a.draw(units-b.Unfunded-b.Undistributed, list, locked)
		if err != nil || b.Unfunded+b.Undistributed >= units {
			return err
		}
	}
	return nil
}

// draw moves up to units from O of locked open epochs to U.
func (a *adjusting) draw(units int64, list []rows.Bucket,
	locked map[rows.Position]*rows.Epoch) error {
	var donors []*rows.Bucket
	for i := range list {
		row := &list[i]
		e := locked[row.Position()]
		if e != nil && e.MayGrow() && e.Outstanding > 0 {
			row.Epoch = *e
			donors = append(donors, row)
		}
	}
	slices.SortFunc(donors, func(x, y *rows.Bucket) int {
		return cmp.Or(cmp.Compare(y.Outstanding, x.Outstanding), cmp.Compare(x.Ordinal, y.Ordinal))
	})
	var portions []moves.Portion
	var back []moves.Coming
	for _, row := range donors {
		if units <= 0 {
			break
		}
		part := min(units, row.Outstanding)
		units -= part
		portions = append(portions, moves.Portion{Row: row, Units: part})
		back = append(back, moves.Coming{Row: &row.Epoch, Never: part})
	}
	if err := moves.Draw(a.t, portions...); err != nil {
		return err
	}
	return moves.ComeBack(a.t, a.budget, back...)
}

// takeTotal lowers the total by units of F, then of U, which cover it.
func (a *adjusting) takeTotal() error {
	if short := -a.order.Quantity - a.budget.Unfunded; short > 0 {
		if err := moves.TakeBack(a.t, a.budget, short); err != nil {
			return err
		}
	}
	return a.total()
}

// total changes T and F by the quantity.
func (a *adjusting) total() error {
	q, b := a.order.Quantity, a.budget
	if err := a.t.Hit(1, adjustTotal, q, q, engine.ToMS(a.t.Now), b.ID, q); err != nil {
		return err
	}
	b.Total, b.Unfunded, b.Version = b.Total+q, b.Unfunded+q, b.Version+1
	return nil
}

const addPendingShrink = `UPDATE budget_management_bucket
	SET pending_shrink_quantity = pending_shrink_quantity + ? WHERE id = ?`

// note writes the adjustment's row and changes the units of pending shrinks.
func (a *adjusting) note(state bucket.AdjustmentState, pending int64) error {
	if pending != 0 {
		if err := a.t.Hit(1, addPendingShrink, pending, a.budget.ID); err != nil {
			return err
		}
		a.budget.PendingShrink += pending
	}
	o, now := a.order, engine.ToMS(a.t.Now)
	fingerprint := []byte(ledger.Fingerprint(o.Quantity, "", "", ""))
	if a.known == nil {
		return a.t.Insert(insertAdjustment, adjustmentWidth, []any{o.Budget, []byte(o.RequestID),
			o.Quantity, fingerprint, []byte(o.Nonce), string(state), engine.ToMS(o.Deadline), now, now})
	}
	return a.t.Hit(1, updateAdjustment, o.Quantity, fingerprint, []byte(o.Nonce), string(state),
		engine.ToMS(o.Deadline), now, o.Budget, []byte(o.RequestID))
}
