package books

import (
	"fmt"
	"iter"

	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// UsageID identifies the count of one limit in a row of limit_counter.
type UsageID struct {
	CounterID
	Limit string
}

// UsageSpan is the span, the end exclusive, of the deductions that a usage counts.
type UsageSpan struct {
	UsageID
	Of           *limit.Limit
	Values       []string
	FromMS, ToMS int64
}

// extraCharges returns what an extra of a deduction counts in each limit: as a new deduction if it
// takes again what an expiry gave back.
func extraCharges(d *ledger.Deduction, set *limit.Set, units int64, again bool) []limit.Charge {
	if set == nil || units == 0 {
		return nil
	}
	dimensions, counts := ledger.ReadDimensions(d.Dimensions), ledger.ReadCounts(d.Counts)
	if again {
		charges, _ := set.Charges(units, dimensions, counts)
		return charges
	}
	return set.ExtraCharges(units, dimensions, counts)
}

// extraTakers yields the loaded deductions of orders that may take an extra, and the charges of one
// unit of it. Error: a note cannot be read.
func (b *Books) extraTakers(orders []ledger.Order, sets map[int64]*limit.Set) iter.Seq2[
	*ledger.Deduction, []limit.Charge] {
	return func(yield func(*ledger.Deduction, []limit.Charge) bool) {
		for i := range orders {
			o := &orders[i]
			row := b.Deductions.Get(ID{o.Budget, o.RequestID})
			if row == nil {
				continue
			}
			d, err := b.DeductionOf(row)
			takes, again := ledger.MayTake(d, o, at(b.NowMS))
			if err != nil || !takes {
				continue // execute returns the error
			}
			charges := extraCharges(&d, sets[o.Budget], 1, again)
			if len(charges) > 0 && !yield(&d, charges) {
				return
			}
		}
	}
}

func counterOf(d *ledger.Deduction, charge *limit.Charge) CounterID {
	return CounterID{d.Budget, charge.Limit.Dimension, charge.Key}
}

// OverridesToRead returns the overrides that decide whether the extras of orders pass a limit.
func (b *Books) OverridesToRead(orders []ledger.Order, sets map[int64]*limit.Set) (
	ids []limit.OverrideID) {
	for d, charges := range b.extraTakers(orders, sets) {
		ids = append(ids, limit.Overrides(d.Budget, charges)...)
	}
	return ids
}

// LimitsToLoad returns what must be loaded into Events before orders can take extras: the counts of
// limits that have changed. Their counters are loaded. Error: a counter cannot be read.
func (b *Books) LimitsToLoad(orders []ledger.Order, sets map[int64]*limit.Set) (
	spans []UsageSpan, err error) {
	for d, charges := range b.extraTakers(orders, sets) {
		u, err := b.usagesOf(d, charges)
		if err != nil {
			return nil, err
		}
		spans = append(spans, u.missing...)
	}
	return spans, nil
}

// extraUsages are the counts of the limits of an extra, at the instant at which it is counted.
type extraUsages struct {
	atMS    int64
	rows    map[CounterID]*limit.Counters
	list    []*limit.Usage // one per charge
	missing []UsageSpan
}

// usagesOf returns the counts of the limits of charges.
func (b *Books) usagesOf(d *ledger.Deduction, charges []limit.Charge) (u extraUsages, err error) {
	u.atMS, u.rows = b.NowMS, map[CounterID]*limit.Counters{}
	for i := range charges {
		key := counterOf(d, &charges[i])
		if u.rows[key] != nil {
			continue
		}
		counts := limit.Counters{}
		if row := b.Counters.Get(key); row != nil {
			if counts, err = limit.ReadCounters(row.Counts); err != nil {
				return u, fmt.Errorf("counter %+v: %w", key, err)
			}
		}
		u.rows[key] = &counts
		u.atMS = max(u.atMS, counts.Now(b.NowMS))
	}
	for i := range charges {
		charge := &charges[i]
		l, id := charge.Limit, UsageID{counterOf(d, charge), charge.Limit.Name}
		usage := u.rows[id.CounterID].Usage(l, charge.Key, u.atMS)
		usage.Values = charge.Values
		b.Bounds.Apply(d.Budget, l, &usage)
		if from, to, stale := usage.Stale(); stale {
			events, known := b.Events[id]
			if !known {
				u.missing = append(u.missing, UsageSpan{id, l, charge.Values, from, to})
			}
			usage.Load(events)
		}
		u.list = append(u.list, &usage)
	}
	return u, nil
}

// countExtra counts an extra on the limits of its deduction, and writes the values of that. atMS is
// when it is counted; over says that a limit would have refused it.
func (t *returns) countExtra(d *ledger.Deduction, units int64, again bool) (
	atMS int64, over bool, err error) {
	charges := extraCharges(d, t.sets[d.Budget], units, again)
	u, err := t.usagesOf(d, charges)
	if err != nil {
		return 0, false, err
	}
	if len(u.missing) > 0 {
		return 0, false, fmt.Errorf("limit %q is not loaded", u.missing[0].Limit)
	}
	over = limit.Exceeded(charges, u.list) != nil
	limit.Count(charges, u.list)
	for i, usage := range u.list {
		u.rows[counterOf(d, &charges[i])].Put(usage)
	}
	for key, counts := range u.rows {
		row := t.Counters.Get(key)
		if row == nil { // a version that no earlier row can have reached
			row = t.Counters.Add(Counter{Budget: key.Budget, Dimension: key.Dimension, Value: key.Value,
				Version: max(u.atMS, 1) - 1})
		}
		row.Counts = counts.Pack()
		row.ExpiresMS = counts.ExpiresMS()
		t.counters[row] = true
	}
	t.addValues(d, u.atMS)
	return u.atMS, over, nil
}

// addValues writes the dimension values of an extra, unless the deduction or another of its extras
// was counted at the same instant.
func (t *returns) addValues(d *ledger.Deduction, atMS int64) {
	known := ms(d.CountedAt) == atMS
	for _, x := range t.extrasOf(ID{d.Budget, d.RequestID}) {
		known = known || x.CreatedAt == atMS
	}
	if known {
		return
	}
	for _, v := range ledger.AppendDimensions(nil, d.Dimensions) {
		t.Values.Add(Value{Budget: d.Budget, Dimension: v.Name, Value: v.Value, CountedAt: atMS,
			RequestID: d.RequestID})
	}
}
