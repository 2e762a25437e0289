package books

import (
	"errors"
	"iter"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// ErrNeedsBudget is the result of a confirm above the hold for which the deduction's bucket lacks
// units. It has changed nothing, except that a hold that was due has expired. ConfirmAbove confirms
// under the budget's lock.
var ErrNeedsBudget = errors.New("a confirm that needs units of other buckets")

// ConfirmAbove is Return of one confirm that may take units above the hold from the whole budget.
// The budget and its buckets are loaded under its lock, as for Bring, with Applied; the deduction
// as for Return, with its places, and sets is that of Return. A rollover that is due has been made.
// What the budget cannot give is uncollected. Keeps I1, I2, I4.
func (b *Books) ConfirmAbove(u *Budget, o *ledger.Order, sets map[int64]*limit.Set) (
	ledger.Result, error) {
	t := b.returns(sets)
	t.whole = u
	out, err := t.execute(o)
	if err != nil {
		return out, err
	}
	return out, t.lower()
}

func (t *returns) decideConfirm(o *ledger.Order, d *ledger.Deduction) (replayed bool, err error) {
	end, replayed, err := ledger.DecideConfirm(*d, t.earlierConfirm(d), o.Amount, at(t.NowMS))
	if err != nil || replayed {
		return replayed, err
	}
	if end.Late && d.State == ledger.StateHeld { // the units that it gives back are free
		t.endHold(d, ledger.Expire(*d))
		if err := t.lowerNow(); err != nil {
			return false, err
		}
	}
	var from *Epoch
	var extra int64
	if end.Above > 0 {
		if from, extra, err = t.supply(d, end.Above); err != nil {
			return false, err
		}
	}
	t.endHold(d, end)
	return false, t.takeAbove(d, from, extra, end.Above-extra)
}

// supply finds free units for a confirm above the hold: the epoch that has them and how many there
// are, at most need. First in the deduction's bucket; then, under the budget's lock, Bring moves
// those of U and of other buckets into it, or into the bucket that serves if it takes none.
func (t *returns) supply(d *ledger.Deduction, need int64) (from *Epoch, units int64, err error) {
	if t.Budgets.Get(d.Budget).Unlimited == 1 {
		return t.Epochs.Get(Position{d.Bucket, d.Epoch}), need, nil
	}
	row := t.Buckets.Get(d.Bucket)
	e := t.newest(row)
	serves := e.mayGrow() && (e.PeriodEndMS == 0 || t.NowMS < e.PeriodEndMS)
	switch {
	case serves && e.Outstanding >= need:
		return e, need, nil
	case t.whole == nil:
		return nil, 0, ErrNeedsBudget
	}
	u := t.whole
	if t.mustBeOpen(u, string(ledger.OrderConfirm)) != nil || u.IsOver == 1 {
		return nil, 0, nil
	}
	t.Sweep(u)
	if !serves || e.Period != u.Period || row.Status != Online {
		if row = t.Serving(u); row == nil {
			return nil, 0, nil
		}
	}
	units = min(need, t.Reach(u, row))
	if units < need {
		if err := t.UnsettledOf([]int64{u.ID}); err != nil {
			return nil, 0, err
		}
	}
	if units > 0 {
		t.Bring(u, row, units, 0)
	}
	return t.newest(row), units, nil
}

// takeAbove takes units above the hold out of O of an epoch, and writes the rows of that.
func (t *returns) takeAbove(d *ledger.Deduction, from *Epoch, units, uncollected int64) error {
	if units+uncollected == 0 {
		return nil
	}
	after := *d
	after.Extra += units
	after.Confirmed += units
	after.Used += units
	after.Uncollected += uncollected
	if units > 0 {
		after.State = ledger.StateUsed // also if it had expired
	}
	entry := ledger.FeedEntry{Kind: ledger.FeedExtra, Bucket: d.Bucket, RequestID: d.RequestID,
		Amount: units, Uncollected: uncollected}
	if units > 0 {
		atMS, over, err := t.countExtra(d, units)
		if err != nil {
			return err
		}
		after.OverLimit = after.OverLimit || over
		entry.Number = int64(len(t.extrasOf(ID{d.Budget, d.RequestID}))) + 1
		entry.Bucket = from.Bucket
		t.Extras.Add(Extra{Budget: d.Budget, RequestID: d.RequestID, Number: entry.Number,
			Bucket: from.Bucket, Epoch: from.Number, Amount: units, Used: units,
			Late: one(d.TakesAgain()), CreatedAt: atMS})
		t.Holds.Get(ID{d.Budget, d.RequestID}).Used += units
		from.Used = min(from.Used+units, budget.MaxAmount) // an unlimited budget's stops there
		if t.Budgets.Get(d.Budget).Unlimited == 0 {
			from.Outstanding -= units
		}
	}
	t.feed(&entry, units)
	t.change(d, after)
	return nil
}

// extrasOf returns the extras of a deduction, by number.
func (b *Books) extrasOf(id ID) (list []*Extra) {
	for _, x := range b.Extras.All() {
		if x.Budget == id.Budget && x.RequestID == id.RequestID {
			list = append(list, x)
		}
	}
	return list
}

// extrasBack returns what came back of the extras of a deduction.
func (b *Books) extrasBack(id ID) (units int64) {
	for _, x := range b.extrasOf(id) {
		units += x.Back
	}
	return units
}

// placesOf yields where the loaded deductions and their extras are, each with its budget.
func (b *Books) placesOf() iter.Seq2[int64, Position] {
	return func(yield func(int64, Position) bool) {
		for _, d := range b.Deductions.All() {
			if d.Bucket != 0 && !yield(d.Budget, Position{d.Bucket, d.Epoch}) {
				return
			}
		}
		for _, x := range b.Extras.All() {
			if !yield(x.Budget, Position{x.Bucket, x.Epoch}) {
				return
			}
		}
	}
}
