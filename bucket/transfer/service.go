package transfer

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/placement"
	"github.com/budgetd/budgetd/budget"
)

// Pages lists budgets by id.
type Pages interface {
	Budgets(ctx context.Context, page bucket.Page) ([]bucket.View, error)
}

// Health reports whether the store of a partition answers.
type Health interface {
	// Ping returns nil if the store that serves a partition answers, and otherwise why it does not.
	Ping(ctx context.Context, partition bucket.Partition) error
}

// Stores carries out what buckets of store mode need. counter.Service implements it.
type Stores interface {
	// Tell finishes the unfinished steps of buckets, as far as their stores answer. It returns the
	// errors of those that do not. Errors: Unavailable and OutcomeUnknown of the database.
	Tell(ctx context.Context, buckets []int64) (map[bucket.Partition]error, error)
	// Lately tells SQL what the stores of a budget counted, as far as they answer, and returns what
	// its buckets used lately, and what the largest of its recent requests took. failed are the errors
	// of stores that do not answer.
	Lately(ctx context.Context, b *bucket.Budget) (used map[int64]int64, largest int64,
		failed map[bucket.Partition]error)
	// Move assigns a bucket to another partition without loss; see counter.Service. It may be
	// interrupted and repeated.
	Move(ctx context.Context, budgetID, bucketID int64, to bucket.Partition) error
	// GiveUp gives up the memories of partitions. The units of their buckets are quarantined or return
	// to the total, as the budgets say.
	GiveUp(ctx context.Context, partitions []bucket.Partition) (bucket.GivenUp, error)
}

// Config configures a Service.
type Config struct {
	Ledger  *Ledger
	Budgets *bucket.Budgets
	Pages   Pages
	// Health is used by Partitions and before buckets move. If it is nil, every partition is assumed
	// to answer.
	Health Health
	// Partitions are those of the configured instances. Places is the ring over them.
	Partitions []bucket.Partition
	Places     *placement.Map
	// Problem returns why the store of a partition did not answer this node lately, or "". It may be
	// nil.
	Problem func(bucket.Partition) string
	// Stores moves the buckets that a drain or a rebalance finds, and tells stores what was decided in
	// SQL. If it is nil, buckets stay and there is no budget in store mode.
	Stores Stores
	// Now returns SQL's time as this node knows it; nil means the system clock.
	Now func() time.Time
	// Moved reports moved units by step, as bucket.Movements.Moved does. It may be nil.
	Moved func(step string, units int64)
	// Log receives movements and background failures. If it is nil, nothing is logged.
	Log *slog.Logger
	// Timeout bounds a call that has begun to write, even if its caller is gone; 10 s.
	Timeout time.Duration
}

// Service carries out the operators' calls on buckets and instances, recycles, and the rollover
// that requests wait for. It is safe for concurrent use.
type Service struct {
	Config
	turns singleflight.Group
	risks risks
	// The budgets that this node deducted from since the last pass of the loop.
	refills, recyclable used
}

// New returns a service. It contacts neither the database nor a store.
func New(c Config) *Service {
	const timeout = 10 * time.Second
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Moved == nil {
		c.Moved = func(string, int64) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Timeout <= 0 {
		c.Timeout = timeout
	}
	return &Service{Config: c}
}

// Used records that this node deducted from a budget, so that its buckets are refilled and that it
// is recycled if too much of it is stranded. It costs a map lookup and returns at once.
func (s *Service) Used(budgetID int64) {
	s.refills.note(budgetID)
	s.recyclable.note(budgetID)
}

// bounded returns a context that outlives the caller's, so that a call that has begun is finished.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
}

