package books

import (
	"slices"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// part is what a deduction took at one time: first, with the number 0, or as an extra.
type part struct {
	number int64
	at     Position
	extra  *Extra // nil of the number 0
	// net is what has not come back, used the part of it that is used.
	net, used int64
}

// partsOf returns the parts of a deduction, by number: what is used of a hold is in the first ones,
// what is held in the last ones.
func (b *Books) partsOf(d *ledger.Deduction) []part {
	id := ID{d.Budget, d.RequestID}
	first := part{at: Position{d.Bucket, d.Epoch}, net: d.Amount - b.Back[id]}
	h := b.Holds.Get(id)
	if h != nil {
		first.used = h.Used
	}
	parts := []part{first}
	for _, x := range b.extrasOf(id) {
		parts[0].net += x.Back
		parts[0].used -= x.Used
		parts = append(parts, part{x.Number, Position{x.Bucket, x.Epoch}, x, x.Amount - x.Back, x.Used})
	}
	if h == nil {
		parts[0].used = parts[0].net
	}
	return parts
}

// use makes units of a hold used, the oldest first.
func (t *returns) use(d *ledger.Deduction, units int64) {
	t.remember(d)
	for _, p := range t.partsOf(d) {
		n := min(units, p.net-p.used)
		units -= n
		t.markUsed(d, p, n)
		e := t.Epochs.Get(p.at)
		e.Held -= n
		e.Used += n
		t.saturate(d, e)
	}
}

// unuse makes units of a hold held that its expiry has confirmed, the newest first.
func (t *returns) unuse(d *ledger.Deduction, units int64) {
	for _, p := range slices.Backward(t.partsOf(d)) {
		n := min(units, p.used)
		units -= n
		t.markUsed(d, p, -n)
		e := t.Epochs.Get(p.at)
		e.Held += n
		e.Used -= n
		t.saturate(d, e)
	}
}

// markUsed notes that n more units of a part are used.
func (t *returns) markUsed(d *ledger.Deduction, p part, n int64) {
	if p.extra != nil {
		p.extra.Used += n
	}
	if h := t.Holds.Get(ID{d.Budget, d.RequestID}); h != nil {
		h.Used += n
	}
}

// giveBack moves units out of a deduction, the newest first, and writes the rows of that. g names
// the return. The end of a hold has a row of the number 0 even if nothing comes back; used is what
// it confirms.
func (t *returns) giveBack(d *ledger.Deduction, g GiveBack, units, used int64) {
	t.remember(d)
	g.Budget, g.RequestID, g.CreatedAt = d.Budget, d.RequestID, t.NowMS
	for _, p := range slices.Backward(t.partsOf(d)) {
		g.Amount = min(units, p.net)
		units -= g.Amount
		if g.Amount == 0 && (p.number > 0 || g.Kind == rolledBack || g.Kind == released) {
			continue
		}
		g.Number, g.Bucket, g.Epoch = p.number, p.at.Bucket, p.at.Epoch
		ofUsed := max(0, g.Amount-(p.net-p.used))
		e := t.Epochs.Get(p.at)
		e.Used -= ofUsed
		e.Held -= g.Amount - ofUsed
		t.markUsed(d, p, -ofUsed)
		if p.extra != nil {
			p.extra.Back += g.Amount
		}
		t.Back[ID{d.Budget, d.RequestID}] += g.Amount
		g.IsDirect = one(t.refill(d, e, g.Amount))
		t.GiveBacks.Add(g)
		t.enter(&g, used)
	}
}

// saturate keeps the columns of an unlimited budget's epoch between 0 and budget.MaxAmount, where
// flights stop H and S.
func (t *returns) saturate(d *ledger.Deduction, e *Epoch) {
	if t.Budgets.Get(d.Budget).Unlimited == 1 {
		e.Held = max(e.Held, 0)
		e.Used = min(max(e.Used, 0), budget.MaxAmount)
	}
}

// refill puts units that come back into O of their epoch, or into R. It reports whether it was O.
func (t *returns) refill(d *ledger.Deduction, e *Epoch, units int64) (direct bool) {
	direct = e.mayGrow() && (e.PeriodEndMS == 0 || t.NowMS < e.PeriodEndMS)
	switch {
	case t.Budgets.Get(d.Budget).Unlimited == 1:
		t.saturate(d, e)
		return true
	case direct:
		e.Outstanding += units
		return true
	}
	e.Returning += units
	if p := t.Periods.Get([2]int64{d.Budget, e.Period}); p.EndMS != 0 && t.NowMS >= p.EndMS {
		e.Late += units
	}
	return false
}
