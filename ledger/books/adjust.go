package books

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Refused is the state of an adjustment that was recorded and refused.
const Refused = Word("refused")

// Order is an append, or a shrink by a negative quantity, under the caller's request id.
type Order struct {
	RequestID string
	// Nonce identifies the call: a row with the same nonce is not a replay.
	Nonce string
	// Quantity is in minor units, not 0.
	Quantity int64
	// DeadlineMS is when a waiting shrink is refused (store mode); 0 means never.
	DeadlineMS int64
	// Continue continues a recorded shrink and begins none (store mode).
	Continue bool
}

// Adjusted is the result of Adjust.
type Adjusted struct {
	State    Word
	Replayed bool
	// Refusal is why a recorded shrink was refused, which is saved; nil otherwise.
	Refusal error
}

// Adjust appends units to a budget, or shrinks it, once per request id. The budget's buckets, the
// epochs that are newest or hold units, and their periods are loaded.
//
// An append raises T and F, tops up the open period, and hands out what the period got. A shrink
// takes units from F first, then from U, then from R and the O of as few buckets as needed, the
// fullest first. In store mode a shrink that U and F do not cover is pending, and buckets may no
// longer apply for its units; a later one with Continue completes it when closed epochs have
// brought enough units, or refuses it at its deadline.
//
// Errors: RequestConflict if the id has another quantity; Invalid if the total would leave 1 …
// budget.MaxAmount, or the budget is unlimited; AmountExceedsRemaining, with the units that can be
// taken back, if used and held units do not allow it. A refused id may be used again. Keeps I1, I2.
func (b *Books) Adjust(u *Budget, o Order) (out Adjusted, err error) {
	known := b.Adjustments.Get(ID{u.ID, o.RequestID})
	switch {
	case known != nil && known.Status != Refused && known.Quantity != o.Quantity:
		return out, budget.Refuse(budget.RequestConflict, "adjust",
			"adjustment %q was recorded with a quantity of %d", o.RequestID, known.Quantity)
	case known != nil && known.Status == Done:
		return Adjusted{State: Done, Replayed: o.Nonce == "" || o.Nonce != known.Nonce}, nil
	case known != nil && known.Status == Pending:
		o.DeadlineMS, o.Nonce = known.DeadlineMS, known.Nonce
		return b.shrinkInStores(u, o, -known.Quantity)
	case o.Continue:
		return Adjusted{State: Refused}, nil
	}
	if err := checkOrder(u, o.Quantity); err != nil {
		return out, err
	}
	switch {
	case o.Quantity > 0:
		return b.append(u, o)
	case u.Durability == inStore:
		return b.shrinkInStores(u, o, 0)
	}
	return b.shrink(u, o)
}

// checkOrder refuses an adjustment of an unlimited budget, and one after which the total would be
// out of range, now or once all pending shrinks are done.
func checkOrder(u *Budget, q int64) error {
	message := "belongs to a budget with a total: this one is unlimited"
	if u.Unlimited == 0 {
		if q != 0 && q <= budget.MaxAmount-u.Total && u.Total-u.PendingShrink+q >= 1 {
			return nil
		}
		message = fmt.Sprintf("must leave a total of 1 to %d; it is %d now", budget.MaxAmount,
			u.Total)
		if u.PendingShrink > 0 {
			message += fmt.Sprintf(", and shrinks by %d in all are pending", u.PendingShrink)
		}
	}
	return &budget.Error{Code: budget.Invalid, Op: "adjust", Fields: []budget.FieldError{{
		Field: "quantity", Message: message}}}
}

func (b *Books) append(u *Budget, o Order) (Adjusted, error) {
	b.changeTotal(u, o.Quantity)
	if err := b.topUp(u); err != nil {
		return Adjusted{}, err
	}
	b.note(u, o, Done)
	b.distribute(u, Apply)
	return Adjusted{State: Done}, nil
}

// shrink takes units back in ledger mode.
func (b *Books) shrink(u *Budget, o Order) (Adjusted, error) {
	units := -o.Quantity
	if u.Unfunded+u.Undistributed < units {
		b.Sweep(u)
		b.collect(u, units-u.Unfunded-u.Undistributed)
	}
	if available := u.Unfunded + u.Undistributed; available < units {
		if err := b.UnsettledOf([]int64{u.ID}); err != nil {
			return Adjusted{}, err
		}
		return Adjusted{}, tooMuch(u, available, units)
	}
	b.takeTotal(u, units)
	b.note(u, o, Done)
	return Adjusted{State: Done}, nil
}