// RollOver ends a budget's period if it is over by SQL's clock, and opens the next one. Otherwise
// it does nothing. Calls for one budget share one rollover, which continues if a caller is gone.
// Errors: BudgetNotFound; Unavailable; OutcomeUnknown, also if ctx ends first. Repeating it is
// harmless.
func (s *Service) RollOver(ctx context.Context, budgetID int64) error {
	result := s.turns.DoChan(key(budgetID), func() (any, error) {
		step, cancel := s.bounded(ctx)
		defer cancel()
		var done RolledOver
		_, err := s.Budgets.Learn(func() (after bucket.Budget, err error) {
			after, done, err = s.Ledger.RollOver(step, budgetID)
			return after, err
		})
		s.rolledOver(budgetID, done)
		return nil, err
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return &budget.Error{Code: budget.OutcomeUnknown, Op: "roll over", Err: ctx.Err(),
			Message: "the rollover continues in the background"}
	}
}

// rolledOver reports a rollover, if there was one.
func (s *Service) rolledOver(budgetID int64, done RolledOver) {
	if !done.Done {
		return
	}
	s.Log.Info("budget rolled over", "budget", budgetID, "period", done.Period.Number,
		"over", done.Period.Over, "units", done.Units)
	s.Moved("distribute", done.Units)
}

// key returns a budget's key among the rollovers.
func key(budgetID int64) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(budgetID >> (8 * i)) //nolint:gosec // a part of the number
	}
	return string(b[:])
}

// afterWrite turns an error that means "certainly not done" into OutcomeUnknown if the call has
// written something.
func afterWrite(op string, wrote bool, err error) error {
	if err == nil || !wrote {
		return err
	}
	if kind := budget.CodeOf(err).Kind(); kind != budget.NotDone && kind != budget.MayBeDone {
		return err
	}
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op, Err: err,
		Message: "the change was made, but its result could not be read"}
}

// Buckets lists the buckets of a budget as SQL has them now, and marks those that this node cannot
// reach. Errors: BudgetNotFound, Unavailable.
func (s *Service) Buckets(ctx context.Context, ref bucket.BudgetRef) ([]bucket.BucketView, error) {
	b, err := s.fresh(ctx, ref)
	if err != nil {
		return nil, err
	}
	ring := b.Ring()
	views := make([]bucket.BucketView, len(ring))
	for i := range ring {
		views[i] = b.View(&ring[i])
		if s.Problem != nil {
			views[i].Problem = s.Problem(ring[i].Partition)
		}
	}
	return views, nil
}

// fresh reads a budget from the database.
func (s *Service) fresh(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.Budgets.Reload(ctx, b.ID)
}

// find returns the bucket with a name, such as `sale:bucket-1` or its short form `bucket-1`. Error:
// BucketNotFound.
func find(op string, b *bucket.Budget, key string) (*bucket.Bucket, error) {
	if bk := b.Named(key); bk != nil {
		return bk, nil
	}
	return nil, budget.Refuse(budget.BucketNotFound, op, "budget %s has no bucket %q", b.Name, key)
}

// movement moves units of one bucket for an operator.
type movement func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) (Changed, error)

// mostWaits bounds the movements of one call, of which all but the last find that epochs must be
// closed first: those of a period that is over, of which some may open meanwhile, and the bucket's.
const mostWaits = 6

