package sqlstore

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// counterKey names a value of a limit: what is locked and judged as one.
type counterKey struct {
	budget       int64
	limit, value string
}

// rowKey names a row of limit_counter.
type rowKey struct {
	counterKey
	window int64
}

func compareRowKeys(a, b rowKey) int {
	return cmp.Or(cmp.Compare(a.budget, b.budget), cmp.Compare(a.limit, b.limit),
		cmp.Compare(a.value, b.value), cmp.Compare(a.window, b.window))
}

// limitBook has the counters that the entries of one transaction touch, locked.
type limitBook struct {
	sets    map[int64]*limit.Set
	touched map[*ledger.Request]touched
	tallies map[counterKey]*bookTally
	// ahead: all that the entries ask for is counted before it is judged (addTallies). If the judgement comes to
	// something else (asCounted), the transaction is done again without.
	ahead bool
	// refused: a limit refused an entry, whose id was perhaps only taken for new.
	refused bool
}

// touched is what an entry counts in, or the limit whose dimension it lacks.
type touched struct {
	touches []limit.Touch
	missing *limit.Limit
}

// bookTally is a tally beside its row as it stands in the table.
type bookTally struct {
	limit.Tally
	written limit.Row
	changed bool
	// asked is what the entries add to it if all of them are allowed.
	asked int64
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
	b := &limitBook{sets: map[int64]*limit.Set{}, touched: map[*ledger.Request]touched{},
		tallies: map[counterKey]*bookTally{}, ahead: ahead}
	for i := range logs {
		row := rows[position{logs[i].Bucket, logs[i].Epoch}]
		if row == nil || !row.live() || row.Fenced != "" || row.LimitsVersion == 0 {
			continue
		}
		set, err := t.limitSet(row.Budget, row.LimitsVersion)
		if err != nil {
			return nil, err
		}
		if !t.judges(set) {
			continue
		}
		b.sets[row.Budget] = set
		for j := range logs[i].Entries {
			e := &logs[i].Entries[j]
			if e.Kind == ledger.KindDeduct && e.Seq > row.DrainedSeq && !recorded.has(row.Budget, e.Request.ID) {
				b.touch(row.Budget, set, e, toMS(t.now))
			}
		}
	}
	return b, t.bookTallies(b)
}

// bookTallies locks and reads the counters of a book. Where SQL has none, in store mode, they are made from the
// ledger: a value's deductions are all in one bucket, whose epoch is locked.
func (t *tx) bookTallies(b *limitBook) error {
	locked := map[counterKey]*bookTally{}
	for key, tally := range b.tallies {
		if !b.sets[key.budget].InStores {
			locked[key] = tally
		} else if err := t.fromLedger(key.budget, &tally.Tally); err != nil {
			return err
		}
	}
	if b.ahead {
		return t.addTallies(locked)
	}
	return t.lockTallies(locked)
}

// touch notes what an entry counts in.
func (b *limitBook) touch(budgetID int64, set *limit.Set, e *ledger.Entry, nowMS int64) {
	var of touched
	of.touches, of.missing = set.Touches(e.Amount, ledger.ReadDimensions(e.Request.Dimensions),
		ledger.ReadCounts(e.Request.Counts))
	b.touched[&e.Request] = of
	for _, touch := range of.touches {
		key := counterKey{budgetID, touch.Limit.Name, touch.Key}
		if b.tallies[key] == nil {
			b.tallies[key] = &bookTally{Tally: limit.NewTally(touch.Limit, touch.Key, nowMS)}
			b.tallies[key].Values = touch.Values
		}
		b.tallies[key].asked = limit.Plus(b.tallies[key].asked, touch.Counts)
	}
}

