package transfer

import (
	"context"
	"math"
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
	seen map[int64]reading // by bucket
}

// reading is the state of a bucket in one pass.
type reading struct {
	at      time.Time
	epoch   int64
	used    int64
	entries int64
	// rate is the use in minor units per second, as a moving average.
	rate float64
	// request is the mean size of the last requests, in minor units.
	request int64
}

// Bounds of one pass.
const (
	refillBudgets = 256
	// rateMemory is the time constant of the moving average: a use that long ago weighs 1/e.
	rateMemory = 3 * time.Second
	// forgottenAfter is the age at which a reading is too old to compute a rate from.
	forgottenAfter = 30 * time.Second
)

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
	for id, r := range l.seen {
		if now.Sub(r.at) > forgottenAfter {
			delete(l.seen, id)
		}
	}
	return first
}

// wants returns what the low buckets of a budget apply for.
func (l *RefillLoop) wants(stock *Stock, now time.Time) (out []Want) {
	for _, b := range stock.Buckets {
		r := l.seen[b.ID].next(b, now)
		l.seen[b.ID] = r
		if want, low := r.want(stock, b); low {
			out = append(out, want)
		}
	}
	return out
}

// next returns the reading of a later pass. It computes no rate if the epoch is new or the earlier
// reading is too old.
func (r reading) next(b StockBucket, now time.Time) reading {
	passed := now.Sub(r.at)
	out := reading{at: now, epoch: b.Epoch, used: b.Used, entries: b.Entries, rate: r.rate,
		request: r.request}
	if r.epoch != b.Epoch || passed <= 0 || passed > forgottenAfter {
		return out
	}
	weight := 1 - math.Exp(-passed.Seconds()/rateMemory.Seconds())
	units := max(b.Used-r.used, 0)
	out.rate += (float64(units)/passed.Seconds() - r.rate) * weight
	if calls := b.Entries - r.entries; calls > 0 && units > 0 {
		out.request = (units-1)/calls + 1
	}
	return out
}

// want returns what a bucket applies for. low is false if it has enough. If adjust_cnt bounds the
// applications, the bucket asks for its even share, because small steps would use the applications
// up.
func (r reading) want(stock *Stock, b StockBucket) (want Want, low bool) {
	mark := allocation.LowWater(r.rate, r.request)
	if b.Outstanding >= mark {
		return Want{}, false
	}
	want = Want{Bucket: b.ID, Need: 1}
	if stock.AdjustCnt > 0 {
		want.Units, want.Of = budget.MaxAmount, len(stock.Buckets)
		return want, true
	}
	want.Units = allocation.Refill(mark-b.Outstanding, r.rate, stock.Undistributed,
		len(stock.Buckets), stock.Sharding)
	return want, true
}
