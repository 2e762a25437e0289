package books

import (
	"fmt"
	"iter"
	"slices"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// CompileLimits compiles the limits of a budget from their rows. version is the budget's
// limits_version. Errors: Unavailable for a limit in a time zone that is unknown here; a row that
// cannot be read.
func CompileLimits(budgetID, version int64, rows []*Limit) (*limit.Set, error) {
	limits := &budget.Limits{Version: version}
	for _, row := range rows {
		l, err := limit.Decode([]byte(row.Definition))
		if err != nil {
			return nil, fmt.Errorf("limit of budget %d: %w", budgetID, err)
		}
		l.ChangedVersion = row.ChangedVersion
		l.ChangedAt = at(row.ChangedMS)
		l.OverrideCount, l.OverrideSeries = row.Overrides, row.Series
		limits.List = append(limits.List, l)
	}
	if e := limit.UnknownZone("read", budget.Definition{ID: budgetID, Limits: limits}); e != nil {
		return nil, e
	}
	set, err := limit.Compile(limits)
	if err != nil {
		return nil, fmt.Errorf("limits of budget %d: %w", budgetID, err)
	}
	return set, nil
}

// LimitsOf compiles the loaded limits of a budget: see CompileLimits.
func (b *Books) LimitsOf(u *Budget) (*limit.Set, error) {
	var rows []*Limit
	for _, row := range b.Limits.All() {
		if row.Budget == u.ID {
			rows = append(rows, row)
		}
	}
	return CompileLimits(u.ID, u.LimitsVersion, rows)
}

// counted yields the counters in which a deduction may still be counted, with its charge of each.
func (b *Books) counted(d *ledger.Deduction, set *limit.Set) iter.Seq2[CounterID, *limit.Charge] {
	return func(yield func(CounterID, *limit.Charge) bool) {
		if set == nil || d.State == ledger.StateVoid {
			return
		}
		charges, _ := set.Charges(d.Amount, ledger.ReadDimensions(d.Dimensions),
			ledger.ReadCounts(d.Counts))
		for i := range charges {
			l := charges[i].Limit
			keeps, _ := l.Keeps(ms(d.CountedAt), b.NowMS)
			if keeps && !yield(CounterID{d.Budget, l.Dimension, charges[i].Key}, &charges[i]) {
				return
			}
		}
	}
}

// countedExtra is counted for an extra of a deduction.
func (b *Books) countedExtra(d *ledger.Deduction, x *Extra, set *limit.Set) iter.Seq2[CounterID,
	*limit.Charge] {
	return func(yield func(CounterID, *limit.Charge) bool) {
		charges := extraCharges(d, set, x.Amount, x.Late == 1)
		for i := range charges {
			keeps, _ := charges[i].Limit.Keeps(x.CreatedAt, b.NowMS)
			if keeps && !yield(counterOf(d, &charges[i]), &charges[i]) {
				return
			}
		}
	}
}

// CountersToLock returns the rows of limit counters, in lock order, that returns of the loaded
// deductions and their extras may lower, and that orders may raise. Error: a note cannot be read.
func (b *Books) CountersToLock(orders []ledger.Order, sets map[int64]*limit.Set) (
	keys []CounterID, err error) {
	for _, row := range b.Deductions.All() {
		d, err := b.DeductionOf(row)
		if err != nil {
			return nil, err
		}
		for key := range b.counted(&d, sets[d.Budget]) {
			keys = append(keys, key)
		}
		for _, x := range b.extrasOf(row.ID()) {
			for key := range b.countedExtra(&d, x, sets[d.Budget]) {
				keys = append(keys, key)
			}
		}
	}
	for d, charges := range b.extraTakers(orders, sets) {
		for i := range charges {
			keys = append(keys, counterOf(d, &charges[i]))
		}
	}
	slices.SortFunc(keys, CounterID.Compare)
	return slices.Compact(keys), nil
}

// lower is lowerNow at the end of a movement: it raises the version of each changed counter.
func (t *returns) lower() error {
	if err := t.lowerNow(); err != nil {
		return err
	}
	for row := range t.counters {
		row.Version++
	}
	return nil
}

// lowerNow lowers the windows in which the deductions and extras were counted that have changed
// since it was called last.
func (t *returns) lowerNow() error {
	for id, was := range t.was {
		for key, charge := range t.counted(&was, t.sets[was.Budget]) {
			l := charge.Limit
			less := l.Kept(charge.Counts, was.Amount, was.RolledBack-t.wasBack[id]) -
				l.Kept(charge.Counts, was.Amount, t.Back[id]-t.extrasBack(id))
			if err := t.lowerOne(key, l, ms(was.CountedAt), less); err != nil {
				return err
			}
		}
	}
	for _, x := range t.Extras.All() {
		was, changed := t.was[ID{x.Budget, x.RequestID}]
		if !changed {
			continue
		}
		back := t.lowered[ExtraID{ID{x.Budget, x.RequestID}, x.Number}]
		t.lowered[ExtraID{ID{x.Budget, x.RequestID}, x.Number}] = x.Back
		for key, charge := range t.countedExtra(&was, x, t.sets[x.Budget]) {
			l := charge.Limit
			less := l.Kept(charge.Counts, x.Amount, back) - l.Kept(charge.Counts, x.Amount, x.Back)
			if err := t.lowerOne(key, l, x.CreatedAt, less); err != nil {
				return err
			}
		}
	}
	clear(t.was)
	clear(t.wasBack)
	return nil
}

// lowerOne lowers the window of a limit in which something was counted. If a flight may be about to
// load the counter from the ledger, its row is created and its version raised even if nothing is
// counted in it yet, so that the flight loads it again.
func (t *returns) lowerOne(key CounterID, l *limit.Limit, countedMS, less int64) error {
	row := t.Counters.Get(key)
	_, mayLoad := l.Keeps(countedMS, t.NowMS)
	if less <= 0 || row == nil && !mayLoad {
		return nil
	}
	if row == nil {
		row = t.Counters.Add(Counter{Budget: key.Budget, Dimension: key.Dimension, Value: key.Value})
	}
	counts, err := limit.ReadCounters(row.Counts)
	if err != nil {
		return fmt.Errorf("counter %+v: %w", key, err)
	}
	if counts.GivenBack(l, countedMS, less) || mayLoad {
		row.Counts = counts.Pack()
		t.counters[row] = true
	}
	return nil
}