// verb applies an operator's action to one bucket and returns the bucket afterwards. Stores that do
// not answer are told later. That of the bucket has to answer if the bucket is to be online.
func (s *Service) verb(ctx context.Context, op string, ref bucket.BudgetRef, key string,
	online bool, do movement) (none bucket.BucketView, err error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return none, err
	}
	bk, err := find(op, b, key)
	if err != nil { // it may have been added a moment ago
		if b, err = s.Budgets.Reload(ctx, b.ID); err != nil {
			return none, err
		}
		if bk, err = find(op, b, key); err != nil {
			return none, err
		}
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	if online && b.InStoreMode() { // its unfinished steps come first
		if err := s.tell(step, bk, []int64{bk.ID}); err != nil {
			return none, err
		}
	}
	done, down := Changed{Waits: true}, error(nil)
	for i := 0; done.Waits && i < mostWaits; i++ {
		b, err = s.Budgets.Learn(func() (after bucket.Budget, err error) {
			done, err = do(step, b, bk)
			return done.After, err
		})
		if err != nil {
			return none, err
		}
		down = s.tell(step, bk, done.Tell)
	}
	switch {
	case down != nil && online:
		return none, down
	case done.Waits:
		e := budget.Refuse(budget.Unavailable, op, "the last epoch of bucket %s is being closed", bk.Key)
		e.RetryAfter = time.Second
		return none, e
	}
	if len(done.Tell) > 0 {
		b, err = s.Budgets.Reload(step, b.ID)
		if err != nil {
			return none, afterWrite(op, true, err)
		}
	}
	if bk, err = find(op, b, bk.Key); err != nil {
		return none, err
	}
	return b.View(bk), nil
}

// tell tells the stores of buckets what was decided in SQL. It returns the error of the store of
// one of them; the others are told later.
func (s *Service) tell(ctx context.Context, bk *bucket.Bucket, buckets []int64) error {
	if len(buckets) == 0 {
		return nil
	}
	failed, err := s.tellAll(ctx, buckets)
	if err != nil {
		return err
	}
	return failed[bk.Partition]
}

// tellAll is tell. It returns the errors of the stores.
func (s *Service) tellAll(ctx context.Context, buckets []int64) (
	map[bucket.Partition]error, error) {
	failed, err := s.Stores.Tell(ctx, buckets)
	for at, err := range failed {
		s.Log.Warn("a store is told later", "partition", at.String(), "error", err)
	}
	return failed, err
}

// Offline takes a bucket offline for an operator. Its units return to the total, and it stays
// offline until Online. In store mode requests of its keys are unavailable meanwhile, and the units
// return once its store answers, or its memory is given up. It changes nothing if the bucket is
// offline. Errors: BudgetNotFound; BucketNotFound; LastBucket; Unavailable; OutcomeUnknown.
func (s *Service) Offline(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "offline", ref, key, false,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) (Changed, error) {
			done, err := s.Ledger.Offline(ctx, b.ID, bk.ID, bucket.ByOperator)
			if err == nil {
				s.Log.Info("bucket taken offline", "budget", b.Name, "bucket", bk.Key)
			}
			return done, err
		})
}

// Online brings a bucket online and spreads the undistributed units over all buckets. It changes
// nothing if the bucket is online. Errors: BudgetNotFound; BucketNotFound; BudgetExpired if no
// period is open; Unavailable, in store mode also while the store of a closing epoch is down;
// OutcomeUnknown.
func (s *Service) Online(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "online", ref, key, true,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) (Changed, error) {
			done, err := s.Ledger.Online(ctx, b.ID, bk.ID)
			if err == nil && !done.Waits {
				s.Moved("distribute", done.Units)
				s.Log.Info("bucket brought online", "budget", b.Name, "bucket", bk.Key)
			}
			return done, err
		})
}

// ApplyTo makes a bucket apply for its even share of the undistributed units, at most
// sharding_quantity. It changes nothing if there is nothing to apply for. Errors: BudgetNotFound;
// BucketNotFound; BucketOffline; Unavailable; OutcomeUnknown.
func (s *Service) ApplyTo(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "apply", ref, key, true,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) (Changed, error) {
			done, err := s.Ledger.ApplyTo(ctx, b.ID, bk.ID)
			s.applied(done.Units)
			return done, err
		})
}

// applied reports the units of an application. It reports nothing if nothing was moved.
func (s *Service) applied(units int64) {
	if units > 0 {
		s.Moved("apply", units)
	}
}

// shuffled returns ids in random order, so that nodes that do the same work rarely compete.
func shuffled(ids []int64) []int64 {
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// ended reports whether err is only due to the end of ctx.
func ended(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled))
}
