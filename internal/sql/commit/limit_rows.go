package commit

import (
	"slices"

	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/limit"
)

// limitRows holds the limit counters that the operations of a flight touch, one per row.
type limitRows struct {
	rows map[counters.Key]*limitRow
	// list holds the rows in lock order.
	list []*limitRow
	// The touches of operation i are touches[of[i]:of[i+1]].
	of      []int
	touches []touchedRow
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

// touchedRow links a touch of an operation to its row.
type touchedRow struct {
	row   *limitRow
	tally *rowTally
}

// open creates the rows of every operation that touches limits. It reads nothing.
func (b *limitRows) open(f *flight) {
	touches := 0
	for i := range f.ops {
		touches += len(f.ops[i].Touches)
	}
	if touches == 0 {
		return
	}
	b.rows = make(map[counters.Key]*limitRow, touches)
	b.of, b.touches = make([]int, len(f.ops)+1), make([]touchedRow, 0, touches)
	room := make([]limitRow, touches)
	for i := range f.ops {
		var last *limitRow
		for j := range f.ops[i].Touches {
			touch := &f.ops[i].Touches[j]
			key := counters.Key{Budget: f.ops[i].Budget.ID, Dimension: touch.Limit.Dimension,
				Value: touch.Key}
			if last == nil || last.Key != key {
				if last = b.rows[key]; last == nil {
					last, room = &room[0], room[1:]
					last.Key = key
					b.rows[key] = last
					b.list = append(b.list, last)
				}
			}
			b.touches = append(b.touches, touchedRow{row: last})
		}
		b.of[i+1] = len(b.touches)
	}
	slices.SortFunc(b.list, func(x, y *limitRow) int { return x.Key.Compare(y.Key) })
}

// empty reports whether no operation touches a limit.
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

// tally builds the tallies of all touches at an instant. It returns the touches whose tallies must
// first be loaded from the ledger.
func (b *limitRows) tally(f *flight, nowMS int64) (stale []touchedRow) {
	for i := range f.ops {
		for j := range f.ops[i].Touches {
			touch, m := &f.ops[i].Touches[j], &b.touches[b.of[i]+j]
			made := false
			if m.tally, made = m.row.tally(touch, nowMS); made {
				if _, _, load := m.tally.Stale(); load {
					stale = append(stale, *m)
				}
			}
		}
	}
	return stale
}

// tally returns the row's tally of a touch's limit. made reports whether it is new.
func (p *limitRow) tally(touch *limit.Touch, nowMS int64) (t *rowTally, made bool) {
	for _, t := range p.tallies {
		if t.Limit == touch.Limit || t.Limit.Name == touch.Limit.Name &&
			t.Limit.ChangedVersion == touch.Limit.ChangedVersion {
			return t, false
		}
	}
	t = &rowTally{Tally: p.Counts.Tally(touch.Limit, touch.Key, nowMS)}
	t.Values = touch.Values
	p.tallies = append(p.tallies, t)
	return t, true
}

// tallies appends the tallies of an operation, one per touch.
func (b *limitRows) tallies(i int, to []*limit.Tally) []*limit.Tally {
	if b.of == nil {
		return to
	}
	for _, m := range b.touches[b.of[i]:b.of[i+1]] {
		to = append(to, &m.tally.Tally)
	}
	return to
}

// count records that an operation was counted.
func (b *limitRows) count(i int) {
	for _, m := range b.touches[b.of[i]:b.of[i+1]] {
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