// shrinkInStores completes, keeps or refuses a shrink in store mode. own is how many of its units
// are counted as pending so far. Only stores know what their buckets still hold, so O in SQL is an
// upper bound: a shrink that it covers stays pending and may be refused later.
func (b *Books) shrinkInStores(u *Budget, o Order, own int64) (Adjusted, error) {
	units := -o.Quantity
	if u.Undistributed+u.Unfunded >= units {
		b.takeTotal(u, units)
		u.PendingShrink -= own
		b.note(u, o, Done)
		return Adjusted{State: Done}, nil
	}
	available := u.Undistributed + u.Unfunded - (u.PendingShrink - own)
	for _, e := range b.Epochs.All() {
		available += e.Outstanding + e.Returning
	}
	if available < units || o.DeadlineMS != 0 && b.NowMS >= o.DeadlineMS {
		u.PendingShrink -= own
		b.note(u, o, Refused)
		err := b.topUp(u) // an append may have waited for this shrink
		return Adjusted{State: Refused, Refusal: tooMuch(u, available, units)}, err
	}
	if own == 0 {
		u.PendingShrink += units
		b.note(u, o, Pending)
	}
	return Adjusted{State: Pending}, nil
}

// tooMuch returns the refusal of a shrink by more than can be taken back.
func tooMuch(u *Budget, available, units int64) error {
	e := budget.Refuse(budget.AmountExceedsRemaining, "adjust",
		"budget %q has %d that can be taken back, %d were asked for", u.Name, available, units)
	e.Available = &available
	return e
}

// changeTotal changes T and F, and raises the version.
func (b *Books) changeTotal(u *Budget, units int64) {
	u.Total += units
	u.Unfunded += units
	u.Version++
	u.UpdatedAt = b.NowMS
}

// takeTotal lowers T by units of F and U, which cover it: of F first, then of what the open period
// got of F, then of what was carried to it.
func (b *Books) takeTotal(u *Budget, units int64) {
	if short := units - u.Unfunded; short > 0 {
		p := b.Periods.Get([2]int64{u.ID, u.Period})
		funded := min(short, p.Funded)
		p.Funded -= funded
		p.Returned += short - funded
		u.Undistributed -= short
		u.Unfunded += short
	}
	b.changeTotal(u, -units)
}

// note writes the adjustment's row.
func (b *Books) note(u *Budget, o Order, state Word) {
	row := b.Adjustments.Get(ID{u.ID, o.RequestID})
	if row == nil {
		row = b.Adjustments.Add(Adjustment{Budget: u.ID, RequestID: o.RequestID,
			CreatedAt: b.NowMS})
	}
	row.Quantity = o.Quantity
	row.Fingerprint = ledger.Fingerprint(o.Quantity, "", "", "")
	row.Nonce = o.Nonce
	row.Status = state
	row.DeadlineMS = o.DeadlineMS
	row.UpdatedAt = b.NowMS
}

// collect moves up to units from O of the buckets' open epochs to where their periods say, the
// fullest first. Halted epochs keep theirs.
func (b *Books) collect(u *Budget, units int64) {
	var donors []*Bucket
	for _, row := range b.bucketsOf(u) {
		if e := b.newest(row); e != nil && e.mayGrow() && e.Outstanding > 0 {
			donors = append(donors, row)
		}
	}
	slices.SortFunc(donors, func(x, y *Bucket) int {
		return cmp.Or(cmp.Compare(b.newest(y).Outstanding, b.newest(x).Outstanding),
			cmp.Compare(x.Ordinal, y.Ordinal))
	})
	for _, row := range donors {
		if units <= 0 {
			return
		}
		e := b.newest(row)
		part := min(units, e.Outstanding)
		units -= part
		e.Outstanding -= part
		e.Closed += part
		b.returnUnits(u, e, part, 0)
	}
}

// topUp gives the open period its part of the unfunded units, after an append or a change of the
// rule. A period that is over gets nothing. Error: Unavailable for a time zone that is unknown
// here.
func (b *Books) topUp(u *Budget) error {
	p := b.PeriodOf(u)
	if p.OverAt(at(b.NowMS)) {
		return nil
	}
	d := u.Definition()
	if e := limit.UnknownZone("top up", d); e != nil {
		return e
	}
	units := allocation.TopUp(d, p, allocation.Fundable(d, u.Unfunded, u.PendingShrink))
	b.Periods.Get([2]int64{u.ID, u.Period}).Funded += units
	u.Unfunded -= units
	u.Undistributed += units
	return nil
}
