package commit

import (
	"slices"

	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/limit"
)

// limitRows holds the limit counters that the operations of a flight charge, one per row.
type limitRows struct {
	rows map[counters.Key]*limitRow
	// list holds the rows in lock order.
	list []*limitRow
	// The charges of operation i are charges[of[i]:of[i+1]].
	of      []int
	charges []chargedRow
	// bounds has the overrides of the values.
	bounds limit.Bounds
	// hinted says that a row is as a hint has it.
	hinted bool
}

// limitRow is a row of limit_counter, which may not exist yet.
type limitRow struct {
	counters.Row
	exists  bool
	usages  []*rowUsage
	counted bool
	// packed is Counts as it is written.
	packed string
}

// rowUsage is the count of one limit in a row.
type rowUsage struct {
	limit.Usage
	counted bool
}

// chargedRow links a charge of an operation to its row.
type chargedRow struct {
	row   *limitRow
	usage *rowUsage
}

// open creates the rows of every operation that charges limits. It reads nothing.
func (b *limitRows) open(f *flight) {
	charges := 0
	for i := range f.ops {
		charges += len(f.ops[i].Charges)
	}
	if charges == 0 {
		return
	}
	b.rows = make(map[counters.Key]*limitRow, charges)
	b.of, b.charges = make([]int, len(f.ops)+1), make([]chargedRow, 0, charges)
	room := make([]limitRow, charges)
	for i := range f.ops {
		var last *limitRow
		for j := range f.ops[i].Charges {
			charge := &f.ops[i].Charges[j]
			key := counters.Key{Budget: f.ops[i].Budget.ID, Dimension: charge.Limit.Dimension,
				Value: charge.Key}
			if last == nil || last.Key != key {
				if last = b.rows[key]; last == nil {
					last, room = &room[0], room[1:]
					last.Key = key
					b.rows[key] = last
					b.list = append(b.list, last)
				}
			}
			b.charges = append(b.charges, chargedRow{row: last})
		}
		b.of[i+1] = len(b.charges)
	}
	slices.SortFunc(b.list, func(x, y *limitRow) int { return x.Key.Compare(y.Key) })
}

// keys lists the rows in lock order.
func (b *limitRows) keys() []counters.Key {
	out := make([]counters.Key, len(b.list))
	for i, p := range b.list {
		out[i] = p.Key
	}
	return out
}

// overrides lists the overrides that the charges are judged by.
func (b *limitRows) overrides(f *flight) (ids []limit.OverrideID) {
	for i := range f.ops {
		ids = append(ids, limit.Overrides(f.ops[i].Budget.ID, f.ops[i].Charges)...)
	}
	return ids
}

// put stores a row that was read.
func (b *limitRows) put(row *counters.Row) {
	if p := b.rows[row.Key]; p != nil {
		p.Row, p.exists = *row, true
	}
}

// now returns the instant at which a flight is counted that a node takes for nowMS: see
// limit.Counters.
func (b *limitRows) now(nowMS int64) int64 {
	at := nowMS
	for _, p := range b.list {
		at = max(at, p.Counts.Now(nowMS))
	}
	return at
}

// usage builds the usages of all charges at an instant. It returns the charges whose usages must
// first be loaded from the ledger.
func (b *limitRows) usage(f *flight, nowMS int64) (stale []chargedRow) {
	for i := range f.ops {
		for j := range f.ops[i].Charges {
			charge, m := &f.ops[i].Charges[j], &b.charges[b.of[i]+j]
			made := false
			m.usage, made = m.row.usage(charge, nowMS)
			b.bounds.Apply(f.ops[i].Budget.ID, charge.Limit, &m.usage.Usage)
			if made {
				if _, _, load := m.usage.Stale(); load {
					stale = append(stale, *m)
				}
			}
		}
	}
	return stale
}

// usage returns the row's usage of a charge's limit. made reports whether it is new.
func (p *limitRow) usage(charge *limit.Charge, nowMS int64) (t *rowUsage, made bool) {
	for _, t := range p.usages {
		if t.Limit == charge.Limit || t.Limit.Name == charge.Limit.Name &&
			t.Limit.ChangedVersion == charge.Limit.ChangedVersion {
			return t, false
		}
	}
	t = &rowUsage{Usage: p.Counts.Usage(charge.Limit, charge.Key, nowMS)}
	t.Values = charge.Values
	p.usages = append(p.usages, t)
	return t, true
}

// usages appends the usages of an operation, one per charge.
func (b *limitRows) usages(i int, to []*limit.Usage) []*limit.Usage {
	if b.of == nil {
		return to
	}
	for _, m := range b.charges[b.of[i]:b.of[i+1]] {
		to = append(to, &m.usage.Usage)
	}
	return to
}

// count records that an operation was counted.
func (b *limitRows) count(i int) {
	for _, m := range b.charges[b.of[i]:b.of[i+1]] {
		m.row.counted, m.usage.counted = true, true
	}
}

// close writes the counts into the rows. It returns the rows to store in lock order: existing
// rows, and new ones.
func (b *limitRows) close() (existing, added []*limitRow) {
	for _, p := range b.list {
		if !p.counted {
			continue
		}
		for _, t := range p.usages {
			if t.counted {
				p.Counts.Put(&t.Usage)
			}
		}
		p.packed = p.Counts.Pack()
		if p.exists {
			existing = append(existing, p)
		} else {
			added = append(added, p)
		}
	}
	return existing, added
}
