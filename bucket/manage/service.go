// Package manage is the operator's verbs on budgets: create, list, view, change, append and
// shrink.
//
// Each verb fetches what it decides by, and writes in one transaction of the ledger. Afterwards
// it tells the filters (ledger mode) or the stores (store mode) what the transaction moved.
// Losing that is harmless: filters heal, and loops finish what stores have not got.
package manage

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/place"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Service is the verbs. Fill it in before use; Stores may be nil where no budget is in store mode.
// Safe for concurrent use.
type Service struct {
	Ledger  Ledger
	Budgets Budgets
	Periods Periods
	Stores  Stores
	Filter  bucket.Filter
	// Places is where buckets can be, Takes which of those lanes take buckets now.
	Places *place.Map
	Takes  func(bucket.Lane) bool
	// Moved is told of units that a verb handed out.
	Moved func(step string, units int64)
	Clock bucket.Clock
	// Nonce makes the number of a call.
	Nonce func() string
	Log   *slog.Logger
	// Timeout bounds a call once it has begun to write, whatever becomes of its caller; above 0.
	Timeout time.Duration
}

// bounded returns a context that outlives the caller's, for Timeout: what was begun is finished.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
}

// Create makes a budget: its buckets are placed evenly over the instances, and a promo budget
// hands out everything at once. BucketQuantity 0 asks for budget.DefaultBuckets of what the first
// period gets; an unlimited budget gets one bucket per lane. created is false when the same
// definition was created before: it answers that budget, whatever became of it. The budget, its
// buckets and the hand-out are one transaction.
//
// With DryRun nothing is made: the view has the definition and what its first periods would get.
//
// Errors: Invalid with every faulty field; NameTaken; Unavailable, also where no lane takes
// buckets; OutcomeUnknown: repeat it.
func (s *Service) Create(ctx context.Context, d budget.Definition) (
	v bucket.View, created bool, err error) {
	placed := d
	if placed.BucketQuantity == 0 {
		placed.BucketQuantity = s.defaultBuckets(d)
	}
	faults := append(allocation.CheckDefinition(placed), limit.CheckDefinition(placed)...)
	if d.DryRun &&
		!d.AllowPast { // otherwise the ledger judges it, where the budget does not exist yet
		faults = append(faults, budget.CheckEnd(d.EndAt, s.Clock.Now())...)
	}
	if len(faults) > 0 {
		return v, false, &budget.Error{Code: budget.Invalid, Op: "create", Fields: faults,
			Message: "the definition has faults"}
	}
	if d.DryRun {
		return s.preview(placed), false, nil
	}
	lanes, err := s.lanes("create", d.Tenant, d.Name, nil, placed.BucketQuantity)
	if err != nil {
		return v, false, err
	}
	if d.Durability == budget.Store {
		if err := s.fit(ctx, lanes); err != nil {
			return v, false, err
		}
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	made, err := s.Ledger.Create(step, d, lanes)
	if err != nil {
		return v, false, err
	}
	id := made.Budget.ID
	if made.New {
		s.Log.Info("budget created", "budget", id, "name", d.Name, "units", d.TotalQuantity,
			"buckets", len(made.Budget.Buckets))
	}
	s.tell(step, made.Levels)
	s.carry(step, &made.Budget)
	v, err = s.Ledger.View(step, bucket.BudgetRef{ID: id})
	v.Replayed = !made.New
	if made.New && err == nil && s.Moved != nil {
		s.Moved("handout", v.Figures.OutQuantity())
	}
	return v, made.New && err == nil, written("create", err)
}

// defaultBuckets is how many buckets a budget gets whose maker gives no number. It does not
// depend on which lanes can be reached, so that a repeat at another node asks for as many.
func (s *Service) defaultBuckets(d budget.Definition) int {
	lanes := s.Places.Size()
	if d.Unlimited {
		return min(lanes, budget.MaxDefaultBuckets)
	}
	if len(allocation.CheckDefinition(onlyOne(d))) > 0 {
		return 1 // its faults are answered
	}
	_, first := allocation.Begin(d, s.Clock.Now())
	return budget.DefaultBuckets(d.Unit, first.Funded, lanes)
}

// preview returns a new budget as it would be, with what its first periods and its last one would
// get.
func (s *Service) preview(d budget.Definition) bucket.View {
	const shown = 3
	now := s.Clock.Now()
	d.Limits, d.CreatedAt = limit.Zoned(d), now
	unfunded, first := allocation.Begin(d, now)
	v := bucket.View{Definition: d, Period: first, Status: d.StatusAt(now),
		Plan: allocation.Preview(d, now, shown)}
	v.Figures = ledger.Figures{Total: d.TotalQuantity, Unfunded: unfunded, Remaining: first.Funded,
		PeriodUnits: first.Funded, Period: first, Online: d.BucketQuantity}
	return v
}

func onlyOne(d budget.Definition) budget.Definition {
	d.BucketQuantity = 1
	return d
}

// lanes chooses a lane for each bucket of a budget; those that it has keep theirs.
func (s *Service) lanes(
	op, tenant, name string,
	have []bucket.Lane,
	n int,
) ([]bucket.Lane, error) {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = place.Key(tenant, bucket.KeyOf(name, i))
	}
	lanes, ok := s.Places.Lanes(keys, have, s.Takes)
	if !ok {
		return nil, budget.Refuse(budget.Unavailable, op, "no instance takes buckets now")
	}
	return lanes, nil
}

