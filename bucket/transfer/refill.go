package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

// RefillLoop applies for buckets before they run out of units. A bucket whose O is below its
// low-water mark applies for a step; both depend on the use of the bucket by all nodes, as SQL's
// sums show it (allocation.LowWater, allocation.Refill). The loop checks budgets that this node
// deducted from. If several nodes see the same low bucket, only one applies, because the next one
// finds it filled.
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
		for _, want := range l.wants(&stocks[i], now) {
			units, err := l.s.Ledger.Supply.Apply(ctx, stocks[i].Budget, want)
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

// wants returns what the low buckets of a budget apply for.
func (l *RefillLoop) wants(stock *Stock, now time.Time) (out []Want) {
	for _, b := range stock.Buckets {
		p := l.seen[b.ID].Next(now, b.Epoch, b.Used, b.Entries)
		l.seen[b.ID] = p
		if want, low := wantOf(p, stock, b); low {
			out = append(out, want)
		}
	}
	return out
}

// wantOf returns what a bucket applies for. low is false if it has enough. If adjust_cnt bounds the
// applications, the bucket asks for its even share, because small steps would use the applications
// up.
func wantOf(p allocation.Pace, stock *Stock, b StockBucket) (want Want, low bool) {
	mark := allocation.LowWater(p.Rate, p.Request)
	if b.Outstanding >= mark {
		return Want{}, false
	}
	want = Want{Bucket: b.ID, Need: 1}
	if stock.AdjustCnt > 0 {
		want.Units, want.Of = budget.MaxAmount, len(stock.Buckets)
		return want, true
	}
	want.Units = allocation.Refill(mark-b.Outstanding, p.Rate, stock.Undistributed,
		len(stock.Buckets), stock.Sharding)
	return want, true
}
