package commit

import (
	"slices"

	"github.com/budgetd/budgetd/internal/sqlstore/counters"
	"github.com/budgetd/budgetd/limit"
)

// book holds the limit counters that the operations of a flight touch, one page per row.
type book struct {
	pages map[counters.Key]*page
	// list holds the pages in lock order.
	list []*page
	// The marks of operation i are marks[of[i]:of[i+1]].
	of    []int
	marks []mark
}

// page is a row of limit_counter, which may not exist yet.
type page struct {
	counters.Row
	exists  bool
	tallies []*pageTally
	counted bool
}

// pageTally is the count of one limit on a page.
type pageTally struct {
	limit.Tally
	counted bool
}

// mark links a touch of an operation to its page.
type mark struct {
	page  *page
	tally *pageTally
}

// open creates the pages of every operation that touches limits. It reads nothing.
func (b *book) open(f *flight) {
	touches := 0
	for i := range f.ops {
		touches += len(f.ops[i].Touches)
	}
	if touches == 0 {
		return
	}
	b.pages = make(map[counters.Key]*page, touches)
	b.of, b.marks = make([]int, len(f.ops)+1), make([]mark, 0, touches)
	room := make([]page, touches)
	for i := range f.ops {
		var last *page
		for j := range f.ops[i].Touches {
			touch := &f.ops[i].Touches[j]
			key := counters.Key{Budget: f.ops[i].Budget.ID, Dimension: touch.Limit.Dimension,
				Value: touch.Key}
			if last == nil || last.Key != key {
				if last = b.pages[key]; last == nil {
					last, room = &room[0], room[1:]
					last.Key = key
					b.pages[key] = last
					b.list = append(b.list, last)
				}
			}
			b.marks = append(b.marks, mark{page: last})
		}
		b.of[i+1] = len(b.marks)
	}
	slices.SortFunc(b.list, func(x, y *page) int { return x.Key.Compare(y.Key) })
}

// empty reports whether no operation touches a limit.
func (b *book) empty() bool { return len(b.list) == 0 }

// keys lists the rows in lock order.
func (b *book) keys() []counters.Key {
	out := make([]counters.Key, len(b.list))
	for i, p := range b.list {
		out[i] = p.Key
	}
	return out
}

// put stores a row that was read.
func (b *book) put(row *counters.Row) {
	if p := b.pages[row.Key]; p != nil {
		p.Row, p.exists = *row, true
	}
}

// notBefore returns the earliest instant at which the flight may be counted: see limit.Counters.
func (b *book) notBefore() int64 {
	latest := int64(0)
	for _, p := range b.list {
		latest = max(latest, p.Counts.NotBefore())
	}
	return latest
}

// tally builds the tallies of all touches at an instant. It returns the marks whose tallies must
// first be loaded from the ledger.
func (b *book) tally(f *flight, nowMS int64) (stale []mark) {
	for i := range f.ops {
		for j := range f.ops[i].Touches {
			touch, m := &f.ops[i].Touches[j], &b.marks[b.of[i]+j]
			made := false
			if m.tally, made = m.page.tally(touch, nowMS); made {
				if _, _, load := m.tally.Stale(); load {
					stale = append(stale, *m)
				}
			}
		}
	}
	return stale
}

// tally returns the page's tally of a touch's limit. made reports whether it is new.
func (p *page) tally(touch *limit.Touch, nowMS int64) (t *pageTally, made bool) {
	for _, t := range p.tallies {
		if t.Limit == touch.Limit || t.Limit.Name == touch.Limit.Name &&
			t.Limit.ChangedVersion == touch.Limit.ChangedVersion {
			return t, false
		}
	}
	t = &pageTally{Tally: p.Counts.Tally(touch.Limit, touch.Key, nowMS)}
	t.Values = touch.Values
	p.tallies = append(p.tallies, t)
	return t, true
}

// tallies appends the tallies of an operation, one per touch.
func (b *book) tallies(i int, to []*limit.Tally) []*limit.Tally {
	if b.of == nil {
		return to
	}
	for _, m := range b.marks[b.of[i]:b.of[i+1]] {
		to = append(to, &m.tally.Tally)
	}
	return to
}

// count records that an operation was counted.
func (b *book) count(i int) {
	for _, m := range b.marks[b.of[i]:b.of[i+1]] {
		m.page.counted, m.tally.counted = true, true
	}
}

// close writes the counts into the rows. It returns the pages to store in lock order: existing
// rows, and new ones.
func (b *book) close() (existing, added []*page) {
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
