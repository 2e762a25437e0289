package counter

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger/books"
)

// use is the rate at which all nodes together use a bucket, as this node's syncs measure it.
type use struct {
	pending atomic.Bool  // a refill waits or is under way
	after   atomic.Int64 // unix nanoseconds: no refill before

	pace atomic.Pointer[allocation.Pace] // of the partition's last sync; nil before
}

// last returns the pace of the last sync.
func (u *use) last() allocation.Pace {
	if p := u.pace.Load(); p != nil {
		return *p
	}
	return allocation.Pace{}
}

func (s *Service) useOf(bucketID int64) *use {
	if u, known := s.uses.Load(bucketID); known {
		return u.(*use)
	}
	u, _ := s.uses.LoadOrStore(bucketID, &use{})
	return u.(*use)
}

// rate returns how many units per second a bucket uses.
func (s *Service) rate(bucketID int64) float64 { return s.useOf(bucketID).last().Rate }

// Lately tells SQL what the stores of a budget counted, as far as they answer in time, and returns
// what its buckets used lately (allocation.Pace), as this node's syncs measured it, and what the
// largest of its recent requests on this node took. failed are the errors of partitions that do not
// answer.
func (s *Service) Lately(ctx context.Context, b *bucket.Budget) (used map[int64]int64,
	largest int64, failed map[bucket.Partition]error) {
	now := s.clock.Now()
	patience, cancel := context.WithTimeout(ctx, s.set.StepTime/2) //nolint:mnd // the rest is for SQL
	defer cancel()
	failed = s.syncBudget(ctx, patience, b, now)
	used = make(map[int64]int64, len(b.Buckets))
	for i := range b.Buckets {
		id := b.Buckets[i].ID
		used[id] = int64(min(s.useOf(id).last().LatelyAt(now), float64(budget.MaxAmount)))
	}
	return used, s.states.Of(b.ID).Recent.Usual(), failed
}

// measure updates the rates of buckets from what they took since the last sync. The caller holds
// l.syncing.
func (l *partition) measure(sums []bucket.Sum) {
	now := l.s.clock.Now()
	for _, sum := range sums {
		if sum.Late {
			continue
		}
		u := l.s.useOf(sum.Bucket)
		next := u.last().Next(now, sum.Epoch, sum.Taken, 0)
		u.pace.Store(&next)
	}
}

// refill asks for units for a bucket that runs low.
type refill struct {
	budget, bucket, lacks int64
	use                   *use
}

// Learn implements deduct.Home. It requests a refill if the bucket of an accepted operation runs
// low, by the mean of the budget's recent requests.
func (s *Service) Learn(o *deduct.Op, now time.Time) []budget.LimitState {
	if o.Verdict == bucket.Limited {
		return refusedBy(o)
	}
	request := o.State.Recent.Add(o.Row.Amount)
	if !o.Budget.Unlimited {
		s.used(o, request, now)
	}
	if len(o.Stored.Limits) == 0 {
		return nil
	}
	return limitStates(o)
}

func (s *Service) used(o *deduct.Op, request int64, now time.Time) {
	u := s.useOf(o.Route.ID)
	mark := allocation.LowWater(u.last().Rate, request)
	if o.Stored.Balance >= mark || now.UnixNano() < u.after.Load() ||
		now.UnixNano() < o.State.Empty.Load() ||
		!u.pending.CompareAndSwap(false, true) {
		return
	}
	s.refills.Add(refill{o.Budget.ID, o.Route.ID, mark - o.Stored.Balance, u})
}

// refill applies for buckets that run low. A bucket that gets nothing does not apply again for a
// second, and no bucket of the budget does if U has nothing for any.
func (s *Service) refill(all []refill) {
	const calm = time.Second
	ctx, cancel := s.bounded()
	defer cancel()
	for _, r := range all {
		state := s.states.Of(r.budget)
		if s.clock.Now().UnixNano() < state.Empty.Load() { // it waited for another bucket's
			r.use.pending.Store(false)
			continue
		}
		got, err := s.ledger.Apply(ctx, r.budget, r.bucket, books.Refill{Lacks: r.lacks,
			Rate: r.use.last().Rate, Background: true})
		if err == nil && got.Units > 0 {
			s.observer.Moved("apply", got.Units)
			err = s.push(ctx, []int64{r.bucket}, -1)
		} else {
			until := s.clock.Now().Add(calm).UnixNano()
			r.use.after.Store(until)
			if err == nil && got.Empty {
				state.Empty.Store(until)
			}
		}
		s.failed("sql", err)
		r.use.pending.Store(false)
	}
}

// mostRounds bounds the steps in which the buckets of one budget are closed: 1,024 buckets take 64.
const mostRounds = 100

// Recall closes epochs until U and F have that many units, or until no open epoch has any. If a
// store cannot be reached it returns an error; units of the other stores stay in U.
func (s *Service) Recall(ctx context.Context, budgetID, units int64) error {
	var first error
	for range mostRounds {
		donors, err := s.ledger.Collect(ctx, budgetID, units)
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

// ShrinkLoop closes epochs of budgets whose pending shrinks wait for units. manage.FinishShrinks
// then completes the shrinks.
type ShrinkLoop struct{ s *Service }

// RunOnce runs one pass. It returns the first error.
func (g *ShrinkLoop) RunOnce(ctx context.Context) error {
	list, err := g.s.ledger.Shrinking(ctx)
	for _, shrink := range list {
		b, e := g.s.budgets.Reload(ctx, shrink.Budget)
		if e == nil {
			g.s.syncBudget(ctx, ctx, b, g.s.clock.Now())
			var donors []int64
			// U has less than the pending shrinks, which keeps these units from being applied for.
			donors, e = g.s.ledger.Collect(ctx, b.ID, shrink.Units)
			if e == nil {
				e = g.s.push(ctx, donors, 0)
			}
		}
		err = orFirst(err, e)
	}
	return err
}
