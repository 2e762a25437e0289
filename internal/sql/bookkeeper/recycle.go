package bookkeeper

import (
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

func runs(b *books.Books) *books.Set[books.Run, [2]int64] { return &b.Runs }

// RunSince reads the newest recycle of a budget that has a cause and began at an instant or later.
func RunSince(budgetID int64, cause books.Word, sinceMS int64) Query {
	return rowsOf(runs, bare, func(s *engine.Statement) {
		s.SQL("recycle_run r /*by PRIMARY*/ WHERE r.budget_id = ")
		s.Number(budgetID)
		s.SQL(" AND r.cause = ")
		s.Word(string(cause))
		s.SQL(" AND r.created_at >= ")
		s.Number(sinceMS)
		s.SQL(" ORDER BY r.number DESC LIMIT 1")
	})
}

// TriedRun reads the recycle of an earlier attempt of the same movement that may have been
// committed.
func TriedRun(budgetID int64, number *int64) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		tried := int64(0) // no run
		if b.Unsure {
			tried = *number
		}
		return rowsOf(runs, bare, numbered(`recycle_run r /*by PRIMARY*/ WHERE r.budget_id = ?
			AND r.number = ?`, budgetID, tried))(s, b)
	}
}

// lastEntries is the number of feed entries by which a bucket's demand is measured. Rows of the
// feed contain the sum of their entries, so a bucket costs about as many short rows at most.
const lastEntries = 100

// Fed is a bucket and the number that its next feed entry has, as far as it is known.
type Fed struct{ Bucket, NextEntry int64 }

// bucketsTogether is the number of buckets whose feeds one SELECT of Demand sums. The server
// compares each row with all of them, which takes 30 ns, and prepares a SELECT in 40 us.
const bucketsTogether = 16

// Demand sums the newest feed rows of buckets, at most 1,024 of them. A row of one entry shows the
// size of a request; one of many shows their mean. The places from which it reads are constants,
// because a join would read all rows of a bucket.
func Demand(list []Fed) Query {
	return func(s *engine.Statement, b *books.Books) (any, func()) {
		var sums []struct {
			Bucket  int64 `db:"bucket_id"`
			Units   int64 `db:"units"`
			Entries int64 `db:"entries"`
			Largest int64 `db:"largest"`
			Since   int64 `db:"since"`
		}
		for i, bk := range list {
			switch {
			case i%bucketsTogether > 0:
				s.SQL(" OR ")
			case i > 0:
				s.SQL(" GROUP BY f.bucket_id UNION ALL ")
			}
			if i%bucketsTogether == 0 {
				s.SQL(`SELECT f.bucket_id AS bucket_id, SUM(f.units) AS units, SUM(f.entries) AS entries,
					MAX(CASE WHEN f.entries = 1 THEN f.units ELSE 0 END) AS largest,
					MIN(f.created_at) AS since FROM feed f /*by PRIMARY*/ WHERE `)
			}
			numbered(`f.bucket_id = ? AND f.first_entry >= ?`, bk.Bucket,
				max(bk.NextEntry-lastEntries, 1))(s)
		}
		s.SQL(" GROUP BY f.bucket_id")
		return &sums, func() {
			if b.Used == nil {
				b.Used = map[int64]books.Used{}
			}
			for _, u := range sums {
				mean := (max(u.Units, 0) + u.Entries - 1) / max(u.Entries, 1)
				b.Used[u.Bucket] = books.Used{Units: u.Units, Largest: max(u.Largest, mean), SinceMS: u.Since}
			}
		}
	}
}

// Runs reads recycles of a budget with numbers below one, the newest first.
func Runs(budgetID, before int64, limit int) Query {
	return rowsOf(runs, bare, numbered(`recycle_run r /*by PRIMARY*/ WHERE r.budget_id = ?
		AND r.number < ? ORDER BY r.number DESC LIMIT ?`, budgetID, before, int64(limit)))
}

// Unlocked reads a budget, its buckets with their newest epochs, and its open period, each as of a
// moment of its own.
func Unlocked(id int64) []Query {
	return []Query{
		budgetOf(bare, id),
		rowsOf(buckets, bare, numbered(`sharding_budget_management_bucket r WHERE r.budget_id = ?
			ORDER BY r.ordinal`, id)),
		rowsOf(epochs, bare, numbered(`sharding_budget_management_bucket b
			/*in order*/ JOIN bucket_epoch r /*by PRIMARY*/ ON r.bucket_id = b.id AND r.epoch = b.epoch
			WHERE b.budget_id = ?`, id)),
		rowsOf(periods, bare, numbered(`budget_period r WHERE r.budget_id = ? AND r.number =
			(SELECT u.period FROM budget_management_bucket u WHERE u.id = ?)`, id, id)),
	}
}
