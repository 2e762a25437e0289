package transfer

import (
	"context"

	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
)

const (
	selectStocks = `SELECT u.id AS budget_id, e.bucket_id, e.epoch, e.outstanding_quantity,
		e.used_quantity + e.held_quantity AS used, e.next_entry
		FROM budget_management_bucket u
		JOIN sharding_budget_management_bucket b ON b.budget_id = u.id
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE u.has_undistributed = 1 AND u.durability = 'ledger' AND b.status = 'online'
		AND e.status = 'open' AND LENGTH(e.halted) = 0 AND e.period = u.period AND u.id IN (`
	stockOrder = `) ORDER BY u.id, b.ordinal`
)

// stockRow is a row of selectStocks.
type stockRow struct {
	Budget      int64 `db:"budget_id"`
	Bucket      int64 `db:"bucket_id"`
	Epoch       int64 `db:"epoch"`
	Outstanding int64 `db:"outstanding_quantity"`
	Used        int64 `db:"used"`
	NextEntry   int64 `db:"next_entry"`
}

// Stocks returns how far buckets are from running dry. See transfer.Stocks.
func (p *Part) Stocks(ctx context.Context, budgetIDs []int64) (out []transfer.Stock, err error) {
	if len(budgetIDs) == 0 {
		return nil, nil
	}
	err = p.db.Read(ctx, "stocks", func(r *engine.Reader) error {
		out = nil
		var read []stockRow
		s := r.Statement()
		s.SQL(selectStocks)
		for i, id := range budgetIDs {
			if i > 0 {
				s.SQL(",")
			}
			s.Number(id)
		}
		s.SQL(stockOrder)
		if err := r.RowsOf(&read, s); err != nil {
			return err
		}
		for i := range read {
			row := &read[i]
			if len(out) == 0 || out[len(out)-1].Budget != row.Budget {
				out = append(out, transfer.Stock{Budget: row.Budget})
			}
			last := &out[len(out)-1]
			last.Buckets = append(last.Buckets, transfer.StockBucket{ID: row.Bucket,
				Epoch: row.Epoch, Outstanding: row.Outstanding, Used: row.Used,
				Entries: row.NextEntry - 1})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
