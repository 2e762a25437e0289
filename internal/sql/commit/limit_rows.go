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
}

// limitRow is a row of limit_counter, which may not exist yet.
type limitRow struct {
	counters.Row
	exists  bool
	tallies []*rowTally
	counted bool
}

// rowTally is the count of one limit in a row.
type rowTally struct {
	limit.Tally
	counted bool
}

// chargedRow links a charge of an operation to its row.
type chargedRow struct {
	row   *limitRow
	tally *rowTally
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

// empty reports whether no operation charges a limit.
func (b *limitRows) empty() bool { return len(b.list) == 0 }

// keys lists the rows in lock order.
func (b *limitRows) keys() []counters.Key {
	out := make([]counters.Key, len(b.list))
	for i, p := range b.list {
		out[i] = p.Key
	}
	return out
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

// tally builds the tallies of all charges at an instant. It returns the charges whose tallies must
// first be loaded from the ledger.
func (b *limitRows) tally(f *flight, nowMS int64) (stale []chargedRow) {
	for i := range f.ops {
		for j := range f.ops[i].Charges {
			charge, m := &f.ops[i].Charges[j], &b.charges[b.of[i]+j]
			made := false
			if m.tally, made = m.row.tally(charge, nowMS); made {
				if _, _, load := m.tally.Stale(); load {
					stale = append(stale, *m)
				}
			}
		}
	}
	return stale
}

// tally returns the row's tally of a charge's limit. made reports whether it is new.
func (p *limitRow) tally(charge *limit.Charge, nowMS int64) (t *rowTally, made bool) {
	for _, t := range p.tallies {
		if t.Limit == charge.Limit || t.Limit.Name == charge.Limit.Name &&
			t.Limit.ChangedVersion == charge.Limit.ChangedVersion {
			return t, false
		}
	}
	t = &rowTally{Tally: p.Counts.Tally(charge.Limit, charge.Key, nowMS)}
	t.Values = charge.Values
	p.tallies = append(p.tallies, t)
	return t, true
}

// tallies appends the tallies of an operation, one per charge.
func (b *limitRows) tallies(i int, to []*limit.Tally) []*limit.Tally {
	if b.of == nil {
		return to
	}
	for _, m := range b.charges[b.of[i]:b.of[i+1]] {
		to = append(to, &m.tally.Tally)
	}
	return to
}

// count records that an operation was counted.
func (b *limitRows) count(i int) {
	for _, m := range b.charges[b.of[i]:b.of[i+1]] {
		m.row.counted, m.tally.counted = true, true
	}
}

// close writes the counts into the rows. It returns the rows to store in lock order: existing
// rows, and new ones.
func (b *limitRows) close() (existing, added []*limitRow) {
	for _, p := range b.list {
		if !p.counted {
			continue
		}
		for _, t := range p.tallies {
			if t.counted {
				p.Counts.Put(&t.Tally)
			}
		}
		if p.exists {
			existing = append(existing, p)
		} else {
			added = append(added, p)
		}
	}
	return existing, added
}