const (
	insertCounter = `INSERT INTO limit_counter (budget_id, limit_name, value, window_ms, counted, began_ms,
		version, expires_ms)`
	counterWidth = 8
	// makeCounter makes a row in which nothing is counted, of no version.
	makeCounter = `INSERT INTO limit_counter (budget_id, limit_name, value, window_ms, expires_ms)`
	newWidth    = 5
	// addCounter adds at most mostAdded to a row of less, or makes it of the present version: to be ended with
	// dialect.addCounter.
	addCounter    = `INSERT INTO limit_counter (budget_id, limit_name, value, window_ms, counted, version, expires_ms)`
	addedWidth    = 7
	mostAdded     = 1 << 62
	selectCounter = `SELECT c.budget_id, c.limit_name, c.value, c.window_ms, c.counted, c.began_ms, c.version,
		c.expires_ms FROM limit_counter c /*by PRIMARY*/ WHERE `
	// ofCounters and ofSlots end with the list of values: engines look each row up in a list once it is
	// read, and would compare it with every one of as many conditions.
	ofCounters     = `(c.budget_id = ? AND c.limit_name = ? AND c.window_ms = ? AND c.value IN (`
	ofSlots        = `(c.budget_id = ? AND c.limit_name = ? AND c.window_ms >= ? AND c.value IN (`
	inCounterOrder = ` ORDER BY c.budget_id, c.limit_name, c.value, c.window_ms`
)

// counterRow is a row of limit_counter.
type counterRow struct {
	Budget    int64  `db:"budget_id"`
	Limit     []byte `db:"limit_name"`
	Value     []byte `db:"value"`
	WindowMS  int64  `db:"window_ms"`
	Counted   int64  `db:"counted"`
	BeganMS   int64  `db:"began_ms"`
	Version   int64  `db:"version"`
	ExpiresMS int64  `db:"expires_ms"`
}

func (r *counterRow) key() counterKey { return counterKey{r.Budget, string(r.Limit), string(r.Value)} }

func (r *counterRow) row() limit.Row {
	return limit.Row{Counted: r.Counted, BeganMS: r.BeganMS, Version: r.Version, ExpiresMS: r.ExpiresMS}
}

// lockTallies makes the rows that are missing, with nothing counted, and locks all of them in the order of
// their keys: without a row two transactions find room for the same last one, in any other order they wait
// for each other. Then it reads slots, and loads what may have missed something of the ledger.
func (t *tx) lockTallies(tallies map[counterKey]*bookTally) error {
	if len(tallies) == 0 {
		return nil
	}
	keys, expires := make([]rowKey, 0, len(tallies)), map[rowKey]int64{}
	for key, tally := range tallies {
		row := rowKey{key, tally.WindowMS}
		keys = append(keys, row)
		expires[row] = tally.ExpiresMS()
	}
	rows, err := t.lockCounters(keys, expires)
	if err != nil {
		return err
	}
	for key, row := range rows {
		tally := tallies[key.counterKey]
		tally.Read(key.window, row)
		tally.written = row
	}
	if err := t.readSlots(tallies); err != nil {
		return err
	}
	return t.loadTallies(tallies)
}

// addTallies is lockTallies for limits that can be added to (limit.Set.Additive): it counts all that is asked, in the order
// of the keys and in one statement where that lists what it wrote, and sets what was there before. asCounted says
// whether the judgement is the same. Error: errCountedAhead where a row is of another definition, or where so
// much is counted that it cannot be added.
func (t *tx) addTallies(tallies map[counterKey]*bookTally) error {
	keys := make([]rowKey, 0, len(tallies))
	for key, tally := range tallies {
		keys = append(keys, rowKey{key, tally.WindowMS})
	}
	slices.SortFunc(keys, compareRowKeys)
	args := make([]any, 0, len(keys)*addedWidth)
	for _, k := range keys {
		tally := tallies[k.counterKey]
		if tally.asked > mostAdded {
			return errCountedAhead
		}
		args = append(args, k.budget, []byte(k.limit), []byte(k.value), k.window, tally.asked,
			tally.Limit.ChangedVersion, tally.ExpiresMS())
	}
	rows, err := t.writeAndRead(addCounter, addedWidth, t.conn.dialect.addCounter, args, keys)
	if err != nil {
		return err
	}
	for key, row := range rows {
		tally := tallies[key.counterKey]
		tally.written = row
		if row.Version != tally.Limit.ChangedVersion || row.Counted >= mostAdded {
			return errCountedAhead
		}
		row.Counted -= tally.asked
		tally.Read(key.window, row)
	}
	return nil
}

