package sqlstore

import (
	"cmp"
	"database/sql"
	"maps"
	"slices"

	"github.com/budgetd/budgetd/internal/safeguard"
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

const (
	insertCounter = `INSERT INTO limit_counter (budget_id, limit_name, value, window_ms, counted, began_ms,
		version, expires_ms)`
	// makeCounter makes a row in which nothing is counted, of no version.
	makeCounter = `INSERT INTO limit_counter (budget_id, limit_name, value, window_ms, expires_ms)`
	// addCounter adds at most mostAdded to a row of less, or makes it of the present version: to be ended with
	// dialect.addCounter.
	addCounter        = `INSERT INTO limit_counter (budget_id, limit_name, value, window_ms, counted, version, expires_ms)`
	mostAdded         = 1 << 62
	returningCounters = ` RETURNING budget_id, limit_name, value, window_ms, counted, began_ms, version, expires_ms`
	selectCounter     = `SELECT c.budget_id, c.limit_name, c.value, c.window_ms, c.counted, c.began_ms, c.version,
		c.expires_ms FROM limit_counter c /*by PRIMARY*/ WHERE `
	// ofCounters and ofSlots end with the list of values: engines look each row up in a list once it is
	// read, and would compare it with every one of as many conditions.
	ofCounters     = `(c.budget_id = ? AND c.limit_name = ? AND c.window_ms = ? AND c.value IN (`
	ofSlots        = `(c.budget_id = ? AND c.limit_name = ? AND c.window_ms >= ? AND c.value IN (`
	inCounterOrder = ` ORDER BY c.budget_id, c.limit_name, c.value, c.window_ms`
)

// eachCounter reads the rows of a statement one by one; each is gone with the next.
func (r *reader) eachCounter(s *statement, each func(*counterRow) error) error {
	var row counterRow
	var name, value sql.RawBytes
	numbers := make([]any, 6) // faster to scan than as int64, and all are int64
	places := []any{&numbers[0], &name, &value, &numbers[1], &numbers[2], &numbers[3], &numbers[4], &numbers[5]}
	into := []*int64{&row.Budget, &row.WindowMS, &row.Counted, &row.BeganMS, &row.Version, &row.ExpiresMS}
	return r.conn.each(r.ctx, s.text.String(), s.args, func(rows *sql.Rows) error {
		if err := rows.Scan(places...); err != nil {
			return err
		}
		for i, n := range numbers {
			var is bool
			if *into[i], is = n.(int64); !is {
				return defect("a counter with a %T", n)
			}
		}
		row.Limit, row.Value = name, value
		return each(&row)
	})
}

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

// is reports whether it is the row of a key.
func (r *counterRow) is(k *rowKey) bool {
	return string(r.Value) == k.value && r.WindowMS == k.window && r.Budget == k.budget && string(r.Limit) == k.limit
}

func (r *counterRow) key() counterKey { return counterKey{r.Budget, string(r.Limit), string(r.Value)} }

func (r *counterRow) row() limit.Row {
	return limit.Row{Counted: r.Counted, BeganMS: r.BeganMS, Version: r.Version, ExpiresMS: r.ExpiresMS}
}

// lockCounters locks and reads rows in the order of their keys, which are sorted; found gets each with its place in keys.
// With expires, which says when each of them does, those that are missing are made, in the same order; without, they are
// left out.
func (t *tx) lockCounters(keys []rowKey, expires func(i int) int64, found func(i int, row limit.Row)) error {
	if safeguard.Off(safeguard.CounterLock) {
		return t.readCounters(keys, "", found)
	}
	if expires == nil {
		return t.readCounters(keys, locked, found)
	}
	return t.writeAndRead(makeCounter, t.conn.dialect.keepCounter, keys, func(to *inserting, i int) {
		to.number(expires(i))
	}, found)
}

// writeAndRead runs an INSERT of all keys' rows, which are sorted, and which ends with what to do about those that are
// there, and reads the rows as they are then, locked: in one statement where the engine can list them. values adds what
// follows the key of a row, found gets each row with its place in keys.
func (t *tx) writeAndRead(into, or string, keys []rowKey, values func(to *inserting, i int),
	found func(i int, row limit.Row)) error {
	run, read := t.inserted, 0
	if t.conn.dialect.returning {
		or += returningCounters
		run = func(s *statement, rows int) error {
			part := keys[read : read+rows]
			n, err := t.counters(s, part, func(i int, row limit.Row) { found(read+i, row) })
			if err == nil && n != rows {
				err = defect("%d counters instead of %d", n, rows)
			}
			read += rows
			return err
		}
	}
	to := t.inserting(into, or, len(keys), run)
	for i := range keys {
		to.row()
		to.number(keys[i].budget)
		to.bytes(keys[i].limit)
		to.bytes(keys[i].value)
		to.number(keys[i].window)
		values(to, i)
	}
	if err := to.end(); err != nil || t.conn.dialect.returning {
		return err
	}
	return t.readCounters(keys, locked, found)
}

// counters reads the rows of a statement, which are those of some of the keys: most come in their order, which is that of the
// statement. found gets each with its place. It returns how many there are. Error: a row of another key.
func (r *reader) counters(s *statement, keys []rowKey, found func(i int, row limit.Row)) (n int, err error) {
	at := 0
	err = r.eachCounter(s, func(c *counterRow) error {
		if at == len(keys) || !c.is(&keys[at]) {
			k := rowKey{c.key(), c.WindowMS}
			i, is := slices.BinarySearchFunc(keys, k, compareRowKeys)
			if !is {
				return defect("a counter that was not asked for: %+v", k)
			}
			at = i
		}
		found(at, c.row())
		at++
		n++
		return nil
	})
	return n, err
}

// readCounters reads rows by key, with a suffix to the statement (a lock), as counters does. The keys are sorted.
func (r *reader) readCounters(keys []rowKey, suffix string, found func(i int, row limit.Row)) error {
	return r.countersOf(ofCounters, keys, suffix, func(s *statement) error {
		_, err := r.counters(s, keys, found)
		return err
	})
}

// countersOf writes the statements that read the rows which a condition (ofCounters, ofSlots) names with keys, which are
// sorted, in the order of their keys, and gives them to read.
func (r *reader) countersOf(condition string, keys []rowKey, suffix string, read func(*statement) error) error {
	for chunk := range slices.Chunk(keys, listChunk) {
		for lists := range slices.Chunk(listsOf(chunk), r.conn.dialect.listsAtOnce()) {
			s := &statement{dialect: r.conn.dialect}
			s.sql(selectCounter)
			for i, list := range lists {
				if i > 0 {
					s.sql(" OR ")
				}
				s.fill(condition, func(place int) {
					switch place {
					case 0:
						s.number(list[0].budget)
					case 1:
						s.bytes(list[0].limit)
					default:
						s.number(list[0].window)
					}
				})
				for j, k := range padded(r.conn.dialect, list) {
					s.sql(separator(j, "", ","))
					s.bytes(k.value)
				}
				s.sql("))")
			}
			s.sql(inCounterOrder + suffix)
			if err := read(s); err != nil {
				return err
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

// writeCounters gives rows, whose locks are held, new values, in the order of their keys.
func (t *tx) writeCounters(rows map[rowKey]limit.Row) error {
	to := t.inserting(insertCounter, t.conn.dialect.replaceCounter, len(rows), t.inserted)
	for _, k := range slices.SortedFunc(maps.Keys(rows), compareRowKeys) {
		row := rows[k]
		to.row()
		to.number(k.budget)
		to.bytes(k.limit)
		to.bytes(k.value)
		to.number(k.window)
		to.number(row.Counted)
		to.number(row.BeganMS)
		to.number(row.Version)
		to.number(row.ExpiresMS)
	}
	return to.end()
}
