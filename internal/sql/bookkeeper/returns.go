package bookkeeper

import (
	"cmp"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

func deductions(b *books.Books) *books.Set[books.Deduction, books.ID]    { return &b.Deductions }
func holds(b *books.Books) *books.Set[books.Hold, books.ID]              { return &b.Holds }
func extras(b *books.Books) *books.Set[books.Extra, books.ExtraID]       { return &b.Extras }
func giveBacks(b *books.Books) *books.Set[books.GiveBack, books.PartID]  { return &b.GiveBacks }
func groups(b *books.Books) *books.Set[books.Group, books.ID]            { return &b.Groups }
func counters(b *books.Books) *books.Set[books.Counter, books.CounterID] { return &b.Counters }

// Selection writes what follows FROM to find deductions by a table d, which has their budget_id,
// request_id, bucket_id and epoch. It ends with a condition.
type Selection func(s *engine.Statement)

// ByID selects deductions by their ids, of which there is at least one.
func ByID(ids []books.ID) Selection {
	return func(s *engine.Statement) {
		s.SQL("deduction d /*by PRIMARY*/ WHERE ")
		s.Tuples([]string{"d.budget_id", "d.request_id"}, keysOf(ids))
	}
}

// OfGroup selects the deductions of a group of holds.
func OfGroup(id books.ID) Selection {
	return func(s *engine.Statement) {
		s.SQL("hold d /*by hold_of_group*/ WHERE d.budget_id = ")
		s.Number(id.Budget)
		s.SQL(" AND d.hold_group = ")
		s.Bytes(id.RequestID)
	}
}

// Unlimited leaves out all deductions of a selection if one of the budgets has limits.
func (from Selection) Unlimited(budgetIDs []int64) Selection {
	return from.unless("u.limits_version > 0", budgetIDs)
}

// Alone leaves out all deductions of a selection if one of the budgets has limits or charges
// others: their places are locked together with those of the legs.
func (from Selection) Alone(budgetIDs []int64) Selection {
	return from.unless("(u.limits_version > 0 OR u.also_charges <> '')", budgetIDs)
}

func (from Selection) unless(which string, budgetIDs []int64) Selection {
	return func(s *engine.Statement) {
		from(s)
		s.SQL(` AND NOT EXISTS (SELECT 1 FROM budget_management_bucket u /*by PRIMARY*/
			WHERE ` + which + ` AND `)
		s.Numbers("u.id", budgetIDs)
		s.SQL(")")
	}
}

// WithExtras adds the extras of the deductions of a selection, which have places of their own.
func (from Selection) WithExtras() Selection {
	return func(s *engine.Statement) {
		s.SQL("(SELECT d.budget_id, d.request_id, d.bucket_id, d.epoch FROM ")
		from(s)
		s.SQL(" UNION ALL SELECT x.budget_id, x.request_id, x.bucket_id, x.epoch FROM ")
		from.rows(s, "extra x")
		s.SQL(") d WHERE d.epoch > 0")
	}
}

// rows writes what follows FROM to find the rows of a table, with its alias, of the deductions of a
// selection.
func (from Selection) rows(s *engine.Statement, table string) {
	s.SQL("(SELECT d.budget_id, d.request_id FROM ")
	from(s)
	alias := table[len(table)-1:]
	s.SQL(") l /*in order*/ JOIN " + table + " /*by PRIMARY*/ ON " + alias +
		".budget_id = l.budget_id AND " + alias + ".request_id = l.request_id")
}

// SortedIDs returns ids in lock order, each once.
func SortedIDs(ids []books.ID) []books.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, func(x, y books.ID) int {
		return cmp.Or(cmp.Compare(x.Budget, y.Budget), cmp.Compare(x.RequestID, y.RequestID))
	})
	return slices.Compact(ids)
}

func keysOf(ids []books.ID) [][]any {
	keys := make([][]any, len(ids))
	for i, id := range ids {
		keys[i] = []any{id.Budget, []byte(id.RequestID)}
	}
	return keys
}

// Terms reads what decides about the units of deductions of budgets: the versions, whether they
// have a total, and whether they are paused. The other columns are not there. mustLock, if it is
// set, locks the rows.
func Terms(budgetIDs []int64, mustLock *bool) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var rows []books.Budget
		s.SQL(`SELECT r.id, r.version, r.limits_version, r.overrides_version, r.unlimited,
				r.is_paused
			FROM budget_management_bucket r /*by PRIMARY*/ WHERE `)
		s.Numbers("r.id", budgetIDs)
		s.SQL(" ORDER BY r.id")
		if *mustLock {
			s.SQL(locked.text)
		}
		return &rows, func() { b.Budgets.Load(rows, true) }
	}
}

// Deductions locks deductions by id, which are sorted. One that is about to be committed is waited
// for; an id without a row is not locked.
func Deductions(ids []books.ID) Query { return byKey(deductions, locked, keysOf(ids)) }

// Members locks the deductions of a group, and then its row. A deduction that joins the group locks
// that row too, so the holds that are read afterwards are all of its members.
func Members(id books.ID) []Query {
	return []Query{
		rowsOf(deductions, locked, func(s *engine.Statement) {
			s.SQL("(SELECT d.budget_id AS budget_id, d.request_id AS request_id FROM ")
			OfGroup(id)(s)
			s.SQL(` ORDER BY 1, 2 LIMIT 9223372036854775807) l
				/*in order*/ JOIN deduction r /*by PRIMARY*/
					ON r.budget_id = l.budget_id AND r.request_id = l.request_id`)
		}),
		byKey(groups, locked, keysOf([]books.ID{id})),
	}
}