// fit refuses store mode where it is not set up, or a lane may forget.
func (s *Service) fit(ctx context.Context, lanes []bucket.Lane) error {
	if s.Stores == nil {
		return &budget.Error{Code: budget.Invalid, Op: "create", Message: "the definition has faults",
			Fields: []budget.FieldError{{Field: "durability",
				Message: `must be "ledger": this service has no store for "store"`}}}
	}
	return s.Stores.Fit(ctx, lanes)
}

// View reads a budget as of now. Errors: BudgetNotFound, Unavailable.
func (s *Service) View(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	return s.Ledger.View(ctx, ref)
}

// List reads a page of budgets in the order of their ids. Errors: Invalid, Unavailable.
func (s *Service) List(ctx context.Context, page bucket.Page) ([]bucket.View, error) {
	return s.Ledger.Budgets(ctx, page)
}

// Change changes a definition. It holds for every commit that follows (I8), on this node for every
// call that follows. Another number of buckets (ledger mode) is part of the same transaction; those
// that stay keep their places.
//
// Errors: BudgetNotFound, VersionConflict, Invalid, LedgerModeOnly, Unavailable, OutcomeUnknown.
func (s *Service) Change(ctx context.Context, ref bucket.BudgetRef, change bucket.Change) (
	bucket.View, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return bucket.View{}, err
	}
	var lanes []bucket.Lane
	if n := change.BucketQuantity; n != nil && !b.InStoreMode() {
		var have []bucket.Lane
		for _, one := range b.Ring() {
			have = append(have, one.Lane)
		}
		buckets := min(max(*n, 0), budget.MaxBuckets) // the ledger judges what was asked for
		if lanes, err = s.lanes("change", b.Tenant, b.Name, have, buckets); err != nil {
			return bucket.View{}, err
		}
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	s.turn(step, b.ID)
	changed, err := s.Ledger.Change(step, b.ID, change, lanes)
	if err != nil {
		return bucket.View{}, err
	}
	s.learn(step, b.ID)
	s.tell(step, changed.Levels)
	s.carry(step, b)
	if changed.IsDue {
		s.turn(step, b.ID)
	}
	v, err := s.Ledger.View(step, bucket.BudgetRef{ID: b.ID})
	return v, written("change", err)
}

