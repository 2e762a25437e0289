package sqlstore

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// limitBook has the counters that the entries of one transaction touch, locked.
type limitBook struct {
	sets map[int64]*limit.Set
	// entries has, by log, its entries that limits may judge, in their order.
	entries [][]touched
	tallies tallies
	// ahead: all that the entries ask for is counted before it is judged (addTallies). If the judgement comes to
	// something else (asCounted), the transaction is done again without.
	ahead bool
	// refused: a limit refused an entry, whose id was perhaps only taken for new.
	refused bool
	pages   int // that were begun
}

// touched is what an entry counts in, and the limit whose dimension it lacks.
type touched struct {
	request *ledger.Request
	touches []limit.Touch
	tallies []*bookTally // one per touch
	missing *limit.Limit
}

// bookTally is a tally beside its row as it stands in the table.
type bookTally struct {
	limit.Tally
	budget   int64
	inStores bool
	written  limit.Row
	changed  bool
	// asked is what the entries add to it if all of them are allowed.
	asked int64
	// page is the last one that counted in it, mark and marked what it and changed were before.
	page   int
	mark   limit.Mark
	marked bool
}

func (b *bookTally) key() counterKey { return counterKey{b.budget, b.Limit.Name, b.Key} }

// head names the row that is locked.
func (b *bookTally) head() rowKey { return rowKey{b.key(), b.WindowMS} }

// tallies are tallies by their keys.
type tallies struct {
	byKey map[counterKey]*bookTally
	list  []*bookTally // sorted by key once they are locked or read
	room  []bookTally  // of those to be made next
	nowMS int64
}

// newTallies is for tallies as of an instant; about as many as given.
func newTallies(nowMS int64, about int) tallies {
	return tallies{make(map[counterKey]*bookTally, about), make([]*bookTally, 0, about), nil, nowMS}
}

// of returns the tally of a touch of a budget, which is made where there is none.
func (s *tallies) of(budgetID int64, touch *limit.Touch) *bookTally {
	key := counterKey{budgetID, touch.Limit.Name, touch.Key}
	tally := s.byKey[key]
	if tally == nil {
		if len(s.room) == 0 {
			const atOnce = 32
			s.room = make([]bookTally, atOnce)
		}
		tally, s.room = &s.room[0], s.room[1:]
		tally.Tally, tally.budget = limit.NewTally(touch.Limit, touch.Key, s.nowMS), budgetID
		tally.Values = touch.Values
		s.byKey[key] = tally
		s.list = append(s.list, tally)
	}
	return tally
}

func (s *tallies) sort() {
	slices.SortFunc(s.list, func(a, b *bookTally) int {
		if c := cmp.Compare(a.budget, b.budget); c != 0 {
			return c
		}
		if a.Limit != b.Limit {
			if c := strings.Compare(a.Limit.Name, b.Limit.Name); c != 0 {
				return c
			}
		}
		return strings.Compare(a.Key, b.Key)
	})
}

// heads are the rows that are locked, of a sorted list.
func heads(list []*bookTally) []rowKey {
	keys := make([]rowKey, len(list))
	for i, tally := range list {
		keys[i] = tally.head()
	}
	return keys
}

// judges reports whether commits judge by limits: there are some, and no store has.
func (t *tx) judges(set *limit.Set) bool {
	return len(set.List) > 0 && (!set.InStores || t.direct)
}

// errCountedAhead says that limits did not allow what was counted before they were asked.
var errCountedAhead = errors.New("limits were counted that had to be judged first")

// limitBook reads the limits of the budgets that the logs are of, and locks the counters that their
// entries touch: those whose ids are not recorded. The epochs are locked.
func (t *tx) limitBook(logs []ledger.Log, rows map[position]*epochRow,
	recorded recordedIDs, ahead bool) (*limitBook, error) {
	b := &limitBook{sets: map[int64]*limit.Set{}, entries: make([][]touched, len(logs)), ahead: ahead}
	most := 0
	judged := make([]*limit.Set, len(logs))
	for i := range logs {
		row := rows[position{logs[i].Bucket, logs[i].Epoch}]
		if row == nil || !row.live() || row.Fenced != "" || row.LimitsVersion == 0 {
			continue
		}
		set, err := t.limitSet(row.Budget, row.LimitsVersion)
		if err != nil {
			return nil, err
		}
		if t.judges(set) {
			judged[i], b.sets[row.Budget] = set, set
			most += len(logs[i].Entries) * len(set.List)
		}
	}
	if most == 0 {
		return b, nil
	}
	b.tallies = newTallies(toMS(t.now), most)
	for i, set := range judged {
		if set != nil {
			b.entries[i] = b.touch(set, rows[position{logs[i].Bucket, logs[i].Epoch}], logs[i].Entries, recorded)
		}
	}
	return b, t.bookTallies(b)
}

