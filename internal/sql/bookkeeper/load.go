package bookkeeper

import (
	"database/sql"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// Query is one SELECT of a load. It writes its text, and returns the slice for the rows and what
// adds them to the Books.
type Query func(s *engine.Statement, b *books.Books) (into any, load func())

// lock says how the rows of a query stand still until the commit.
type lock struct {
	text string
	// mayChange means that a lock covers the rows, their own or that of another row which is loaded
	// before: periods and buckets change only under their budget's lock.
	mayChange bool
}

var (
	locked = lock{" /*locked*/", true}
	under  = lock{"", true}
	shared = lock{" /*shared*/", false}
	bare   = lock{"", false}
)

// rowsOf returns a query of whole rows of a table, whose alias is r. from writes what follows FROM.
func rowsOf[R any, K comparable](set func(*books.Books) *books.Set[R, K], l lock,
	from func(s *engine.Statement)) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var rows []R
		s.SQL("SELECT r." + strings.Join(set(b).Table().Columns, ", r.") + " FROM ")
		from(s)
		s.SQL(l.text)
		return &rows, func() { set(b).Load(rows, !l.mayChange) }
	}
}

// byKey returns a query of rows by their primary keys, which are sorted.
func byKey[R any, K comparable](set func(*books.Books) *books.Set[R, K], l lock,
	keys [][]any) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		t := set(b).Table()
		columns := make([]string, t.Keys)
		for i := range columns {
			columns[i] = "r." + t.Columns[i]
		}
		return rowsOf(set, l, func(s *engine.Statement) {
			s.SQL(t.Name + " r /*by PRIMARY*/ WHERE ")
			s.Tuples(columns, keys)
			s.SQL(" ORDER BY " + strings.Join(columns, ", "))
		})(s, b)
	}
}

// The tables of a query.
func budgets(b *books.Books) *books.Set[books.Budget, int64] { return &b.Budgets }
func limits(b *books.Books) *books.Set[books.Limit, [2]any]  { return &b.Limits }
func overrides(b *books.Books) *books.Set[books.Override, books.OverrideID] {
	return &b.Overrides
}
func periods(b *books.Books) *books.Set[books.Period, [2]int64]         { return &b.Periods }
func buckets(b *books.Books) *books.Set[books.Bucket, int64]            { return &b.Buckets }
func epochs(b *books.Books) *books.Set[books.Epoch, books.Position]     { return &b.Epochs }
func adjustments(b *books.Books) *books.Set[books.Adjustment, books.ID] { return &b.Adjustments }
func partitions(b *books.Books) *books.Set[books.Partition, books.PartitionID] {
	return &b.Partitions
}

// numbered writes constant text with a number for each question mark.
func numbered(text string, numbers ...int64) func(s *engine.Statement) {
	return func(s *engine.Statement) {
		s.Fill(text, func(at int) { s.Number(numbers[at]) })
	}
}

// listed writes constant text with the condition that a column is one of the numbers, which are
// sorted, for each question mark.
func listed(text string, numbers []int64) func(s *engine.Statement) {
	return func(s *engine.Statement) {
		s.Fill(text, func(int) { s.Numbers("", numbers) })
	}
}

func lockBudget(id int64) Query { return budgetOf(locked, id) }

// LockBudgets locks budgets, whose ids are sorted.
func LockBudgets(ids ...int64) Query {
	return rowsOf(budgets, locked,
		listed(`budget_management_bucket r /*by PRIMARY*/ WHERE r.id ? ORDER BY r.id`, ids))
}

func budgetOf(l lock, id int64) Query {
	return rowsOf(budgets, l,
		numbered(`budget_management_bucket r /*by PRIMARY*/ WHERE r.id = ?`, id))
}

// AllEpochs reads all buckets and epochs of a budget, by the ordinals of the buckets.
func AllEpochs(id int64) []Query {
	return []Query{
		rowsOf(buckets, bare, numbered(`sharding_budget_management_bucket r
			WHERE r.budget_id = ? ORDER BY r.ordinal`, id)),
		rowsOf(epochs, bare, numbered(`sharding_budget_management_bucket b
			JOIN bucket_epoch r ON r.bucket_id = b.id
			WHERE b.budget_id = ? ORDER BY b.ordinal, r.epoch`, id)),
	}
}

// WholeBudget locks budgets, whose ids are sorted, the newest epoch of each of their buckets, and
// every epoch with units, and loads their buckets, their open periods, the periods of these epochs,
// and the partitions of the buckets, and of a parent among them the periods that its children among
// them were carved from. The list of the epochs is read under the budgets' locks, and
// only these epochs are locked: by their primary keys, in the lock order.
func WholeBudget(ids ...int64) []Query {
	return []Query{
		LockBudgets(ids...),
		rowsOf(partitions, shared, listed(`store_partition r /*by PRIMARY*/ WHERE EXISTS (SELECT 1
			FROM sharding_budget_management_bucket b WHERE b.budget_id ?
			AND b.instance = r.instance AND b.partition_number = r.partition_number)
			ORDER BY r.instance, r.partition_number`, ids)),
		Buckets(ids...),
		epochsWith(ids, nil),
		periodsOf(ids),
	}
}

