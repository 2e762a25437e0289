// Package counters reads the rows of limit_counter, and the limits that they count
// for. A row holds all windows of one value of a dimension, encoded by package limit.
package counters

import (
	"slices"

	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// Key identifies a row of limit_counter.
type Key = books.CounterID

func values(k Key) []any { return []any{k.Budget, []byte(k.Dimension), []byte(k.Value)} }

// Row is a row of limit_counter.
type Row struct {
	Key Key
	// Version grows by one with each write.
	Version int64
	Counts  limit.Counters
}

const (
	selectCounters = `SELECT c.budget_id, c.dimension, c.value, c.version, c.counts
		FROM limit_counter c /*by PRIMARY*/ WHERE `
	inKeyOrder = ` ORDER BY c.budget_id, c.dimension, c.value`
)

// Queries returns the queries of rows by key, in lock order. lock is "" or rows.Locked. Rows that
// do not exist are missing in the map.
func Queries(keys []Key, lock string, into map[Key]*Row, failed *error) (out []bookkeeper.Query) {
	for chunk := range slices.Chunk(Sorted(keys), engine.ListChunk) {
		out = append(out, func(s *engine.Statement, _ *books.Books) (any, func()) {
			var found []books.Counter
			selectRows(s, chunk, lock)
			return &found, func() {
				for i := range found {
					row, err := rowOf(&found[i])
					if err != nil {
						*failed = err
						continue
					}
					into[row.Key] = row
				}
			}
		})
	}
	return out
}

// Sorted returns the keys in lock order, without duplicates.
func Sorted(keys []Key) []Key {
	keys = slices.Clone(keys)
	slices.SortFunc(keys, Key.Compare)
	return slices.Compact(keys)
}

// Read reads rows by key, without locks. The result has no element for a row that does not exist.
func Read(r *engine.Reader, keys []Key) (map[Key]*Row, error) {
	out := make(map[Key]*Row, len(keys))
	var failed error
	for _, query := range Queries(keys, "", out, &failed) {
		s := r.Statement()
		found, load := query(s, nil)
		if err := r.RowsOf(found, s); err != nil {
			return nil, err
		}
		load()
	}
	return out, failed
}

func selectRows(s *engine.Statement, keys []Key, suffix string) {
	list := make([][]any, len(keys))
	for i, k := range keys {
		list[i] = values(k)
	}
	s.SQL(selectCounters)
	s.Tuples([]string{"c.budget_id", "c.dimension", "c.value"}, list)
	s.SQL(inKeyOrder + suffix)
}

func rowOf(r *books.Counter) (*Row, error) {
	counts, err := limit.ReadCounters(r.Counts)
	if err != nil {
		return nil, engine.Defect("counter of budget %d, %q %q: %w", r.Budget, r.Dimension, r.Value,
			err)
	}
	return &Row{Key: Key{Budget: r.Budget, Dimension: r.Dimension, Value: r.Value},
		Version: r.Version, Counts: counts}, nil
}

const selectValues = `SELECT c.value, c.counts FROM limit_counter c /*by PRIMARY*/
	WHERE c.budget_id = ? AND c.dimension = ? AND c.value > ? ORDER BY c.value LIMIT ?`

// ReadAfter reads up to most rows of a dimension whose values follow that of a key, in their order,
// without locks. The rows have no Version.
func ReadAfter(r *engine.Reader, key Key, most int) ([]Row, error) {
	var found []books.Counter
	if err := r.List(&found, selectValues, append(values(key), most)...); err != nil {
		return nil, err
	}
	out := make([]Row, len(found))
	for i := range found {
		found[i].Budget, found[i].Dimension = key.Budget, key.Dimension
		row, err := rowOf(&found[i])
		if err != nil {
			return nil, err
		}
		out[i] = *row
	}
	return out, nil
}

const selectLimits = `SELECT l.definition, l.changed_version, l.changed_ms, l.override_count,
	l.override_series FROM budget_limit l /*by PRIMARY*/ WHERE l.budget_id = ? ORDER BY l.ordinal`

// Limits reads and compiles the limits of a budget. version is the budget's limits_version. Errors:
// Unavailable, also for a limit in an unknown time zone.
func Limits(r *engine.Reader, budgetID, version int64) (*limit.Set, error) {
	var found []books.Limit
	if err := r.List(&found, selectLimits, budgetID); err != nil {
		return nil, err
	}
	list := make([]*books.Limit, len(found))
	for i := range found {
		list[i] = &found[i]
	}
	return books.CompileLimits(budgetID, version, list)
}
