package transfer

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/place"
	"github.com/budgetd/budgetd/budget"
)

// Ledger is the database's part: *transfer.Part of package sqlstore/transfer has all of it.
type Ledger struct {
	Supply   Supply
	Stocks   Stocks
	Periods  Periods
	Recycles Recycles
	Lanes    Lanes
	Counters Counters
}

// Budgets finds definitions that are at most a second old: bucket.Budgets.
type Budgets interface {
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
	Reload(ctx context.Context, id int64) (*bucket.Budget, error)
}

// Pages lists budgets by id.
type Pages interface {
	Budgets(ctx context.Context, page bucket.Page) ([]bucket.View, error)
}

// Health says whether the store of a lane answers.
type Health interface {
	// Ping returns nil when the store that serves a lane answers, otherwise why it does not.
	Ping(ctx context.Context, lane bucket.Lane) error
}

// Stores moves buckets of store mode: counter.Service.
type Stores interface {
	// Move gives a bucket another lane and loses nothing; see counter.Service. It may be interrupted
	// and repeated.
	Move(ctx context.Context, budgetID, bucketID int64, to bucket.Lane) error
	// GiveUp gives up the memories of lanes: what their buckets held is quarantined or comes back, as
	// the budgets say.
	GiveUp(ctx context.Context, lanes []bucket.Lane) (bucket.GivenUp, error)
}

// Config is what a Service is made of.
type Config struct {
	Ledger  Ledger
	Budgets Budgets
	Pages   Pages
	// Filter is told the levels after a commit; nil: nothing is.
	Filter bucket.Filter
	// Health is asked for Lanes and before buckets move; nil: every lane answers.
	Health Health
	// Lanes are those of the configured instances, Places the ring over them.
	Lanes  []bucket.Lane
	Places *place.Map
	// Stores moves the buckets of store mode that a drain finds, to StoreLanes; nil: none moves.
	Stores     Stores
	StoreLanes []bucket.Lane
	// Now is SQL's clock as this node knows it; the machine's when nil.
	Now func() time.Time
	// Moved is told of units that moved, by step: bucket.Movements.Moved; nil: nobody is.
	Moved func(step string, units int64)
	// Log gets what moved, and what failed in the background; nothing is logged when nil.
	Log *slog.Logger
	// Timeout bounds a call once it has begun to write, whatever becomes of its caller; 10 s.
	Timeout time.Duration
}

// Service is the operator's verbs on buckets, recycles and instances in ledger mode, and the
// rollover that requests wait for. Safe for concurrent use.
type Service struct {
	Config
	turns singleflight.Group
	// used are the budgets that were deducted from through this node since a loop looked.
	refills, recyclable used
	running             sync.WaitGroup
}

// New makes a service. It contacts nothing.
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

// Wait waits until recycles that outlived their callers have ended, or for ctx.
func (s *Service) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Used notes that a budget was deducted from through this node: its buckets are refilled, and it is
// recycled when too much of it is stranded. It costs a map lookup and returns at once.
func (s *Service) Used(budgetID int64) {
	s.refills.note(budgetID)
	s.recyclable.note(budgetID)
}

// bounded returns a context that outlives the caller's: what was begun is finished.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
}

// tell sends levels to the stores of their lanes. What does not arrive costs a stale take (I9).
func (s *Service) tell(ctx context.Context, levels []bucket.Level) {
	if s.Filter == nil || len(levels) == 0 {
		return
	}
	const limit, lanesAtOnce = 250 * time.Millisecond, 8
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	byLane := map[bucket.Lane][]bucket.Level{}
	for _, level := range levels {
		if level.Open {
			byLane[level.Lane] = append(byLane[level.Lane], level)
		}
	}
	var all errgroup.Group
	all.SetLimit(lanesAtOnce)
	for lane, list := range byLane {
		all.Go(func() error {
			_ = s.Filter.Set(ctx, lane, list)
			return nil
		})
	}
	_ = all.Wait()
}

// RollOver ends a budget's period if that is over by SQL's clock, and opens the next one; otherwise
// it does nothing. Calls for one budget share one rollover, which goes on when a caller gives up.
// Errors: BudgetNotFound; Unavailable; OutcomeUnknown, also when ctx ends first: call again.
func (s *Service) RollOver(ctx context.Context, budgetID int64) error {
	result := s.turns.DoChan(key(budgetID), func() (any, error) {
		step, cancel := s.bounded(ctx)
		defer cancel()
		done, err := s.Ledger.Periods.RollOver(step, budgetID)
		s.tell(step, done.Levels)
		if err == nil && done.Done {
			s.Log.Info("budget rolled over", "budget", budgetID, "period", done.Period.Number,
				"over", done.Period.Over, "units", done.Units)
			s.Moved("handout", done.Units)
		}
		if err == nil && (done.Done || len(done.Levels) > 0) {
			_, err = s.Budgets.Reload(step, budgetID)
		}
		return nil, err
	})
	select {
	case r := <-result:
		return r.Err
	case <-ctx.Done():
		return &budget.Error{Code: budget.OutcomeUnknown, Op: "roll over", Err: ctx.Err(),
			Message: "the rollover goes on"}
	}
}

// key is a budget's key among the rollovers.
func key(budgetID int64) string {
	var b [8]byte
	for i := range b {
		b[i] = byte(budgetID >> (8 * i)) //nolint:gosec // a part of the number
	}
	return string(b[:])
}

