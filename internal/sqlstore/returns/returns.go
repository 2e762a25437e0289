// Package returns gives units of deductions back: rollback, cancel, confirm, extend and expiry, for
// single deductions and for groups of holds.
//
// A deduction is its row, the row of its hold, and the sum of its give_back rows. All of them are
// written under the lock of the deduction's row. A transaction takes its locks in the order of
// package rows: deductions, group, limit rows, epochs, feed. It locks no budget row, unless a limit
// has just changed and the bucket is offline.
//
// Units return to O of the deduction's own epoch if that epoch is open and its period has not
// ended. Otherwise they go to R, from where a sweep takes them to the total (I5).
package returns

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Part gives units back in a database. It is safe for concurrent use.
type Part struct {
	db *engine.DB
	// sets caches compiled limits by budget: see execution.limits.
	sets *lru.Cache[int64, *limit.Set]
}

// maxSets bounds the cached budgets.
const maxSets = 4096

var (
	_ hold.Ledger   = (*Part)(nil)
	_ hold.DueHolds = (*Part)(nil)
)

// New returns the part of a database.
func New(db *engine.DB) *Part {
	sets, _ := lru.New[int64, *limit.Set](maxSets) // fails for a size below 1 only
	return &Part{db: db, sets: sets}
}

// Execute carries out orders on single deductions: see hold.Ledger. Keeps I1, I4, I5.
func (p *Part) Execute(ctx context.Context, orders []hold.Order) (
	out []hold.Result, err error) {
	if len(orders) == 0 {
		return nil, nil
	}
	tried := make([]bool, len(orders)) // an earlier attempt wrote it, committed or not
	redo := &redo{}
	err = p.db.Write(ctx, "return", func(t *engine.Tx) error {
		s := p.begin(t, redo)
		if err := s.lockOrders(orders); err != nil {
			return err
		}
		out = make([]hold.Result, len(orders))
		for i := range orders {
			if out[i], err = s.execute(&orders[i]); err != nil {
				return err
			}
			switch {
			case out[i].Err != nil:
			case !out[i].Replayed:
				tried[i] = true
			case t.Unsure && tried[i]:
				out[i].Replayed = false // this call did it in an attempt whose reply was lost
			}
		}
		return s.write()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Recorded reads the state of request ids: see hold.Ledger.
func (p *Part) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	return rows.Recorded(ctx, p.db, ids)
}

// begin begins an attempt.
func (p *Part) begin(t *engine.Tx, redo *redo) *execution {
	return &execution{tx: t, redo: redo, sets: p.sets, known: map[bucket.ID]*deduction{}}
}

// execution is one attempt of a transaction that changes deductions.
type execution struct {
	tx   *engine.Tx
	redo *redo
	sets *lru.Cache[int64, *limit.Set]
	// read has the limits that were read, by budget. limited means that some were lowered.
	read    map[int64]*limit.Set
	limited bool
	// known has the locked deductions, as changed by the orders.
	known map[bucket.ID]*deduction
	// changed lists the deductions to write, in the order of their first change.
	changed []*deduction
	// entries and backs are the new rows of the feed and of give_back, in order.
	entries []entry
	backs   []back
}

// redo is passed from one attempt to the next.
type redo struct {
	// lockBudgets means that limits have changed while a bucket is offline: see
	// execution.limitsHold.
	lockBudgets bool
}

// deduction is a locked deduction with what its orders need.
type deduction struct {
	ledger.Deduction // as the transaction leaves it
	stored           ledger.Deduction
	// absent means that there is no row.
	absent, isChanged bool
	// end is how its hold ended; nil if it has not.
	end *ledger.HoldEnd
	// rollbacks are those with the ids in the orders.
	rollbacks map[string]*ledger.Rollback
}

// entry is a feed entry with the bucket it belongs to.
type entry struct {
	bucket int64
	ledger.FeedEntry
}

// back is a row of give_back.
type back struct {
	of         *deduction
	kind       ledger.FeedKind
	rollbackID string
	amount     int64
	isWhole    bool
	// held means that the units leave H, else S. used is what a confirm moves from H to S.
	held bool
	used int64
}

// execute decides one order and records its changes. err ends the transaction.
func (s *execution) execute(o *hold.Order) (out hold.Result, err error) {
	d := s.known[bucket.ID{Budget: o.Budget, RequestID: o.RequestID}]
	if d.absent {
		return s.executeAbsent(o, d)
	}
	op := o.Kind.String()
	switch isVoid := d.IsVoidFor(o.OnlyBy); {
	case isVoid: // also if a deduction of another principal has taken the id
		d = &deduction{Deduction: tombstoneOf(o, d.CountedAt)}
	case d.State == ledger.StateVoid && o.Kind == hold.Cancel:
		out.Err, err = s.widen(d, o.OnlyBy)
	case d.State == ledger.StateVoid:
		out.Err = notDeducted(op, o.RequestID)
	default:
		out.Err = refuseOthers(op, o.OnlyBy, d)
	}
	if err != nil || out.Err != nil {
		return out, err
	}
	switch o.Kind {
	case hold.Rollback:
		out.Replayed, out.Err = s.rollBack(d, o.RollbackID, o.Amount)
	case hold.Cancel:
		if left := d.Amount - d.RolledBack; left > 0 {
			s.giveBack(d, ledger.Rollback{RollbackID: ledger.CancelID, Amount: left, Whole: true})
		}
	case hold.Confirm:
		out.Replayed, out.Err = s.confirm(d, o.Amount)
	case hold.Extend:
		if out.Err = ledger.DecideExtend(d.Deduction, s.tx.DB.Now()); out.Err == nil {
			s.extend(d, o.TTL.Milliseconds())
		}
	default:
		return out, engine.Defect("an order of kind %d", o.Kind)
	}
	if out.Err == nil {
		out.Deduction = d.Deduction
	}
	return out, nil
}

// refuseOthers refuses to act on another principal's deduction.
func refuseOthers(op, onlyBy string, d *deduction) error {
	if onlyBy == "" || d.By == onlyBy {
		return nil
	}
	return budget.Refuse(budget.Forbidden, op,
		"request %q was not deducted by %q: that needs the role rollback", d.RequestID, onlyBy)
}

// mostVoidFor bounds Deduction.VoidFor, in bytes.
const mostVoidFor = 4096

// widen makes a tombstone hold for another principal too, or for everybody if onlyBy is "".
func (s *execution) widen(d *deduction, onlyBy string) (refusal, err error) {
	after := ""
	if onlyBy != "" {
		after = d.VoidFor + onlyBy + "\n"
	}
	if len(after) > mostVoidFor {
		return budget.Refuse(budget.Forbidden, "cancel", "too many principals have cancelled request "+
			"%q: that needs the role rollback", d.RequestID), nil
	}
	d.VoidFor = after
	return nil, s.tx.Hit(1, updateTombstone, noteOf(d), d.Budget, []byte(d.RequestID))
}

// tombstoneOf returns the tombstone that an order leaves, or finds.
func tombstoneOf(o *hold.Order, at time.Time) ledger.Deduction {
	out := ledger.Deduction{Budget: o.Budget, RequestID: o.RequestID, State: ledger.StateVoid,
		CountedAt: at}
	if o.OnlyBy != "" {
		out.VoidFor = o.OnlyBy + "\n"
	}
	return out
}

// executeAbsent carries out an order for an id without a row. A cancel leaves a tombstone; any
// other order is refused.
func (s *execution) executeAbsent(o *hold.Order, d *deduction) (out hold.Result, err error) {
	op := o.Kind.String()
	_, err = rows.ReadBudget(&s.tx.Reader, op, o.Budget)
	switch {
	case budget.Is(err, budget.BudgetNotFound):
		out.Err = err
		return out, nil
	case err != nil:
		return out, err
	case o.Kind != hold.Cancel:
		out.Err = notDeducted(op, o.RequestID)
		return out, nil
	}
	d.Deduction = tombstoneOf(o, s.tx.DB.Now())
	d.absent, d.stored = false, d.Deduction
	out.Deduction = d.Deduction
	return out, s.insertTombstone(d)
}

func notDeducted(op, requestID string) error {
	return budget.Refuse(budget.DeductionNotFound, op, "request %q has not been deducted", requestID)
}

// rollBack decides a rollback.
func (s *execution) rollBack(d *deduction, id string, amount int64) (replayed bool, err error) {
	units, replayed, err := ledger.DecideRollback(d.Deduction, d.rollbacks[id], amount)
	if err == nil && !replayed {
		s.giveBack(d, ledger.Rollback{RollbackID: id, Amount: units, Whole: amount == 0})
	}
	return replayed, err
}

// giveBack records a rollback.
func (s *execution) giveBack(d *deduction, r ledger.Rollback) {
	r.RequestID = d.RequestID
	s.backs = append(s.backs, back{of: d, kind: ledger.FeedRollback, rollbackID: r.RollbackID,
		amount: r.Amount, isWhole: r.Whole, held: d.State == ledger.StateHeld})
	s.change(d, ledger.AfterRollback(d.Deduction, r.Amount))
	d.rollbacks[r.RollbackID] = &r
	s.enter(d, ledger.FeedEntry{Kind: ledger.FeedRollback, RollbackID: r.RollbackID, Amount: r.Amount})
}

// confirm decides the confirm of a hold.
func (s *execution) confirm(d *deduction, amount int64) (replayed bool, err error) {
	end, replayed, err := ledger.DecideConfirm(d.Deduction, d.end, amount, s.tx.DB.Now())
	if err == nil && !replayed {
		s.endHold(d, end)
	}
	return replayed, err
}

// endHold records how a hold ends.
func (s *execution) endHold(d *deduction, end ledger.HoldEnd) {
	b := back{of: d, kind: end.Kind, amount: end.Returned, held: true}
	if end.Kind == ledger.FeedConfirm {
		b.used = end.Amount
	}
	s.backs = append(s.backs, b)
	s.change(d, ledger.AfterEnd(d.Deduction, end))
	d.end = &end
	s.enter(d, ledger.FeedEntry{Kind: end.Kind, Amount: end.Amount})
}

// extend records that a hold ends ttl milliseconds from now.
func (s *execution) extend(d *deduction, ttl int64) {
	after := d.Deduction
	after.HoldUntil = engine.FromMS(engine.ToMS(s.tx.DB.Now()) + ttl)
	s.change(d, after)
}

func (s *execution) change(d *deduction, after ledger.Deduction) {
	d.Deduction = after
	if !d.isChanged {
		d.isChanged = true
		s.changed = append(s.changed, d)
	}
}

func (s *execution) enter(d *deduction, e ledger.FeedEntry) {
	e.RequestID = d.RequestID
	s.entries = append(s.entries, entry{d.Bucket, e})
}
