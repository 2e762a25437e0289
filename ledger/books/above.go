package books

import (
	"errors"
	"iter"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// ErrNeedsBudget is the result of a confirm or a step above the hold for which the deduction's
// bucket lacks units. It has changed nothing, except that a hold that was due has expired.
// ConfirmAbove confirms under the budget's lock.
var ErrNeedsBudget = errors.New("a confirm that needs units of other buckets")

// ConfirmAbove is Return of one confirm or step that may take units above the hold from the whole
// budget. The budget and its buckets are loaded under its lock, as for Bring, with Applied; the
// deduction as for Return, with its places, and sets is that of Return. A rollover that is due has
// been made. What the budget cannot give is uncollected. Keeps I1, I2, I4.
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
	if end.Late && d.State == ledger.StateHeld {
		if err := t.expireNow(d); err != nil {
			return false, err
		}
	}
	taken, err := t.supply(d, end.Above)
	if err != nil {
		return false, err
	}
	t.endHold(d, end)
	taken.used = taken.units
	taken.uncollected = end.Above - taken.units
	taken.again = d.TakesAgain()
	if taken.units+taken.uncollected == 0 {
		return false, nil
	}
	after := *d
	after.Extra += taken.units
	after.Confirmed += taken.units
	after.Used += taken.units
	after.Uncollected += taken.uncollected
	if taken.units > 0 {
		after.State = ledger.StateUsed // also if it had expired
	}
	return false, t.take(d, after, taken)
}

// expireNow lets a hold expire that is due, before units are taken again: those that it gives back
// are free, and limits do not count them.
func (t *returns) expireNow(d *ledger.Deduction) error {
	t.endHold(d, ledger.Expire(*d))
	return t.lowerNow()
}

// decideRenew carries out a step of a stream. A paused budget gives nothing more to hold.
func (t *returns) decideRenew(o *ledger.Order, d *ledger.Deduction) (replayed bool, err error) {
	now := at(t.NowMS)
	r, replayed, err := ledger.DecideRenew(*d, o, now)
	if err != nil || replayed {
		return replayed, err
	}
	if r.Released && d.State == ledger.StateHeld {
		if err := t.expireNow(d); err != nil {
			return false, err
		}
	}
	if t.Budgets.Get(d.Budget).IsPaused == 1 {
		r.More = 0
	}
	taken, err := t.supply(d, r.Takes())
	if err != nil {
		return false, err
	}
	taken.used = min(taken.units, r.Above)
	taken.again = r.Released && d.Used == 0
	after := ledger.AfterRenew(*d, o, r, taken.units, now)
	t.remember(d)
	if r.Corrects {
		t.unuse(d, d.Held())
	}
	held := *d
	held.State = ledger.StateHeld
	t.use(&held, r.Used)
	t.giveBack(&held, GiveBack{Kind: released, RollbackID: after.StepID()}, r.Returned, 0)
	if taken.units > 0 {
		err = t.take(d, after, taken)
	} else {
		t.change(d, after)
	}
	t.feed(&ledger.FeedEntry{Kind: ledger.FeedRenew, Bucket: d.Bucket, RequestID: d.RequestID,
		Amount: r.Used + taken.used, Uncollected: r.Above - taken.used}, 0)
	return false, err
}

// taking is what is taken above a hold.
type taking struct {
	from *Epoch
	// units are what from has, used is the part of them that is used; the rest is held.
	units, used, uncollected int64
	// again means that limits count it as a new deduction.
	again bool
}

// supply finds free units above a hold: the epoch that has them and how many there are, at most
// need. First in the deduction's bucket; then, under the budget's lock, Bring moves
// those of U and of other buckets into it, or into the bucket that serves if it takes none.
func (t *returns) supply(d *ledger.Deduction, need int64) (_ taking, err error) {
	switch {
	case need == 0:
		return taking{}, nil
	case t.Budgets.Get(d.Budget).Unlimited == 1:
		return taking{from: t.Epochs.Get(Position{d.Bucket, d.Epoch}), units: need}, nil
	}
	row := t.Buckets.Get(d.Bucket)
	e := t.newest(row)
	serves := e.mayGrow() && (e.PeriodEndMS == 0 || t.NowMS < e.PeriodEndMS)
	switch {
	case serves && e.Outstanding >= need:
		return taking{from: e, units: need}, nil
	case t.whole == nil:
		return taking{}, ErrNeedsBudget
	}
	u := t.whole
	if t.mustBeOpen(u, string(ledger.OrderConfirm)) != nil || u.IsOver == 1 {
		return taking{}, nil
	}
	t.Sweep(u)
	if !serves || e.Period != u.Period || row.Status != Online {
		if row = t.Serving(u); row == nil {
			return taking{}, nil
		}
	}
	units := min(need, t.Reach(u, row))
	if units < need {
		if err := t.UnsettledOf([]int64{u.ID}); err != nil {
			return taking{}, err
		}
	}
	if units > 0 {
		t.Bring(u, row, units, 0)
	}
	return taking{from: t.newest(row), units: units}, nil
}

// take takes units above a hold out of O of an epoch, and writes the rows of that. after is the
// deduction with them.
func (t *returns) take(d *ledger.Deduction, after ledger.Deduction, x taking) error {
	entry := ledger.FeedEntry{Kind: ledger.FeedExtra, Bucket: d.Bucket, RequestID: d.RequestID,
		Amount: x.units, Uncollected: x.uncollected}
	if x.units > 0 {
		atMS, over, err := t.countExtra(d, x.units, x.again)
		if err != nil {
			return err
		}
		after.OverLimit = after.OverLimit || over
		entry.Number = int64(len(t.extrasOf(ID{d.Budget, d.RequestID}))) + 1
		entry.Bucket = x.from.Bucket
		t.Extras.Add(Extra{Budget: d.Budget, RequestID: d.RequestID, Number: entry.Number,
			Bucket: x.from.Bucket, Epoch: x.from.Number, Amount: x.units, Used: x.used,
			Late: one(x.again), CreatedAt: atMS})
		t.Holds.Get(ID{d.Budget, d.RequestID}).Used += x.used
		x.from.Used = min(x.from.Used+x.used, budget.MaxAmount) // an unlimited budget's stops there
		x.from.Held = min(x.from.Held+x.units-x.used, budget.MaxAmount)
		if t.Budgets.Get(d.Budget).Unlimited == 0 {
			x.from.Outstanding -= x.units
		}
	}
	t.feed(&entry, x.units)
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
