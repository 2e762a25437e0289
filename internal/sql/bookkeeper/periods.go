package bookkeeper

import (
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// UsedSince sums what was used and is held since the start of a period that begins before the
// previous one has ended (books.Books.CountFrom): S and H of epochs whose periods began then or
// later, all of which was counted since then, and the deductions and extras since then in epochs
// whose periods straddle that instant. It reads these only if there are such periods.
func UsedSince(budgetID, sinceMS int64) Query {
	const (
		straddling = ` FROM budget_period p /*by PRIMARY*/
			/*in order*/ JOIN deduction d /*by PRIMARY*/ ON d.budget_id = p.budget_id
			/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/
				ON e.bucket_id = d.bucket_id AND e.epoch = d.epoch AND e.period = p.number`
		since = ` WHERE p.budget_id = ? AND p.start_ms < ? AND (p.end_ms = 0 OR p.end_ms > ?)
			AND d.counted_at >= ? AND d.bucket_id > 0`
		extras = ` FROM budget_period p /*by PRIMARY*/
			/*in order*/ JOIN extra d /*by PRIMARY*/ ON d.budget_id = p.budget_id
			/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/
				ON e.bucket_id = d.bucket_id AND e.epoch = d.epoch AND e.period = p.number`
		sinceExtra = ` WHERE p.budget_id = ? AND p.start_ms < ? AND (p.end_ms = 0 OR p.end_ms > ?)
			AND d.created_at >= ?`
		usedSince = `SELECT
			(SELECT COALESCE(SUM(e.used_quantity + e.held_quantity), 0)
				FROM bucket_epoch e /*by bucket_epoch_units*/
				/*in order*/ JOIN budget_period p /*by PRIMARY*/
					ON p.budget_id = e.budget_id AND p.number = e.period
				WHERE e.budget_id = ? AND p.start_ms >= ? AND (p.end_ms = 0 OR p.end_ms > ?))
			+ (SELECT COALESCE(SUM(d.amount), 0)` + straddling + since + `)
			- (SELECT COALESCE(SUM(g.amount), 0)` + straddling + `
				/*in order*/ JOIN give_back g ON g.budget_id = d.budget_id
					AND g.request_id = d.request_id AND g.number = 0` + since + `)
			+ (SELECT COALESCE(SUM(d.amount - d.back_quantity), 0)` + extras + sinceExtra + `)
			AS units`
	)
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var sums []struct {
			Units int64 `db:"units"`
		}
		numbered(usedSince, budgetID, sinceMS, sinceMS, budgetID, sinceMS, sinceMS, sinceMS, budgetID,
			sinceMS, sinceMS, sinceMS, budgetID, sinceMS, sinceMS, sinceMS)(s)
		return &sums, func() { b.UsedSince = &sums[0].Units }
	}
}

// MostReturns bounds the epochs that one load of Returning locks.
const MostReturns = 1024

// Returning locks budgets, sorted by id, and their epochs with units on the way back whose
// positions are above one, MostReturns at most, and loads the periods of these and the open ones.
func Returning(ids []int64, after books.Position) []Query {
	const list = ` FROM bucket_epoch x /*by bucket_epoch_returns*/ WHERE x.has_returns = 1 AND `
	return []Query{
		rowsOf(budgets, locked, func(s *engine.Statement) {
			s.SQL("budget_management_bucket r /*by PRIMARY*/ WHERE ")
			in(s, "r.id", ids)
			s.SQL(" ORDER BY r.id")
		}),
		rowsOf(epochs, locked, func(s *engine.Statement) {
			s.SQL("(SELECT x.bucket_id AS id, x.epoch AS epoch" + list)
			in(s, "x.budget_id", ids)
			numbered(` AND (x.bucket_id > ? OR x.bucket_id = ? AND x.epoch > ?)
				ORDER BY 1, 2 LIMIT ?) l
				/*in order*/ JOIN bucket_epoch r /*by PRIMARY*/
					ON r.bucket_id = l.id AND r.epoch = l.epoch`,
				after.Bucket, after.Bucket, after.Epoch, MostReturns)(s)
		}),
		rowsOf(periods, under, func(s *engine.Statement) {
			s.SQL("(SELECT u.id AS id, u.period AS number FROM budget_management_bucket u WHERE ")
			in(s, "u.id", ids)
			s.SQL(" UNION SELECT x.budget_id, x.period" + list)
			in(s, "x.budget_id", ids)
			s.SQL(`) l /*in order*/ JOIN budget_period r /*by PRIMARY*/
				ON r.budget_id = l.id AND r.number = l.number`)
		}),
	}
}

// in writes the condition that a column has one of some numbers.
func in(s *engine.Statement, column string, numbers []int64) {
	s.SQL(column + " IN (")
	for i, n := range numbers {
		s.SQL(separator(i, "", ","))
		s.Number(n)
	}
	s.SQL(")")
}
