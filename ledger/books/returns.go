package books

import (
	"cmp"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// The kinds of rows of give_back.
const (
	rolledBack = Word(ledger.FeedRollback)
	confirmed  = Word(ledger.FeedConfirm)
	expired    = Word(ledger.FeedExpire)
	released   = Word(ledger.FeedRelease)
)

// Earlier returns the keys of the rows of give_back that tell whether an order was done before.
func Earlier(o *ledger.Order) []BackID {
	id := ID{o.Budget, o.RequestID}
	switch o.Kind {
	case ledger.OrderRollback:
		return []BackID{{id, rolledBack, o.RollbackID}}
	case ledger.OrderConfirm:
		if ledger.IsLegID(o.RequestID) {
			return []BackID{{id, confirmed, ""}, {id, rolledBack, ledger.ConfirmRestID}}
		}
		return []BackID{{id, confirmed, ""}}
	}
	return nil
}

// Return carries out orders on single deductions, one after the other. The deductions are loaded,
// with their holds, their places, the sum of what came back, and the rows that Earlier and
// CountersToLock name; and the terms of the budgets. sets has the limits of the budgets that have
// any. For a confirm that may take an extra, Bounds and Events have what OverridesToRead and
// LimitsToLoad name.
//
// Units go into O of the deduction's epoch if it is open and its period is not over, else into R.
// Those of an unlimited budget are only subtracted. What a deduction took above its hold comes back
// first, the newest first, into O or R of its own epoch. Limits are lowered in the windows in which
// the deduction was counted. The feed gets an entry for each return, numbered by the bucket's
// newest epoch.
//
// Refusals, of which each leaves the other orders alone, are those of ledger.DecideRollback,
// ledger.DecideConfirm, ledger.DecideRenew and ledger.DecideExtend; BudgetNotFound;
// DeductionNotFound, where a cancel leaves a tombstone instead; Forbidden for another principal's
// deduction; ErrNeedsBudget. Error: rows that cannot be read. Keeps I1, I4, I5.
func (b *Books) Return(orders []ledger.Order, sets map[int64]*limit.Set) ([]ledger.Result, error) {
	t := b.returns(sets)
	out := make([]ledger.Result, len(orders))
	for i := range orders {
		var err error
		if out[i], err = t.execute(&orders[i]); err != nil {
			return nil, err
		}
	}
	return out, t.lower()
}

// returns is a movement that gives units back.
type returns struct {
	*Books
	sets map[int64]*limit.Set
	// was has the changed deductions as they were.
	was map[ID]ledger.Deduction
	// wasBack is what had come back of their extras, which are counted by themselves.
	wasBack  map[ID]int64
	feeds    map[int64]*Feed   // the last row of each bucket
	counters map[*Counter]bool // that were changed
	// lowered is what had come back of extras when their limits were lowered last.
	lowered map[ExtraID]int64
	// whole is the budget, if all of it is loaded under its lock.
	whole *Budget
}

func (b *Books) returns(sets map[int64]*limit.Set) *returns {
	return &returns{Books: b, sets: sets, was: map[ID]ledger.Deduction{},
		wasBack: map[ID]int64{}, feeds: map[int64]*Feed{}, counters: map[*Counter]bool{},
		lowered: map[ExtraID]int64{}}
}

func (t *returns) execute(o *ledger.Order) (out ledger.Result, err error) {
	row := t.Deductions.Get(ID{o.Budget, o.RequestID})
	if row == nil {
		out.Deduction, out.Err = t.absent(o)
		return out, nil
	}
	d, err := t.DeductionOf(row)
	if err != nil {
		return out, err
	}
	switch {
	case d.IsVoidFor(o.OnlyBy): // also if a deduction of another principal has taken the id
		d = tombstoneOf(o, d.CountedAt)
	case d.State == ledger.StateVoid && o.Kind == ledger.OrderCancel:
		out.Err = widen(row, &d, o.OnlyBy)
	case d.State == ledger.StateVoid:
		out.Err = notDeducted(o)
	default:
		out.Err = refuseOthers(o.Kind, o.OnlyBy, &d)
	}
	switch {
	case out.Err != nil:
		return out, nil
	case d.Legs != "" && o.Kind == ledger.OrderRenew:
		out.Err = budget.Refuse(budget.Invalid, "renew",
			"request %q is a deduction from several budgets, which cannot be renewed",
			ledger.CallerID(o.RequestID))
		return out, nil
	case d.Legs != "":
		return t.executeSet(o, d)
	}
	if out.Replayed, out.Err = t.decide(o, &d); out.Err == nil {
		out.Deduction = d
	}
	return out, nil
}

// decide carries out an order on a deduction, which it changes.
func (t *returns) decide(o *ledger.Order, d *ledger.Deduction) (replayed bool, err error) {
	now := at(t.NowMS)
	switch o.Kind {
	case ledger.OrderRollback:
		return t.decideRollback(o, d)
	case ledger.OrderCancel:
		if left := d.Left(); left > 0 {
			t.rollBack(d, ledger.CancelID, left, true)
		} else if ledger.IsOpen(*d) { // no late confirm may follow
			t.change(d, ledger.AfterRollback(*d, 0))
		}
	case ledger.OrderConfirm:
		return t.decideConfirm(o, d)
	case ledger.OrderRenew:
		return t.decideRenew(o, d)
	case ledger.OrderExtend:
		if err := ledger.DecideExtend(*d, now); err != nil {
			return false, err
		}
		t.extend(d, o.TTL, o.ExpiresAs)
	case ledger.OrderExpire:
		if ledger.DueHold(*d, now) {
			t.endHold(d, ledger.Expire(*d))
		}
	default:
		return false, fmt.Errorf("an order of kind %q", o.Kind)
	}
	return false, nil
}

func (t *returns) decideRollback(o *ledger.Order, d *ledger.Deduction) (replayed bool, err error) {
	units, replayed, err := ledger.DecideRollback(*d, t.earlierRollback(o), o.Amount)
	if err == nil && !replayed {
		t.rollBack(d, o.RollbackID, units, o.Amount == 0)
	}
	return replayed, err
}

// earlierRollback returns the recorded rollback with the id of an order, or nil.
func (b *Books) earlierRollback(o *ledger.Order) (earlier *ledger.Rollback) {
	id := BackID{ID{o.Budget, o.RequestID}, rolledBack, o.RollbackID}
	for _, g := range b.GiveBacks.All() { // its parts
		if g.id().BackID != id {
			continue
		}
		if earlier == nil {
			earlier = &ledger.Rollback{RollbackID: g.RollbackID, Whole: g.IsWhole == 1}
		}
		earlier.Amount += g.Amount
	}
	return earlier
}

// earlierConfirm returns the recorded confirm of a hold, or nil.
func (b *Books) earlierConfirm(d *ledger.Deduction) *ledger.HoldEnd {
	g := b.GiveBacks.Get(PartID{BackID{ID{d.Budget, d.RequestID}, confirmed, ""}, 0})
	if g == nil {
		return nil
	}
	return &ledger.HoldEnd{Kind: ledger.FeedConfirm, Asked: d.Asked, Whole: g.IsWhole == 1,
		Late: d.Late}
}

// absent carries out an order for an id without a row.
func (t *returns) absent(o *ledger.Order) (d ledger.Deduction, err error) {
	switch {
	case o.Budget != 0 && t.Budgets.Get(o.Budget) == nil:
		return d, noBudget(o.Kind, o.Budget)
	case o.Kind != ledger.OrderCancel:
		return d, notDeducted(o)
	}
	d = tombstoneOf(o, at(t.NowMS))
	t.Deductions.Add(Deduction{Budget: o.Budget, RequestID: o.RequestID, CountedAt: t.NowMS,
		Note: noteOf(&d)})
	return d, nil
}

func noBudget(op ledger.OrderKind, id int64) error {
	return budget.Refuse(budget.BudgetNotFound, string(op), "there is no budget %d", id)
}

func notDeducted(o *ledger.Order) error {
	return budget.Refuse(budget.DeductionNotFound, string(o.Kind),
		"request %q has not been deducted", ledger.CallerID(o.RequestID))
}

// refuseOthers refuses to act on another principal's deduction.
func refuseOthers(op ledger.OrderKind, onlyBy string, d *ledger.Deduction) error {
	if onlyBy == "" || d.By == onlyBy {
		return nil
	}
	return budget.Refuse(budget.Forbidden, string(op),
		"request %q was not deducted by %q: that needs the role rollback",
		ledger.CallerID(d.RequestID), onlyBy)
}

// tombstoneOf returns the tombstone that an order leaves, or finds.
func tombstoneOf(o *ledger.Order, at time.Time) ledger.Deduction {
	d := ledger.Deduction{Budget: o.Budget, RequestID: o.RequestID, State: ledger.StateVoid,
		CountedAt: at}
	if o.OnlyBy != "" {
		d.VoidFor = o.OnlyBy + "\n"
	}
	return d
}

// mostVoidFor bounds Deduction.VoidFor, in bytes.
const mostVoidFor = 4096

// widen makes a tombstone hold for another principal too, or for everybody if onlyBy is "".
func widen(row *Deduction, d *ledger.Deduction, onlyBy string) error {
	after := ""
	if onlyBy != "" {
		after = d.VoidFor + onlyBy + "\n"
	}
	if len(after) > mostVoidFor {
		return budget.Refuse(budget.Forbidden, "cancel", "too many principals have cancelled request "+
			"%q: that needs the role rollback", ledger.CallerID(d.RequestID))
	}
	d.VoidFor = after
	row.Note = noteOf(d)
	return nil
}

// noteOf returns the column note of a tombstone: nil if it is for everybody.
func noteOf(d *ledger.Deduction) *string {
	if d.VoidFor == "" {
		return nil
	}
	text := ledger.Note{VoidFor: d.VoidFor}.Pack()
	return &text
}

// rollBack gives units of a deduction back.
func (t *returns) rollBack(d *ledger.Deduction, id string, units int64, isWhole bool) {
	t.giveBack(d, GiveBack{Kind: rolledBack, RollbackID: id, IsWhole: one(isWhole)}, units, 0)
	t.change(d, ledger.AfterRollback(*d, units))
}

// endHold confirms a hold, or lets it expire.
func (t *returns) endHold(d *ledger.Deduction, end ledger.HoldEnd) {
	after := ledger.AfterEnd(*d, end)
	used := int64(0)
	if after.State == ledger.StateUsed {
		used = end.Amount
	}
	if d.State == ledger.StateHeld {
		t.use(d, used)
	}
	g := GiveBack{Kind: Word(end.Kind), IsWhole: one(end.Whole)}
	if g.Kind == expired { // a step may come after it, and another expiry
		g.RollbackID = d.StepID()
	}
	t.giveBack(d, g, end.Returned, used)
	t.change(d, after)
}

// extend makes a hold end a time from now, and changes what its end does unless as is "".
func (t *returns) extend(d *ledger.Deduction, ttl time.Duration, as ledger.ExpiresAs) {
	after := *d
	switch as {
	case "":
	case ledger.ExpiresReleased:
		after.ExpiresAs = ""
	default:
		after.ExpiresAs = as
	}
	after.HoldUntil = at(t.NowMS + ttl.Milliseconds())
	t.change(d, after)
}

// remember keeps a deduction as it was before it changed.
func (t *returns) remember(d *ledger.Deduction) {
	id := ID{d.Budget, d.RequestID}
	if _, known := t.was[id]; !known {
		t.was[id], t.wasBack[id] = *d, t.extrasBack(id)
		for _, x := range t.extrasOf(id) {
			t.lowered[ExtraID{id, x.Number}] = x.Back
		}
	}
}

// change writes what changes of a deduction.
func (t *returns) change(d *ledger.Deduction, after ledger.Deduction) {
	t.remember(d)
	id := ID{d.Budget, d.RequestID}
	if h := t.Holds.Get(id); h != nil {
		h.State = Word(after.State)
		h.Confirmed = after.Confirmed
		h.Asked = after.Asked
		h.Step, h.StepPrint, h.IsFinal = after.Step, after.StepPrint, one(after.IsFinal)
		h.StepUsed, h.StepHeld = after.StepUsed, after.StepHeld
		h.Extra = after.Extra
		h.Uncollected = after.Uncollected
		h.OverLimit = one(after.OverLimit)
		h.Late = one(after.Late)
		h.ExpiresAs = Word(cmp.Or(after.ExpiresAs, ledger.ExpiresReleased))
		h.Expired = after.Expired
		h.UntilMS = ms(after.HoldUntil)
		h.DueMS = nil
		if after.State == ledger.StateHeld && !ledger.IsLegID(d.RequestID) {
			due := h.UntilMS
			h.DueMS = &due
		}
	}
	*d = after
}

// maxEntries bounds the entries of one feed row: a reader reads whole rows.
const maxEntries = 512

// enter adds an entry to the feed: of a confirm, or of an expiry that counts as one, with what it
// used, else with what came back.
func (t *returns) enter(g *GiveBack, used int64) {
	entry := ledger.FeedEntry{Kind: ledger.FeedKind(g.Kind), Bucket: g.Bucket,
		RequestID: g.RequestID, RollbackID: g.RollbackID, Number: g.Number, Amount: g.Amount}
	switch {
	case g.Kind == confirmed && g.Number > 0:
		entry.Kind = ledger.FeedRelease
	case g.Kind == confirmed, g.Kind == expired && used > 0:
		entry.Kind, entry.Amount = ledger.FeedConfirm, used
	}
	t.feed(&entry, -g.Amount)
}

// feed adds an entry to the feed of its bucket, with what was deducted less what came back.
func (t *returns) feed(entry *ledger.FeedEntry, units int64) {
	newest := t.newest(t.Buckets.Get(entry.Bucket))
	f := t.feeds[entry.Bucket]
	if f == nil || f.Entries == maxEntries {
		f = t.Feeds.Add(Feed{Bucket: entry.Bucket, First: newest.NextEntry, CreatedAt: t.NowMS,
			Body: string(ledger.BeginFeed(nil))})
		t.feeds[entry.Bucket] = f
	}
	f.Body = string(ledger.AppendFeed([]byte(f.Body), *entry))
	f.Units += units
	f.Entries++
	newest.NextEntry++
}

// Places reports whether the places of the loaded deductions are loaded: their epochs, the newest
// epochs of their buckets, and the periods. still says that what was read without a lock is true
// under the locks: the newest epochs are, and the terms of the budgets are those of now, because a
// change writes its version into the live epochs. unsure means that only a budget's lock can tell:
// it has limits, and a bucket without a live epoch.
func (b *Books) Places() (loaded, still, unsure bool) {
	still = true
	for budgetID, at := range b.placesOf() {
		row, e := b.Buckets.Get(at.Bucket), b.Epochs.Get(at)
		u := b.Budgets.Get(budgetID)
		if row == nil || e == nil || u == nil || b.Periods.Get([2]int64{u.ID, e.Period}) == nil {
			return false, false, false
		}
		switch newest := b.newest(row); {
		case newest == nil:
			still = false
		case newest.live():
			still = still && newest.Version <= u.Version
		default:
			unsure = unsure || u.LimitsVersion > 0
		}
	}
	return true, still, unsure
}
