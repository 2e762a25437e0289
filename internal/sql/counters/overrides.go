package counters

import (
	"slices"

	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

const selectOverrides = `SELECT o.budget_id, o.series, o.value, o.max_quantity, o.is_exempt
	FROM limit_override o /*by PRIMARY*/ WHERE `

// overrideRow is a row of selectOverrides.
type overrideRow struct {
	Budget int64  `db:"budget_id"`
	Series int64  `db:"series"`
	Value  string `db:"value"`
	Max    int64  `db:"max_quantity"`
	Exempt int64  `db:"is_exempt"`
}

// Overrides returns the queries of overrides, without locks. Nobody else need stand still while
// they judge: a change of an override applies to what reads it afterwards.
func Overrides(ids []limit.OverrideID, into *limit.Bounds) (out []bookkeeper.Query) {
	for chunk := range slices.Chunk(SortedOverrides(ids), engine.ListChunk) {
		out = append(out, func(s *engine.Statement, _ *books.Books) (any, func()) {
			list := make([][]any, len(chunk))
			for i, id := range chunk {
				list[i] = []any{id.Budget, id.Series, []byte(id.Key)}
			}
			s.SQL(selectOverrides)
			s.Tuples([]string{"o.budget_id", "o.series", "o.value"}, list)
			var found []overrideRow
			return &found, func() {
				for _, row := range found {
					into.Put(limit.OverrideID{Budget: row.Budget, Series: row.Series, Key: row.Value},
						limit.Bound{Max: row.Max, Exempt: row.Exempt == 1})
				}
			}
		})
	}
	return out
}

// ReadOverrides reads overrides, without locks.
func ReadOverrides(r *engine.Reader, ids []limit.OverrideID) (*limit.Bounds, error) {
	out := &limit.Bounds{}
	_, err := bookkeeper.Read(r, Overrides(ids, out)...)
	return out, err
}

// SortedOverrides returns the ids in the order of their rows, without duplicates.
func SortedOverrides(ids []limit.OverrideID) []limit.OverrideID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, limit.OverrideID.Compare)
	return slices.Compact(ids)
}
