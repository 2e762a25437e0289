package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// RefillLoop applies for buckets before they run out of units. A bucket whose O is below its
// low-water mark applies for a step. Both depend on the use of the bucket by all nodes, as SQL's
// sums show it (allocation.LowWater, allocation.Refill); the step also on U when it applies. The
// loop checks budgets that this node deducted from. If several nodes see the same low bucket, only
// one applies, because the next one finds it filled.
type RefillLoop struct {
	s    *Service
	seen map[int64]allocation.Pace // by bucket
}

// refillBudgets bounds the budgets of one pass.
const refillBudgets = 256

// RunOnce checks the budgets that were used since the last pass, and applies for the buckets that
// are low. It returns the first error.
func (l *RefillLoop) RunOnce(ctx context.Context) error {
	stocks, err := l.s.Ledger.Stocks(ctx, l.s.refills.take(refillBudgets))
	if err != nil {
		return err
	}
	now := l.s.Now()
	var first error
	for i := range stocks {
		for _, b := range l.low(&stocks[i], now) {
			units, err := l.s.Ledger.Apply(ctx, stocks[i].Budget, b.bucket, b.want)
			l.s.applied(units)
			if err != nil && first == nil && !ended(ctx, err) {
				first = err
			}
		}
	}
	for id, p := range l.seen {
		if now.Sub(p.At) > allocation.PaceAge {
			delete(l.seen, id)
		}
	}
	return first
}

// lacking is a bucket that runs low.
type lacking struct {
	bucket int64
	want   books.Refill
}

// low returns the buckets of a budget that run low.
func (l *RefillLoop) low(stock *Stock, now time.Time) (out []lacking) {
	for _, b := range stock.Buckets {
		p := l.seen[b.ID].Next(now, b.Epoch, b.Used, b.Entries)
		l.seen[b.ID] = p
		if lacks := allocation.LowWater(p.Rate, p.Request) - b.Outstanding; lacks > 0 {
			out = append(out, lacking{b.ID, books.Refill{Lacks: lacks, Rate: p.Rate,
				Of: len(stock.Buckets)}})
		}
	}
	return out
}

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

// Stocks reads how much the buckets of budgets that have units to apply for have left, in one
// statement. Others are omitted.
func (l *Ledger) Stocks(ctx context.Context, budgetIDs []int64) (out []Stock, err error) {
	if len(budgetIDs) == 0 {
		return nil, nil
	}
	err = l.db.Read(ctx, "stocks", func(r *engine.Reader) error {
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
				out = append(out, Stock{Budget: row.Budget})
			}
			last := &out[len(out)-1]
			last.Buckets = append(last.Buckets, StockBucket{ID: row.Bucket,
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