// turnFirst rolls a budget over before an operator's verb, where that is due.
func (s *Service) turnFirst(ctx context.Context, b *bucket.Budget) error {
	if !b.Period.OverAt(s.Now()) || b.Period.Over {
		return nil
	}
	return s.RollOver(ctx, b.ID)
}

// written keeps "certainly not done" from being said of a call that has written something.
func written(op string, wrote bool, err error) error {
	if err == nil || !wrote {
		return err
	}
	if kind := budget.CodeOf(err).Kind(); kind != budget.NotDone && kind != budget.MayBeDone {
		return err
	}
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op, Err: err,
		Message: "it was done; the answer could not be read"}
}

// ledgerOnly refuses a budget whose units are in its stores.
func ledgerOnly(op string, b *bucket.Budget) error {
	if !b.InStoreMode() {
		return nil
	}
	return budget.Refuse(budget.LedgerModeOnly, op, "budget %s keeps its units in its stores", b.Name)
}

// Buckets shows the buckets of a budget, as SQL has them now. Errors: BudgetNotFound, Unavailable.
func (s *Service) Buckets(ctx context.Context, ref bucket.BudgetRef) ([]bucket.BucketView, error) {
	b, err := s.fresh(ctx, ref)
	if err != nil {
		return nil, err
	}
	ring := b.Ring()
	views := make([]bucket.BucketView, len(ring))
	for i := range ring {
		views[i] = bucket.BucketView{Bucket: ring[i], Remaining: ring[i].Epoch.Outstanding}
	}
	return views, nil
}

// fresh reads a budget.
func (s *Service) fresh(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.Budgets.Reload(ctx, b.ID)
}

// find returns a bucket by its key: `sale:bucket-1`, or `bucket-1` where the budget is known.
// Error: BucketNotFound.
func find(op string, b *bucket.Budget, key string) (*bucket.Bucket, error) {
	if bk := b.Named(key); bk != nil {
		return bk, nil
	}
	return nil, budget.Refuse(budget.BucketNotFound, op, "budget %s has no bucket %q", b.Name, key)
}

// verb runs an operator's verb on one bucket and returns the bucket as it is then.
func (s *Service) verb(ctx context.Context, op string, ref bucket.BudgetRef, key string,
	do func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) error) (
	bucket.BucketView, error) {
	var none bucket.BucketView
	b, err := s.fresh(ctx, ref)
	if err == nil {
		err = ledgerOnly(op, b)
	}
	if err != nil {
		return none, err
	}
	bk, err := find(op, b, key)
	if err != nil {
		return none, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.turnFirst(step, b); err != nil {
		return none, err
	}
	if err := do(step, b, bk); err != nil {
		return none, err
	}
	if b, err = s.Budgets.Reload(step, b.ID); err != nil {
		return none, written(op, true, err)
	}
	if bk, err = find(op, b, bk.Key); err != nil {
		return none, err
	}
	return bucket.BucketView{Bucket: *bk, Remaining: bk.Epoch.Outstanding}, nil
}

// Offline takes a bucket offline for an operator: its units go back to the total, and it stays
// offline until Online. A bucket that is offline already is answered as it is. Errors:
// BudgetNotFound; BucketNotFound; LedgerModeOnly; LastBucket; Unavailable; OutcomeUnknown.
func (s *Service) Offline(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "offline", ref, key,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) error {
			err := s.Ledger.Supply.Offline(ctx, b.ID, bk.ID, bucket.ByOperator)
			if err == nil {
				s.Log.Info("bucket taken offline", "budget", b.Name, "bucket", bk.Key)
			}
			return err
		})
}

// Online brings a bucket online, and spreads what is undistributed over all buckets. A bucket that
// is online already is answered as it is. Errors: BudgetNotFound; BucketNotFound; LedgerModeOnly;
// BudgetExpired where no period is open; Unavailable; OutcomeUnknown.
func (s *Service) Online(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "online", ref, key,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) error {
			moved, err := s.Ledger.Supply.Online(ctx, b.ID, bk.ID)
			s.tell(ctx, moved.Levels)
			if err == nil {
				s.Moved("handout", moved.Units)
				s.Log.Info("bucket brought online", "budget", b.Name, "bucket", bk.Key)
			}
			return err
		})
}

// ApplyTo makes a bucket apply for its even share of what is undistributed, at most
// sharding_quantity. Where nothing may be applied for it changes nothing. Errors: BudgetNotFound;
// BucketNotFound; LedgerModeOnly; BucketOffline; Unavailable; OutcomeUnknown.
func (s *Service) ApplyTo(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	return s.verb(ctx, "apply", ref, key,
		func(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket) error {
			if !bk.Online {
				return budget.Refuse(budget.BucketOffline, "apply",
					"bucket %s is offline: bring it online first", bk.Key)
			}
			if _, err := s.Ledger.Periods.Sweep(ctx, []int64{b.ID}); err != nil {
				return err
			}
			level, err := s.Ledger.Supply.Apply(ctx, b.ID, Want{Bucket: bk.ID, Need: 1,
				Units: budget.MaxAmount, Of: len(b.Ring())})
			if err != nil {
				return err
			}
			s.applied(ctx, level)
			return nil
		})
}

// applied tells the filter of an application.
func (s *Service) applied(ctx context.Context, level bucket.Level) {
	if level.Added > 0 {
		s.Moved("apply", level.Added)
		s.tell(ctx, []bucket.Level{level})
	}
}

// shuffled returns ids in a random order, so that nodes that do the same work meet less.
func shuffled(ids []int64) []int64 {
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	return ids
}

// ended reports whether an error is only that the caller's time was over.
func ended(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, context.Canceled))
}