// loadTallies reads from the ledger what may have missed something of it.
func (r *reader) loadTallies(tallies map[counterKey]*bookTally) error {
	for _, key := range slices.SortedFunc(maps.Keys(tallies), compareCounterKeys) {
		tally := tallies[key]
		from, to, stale := tally.Stale()
		if !stale {
			continue
		}
		events, err := r.events(key.budget, &tally.Tally, from, to)
		if err != nil {
			return err
		}
		tally.Load(events)
		tally.changed = true
	}
	return nil
}

func compareCounterKeys(a, b counterKey) int { return compareRowKeys(rowKey{a, 0}, rowKey{b, 0}) }

// lockCounters locks and reads rows in the order of their keys. With expires, which says when each of them does, those
// that are missing are made, in the same order; without, they are left out.
func (t *tx) lockCounters(keys []rowKey, expires map[rowKey]int64) (map[rowKey]limit.Row, error) {
	slices.SortFunc(keys, compareRowKeys)
	if safeguard.Off(safeguard.CounterLock) {
		return t.readCounters(keys, "")
	}
	if expires == nil {
		return t.readCounters(keys, locked)
	}
	args := make([]any, 0, len(keys)*newWidth)
	for _, k := range keys {
		args = append(args, k.budget, []byte(k.limit), []byte(k.value), k.window, expires[k])
	}
	return t.writeAndRead(makeCounter, newWidth, t.conn.dialect.keepCounter, args, keys)
}

