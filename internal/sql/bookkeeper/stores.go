package bookkeeper

import (
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

func grants(b *books.Books) *books.Set[books.Grant, [3]int64] { return &b.Grants }
func quarantines(b *books.Books) *books.Set[books.Quarantine, books.Position] {
	return &b.Quarantines
}
func releases(b *books.Books) *books.Set[books.Release, [4]any] { return &b.Releases }

// BudgetsOf locks the budgets of buckets, in the order of their ids, and loads the buckets.
func BudgetsOf(list []int64) []Query {
	return []Query{
		rowsOf(budgets, locked, func(s *engine.Statement) {
			s.SQL(`(SELECT DISTINCT b.budget_id AS id
				FROM sharding_budget_management_bucket b /*by PRIMARY*/ WHERE `)
			s.Numbers("b.id", list)
			s.SQL(` ORDER BY 1 LIMIT 9223372036854775807) l
				/*in order*/ JOIN budget_management_bucket r /*by PRIMARY*/ ON r.id = l.id`)
		}),
		bucketsAt(under, list),
	}
}

// BucketsAt reads buckets.
func BucketsAt(list []int64) Query { return bucketsAt(bare, list) }

func bucketsAt(l lock, list []int64) Query {
	return rowsOf(buckets, l, func(s *engine.Statement) {
		s.SQL("sharding_budget_management_bucket r /*by PRIMARY*/ WHERE ")
		s.Numbers("r.id", list)
	})
}

// Epoch reads an epoch.
func Epoch(bucketID, number int64) Query { return byKey(epochs, bare, [][]any{{bucketID, number}}) }

// EpochsAt locks epochs, which are sorted.
func EpochsAt(list []books.Position) Query { return byKey(epochs, locked, positionsOf(list)) }

// HaltedOf locks the epochs of a bucket that are halted.
func HaltedOf(bucketID int64) Query {
	return rowsOf(epochs, locked, numbered(`(SELECT x.bucket_id AS id, x.epoch AS epoch
			FROM bucket_epoch x /*by PRIMARY*/ WHERE x.bucket_id = ? AND LENGTH(x.halted) > 0
			ORDER BY 1, 2 LIMIT 9223372036854775807) l
		/*in order*/ JOIN bucket_epoch r /*by PRIMARY*/
			ON r.bucket_id = l.id AND r.epoch = l.epoch`, bucketID))
}

// PendingOf loads the pending grants of epochs that are locked.
func PendingOf(list []books.Position) Query {
	return rowsOf(grants, under, func(s *engine.Statement) {
		s.SQL("grant_log r /*by grant_log_status*/ WHERE r.status = 'pending' AND ")
		s.Tuples([]string{"r.bucket_id", "r.epoch"}, positionsOf(list))
	})
}

// PeriodsAt loads the periods of epochs, and the open ones of their budgets, which are locked.
func PeriodsAt(list []books.Position) Query {
	return rowsOf(periods, under, func(s *engine.Statement) {
		s.SQL(`(SELECT u.id AS id, u.period AS number
			FROM sharding_budget_management_bucket b /*by PRIMARY*/
			/*in order*/ JOIN budget_management_bucket u /*by PRIMARY*/ ON u.id = b.budget_id WHERE `)
		s.Numbers("b.id", BucketsIn(list))
		s.SQL(` UNION SELECT e.budget_id, e.period FROM bucket_epoch e /*by PRIMARY*/ WHERE `)
		s.Tuples([]string{"e.bucket_id", "e.epoch"}, positionsOf(list))
		s.SQL(`) l /*in order*/ JOIN budget_period r /*by PRIMARY*/
			ON r.budget_id = l.id AND r.number = l.number`)
	})
}

// LiveOn reads the live epochs of a partition whose buckets are above one, in the order of buckets.
func LiveOn(of books.PartitionID, after int64, limit int) Query {
	return rowsOf(epochs, bare, func(s *engine.Statement) {
		s.SQL(`sharding_budget_management_bucket b /*by sharding_budget_management_bucket_partition*/
			JOIN budget_management_bucket u ON u.id = b.budget_id
			JOIN bucket_epoch r ON r.bucket_id = b.id AND r.epoch = b.epoch WHERE b.instance = `)
		s.Bytes(of.Instance)
		numbered(` AND b.partition_number = ? AND b.id > ? AND u.durability = 'store'
			AND r.status IN ('opening', 'open', 'closing') ORDER BY b.id LIMIT ?`,
			of.Number, after, int64(limit))(s)
	})
}

// BucketsIn returns the buckets of epochs.
func BucketsIn(list []books.Position) []int64 {
	out := make([]int64, len(list))
	for i, at := range list {
		out[i] = at.Bucket
	}
	return out
}

func positionsOf(list []books.Position) [][]any {
	keys := make([][]any, len(list))
	for i, at := range list {
		keys[i] = []any{at.Bucket, at.Epoch}
	}
	return keys
}

// Quarantined locks a budget and its epochs with units in quarantine, and loads the quarantines,
// the periods of these epochs and the open one, and what a request released.
func Quarantined(id int64, requestID string) []Query {
	return []Query{
		lockBudget(id),
		rowsOf(releases, under, func(s *engine.Statement) {
			numbered(`quarantine_release r /*by PRIMARY*/ WHERE r.budget_id = ? AND r.request_id = `,
				id)(s)
			s.Bytes(requestID)
		}),
		rowsOf(quarantines, under, numbered(`quarantine r /*by quarantine_budget*/
			WHERE r.budget_id = ? AND r.is_held = 1 ORDER BY r.bucket_id, r.epoch`, id)),
		rowsOf(epochs, locked, numbered(`(SELECT q.bucket_id AS id, q.epoch AS epoch
				FROM quarantine q /*by quarantine_budget*/ WHERE q.budget_id = ? AND q.is_held = 1
				ORDER BY 1, 2 LIMIT 9223372036854775807) l
			/*in order*/ JOIN bucket_epoch r /*by PRIMARY*/
				ON r.bucket_id = l.id AND r.epoch = l.epoch`, id)),
		rowsOf(periods, under, numbered(`(SELECT u.period AS number
				FROM budget_management_bucket u /*by PRIMARY*/ WHERE u.id = ?
				UNION SELECT e.period FROM quarantine q /*by quarantine_budget*/
				/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/
					ON e.bucket_id = q.bucket_id AND e.epoch = q.epoch
				WHERE q.budget_id = ? AND q.is_held = 1) l
			/*in order*/ JOIN budget_period r /*by PRIMARY*/
				ON r.budget_id = ? AND r.number = l.number`, id, id, id)),
	}
}