// periodsOf loads the periods of WholeBudget.
func periodsOf(ids []int64) Query {
	return rowsOf(periods, under, listed(`(SELECT u.id AS id, u.period AS number
			FROM budget_management_bucket u /*by PRIMARY*/ WHERE u.id ?
			UNION SELECT e.budget_id, e.period FROM bucket_epoch e /*by bucket_epoch_units*/
			WHERE e.budget_id ? AND e.has_units = 1
			UNION SELECT c.parent_id, c.parent_period FROM budget_management_bucket c /*by PRIMARY*/
			WHERE c.id ? AND c.parent_id ?) l
		/*in order*/ JOIN budget_period r /*by PRIMARY*/
			ON r.budget_id = l.id AND r.number = l.number`, ids))
}

// epochsOfWhole is the place of the epochs among the queries of WholeBudget.
const epochsOfWhole = 3

// epochsWith locks the epochs of WholeBudget, and those of deductions unless with is nil.
func epochsWith(ids []int64, with Selection) Query {
	return rowsOf(epochs, locked, func(s *engine.Statement) {
		listed(`(SELECT b.id AS id, b.epoch AS epoch
			FROM sharding_budget_management_bucket b WHERE b.budget_id ?
			UNION SELECT x.bucket_id, x.epoch FROM bucket_epoch x /*by bucket_epoch_units*/
			WHERE x.budget_id ? AND x.has_units = 1`, ids)(s)
		if with != nil {
			s.SQL(" UNION SELECT d.bucket_id, d.epoch FROM ")
			with(s)
		}
		s.SQL(` ORDER BY 1, 2 LIMIT 9223372036854775807) l
			/*in order*/ JOIN bucket_epoch r /*by PRIMARY*/
				ON r.bucket_id = l.id AND r.epoch = l.epoch`)
	})
}

// NewestOf locks the newest epochs of buckets, which are sorted. With others, other transactions
// may write meanwhile, and the buckets are read after that: one whose epoch has ended may have
// begun another before the lock.
func NewestOf(list []int64, others bool) []Query {
	queries := []Query{
		rowsOf(epochs, locked, func(s *engine.Statement) {
			s.SQL(`(SELECT b.id AS id, b.epoch AS epoch
				FROM sharding_budget_management_bucket b /*by PRIMARY*/ WHERE `)
			s.Numbers("b.id", list)
			s.SQL(` ORDER BY 1, 2 LIMIT 9223372036854775807) l
				/*in order*/ JOIN bucket_epoch r /*by PRIMARY*/
					ON r.bucket_id = l.id AND r.epoch = l.epoch`)
		}),
		BucketsAt(list),
	}
	if !others {
		return queries[:1]
	}
	return queries
}

// Applied sums what buckets applied for in the open periods of budgets whose adjust_cnt is bounded,
// as the sum of I3 does.
func Applied(ids ...int64) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var sums []struct {
			Budget int64 `db:"budget_id"`
			Units  int64 `db:"units"`
		}
		listed(`SELECT u.id AS budget_id, SUM(g.amount) AS units FROM budget_management_bucket u
			/*in order*/ JOIN sharding_budget_management_bucket b ON b.budget_id = u.id
			/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/
				ON e.bucket_id = b.id AND e.period = u.period
			/*in order*/ JOIN grant_log g /*by PRIMARY*/
				ON g.bucket_id = e.bucket_id AND g.epoch = e.epoch
			WHERE u.id ? AND u.adjust_cnt > 0 AND g.kind = 'apply' GROUP BY u.id`, ids)(s)
		return &sums, func() {
			for _, sum := range sums {
				b.Applied[sum.Budget] = sum.Units
			}
		}
	}
}

// PendingOfBuckets loads the pending grants of buckets of a budget that is locked.
func PendingOfBuckets(list []int64) Query {
	return rowsOf(grants, bare, func(s *engine.Statement) {
		s.SQL("grant_log r /*by grant_log_status*/ WHERE r.status = 'pending' AND ")
		s.Numbers("r.bucket_id", list)
	})
}

// Sum reads one number, 0 if it is NULL, for a decision that needs no row. text names it units, and
// has a question mark for each place of the budget's id.
func Sum(text string, id int64, sum *int64) Query {
	return func(s *engine.Statement, _ *books.Books) (any, func()) {
		var sums []struct {
			Units sql.NullInt64 `db:"units"`
		}
		s.Fill(text, func(int) { s.Number(id) })
		return &sums, func() { *sum = sums[0].Units.Int64 }
	}
}

// Clock reads the database's clock. It follows the queries that take locks.
func Clock(s *engine.Statement, b *books.Books) (any, func()) {
	var now []struct {
		MS int64 `db:"ms"`
	}
	s.SQL("SELECT ")
	s.Clock(b.NowMS)
	s.SQL(" AS ms")
	return &now, func() { b.ClockMS = now[0].MS }
}

