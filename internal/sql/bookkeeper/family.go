package bookkeeper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// Where ended budgets of families have units: in R, in O until their last rollover, and in F and U
// from then on. Units move from one part to the next, and are looked for in this order.
const (
	endedBy   = ` AND c.parent_id > 0 AND c.end_ms > 0 AND c.end_ms <= ?`
	returning = `bucket_epoch e /*by bucket_epoch_returns*/
		/*in order*/ JOIN budget_management_bucket c /*by PRIMARY*/ ON c.id = e.budget_id
		WHERE e.has_returns = 1` + endedBy
	outstanding = `budget_management_bucket c /*by budget_management_bucket_roll_over*/
		/*in order*/ JOIN bucket_epoch e /*by bucket_epoch_units*/
			ON e.budget_id = c.id AND e.has_units = 1
		WHERE c.roll_over_ms > 0 AND c.roll_over_ms <= ?` + endedBy
	inTotal = `budget_management_bucket c /*by budget_management_bucket_settle*/
		WHERE c.settle_due_ms > 0 AND c.settle_due_ms <= ?`

	selectLeft = `SELECT c.id AS id, c.parent_id AS parent_id, c.ancestors AS ancestors,
		c.bucket_quantity AS buckets, `
	ofReturns = `e.returning_quantity AS units, LENGTH(e.halted) AS halted FROM `
	ofUnits   = `e.outstanding_quantity AS units, LENGTH(e.halted) AS halted FROM `
	ofTotal   = `c.unfunded_quantity + c.undistributed_quantity AS units, 0 AS halted FROM `
	listLimit = ` LIMIT 9223372036854775807) l `
	theirRows = `/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/
			ON e.bucket_id = l.id AND e.epoch = l.epoch
		/*in order*/ JOIN budget_management_bucket c /*by PRIMARY*/ ON c.id = e.budget_id /*shared*/`
)

// parts are the texts of the parts: what is read of each, and where.
var parts = []struct{ of, where string }{
	{ofReturns, returning}, {ofUnits, outstanding}, {ofTotal, inTotal},
}

type leftRow struct {
	Child     int64  `db:"id"`
	Parent    int64  `db:"parent_id"`
	Ancestors []byte `db:"ancestors"`
	Buckets   int64  `db:"buckets"`
	Units     int64  `db:"units"`
	Halted    int64  `db:"halted"`
}

// AllLeft returns a query like LeftBelow of at most limit parts of all budgets, of which none is
// halted.
func AllLeft(nowMS int64, limit int, add func(list []books.Left)) Query {
	return func(s *engine.Statement, _ *books.Books) (any, func()) {
		var found []leftRow
		for i, part := range parts {
			s.SQL(separator(i, "", " UNION ALL ") + selectLeft + part.of)
			below(s, part.where, nowMS, nil)
			if part.of != ofTotal {
				s.SQL(" AND LENGTH(e.halted) = 0")
			}
		}
		s.SQL(" LIMIT ")
		s.Number(int64(limit))
		return &found, func() { add(leftOf(found)) }
	}
}

// below appends the condition of a part at an instant, for descendants of budgets.
func below(s *engine.Statement, where string, nowMS int64, ids []int64) {
	s.Fill(where, func(int) { s.Number(nowMS) })
	for i, id := range ids {
		s.SQL(separator(i, " AND (", " OR ") + "INSTR(c.ancestors, ")
		s.Bytes("/" + strconv.FormatInt(id, 10) + "/")
		s.SQL(") > 0")
	}
	if len(ids) > 0 {
		s.SQL(")")
	}
}

// LeftBelow returns a query of what the descendants of budgets that have ended have left, in one
// statement without locks. nowMS is the instant if it is not that of Books.
func LeftBelow(nowMS int64, ids []int64, add func(list []books.Left)) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		nowMS := instant(b, nowMS)
		var found []leftRow
		for i, part := range parts {
			s.SQL(separator(i, "", " UNION ALL ") + selectLeft + part.of)
			below(s, part.where, nowMS, ids)
		}
		return &found, func() { add(leftOf(found)) }
	}
}

// LockLeft returns queries like LeftBelow that keep the rows until the commit.
func LockLeft(nowMS int64, ids []int64, add func(list []books.Left)) (out []Query) {
	for i, part := range parts {
		out = append(out, func(s *engine.Statement, b *books.Books) (any, func()) {
			var found []leftRow
			nowMS := instant(b, nowMS)
			s.SQL(selectLeft + part.of)
			if i < len(parts)-1 {
				s.SQL("(SELECT e.bucket_id AS id, e.epoch AS epoch FROM ")
				below(s, part.where, nowMS, ids)
				s.SQL(" ORDER BY 1, 2" + listLimit + theirRows)
			} else {
				s.SQL("(SELECT c.id AS id FROM ")
				below(s, part.where, nowMS, ids)
				s.SQL(" ORDER BY 1" + listLimit +
					"/*in order*/ JOIN budget_management_bucket c /*by PRIMARY*/ ON c.id = l.id /*shared*/")
			}
			return &found, func() { add(leftOf(found)) }
		})
	}
	return out
}

func instant(b *books.Books, nowMS int64) int64 {
	if b != nil {
		return b.NowMS
	}
	return nowMS
}

func leftOf(found []leftRow) (out []books.Left) {
	for _, row := range found {
		if row.Units > 0 {
			out = append(out, books.Left{Child: row.Child, Parent: row.Parent,
				Ancestors: string(row.Ancestors), Buckets: row.Buckets, Units: row.Units,
				Halted: row.Halted > 0})
		}
	}
	return out
}