// Given loads the holds and extras of locked deductions, the sum of what came back of each, and the
// rows of give_back of earlier returns: see books.Earlier.
func Given(from Selection, earlier []books.BackID) []Query {
	out := []Query{
		rowsOf(holds, under, func(s *engine.Statement) { from.rows(s, "hold r") }),
		rowsOf(extras, under, func(s *engine.Statement) { from.rows(s, "extra r") }),
		sums(from),
	}
	if len(earlier) > 0 {
		keys := make([][]any, len(earlier))
		for i, k := range earlier {
			keys[i] = []any{k.Budget, []byte(k.RequestID), string(k.Kind), []byte(k.RollbackID)}
		}
		out = append(out, rowsOf(giveBacks, bare, func(s *engine.Statement) {
			s.SQL("give_back r /*by PRIMARY*/ WHERE ")
			s.Tuples([]string{"r.budget_id", "r.request_id", "r.kind", "r.rollback_id"}, keys)
		}))
	}
	return out
}

// sums sums what came back of deductions.
func sums(from Selection) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var rows []struct {
			Budget    int64  `db:"budget_id"`
			RequestID string `db:"request_id"`
			Units     int64  `db:"units"`
		}
		s.SQL("SELECT g.budget_id, g.request_id, SUM(g.amount) AS units FROM ")
		from.rows(s, "give_back g")
		s.SQL(" GROUP BY g.budget_id, g.request_id")
		return &rows, func() {
			for _, row := range rows {
				b.Back[books.ID{Budget: row.Budget, RequestID: row.RequestID}] = row.Units
			}
		}
	}
}

// Counters locks rows of limit counters, whose keys are sorted. A key without a row is not locked.
func Counters(keys []books.CounterID) (out []Query) {
	for chunk := range slices.Chunk(keys, engine.ListChunk) {
		list := make([][]any, len(chunk))
		for i, k := range chunk {
			list[i] = []any{k.Budget, []byte(k.Dimension), []byte(k.Value)}
		}
		out = append(out, byKey(counters, locked, list))
	}
	return out
}

// LimitsOf reads the limits of budgets.
func LimitsOf(budgetIDs []int64) Query {
	return rowsOf(limits, bare, func(s *engine.Statement) {
		s.SQL("budget_limit r /*by PRIMARY*/ WHERE ")
		s.Numbers("r.budget_id", budgetIDs)
		s.SQL(" ORDER BY r.budget_id, r.ordinal")
	})
}

// Places locks the epochs of deductions and the newest one of each of their buckets, by position,
// and reads the buckets and the periods of these epochs. A bucket is read after its epoch was
// locked, so it says whether that still is the newest one, which numbers the feed.
func Places(from Selection) []Query {
	// of writes text with the selection in the place of each $.
	of := func(text string) func(s *engine.Statement) {
		return func(s *engine.Statement) {
			for i, part := range strings.Split(text, "$") {
				if i > 0 {
					from(s)
				}
				s.SQL(part)
			}
		}
	}
	return []Query{
		rowsOf(epochs, locked, of(`(SELECT d.bucket_id AS id, d.epoch AS epoch FROM $
			UNION SELECT b.id, b.epoch FROM (SELECT d.bucket_id AS id FROM $) p
				/*in order*/ JOIN sharding_budget_management_bucket b /*by PRIMARY*/ ON b.id = p.id
			ORDER BY 1, 2 LIMIT 9223372036854775807) l
			/*in order*/ JOIN bucket_epoch r /*by PRIMARY*/
				ON r.bucket_id = l.id AND r.epoch = l.epoch`)),
		rowsOf(buckets, bare, of(`(SELECT DISTINCT d.bucket_id AS id FROM $) l
			/*in order*/ JOIN sharding_budget_management_bucket r /*by PRIMARY*/ ON r.id = l.id`)),
		rowsOf(periods, bare, of(`(SELECT DISTINCT e.budget_id AS budget_id, e.period AS period
				FROM (SELECT d.bucket_id AS id, d.epoch AS epoch FROM $) p
				/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/
					ON e.bucket_id = p.id AND e.epoch = p.epoch) l
			/*in order*/ JOIN budget_period r /*by PRIMARY*/
				ON r.budget_id = l.budget_id AND r.number = l.period`)),
	}
}

// AboveHold locks a budget, one deduction, and what WholeBudget loads, with the places of the
// deduction and of its extras, in the lock order. counters are queries of its limits and their
// rows. failed is that of LookAgain.
func AboveHold(id books.ID, earlier []books.BackID, counters []Query, failed *error) []Query {
	from := ByID([]books.ID{id})
	places := Places(from.WithExtras())
	whole := WholeBudget(id.Budget)
	out := []Query{whole[0], Deductions([]books.ID{id})}
	out = append(out, Given(from, earlier)...)
	out = append(out, counters...)
	for i, q := range whole[1:] {
		if i == epochsOfWhole-1 {
			q = epochsWith([]int64{id.Budget}, from.WithExtras())
		}
		out = append(out, q)
	}
	out = append(out, places[len(places)-1], Applied(id.Budget), LookAgain(failed, id.Budget))
	return append(out, Ended(id.Budget)...)
}
