package counter

import (
	"context"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// verb runs an operator's verb on one bucket and returns the bucket as it is then.
func (s *Service) verb(ctx context.Context, op string, ref bucket.BudgetRef, key string,
	do func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) error) (
	bucket.BucketView, error) {
	var none bucket.BucketView
	b, err := s.budgets.Find(ctx, ref)
	if err == nil {
		b, err = s.budgets.Reload(ctx, b.ID)
	}
	if err != nil {
		return none, err
	}
	bk := find(b, key)
	if bk == nil {
		return none, budget.Refuse(budget.BucketNotFound, op, "budget %s has no bucket %q", b.Name, key)
	}
	step, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.set.StepTime)
	defer cancel()
	if b.Period.OverAt(s.sqlNow()) && !b.Period.Over {
		if err := s.turn(step, b.ID); err != nil {
			return none, err
		}
	}
	if err := do(step, b, bk); err != nil {
		return none, err
	}
	if b, err = s.budgets.Reload(step, b.ID); err != nil {
		return none, &budget.Error{Code: budget.OutcomeUnknown, Op: op, Err: err,
			Message: "it was done; the answer could not be read"}
	}
	bk = find(b, bk.Key)
	return bucket.BucketView{Bucket: *bk, Remaining: bk.Epoch.Outstanding}, nil
}

// find returns a bucket by its key: `sale:bucket-1`, or `bucket-1`; nil where there is none.
func find(b *bucket.Budget, key string) *bucket.Bucket {
	ring := b.Ring()
	for i := range ring {
		if short := ring[i].Key[strings.LastIndexByte(ring[i].Key, ':')+1:]; ring[i].Key == key ||
			short == key {
			return &ring[i]
		}
	}
	return nil
}

// Offline takes a bucket offline for an operator: its epoch is closed, what it has goes back to the total,
// and requests of its keys are unavailable until Online. The epoch of a store that is down stays closing
// until the store is back or its memory is given up. Errors: BudgetNotFound; BucketNotFound; LastBucket;
// Unavailable; OutcomeUnknown. Repeating it changes nothing.
func (s *Service) Offline(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "offline", ref, key,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) error {
			if err := s.ledger.Supply.Offline(ctx, b.ID, bk.ID, bucket.ByOperator); err != nil {
				return err
			}
			s.failed("store", s.push(ctx, []int64{bk.ID}, -1)) // any node goes on with it
			return nil
		})
}

// Online brings a bucket online with an even share of what is undistributed. A bucket that is online is
// answered as it is. Errors: BudgetNotFound; BucketNotFound; BudgetExpired where no period is open;
// Unavailable, also while the store of an epoch that is closing is down; OutcomeUnknown.
func (s *Service) Online(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "online", ref, key,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) error {
			if bk.Online && bk.Epoch.Status == ledger.Open {
				return nil
			}
			return s.apply(ctx, b, bk, true)
		})
}

// ApplyTo makes a bucket apply for its even share of what is undistributed, at most sharding_quantity.
// Where nothing may be applied for it changes nothing. Errors: BudgetNotFound; BucketNotFound;
// BucketOffline; Unavailable; OutcomeUnknown.
func (s *Service) ApplyTo(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "apply", ref, key,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) error {
			if !bk.Online {
				return budget.Refuse(budget.BucketOffline, "apply",
					"bucket %s is offline: bring it online first", bk.Key)
			}
			return s.apply(ctx, b, bk, false)
		})
}

// apply gives a bucket its even share of U, once its unfinished steps are done.
func (s *Service) apply(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket, online bool) error {
	const rounds = 2 // an epoch that is closing is closed first
	for range rounds {
		if err := s.push(ctx, []int64{bk.ID}, -1); err != nil {
			return err
		}
		got, err := s.ledger.Supply.Apply(ctx, b.ID, Want{Bucket: bk.ID, Need: 1, Rate: everything,
			Operator: online})
		if err != nil {
			return err
		}
		if !got.Closing {
			s.observer.Moved("apply", got.Units)
			return s.push(ctx, []int64{bk.ID}, -1)
		}
	}
	e := storeDown(bk.Lane, nil)
	e.RetryAfter = time.Second
	return e
}

// everything is a rate with which allocation.Refill asks for the even share.
const everything = float64(budget.MaxAmount)