// Adjust appends to a budget, or shrinks it by a negative quantity, once per request id. An
// append is handed out at once. A shrink takes units back from buckets where the total does not
// cover it, down to what is used or held; in store mode it closes buckets for that, and goes on
// until Timeout.
//
// Errors: BudgetNotFound; RequestConflict; Invalid; AmountExceedsRemaining with the figure;
// Unavailable; OutcomeUnknown: repeat the same request id.
func (s *Service) Adjust(ctx context.Context, r bucket.AdjustRequest) (bucket.View, error) {
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err != nil {
		return bucket.View{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	s.turn(step, b.ID)
	order := Adjustment{Budget: b.ID, RequestID: r.RequestID, Nonce: s.Nonce(), Quantity: r.Quantity,
		Deadline: s.Clock.Now().Add(s.Timeout)}
	done, err := s.Ledger.Adjust(step, order)
	if err != nil {
		return bucket.View{}, err
	}
	s.tell(step, done.Levels)
	if done.State == bucket.AdjustmentPending {
		if err := s.await(step, order); err != nil {
			return bucket.View{}, written("shrink", err)
		}
	}
	s.carry(step, b)
	v, err := s.Ledger.View(step, bucket.BudgetRef{ID: b.ID})
	v.Replayed = done.Replayed
	return v, written("adjust", err)
}

// await brings units back until a pending shrink is done or refused (store mode).
func (s *Service) await(ctx context.Context, order Adjustment) error {
	const rounds, pause = 20, 20 * time.Millisecond
	order.Continue = true
	for range rounds {
		if s.Stores != nil {
			if err := s.Stores.Recall(ctx, order.Budget, -order.Quantity); err != nil {
				s.Log.Warn("shrink waits for units", "budget", order.Budget, "error", err)
			}
		}
		switch done, err := s.Ledger.Adjust(ctx, order); {
		case err != nil:
			return err
		case done.State == bucket.AdjustmentDone:
			return nil
		}
		if err := s.Clock.Sleep(ctx, pause); err != nil {
			break
		}
	}
	return budget.Refuse(budget.OutcomeUnknown, "shrink",
		"units are still being brought back; repeat the same request id")
}

// FinishShrinks goes on with pending shrinks whose callers are gone, at most 100 of them: each is
// done, waits for units, or is refused at its deadline (store mode). It is a loop's run; any node
// may make it, at any time. Errors: Unavailable, OutcomeUnknown; the next run goes on.
func (s *Service) FinishShrinks(ctx context.Context) error {
	const most = 100
	list, err := s.Ledger.Shrinks(ctx, most)
	for _, order := range list {
		_, e := s.Ledger.Adjust(ctx, order)
		if e != nil && err == nil && !budget.Is(e, budget.AmountExceedsRemaining) {
			err = e
		}
	}
	return err
}

// learn has this node use a changed definition at once; other nodes do so within a second.
func (s *Service) learn(ctx context.Context, budgetID int64) {
	if _, err := s.Budgets.Reload(ctx, budgetID); err != nil {
		s.Log.Warn("changed budget not read again", "budget", budgetID, "error", err)
	}
}

// turn rolls a budget over first if that is due, so that a verb decides about the period that is
// open.
func (s *Service) turn(ctx context.Context, budgetID int64) {
	if err := s.Periods.RollOver(ctx, budgetID); err != nil {
		s.Log.Warn("budget not rolled over yet", "budget", budgetID, "error", err)
	}
}

// carry brings what a verb left pending to the stores (store mode); a loop does what it cannot.
func (s *Service) carry(ctx context.Context, b *bucket.Budget) {
	if !b.InStoreMode() || s.Stores == nil {
		return
	}
	if err := s.Stores.Open(ctx, b.ID); err != nil {
		s.Log.Warn("stores have not got all units yet", "budget", b.ID, "error", err)
	}
}

// tell sends levels to the filters, those of a lane in one call, the lanes side by side. What fails
// heals by itself (I9).
func (s *Service) tell(ctx context.Context, levels []bucket.Level) {
	const atOnce = 16
	byLane := map[bucket.Lane][]bucket.Level{}
	for _, level := range levels {
		byLane[level.Lane] = append(byLane[level.Lane], level)
	}
	var all errgroup.Group
	all.SetLimit(atOnce)
	for lane, levels := range byLane {
		all.Go(func() error {
			_ = s.Filter.Set(ctx, lane, slices.Clip(levels))
			return nil
		})
	}
	_ = all.Wait()
}

// written keeps "certainly not done" from being said of a call that has written something.
func written(op string, err error) error {
	code := budget.CodeOf(err)
	if err == nil || code.Kind() != budget.NotDone && code != budget.Internal {
		return err
	}
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op,
		Message: "it was written, and could not be read back; repeat it", Err: err}
}
