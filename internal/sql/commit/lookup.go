package commit

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// Recorded reads the deductions of ids. The result has no element for an id without a row. Error:
// Unavailable.
func (d *Decider) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	return rows.Recorded(ctx, d.db, ids)
}

const selectBalances = `SELECT e.bucket_id, e.outstanding_quantity
	FROM sharding_budget_management_bucket b
	JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch WHERE `

// Balances reads O of the newest epochs of buckets, and I3's sums of budgets, each from one
// statement, in one round trip. The results have no element for what does not exist. Error:
// Unavailable.
func (d *Decider) Balances(ctx context.Context, buckets, budgets []int64) (
	map[int64]int64, map[int64]ledger.Availability, error) {
	balances, sums := map[int64]int64{}, map[int64]ledger.Availability{}
	var queries []bookkeeper.Query
	for chunk := range slices.Chunk(buckets, engine.ListChunk) {
		queries = append(queries, func(s *engine.Statement, _ *books.Books) (any, func()) {
			var found []struct {
				Bucket      int64 `db:"bucket_id"`
				Outstanding int64 `db:"outstanding_quantity"`
			}
			s.SQL(selectBalances)
			s.Numbers("b.id", chunk)
			return &found, func() {
				for _, row := range found {
					balances[row.Bucket] = row.Outstanding
				}
			}
		})
	}
	for chunk := range slices.Chunk(budgets, engine.ListChunk) {
		queries = append(queries, availabilityOf(selectAvailability, "", chunk, sums))
	}
	if err := bookkeeper.Look(ctx, d.db, "balances", queries); err != nil {
		return nil, nil, err
	}
	return balances, sums, nil
}
