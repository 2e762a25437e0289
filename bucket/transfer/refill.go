package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/allocation"
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
	stocks, err := l.s.Ledger.Stocks.Stocks(ctx, l.s.refills.take(refillBudgets))
	if err != nil {
		return err
	}
	now := l.s.Now()
	var first error
	for i := range stocks {
		for _, b := range l.low(&stocks[i], now) {
			units, err := l.s.Ledger.Supply.Apply(ctx, stocks[i].Budget, b.bucket, b.want)
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