// writeAndRead runs an INSERT of all keys' rows, which ends with what to do about those that are there, and reads the
// rows as they are then, locked: in one statement where the engine can list them.
func (t *tx) writeAndRead(into string, width int, or string, args []any, keys []rowKey) (map[rowKey]limit.Row, error) {
	if !t.conn.dialect.returning {
		if err := t.insertOr(into, width, or, args); err != nil {
			return nil, err
		}
		return t.readCounters(keys, locked)
	}
	out := make(map[rowKey]limit.Row, len(keys))
	or += ` RETURNING budget_id, limit_name, value, window_ms, counted, began_ms, version, expires_ms`
	err := t.inserts(into, width, or, args, func(text string, args []any) error {
		var rows []counterRow
		if err := t.list(&rows, text, args...); err != nil {
			return err
		}
		if n := len(args) / width; len(rows) != n {
			return defect("%d counters instead of %d", len(rows), n)
		}
		for i := range rows {
			out[rowKey{rows[i].key(), rows[i].WindowMS}] = rows[i].row()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// readCounters reads rows by key, with a suffix to the statement (a lock). The keys are sorted.
func (r *reader) readCounters(keys []rowKey, suffix string) (map[rowKey]limit.Row, error) {
	out := make(map[rowKey]limit.Row, len(keys))
	err := r.countersOf(ofCounters, keys, suffix, func(row *counterRow) {
		out[rowKey{row.key(), row.WindowMS}] = row.row()
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// countersOf reads the rows that a condition (ofCounters, ofSlots) names with keys, which are sorted, in
// the order of their keys.
func (r *reader) countersOf(condition string, keys []rowKey, suffix string, each func(*counterRow)) error {
	for chunk := range slices.Chunk(keys, listChunk) {
		for lists := range slices.Chunk(listsOf(chunk), r.conn.dialect.listsAtOnce()) {
			var text strings.Builder
			var args []any
			text.WriteString(selectCounter)
			for i, list := range lists {
				if i > 0 {
					text.WriteString(" OR ")
				}
				list = padded(r.conn.dialect, list)
				text.WriteString(condition + repeat("?", ",", len(list)) + "))")
				args = append(args, list[0].budget, []byte(list[0].limit), list[0].window)
				for _, k := range list {
					args = append(args, []byte(k.value))
				}
			}
			var rows []counterRow
			if err := r.list(&rows, text.String()+inCounterOrder+suffix, args...); err != nil {
				return err
			}
			for i := range rows {
				each(&rows[i])
			}
		}
	}
	return nil
}

// listsOf parts keys into those that differ in nothing but their values.
func listsOf(keys []rowKey) (lists [][]rowKey) {
	places := map[rowKey]int{}
	for _, k := range keys {
		common := k
		common.value = ""
		place, known := places[common]
		if !known {
			place = len(lists)
			places[common] = place
			lists = append(lists, nil)
		}
		lists[place] = append(lists[place], k)
	}
	return lists
}

// readSlots reads the slots of sliding limits, under the locks of their heads or without any.
func (r *reader) readSlots(tallies map[counterKey]*bookTally) error {
	var sliding []rowKey
	for key, tally := range tallies {
		if tally.Limit.Sliding() {
			sliding = append(sliding, rowKey{key, tally.SlotsFrom()})
		}
	}
	slices.SortFunc(sliding, compareRowKeys)
	return r.countersOf(ofSlots, sliding, "", func(row *counterRow) {
		tallies[row.key()].Read(row.WindowMS, row.row())
	})
}

// limitPage is what the entries of one log count: it is kept with the log, or not at all.
type limitPage struct {
	book    *limitBook
	budget  int64
	counted map[counterKey]limit.Tally
}

func (b *limitBook) page(budget int64) *limitPage { return &limitPage{book: b, budget: budget} }

// judge decides entries by the limits; nil where the budget has none.
func (p *limitPage) judge() ledger.Judge {
	if p.book.sets[p.budget] == nil {
		return nil
	}
	return func(r *ledger.Request, _ int64) ledger.Verdict {
		of := p.book.touched[r]
		if of.missing != nil {
			p.book.refused = true
			refusal := ledger.LimitRefusal{LimitState: of.missing.Absent(), Missing: true}
			return ledger.Verdict{Refusal: refusal.Figures()}
		}
		keys, tallies := make([]counterKey, len(of.touches)), make([]*limit.Tally, len(of.touches))
		for i, touch := range of.touches {
			keys[i] = counterKey{p.budget, touch.Limit.Name, touch.Key}
			tally, counted := p.counted[keys[i]]
			if !counted {
				tally = p.book.tallies[keys[i]].Tally
			}
			tallies[i] = &tally
		}
		states, refusal := limit.Judge(of.touches, tallies)
		if refusal != nil {
			p.book.refused = true
			return ledger.Verdict{Refusal: ledger.LimitRefusal{LimitState: *refusal}.Figures()}
		}
		if p.counted == nil {
			p.counted = map[counterKey]limit.Tally{}
		}
		for i, key := range keys {
			p.counted[key] = *tallies[i]
		}
		return ledger.Verdict{States: states}
	}
}

// keep puts what the log's entries count into the book.
func (p *limitPage) keep() {
	for key, tally := range p.counted {
		p.book.tallies[key].Tally, p.book.tallies[key].changed = tally, true
	}
}

// changed lists the rows that have to be written, in the order of their keys.
func (b *limitBook) changed() map[rowKey]limit.Row {
	out := map[rowKey]limit.Row{}
	for key, tally := range b.tallies {
		if !tally.changed || b.sets[key.budget].InStores {
			continue
		}
		if tally.Row != tally.written {
			out[rowKey{key, tally.WindowMS}] = tally.Row
		}
		for _, slot := range tally.Slots() {
			out[rowKey{key, slot}] = tally.SlotRow(slot)
		}
	}
	return out
}

// asCounted reports whether what was counted ahead is what the entries came to, and none was refused.
func (b *limitBook) asCounted() bool {
	if safeguard.Off(safeguard.CountedAhead) {
		return true
	}
	for _, tally := range b.tallies {
		if tally.Row != tally.written {
			return false
		}
	}
	return !b.refused
}

// writeCounters gives rows, whose locks are held, new values.
func (t *tx) writeCounters(rows map[rowKey]limit.Row) error {
	var args []any
	for _, k := range slices.SortedFunc(maps.Keys(rows), compareRowKeys) {
		row := rows[k]
		args = append(args, k.budget, []byte(k.limit), []byte(k.value), k.window, row.Counted, row.BeganMS,
			row.Version, row.ExpiresMS)
	}
	return t.insertOr(insertCounter, counterWidth, t.conn.dialect.replaceCounter, args)
}