// bookTallies locks and reads the counters of a book. Where SQL has none, in store mode, they are made from the
// ledger: a value's deductions are all in one bucket, whose epoch is locked.
func (t *tx) bookTallies(b *limitBook) error {
	b.tallies.sort()
	locked := make([]*bookTally, 0, len(b.tallies.list))
	for _, tally := range b.tallies.list {
		if tally.inStores = b.sets[tally.budget].InStores; !tally.inStores {
			locked = append(locked, tally)
		} else if err := t.fromLedger(tally.budget, &tally.Tally); err != nil {
			return err
		}
	}
	if b.ahead {
		return t.addTallies(locked)
	}
	return t.lockTallies(locked)
}

// touch returns what the entries of a log count in that follow the drained position and are not recorded.
func (b *limitBook) touch(set *limit.Set, row *epochRow, entries []ledger.Entry, recorded recordedIDs) []touched {
	out := make([]touched, 0, len(entries))
	touches := make([]limit.Touch, 0, len(entries)*len(set.List))
	tallies := make([]*bookTally, 0, cap(touches))
	var dimensions []ledger.Dimension
	value := func(name string) (string, bool) { return ledger.Value(dimensions, name) }
	for i := range entries {
		e := &entries[i]
		if e.Kind != ledger.KindDeduct || e.Seq <= row.DrainedSeq || recorded.has(row.Budget, e.Request.ID) {
			continue
		}
		dimensions = ledger.AppendDimensions(dimensions[:0], e.Request.Dimensions)
		of, from := touched{request: &e.Request}, len(touches)
		touches, of.missing = set.AppendTouches(touches, e.Amount, value, ledger.ReadCounts(e.Request.Counts))
		of.touches = touches[from:len(touches):len(touches)]
		for j := range of.touches {
			tally := b.tallies.of(row.Budget, &of.touches[j])
			tally.asked = limit.Plus(tally.asked, of.touches[j].Counts)
			tallies = append(tallies, tally)
		}
		of.tallies = tallies[from:len(tallies):len(tallies)]
		out = append(out, of)
	}
	return out
}

// lockTallies makes the rows that are missing, with nothing counted, and locks all of them in the order of
// their keys: without a row two transactions find room for the same last one, in any other order they wait
// for each other. Then it reads slots, and loads what may have missed something of the ledger. The list is sorted.
func (t *tx) lockTallies(list []*bookTally) error {
	if len(list) == 0 {
		return nil
	}
	keys := heads(list)
	put := func(i int, row limit.Row) {
		list[i].Read(keys[i].window, row)
		list[i].written = row
	}
	if err := t.lockCounters(keys, func(i int) int64 { return list[i].ExpiresMS() }, put); err != nil {
		return err
	}
	if err := t.readSlots(list); err != nil {
		return err
	}
	return t.loadTallies(list)
}

// addTallies is lockTallies for limits that can be added to (limit.Set.Additive): it counts all that is asked, in the order
// of the keys and in one statement where that lists what it wrote, and sets what was there before. asCounted says
// whether the judgement is the same. Error: errCountedAhead where a row is of another definition, or where so
// much is counted that it cannot be added.
func (t *tx) addTallies(list []*bookTally) error {
	if len(list) == 0 {
		return nil
	}
	for _, tally := range list {
		if tally.asked > mostAdded {
			return errCountedAhead
		}
	}
	keys, unfit := heads(list), false
	err := t.writeAndRead(addCounter, t.conn.dialect.addCounter, keys, func(to *inserting, i int) {
		to.number(list[i].asked)
		to.number(list[i].Limit.ChangedVersion)
		to.number(list[i].ExpiresMS())
	}, func(i int, row limit.Row) {
		tally := list[i]
		tally.written = row
		unfit = unfit || row.Version != tally.Limit.ChangedVersion || row.Counted >= mostAdded
		row.Counted -= tally.asked
		tally.Read(keys[i].window, row)
	})
	if err == nil && unfit {
		err = errCountedAhead
	}
	return err
}

