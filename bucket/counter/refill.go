package counter

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
)

// use is how fast a bucket is used, by all nodes together, as the syncs of this node see it.
type use struct {
	rate    atomic.Uint64 // bits of a float64: units a second
	pending atomic.Bool   // a refill waits or is under way
	after   atomic.Int64  // ns: no refill before

	// Of the lane's sync.
	epoch, taken int64
	at           time.Time
}

// useMemory is the time constant of the average: what was used so long ago weighs 1/e.
const useMemory = 2 * time.Second

func (s *Service) useOf(bucketID int64) *use {
	if u, known := s.uses.Load(bucketID); known {
		return u.(*use)
	}
	u, _ := s.uses.LoadOrStore(bucketID, &use{})
	return u.(*use)
}

// rate is how many units a second a bucket uses.
func (s *Service) rate(bucketID int64) float64 {
	return math.Float64frombits(s.useOf(bucketID).rate.Load())
}

// measure notes how much buckets took since the last sync. l.syncing is locked.
func (l *lane) measure(sums []bucket.Sum) {
	now := l.s.clock.Now()
	for _, sum := range sums {
		if sum.Late {
			continue
		}
		u := l.s.useOf(sum.Bucket)
		passed := now.Sub(u.at)
		if u.epoch == sum.Epoch && passed > 0 {
			weight := 1 - math.Exp(-passed.Seconds()/useMemory.Seconds())
			rate := math.Float64frombits(u.rate.Load())
			rate += (float64(max(sum.Taken-u.taken, 0))/passed.Seconds() - rate) * weight
			u.rate.Store(math.Float64bits(rate))
		}
		u.epoch, u.taken, u.at = sum.Epoch, sum.Taken, now
	}
}

// refill is a bucket that runs low.
type refill struct {
	budget, bucket, need int64
	use                  *use
}

// used looks whether the bucket of an accepted operation runs low, and has it refilled.
func (s *Service) used(o *op, now time.Time) {
	if o.Budget.Unlimited {
		return
	}
	u := s.useOf(o.Bucket)
	mark := allocation.LowWater(math.Float64frombits(u.rate.Load()), o.Amount)
	if o.outcome.Balance >= mark || now.UnixNano() < u.after.Load() ||
		!u.pending.CompareAndSwap(false, true) {
		return
	}
	s.refills.Add(refill{o.Budget.ID, o.Bucket, mark - o.outcome.Balance, u})
}

// refill applies for buckets that run low. Where U is used up nothing is asked for a while.
func (s *Service) refill(all []refill) {
	const calm = time.Second
	ctx, cancel := s.bounded()
	defer cancel()
	for _, r := range all {
		got, err := s.ledger.Supply.Apply(ctx, r.budget, Want{Bucket: r.bucket, Need: 1,
			Rate: math.Float64frombits(r.use.rate.Load()) + float64(r.need)})
		if err == nil && got.Units > 0 {
			s.observer.Moved("apply", got.Units)
			err = s.push(ctx, []int64{r.bucket}, -1)
		} else {
			r.use.after.Store(s.clock.Now().Add(calm).UnixNano())
		}
		s.failed("sql", err)
		r.use.pending.Store(false)
	}
}

// mostRounds bounds the steps in which the buckets of one budget are closed: 1,024 buckets take 64.
const mostRounds = 100

// Gather closes epochs until U and F have so many units, or until no open epoch has any. It returns
// an error where a store cannot be reached; what the others brought stays in U.
func (s *Service) Gather(ctx context.Context, budgetID, units int64) error {
	var first error
	for range mostRounds {
		donors, err := s.ledger.Supply.Collect(ctx, budgetID, 0, units)
		if err != nil || len(donors) == 0 {
			return orFirst(first, err)
		}
		if err := s.push(ctx, donors, -1); err != nil {
			return err
		}
	}
	return first
}

func orFirst(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

// Redistribute brings all units of a budget's buckets back to the total and hands them out again
// evenly: a recycle. It may be interrupted and repeated at any time. Errors: Unavailable,
// OutcomeUnknown, also where a store is down; the others are done.
func (s *Service) Redistribute(ctx context.Context, budgetID int64) error {
	b, err := s.budgets.Reload(ctx, budgetID)
	if err != nil {
		return err
	}
	s.syncBudget(ctx, b, s.clock.Now())
	gathered := s.Gather(ctx, budgetID, b.TotalQuantity)
	begun, err := s.ledger.Supply.Spread(ctx, budgetID)
	if err == nil {
		err = s.push(ctx, begun, -1)
	}
	return orFirst(gathered, err)
}

// ShrinkLoop closes epochs of budgets whose pending shrinks wait for units. The shrinks themselves
// are done by manage.FinishShrinks.
type ShrinkLoop struct{ s *Service }

// RunOnce looks once. Error: the first that it met.
func (g *ShrinkLoop) RunOnce(ctx context.Context) error {
	list, err := g.s.ledger.Supply.Shrinking(ctx)
	for _, shrink := range list {
		b, e := g.s.budgets.Reload(ctx, shrink.Budget)
		if e == nil {
			g.s.syncBudget(ctx, b, g.s.clock.Now())
			var donors []int64
			// U has less than is pending: what comes is kept from being applied for.
			donors, e = g.s.ledger.Supply.Collect(ctx, b.ID, 0, shrink.Units)
			if e == nil {
				e = g.s.push(ctx, donors, 0)
			}
		}
		err = orFirst(err, e)
	}
	return err
}