// LookAgain compares the units in the epochs of budgets that WholeBudget has loaded with a second
// look at them, which begins after the first has ended and locks: units that came back to an epoch
// without any were in no list. If it finds more, failed becomes engine.ErrAgain (I3).
func LookAgain(failed *error, ids ...int64) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var sums []struct {
			Units int64 `db:"units"`
		}
		listed(`SELECT COALESCE(SUM(e.outstanding_quantity + e.returning_quantity), 0) AS units
			FROM bucket_epoch e /*by bucket_epoch_units*/
			WHERE e.budget_id ? AND e.has_units = 1 /*shared*/`, ids)(s)
		return &sums, func() {
			known := int64(0)
			for _, e := range b.Epochs.All() {
				known += e.Outstanding + e.Returning
			}
			if sums[0].Units > known {
				*failed = engine.ErrAgain
			}
		}
	}
}

// Buckets loads all buckets of budgets that are locked.
func Buckets(ids ...int64) Query {
	return rowsOf(buckets, under, listed(`sharding_budget_management_bucket r
		WHERE r.budget_id ? ORDER BY r.budget_id, r.ordinal`, ids))
}

// OneBucket locks a budget and the newest epoch of one of its buckets, and loads that bucket, the
// budget's open period, and the period of that epoch.
func OneBucket(id, bucketID int64) []Query {
	return []Query{
		lockBudget(id),
		rowsOf(buckets, under, numbered(`sharding_budget_management_bucket r /*by PRIMARY*/
			WHERE r.id = ? AND r.budget_id = ?`, bucketID, id)),
		rowsOf(epochs, locked, numbered(`(SELECT b.id AS id, b.epoch AS epoch
				FROM sharding_budget_management_bucket b WHERE b.id = ? AND b.budget_id = ?
				LIMIT 1) l
			/*in order*/ JOIN bucket_epoch r /*by PRIMARY*/
				ON r.bucket_id = l.id AND r.epoch = l.epoch`, bucketID, id)),
		rowsOf(periods, under, numbered(`budget_period r WHERE r.budget_id = ?
			AND (r.number = (SELECT u.period FROM budget_management_bucket u WHERE u.id = ?)
				OR r.number = (SELECT e.period FROM sharding_budget_management_bucket b
					JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
					WHERE b.id = ?))`, id, id, bucketID)),
	}
}

// Adjustment locks the adjustment of a budget with a request id, if there is one.
func Adjustment(budgetID int64, requestID string) Query {
	return byKey(adjustments, locked, [][]any{{budgetID, []byte(requestID)}})
}

// BudgetByName reads the budget of a tenant with a name, if there is one. It locks nothing: the
// unique key decides between two creates of one name.
func BudgetByName(tenant, name string) Query {
	return rowsOf(budgets, bare, func(s *engine.Statement) {
		s.SQL("budget_management_bucket r WHERE r.tenant = ")
		s.Bytes(tenant)
		s.SQL(" AND r.name = ")
		s.Bytes(name)
	})
}

// Beside reads the budget with a name that the tenant of another budget has, if there is one: see
// BudgetByName.
func Beside(id int64, name string) Query {
	return rowsOf(budgets, bare, func(s *engine.Statement) {
		s.SQL("budget_management_bucket r WHERE r.name = ")
		s.Bytes(name)
		numbered(` AND r.tenant = (SELECT u.tenant FROM budget_management_bucket u
			WHERE u.id = ?)`, id)(s)
	})
}

// Limits loads the limits of a budget that is locked, in their order.
func Limits(id int64) Query {
	return rowsOf(limits, under, numbered(`budget_limit r WHERE r.budget_id = ? ORDER BY r.ordinal`,
		id))
}

// Overrides loads overrides of a budget that is locked.
func Overrides(ids []books.OverrideID) (out []Query) {
	slices.SortFunc(ids, func(a, b books.OverrideID) int { return strings.Compare(a.Value, b.Value) })
	for chunk := range slices.Chunk(ids, engine.ListChunk) {
		keys := make([][]any, len(chunk))
		for i, id := range chunk {
			keys[i] = []any{id.Budget, id.Series, []byte(id.Value)}
		}
		out = append(out, byKey(overrides, under, keys))
	}
	return out
}

// Partitions keeps partitions, sorted and without duplicates, as they are until the commit.
func Partitions(list ...books.PartitionID) Query {
	return partitionsWith(shared, list)
}

// LockPartitions locks partitions, sorted and without duplicates.
func LockPartitions(list ...books.PartitionID) Query { return partitionsWith(locked, list) }

// ReadPartitions reads partitions.
func ReadPartitions(list ...books.PartitionID) Query { return partitionsWith(bare, list) }

func partitionsWith(l lock, list []books.PartitionID) Query {
	keys := make([][]any, len(list))
	for i, p := range list {
		keys[i] = []any{[]byte(p.Instance), p.Number}
	}
	return byKey(partitions, l, keys)
}
