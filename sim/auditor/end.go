package auditor

import (
	"maps"
	"slices"
)

// Open is an id whose outcome no caller knows.
type Open struct {
	Budget     int64
	ID         string
	RollbackID string // of a rollback; "": a deduct
	Quantity   int64  // of an adjustment; 0: none
}

// Unresolved lists what callers do not know the outcome of, in one order.
func (a *Auditor) Unresolved() (deducts, adjustments []Open) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, budget := range slices.Sorted(maps.Keys(a.budgets)) {
		b := a.budgets[budget]
		for _, id := range slices.Sorted(maps.Keys(b.told)) {
			if t := b.told[id]; t.open > 0 || len(t.wild) > 0 || t.cancels > 0 && !t.cancelled {
				deducts = append(deducts, Open{Budget: budget, ID: id})
			}
		}
		for _, id := range slices.Sorted(maps.Keys(b.unsure)) {
			adjustments = append(adjustments, Open{Budget: budget, ID: id, Quantity: b.unsure[id]})
		}
	}
	return deducts, adjustments
}

// Compare compares what callers were told with the ledger when everything is quiet and no outcome is
// unknown: per id, and the total (I4, I5, I6, I7).
func (a *Auditor) Compare(rows *Budget) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.of(rows.ID)
	if rows.Total != b.adjusted {
		a.note("I8: budget %d has a total of %d, callers were told %d", rows.ID, rows.Total, b.adjusted)
	}
	for _, id := range slices.Sorted(maps.Keys(b.told)) {
		t := b.told[id]
		row, known := rows.Rows[id]
		switch {
		case b.lost(id) && (!known || row.State == "void"): // its units are in quarantine: see below
		case t.accepted != nil && (!known || row.State == "void"):
			a.note("I7: id %q was accepted and is not in the ledger: %+v", id, row)
		case t.accepted != nil && !t.matches(row):
			a.note("I7: id %q was accepted with %d, the ledger has %+v", id, t.accepted.Amount, row)
		case t.accepted == nil && t.cancels == 0 && known:
			a.note("I6: id %q is in the ledger, and no caller was told so: %+v", id, row)
		case t.accepted == nil && known && (row.State == "used" || row.State == "held"):
			a.note("I4: id %q was cancelled and is %s", id, row.State)
		}
		a.ended(b, id, t, row)
		back := t.givenBack(row)
		if c := b.limits.rows[id]; c != nil {
			if back = min(back+c.hold.returned, row.Amount); c.hold.byGroup && b.groups[row.Group] {
				back = row.Amount
			}
		}
		switch {
		case t.cancels > 0 && row.RolledBack != row.Amount:
			a.note("I5: id %q was cancelled, %d of %d are given back", id, row.RolledBack, row.Amount)
		case t.cancels == 0 && row.RolledBack != back:
			a.note("I5: id %q: %d are given back, callers were told %d", id, row.RolledBack, back)
		}
	}
	if lost := b.owed(); lost > rows.Quarantined {
		a.note("I2: budget %d: %d units were accepted and lost, %d are in quarantine", rows.ID, lost,
			rows.Quarantined)
	}
	for _, id := range slices.Sorted(maps.Keys(rows.Rows)) {
		if b.told[id] == nil {
			a.note("I4: id %q is in the ledger, and nobody ever sent it", id)
		}
	}
}

// givenBack sums what callers were told was given back of a deduction.
func (t *told) givenBack(row Row) (sum int64) {
	for _, units := range t.back {
		if units == 0 {
			return row.Amount // whatever was left
		}
		sum += units
	}
	return sum
}
