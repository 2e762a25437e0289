package counter

import (
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
func (s *Service) used(o *op) {
	if o.budget.Unlimited {
		return
	}
	u := s.useOf(o.Bucket)
	mark := allocation.LowWater(math.Float64frombits(u.rate.Load()), o.Amount)
	if o.outcome.Balance >= mark || o.wave.now.UnixNano() < u.after.Load() ||
		!u.pending.CompareAndSwap(false, true) {
		return
	}
	s.refills.Add(refill{o.budget.ID, o.Bucket, mark - o.outcome.Balance, u})
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
