package transfer

import (
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

// lastEntries is the number of feed entries by which a bucket's demand is measured. Rows of the
// feed contain the sum of their entries, so a bucket costs at most as many short rows.
const lastEntries = 100

// selectUsed sums the newest feed rows of buckets. A row of one entry shows the size of a request;
// one of many shows their mean.
const (
	selectUsed = `SELECT bucket_id, SUM(units) AS units, SUM(entries) AS entries,
		MAX(CASE WHEN entries = 1 THEN units ELSE 0 END) AS largest, MIN(created_at) AS since
		FROM feed /*by PRIMARY*/ WHERE `
	usedSpan = `(bucket_id = ? AND first_entry >= ?)`
	// spanChunk is the most buckets in one statement.
	spanChunk = 32
)

// usedRow is the sum of a bucket's newest feed rows.
type usedRow struct {
	Bucket  int64 `db:"bucket_id"`
	Units   int64 `db:"units"`
	Entries int64 `db:"entries"`
	Largest int64 `db:"largest"`
	Since   int64 `db:"since"`
}

// demand returns what buckets used recently, according to the feed, which the flights have written
// anyway. A bucket without entries is missing.
func demand(r *engine.Reader, list []rows.Bucket) (map[int64]bucket.Used, error) {
	out := make(map[int64]bucket.Used, len(list))
	used := pointersOf(list)
	for chunk := range slices.Chunk(used, spanChunk) {
		args := make([]any, 0, 2*len(chunk))
		for _, row := range chunk {
			args = append(args, row.Epoch.Bucket, max(row.NextEntry-lastEntries, 1))
		}
		query := selectUsed + engine.Repeat(usedSpan, " OR ", len(chunk)) + ` GROUP BY bucket_id`
		var read []usedRow
		if err := r.List(&read, query, args...); err != nil {
			return nil, err
		}
		for _, u := range read {
			mean := (max(u.Units, 0) + u.Entries - 1) / max(u.Entries, 1)
			out[u.Bucket] = bucket.Used{Units: u.Units, Largest: max(u.Largest, mean),
				Since: engine.FromMS(u.Since)}
		}
	}
	return out, nil
}

// pointersOf returns the buckets that have entries in the feed.
func pointersOf(list []rows.Bucket) []*rows.Bucket {
	return pointers(list, func(row *rows.Bucket) bool { return row.NextEntry > 1 })
}

// holding returns a bucket for package fragment.
func holding(row *rows.Bucket, used bucket.Used, now time.Time) fragment.Holding {
	return fragment.Holding{Bucket: row.Epoch.Bucket, Units: row.Outstanding,
		Demand: fragment.Rate(used.Units, now.Sub(used.Since))}
}

// largest returns the largest request in the feed, in minor units.
func largest(used map[int64]bucket.Used) (units int64) {
	for _, u := range used {
		units = max(units, u.Largest)
	}
	return units
}