// Ended looks twice for what descendants of budgets that are locked have left at their ends (I3).
func Ended(ids ...int64) []Query {
	var first, second []books.Left
	queries := []Query{LeftBelow(0, ids, func(list []books.Left) { first, second = list, nil })}
	looks := LockLeft(0, ids, func(list []books.Left) { second = append(second, list...) })
	for i, look := range looks {
		queries = append(queries, func(s *engine.Statement, b *books.Books) (any, func()) {
			rows, load := look(s, b)
			return rows, func() {
				if load(); i < len(looks)-1 {
					return
				}
				if b.Ended = second; UnitsOf(first) > UnitsOf(second) {
					b.Ended = first
				}
			}
		})
	}
	return queries
}

// UnitsOf returns the sum of what budgets have left.
func UnitsOf(list []books.Left) (sum int64) {
	for i := range list {
		sum += list[i].Units
	}
	return sum
}

const (
	// settledAtOnce bounds the children of one transaction, and bucketsAtOnce their buckets.
	settledAtOnce = 64
	bucketsAtOnce = 1024
	// settleRounds bounds how often a movement begins again because descendants have ended: once for
	// each level of a family, and for those that end meanwhile.
	settleRounds = 16
)

// settled runs a movement. If it is Unsettled, the budgets that it names are settled, and it begins
// again. Error: Unavailable if more of them end than can be settled.
func settled(ctx context.Context, db *engine.DB, op string, move func() error) error {
	for range settleRounds {
		err := move()
		var first *books.Unsettled
		if !errors.As(err, &first) {
			return err
		}
		if err := Settle(auditlog.NewContext(ctx, nil), db, first.Left, false); err != nil {
			return &budget.Error{Code: budget.Unavailable, Op: op, Err: err,
				Message: "budgets of the family that have ended cannot be settled now"}
		}
	}
	return budget.Refuse(budget.Unavailable, op, "more budgets of the family end than can be settled")
}

// Settle settles what budgets have left at their ends, the deepest first, those of one parent in
// one transaction: see books.Settle. With end it ends those now that have not ended.
func Settle(ctx context.Context, db *engine.DB, left []books.Left, end bool) error {
	list := slices.Clone(left)
	slices.SortFunc(list, func(x, y books.Left) int {
		return cmp.Or(cmp.Compare(y.Depth(), x.Depth()), cmp.Compare(x.Parent, y.Parent),
			cmp.Compare(x.Child, y.Child))
	})
	list = slices.CompactFunc(list, func(x, y books.Left) bool { return x.Child == y.Child })
	for len(list) > 0 {
		n, buckets := 0, int64(0)
		var children []int64
		for n < len(list) && n < settledAtOnce && list[n].Parent == list[0].Parent {
			if buckets += list[n].Buckets; n > 0 && buckets > bucketsAtOnce {
				break
			}
			children = append(children, list[n].Child)
			n++
		}
		if _, err := SettleChildren(ctx, db, list[0].Parent, children, end, nil); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// SettleChildren settles children of a parent, sorted, in one transaction, after the parent's
// rollover if that is due. With end it ends those of them now that have no open child; seen may be
// told what becomes of each. It returns the units that came back.
func SettleChildren(ctx context.Context, db *engine.DB, parent int64, children []int64, end bool,

	seen func(b *books.Books, u *books.Budget, was int64)) (units int64, err error) {
	ids := slices.Sorted(slices.Values(append([]int64{parent}, children...)))
	keys := make([][]any, len(children))
	for i, id := range children {
		keys[i] = []any{id, []byte(books.Returned)}
	}
	var open map[int64]bool
	load := []Query{LockBudgets(ids...), Buckets(children...), epochsWith(children, nil),
		periodsOf(ids), byKey(adjustments, locked, keys)}
	if end {
		load = append(load, openBelow(children, &open))
	}
	for range mostTurns {
		due := false
		err = Do(ctx, db, "settle", load, func(b *books.Books) ([]Query, error) {
			units, due = 0, false
			p := b.Budgets.Get(parent)
			if p == nil {
				return nil, NoBudget("settle", parent)
			}
			if due = b.Due(p); due {
				return nil, nil
			}
			for _, id := range children {
				u := b.Budgets.Get(id)
				if u == nil {
					continue // it was removed
				}
				was := u.Total
				moved, err := b.Settle(p, u, end && !open[id])
				if err != nil {
					return nil, err
				}
				units += moved
				if seen != nil {
					seen(b, u, was)
				}
			}
			return nil, nil
		})
		if err != nil || !due {
			return units, err
		}
		unrecorded := auditlog.NewContext(ctx, nil)
		_, err = Whole(unrecorded, db, "settle", parent, WholeBudget(parent), nil, nil)
		if err != nil {
			return 0, err
		}
	}
	return 0, budget.Refuse(budget.Unavailable, "settle", "budget %d keeps rolling over", parent)
}

// openBelow reads which of the budgets, which are locked, have children that have not ended.
func openBelow(ids []int64, open *map[int64]bool) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var found []struct {
			Parent int64 `db:"parent_id"`
		}
		s.SQL(`SELECT DISTINCT c.parent_id AS parent_id FROM budget_management_bucket c
			/*by budget_management_bucket_parent*/ WHERE `)
		s.Numbers("c.parent_id", ids)
		s.SQL(" AND (c.end_ms = 0 OR c.end_ms > ")
		s.Number(b.NowMS)
		s.SQL(")")
		return &found, func() {
			*open = make(map[int64]bool, len(found))
			for _, row := range found {
				(*open)[row.Parent] = true
			}
		}
	}
}