// loadTallies reads from the ledger what may have missed something of it.
func (r *reader) loadTallies(list []*bookTally) error {
	for _, tally := range list {
		from, to, stale := tally.Stale()
		if !stale {
			continue
		}
		events, err := r.events(tally.budget, &tally.Tally, from, to)
		if err != nil {
			return err
		}
		tally.Load(events)
		tally.changed = true
	}
	return nil
}

// readSlots reads the slots of sliding limits, under the locks of their heads or without any. The list is sorted.
func (r *reader) readSlots(list []*bookTally) error {
	var keys []rowKey
	sliding := map[counterKey]*bookTally{}
	for _, tally := range list {
		if tally.Limit.Sliding() {
			keys = append(keys, rowKey{tally.key(), tally.SlotsFrom()})
			sliding[tally.key()] = tally
		}
	}
	return r.countersOf(ofSlots, keys, "", func(s *statement) error {
		return r.eachCounter(s, func(row *counterRow) error {
			sliding[row.key()].Read(row.WindowMS, row.row())
			return nil
		})
	})
}

// limitPage is what the entries of one log count: it stays with the log, or undo takes it back.
type limitPage struct {
	book    *limitBook
	budget  int64
	number  int
	entries []touched
	next    int // in entries: they are judged in their order
	counted []*bookTally
	scratch []*limit.Tally
}

// page begins the page of a log of a budget.
func (b *limitBook) page(log int, budget int64) *limitPage {
	b.pages++
	return &limitPage{book: b, budget: budget, number: b.pages, entries: b.entries[log]}
}

// of returns what a request touches: nothing where it was recorded before.
func (p *limitPage) of(r *ledger.Request) *touched {
	for i := p.next; i < len(p.entries); i++ {
		if p.entries[i].request == r {
			p.next = i + 1
			return &p.entries[i]
		}
	}
	return &touched{}
}

// judge decides entries by the limits; nil where the budget has none.
func (p *limitPage) judge() ledger.Judge {
	if p.book.sets[p.budget] == nil {
		return nil
	}
	return func(r *ledger.Request, _ int64) ledger.Verdict {
		of := p.of(r)
		if of.missing != nil {
			p.book.refused = true
			refusal := ledger.LimitRefusal{LimitState: of.missing.Absent(), Missing: true}
			return ledger.Verdict{Refusal: refusal.Figures()}
		}
		p.scratch = p.scratch[:0]
		for _, tally := range of.tallies {
			p.keepBefore(tally)
			p.scratch = append(p.scratch, &tally.Tally)
		}
		states, refusal := limit.Judge(of.touches, p.scratch)
		if refusal != nil {
			p.book.refused = true
			return ledger.Verdict{Refusal: ledger.LimitRefusal{LimitState: *refusal}.Figures()}
		}
		for _, tally := range of.tallies {
			tally.changed = true
		}
		return ledger.Verdict{States: states}
	}
}

// keepBefore notes what undo needs.
func (p *limitPage) keepBefore(tally *bookTally) {
	if tally.page != p.number {
		tally.page, tally.mark, tally.marked = p.number, tally.Mark(), tally.changed
		p.counted = append(p.counted, tally)
	}
}

// undo takes back what the log's entries count.
func (p *limitPage) undo() {
	for _, tally := range p.counted {
		tally.Reset(tally.mark)
		tally.changed = tally.marked
	}
}

// changed lists the rows that have to be written.
func (b *limitBook) changed() map[rowKey]limit.Row {
	out := map[rowKey]limit.Row{}
	for _, tally := range b.tallies.list {
		if !tally.changed || tally.inStores {
			continue
		}
		if tally.Row != tally.written {
			out[tally.head()] = tally.Row
		}
		for _, slot := range tally.Slots() {
			out[rowKey{tally.key(), slot}] = tally.SlotRow(slot)
		}
	}
	return out
}

// asCounted reports whether what was counted ahead is what the entries came to, and none was refused.
func (b *limitBook) asCounted() bool {
	if safeguard.Off(safeguard.CountedAhead) {
		return true
	}
	for _, tally := range b.tallies.list {
		if tally.Row != tally.written {
			return false
		}
	}
	return !b.refused
}
