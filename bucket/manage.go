package bucket

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// Create makes a budget: its buckets are placed by the ring over the lanes of all instances, none of
// which gets more than its even share, and a promo budget hands out everything at once. created is
// false when the same definition was created before. The budget, its buckets and the hand-out are
// one transaction; the buckets are then opened in their stores, by this node or, if it stops, by
// any.
//
// Errors: Invalid with every faulty field, NameTaken, Unavailable, OutcomeUnknown (repeat it).
func (s *Service) Create(ctx context.Context, d budget.Definition) (v View, created bool, err error) {
	if d.Unlimited {
		d = unlimited(d)
	} else if d.BucketQuantity == 0 && budget.ValidAmount(d.TotalQuantity) {
		d.BucketQuantity = budget.DefaultBuckets(d.Unit, d.TotalQuantity)
	}
	placed := d
	if d.Unlimited && d.BucketQuantity == 0 { // one bucket per lane of this node; a repeat at another one is the same
		placed.BucketQuantity = min(max(len(s.laneOrder), 1), budget.MaxBuckets)
	}
	if faults := append(allocation.CheckDefinition(placed), limit.CheckDefinition(d)...); len(faults) > 0 {
		return View{}, false, &budget.Error{Code: budget.Invalid, Op: "create", Fields: faults,
			Message: "the definition has faults"}
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	b, created, err := s.create(step, d, placed.BucketQuantity)
	if err != nil {
		return View{}, false, s.sqlFailed(err)
	}
	if created {
		s.log.Info("budget created", "budget", b.ID, "name", b.Name, "units", b.TotalQuantity,
			"buckets", len(b.Buckets))
	}
	s.begin(step, b.ID)
	v, err = s.View(step, BudgetRef{ID: b.ID})
	v.Replayed = !created
	if created && err == nil {
		s.observer.Moved("handout", v.Figures.OutQuantity())
	}
	return v, created, afterWrite("create", true, err)
}

// create stores a budget in so many buckets. When a lane turns out to be drained since this node looked, it looks again.
func (s *Service) create(ctx context.Context, d budget.Definition, buckets int) (b Budget, created bool, err error) {
	const tries = 3
	for range tries {
		lanes, err := s.place(d.Tenant, d.Name, buckets)
		if err != nil {
			return Budget{}, false, err
		}
		if err := s.fitForStoreMode(d, lanes); err != nil {
			return Budget{}, false, err
		}
		if b, created, err = s.sql.Create(ctx, d, lanes); !errors.Is(err, ErrDraining) {
			return b, created, err
		}
		s.seeLanes(ctx)
	}
	return Budget{}, false, unavailable("create", ErrDraining)
}

// whyForgetful says what is wrong with a store that answers writes before they are on its disk, and what mends it.
const whyForgetful = "a crash of its Redis can take back deductions that callers were told of, and quarantines what the " +
	"bucket held; set appendonly yes, appendfsync always and no-appendfsync-on-rewrite no there"

// forgetfulStore refuses a deduction in store mode on the word of such a store.
func forgetfulStore(id Lane) error {
	return budget.Refuse(budget.Unavailable, "store", "strict: instance %s: %s; it is looked at again every second",
		id.Instance, whyForgetful)
}

// fitForStoreMode refuses, where `strict` is set, a budget in store mode on a store that answers writes
// before they are on its disk; otherwise it warns.
func (s *Service) fitForStoreMode(d budget.Definition, lanes []Lane) error {
	if d.Durability != budget.Store {
		return nil
	}
	for _, id := range lanes {
		if !s.lanes[id].forgetful.Load() {
			continue
		}
		const other = ", or use durability ledger"
		if s.set.Strict {
			return &budget.Error{Code: budget.Invalid, Op: "create", Message: "the definition has faults",
				Fields: []budget.FieldError{{Field: "durability", Message: "strict: instance " + id.Instance + ": " + whyForgetful + other}}}
		}
		s.log.Warn("budget in store mode on a store that may forget", "budget", d.Name, "instance", id.Instance, "why", whyForgetful+other)
		return nil
	}
	return nil
}

// place chooses a lane for each bucket of a new budget: see nextLane.
func (s *Service) place(tenant, name string, n int) ([]Lane, error) {
	return s.placeMore(tenant, name, nil, n)
}

// placeMore chooses lanes for the buckets that a budget has not got yet, up to n; those that it has stay
// where they are. Unavailable when no lane can be used.
func (s *Service) placeMore(tenant, name string, have []Bucket, n int) ([]Lane, error) {
	lanes := make([]Lane, n)
	load := map[Lane]int{}
	for i := range have[:min(len(have), n)] {
		lanes[i] = have[i].Lane
		load[lanes[i]]++
	}
	for i := len(have); i < n; i++ {
		at, ok := s.nextLane(tenant+"/"+bucketKey(name, i), n, load, s.takesBuckets)
		if !ok {
			return nil, unavailable("create", errNoTarget)
		}
		load[at]++
		lanes[i] = at
	}
	return lanes, nil
}

// nextLane is the first lane clockwise from a bucket's key that is fit and does not yet hold its even
// share of the budget's n buckets; where all do, the first that is fit.
func (s *Service) nextLane(key string, n int, load map[Lane]int, fits func(*lane) bool) (Lane, bool) {
	fit := make([]bool, len(s.laneOrder))
	count := 0
	for i, id := range s.laneOrder {
		if fit[i] = fits(s.lanes[id]); fit[i] {
			count++
		}
	}
	if count == 0 {
		return Lane{}, false
	}
	share := (n-1)/count + 1
	at := s.placement.LocateIndex(key, func(i int) bool { return !fit[i] || load[s.laneOrder[i]] >= share })
	if at < 0 {
		at = s.placement.LocateIndex(key, func(i int) bool { return !fit[i] })
	}
	return s.laneOrder[at], true
}

// takesBuckets reports whether buckets may be brought to a lane: it can be used and is not being drained.
func (s *Service) takesBuckets(l *lane) bool {
	activation := l.current()
	return activation > 0 && s.usable(l, activation) && !l.draining.Load()
}

// begin opens what a new budget's transaction left opening, and sends its grants.
func (s *Service) begin(ctx context.Context, budgetID int64) {
	u, err := s.sql.UnfinishedOf(ctx, budgetID)
	if err != nil {
		s.failed("sql", err)
		return
	}
	opening := map[Lane][]Ref{}
	for _, e := range u.Epochs {
		opening[e.Lane] = append(opening[e.Lane], Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation})
	}
	for _, id := range inOrder(opening) {
		s.open(ctx, id, opening[id])
	}
	s.resendGrants(ctx, u.Grants)
}

// View reads a budget as of one snapshot. Errors: BudgetNotFound, Unavailable.
func (s *Service) View(ctx context.Context, ref BudgetRef) (View, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return View{}, err
	}
	if err := s.budgets.reload(ctx, entry); err != nil {
		return View{}, err
	}
	d := entry.value.Load().Definition
	f, err := s.sql.Figures(ctx, entry.id)
	if err != nil {
		return View{}, s.sqlFailed(err)
	}
	d.TotalQuantity = f.Total
	return View{Definition: d, Status: d.StatusAt(s.sql.Now()), Figures: f, Period: f.Period}, nil
}

// List reads a page of budgets in the order of their ids. Errors: Unavailable.
func (s *Service) List(ctx context.Context, page Page) ([]View, error) {
	definitions, err := s.sql.Budgets(ctx, page)
	if err != nil {
		return nil, s.sqlFailed(err)
	}
	views := make([]View, 0, len(definitions))
	for _, d := range definitions {
		f, err := s.sql.Figures(ctx, d.ID)
		if err != nil {
			return nil, s.sqlFailed(err)
		}
		views = append(views, View{Definition: d, Status: d.StatusAt(s.sql.Now()), Figures: f, Period: f.Period})
	}
	return views, nil
}

// Change changes a definition; it holds on every node within 1 s (I8), and a changed end for every
// commit at once. Another number of buckets is brought about before it returns, or, where a store cannot
// be reached or this node stops, by any node: OutcomeUnknown, and repeating it is harmless.
// Errors: BudgetNotFound, VersionConflict, Invalid, Unavailable, OutcomeUnknown.
func (s *Service) Change(ctx context.Context, ref BudgetRef, change Change) (View, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return View{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	s.turnFirst(step, entry)
	if _, err := s.sql.Change(step, entry.id, change); err != nil {
		return View{}, s.sqlFailed(err)
	}
	if change.Rule != nil || change.EndAt != nil {
		if _, err := s.turning.do(step, entry.id, struct{}{}); err != nil {
			s.log.Warn("budget not rolled over yet", "budget", entry.id, "error", err)
		}
	}
	if change.BucketQuantity != nil {
		if err := s.resize(step, entry.id); err != nil {
			return View{}, afterWrite("change", true, s.sqlFailed(err))
		}
	}
	v, err := s.View(step, BudgetRef{ID: entry.id})
	return v, afterWrite("change", true, err)
}

// Adjust appends to a budget or shrinks it. The request id makes it happen once. An append is handed
// out at once; a shrink takes units back from buckets where the total does not cover it, down to
// what is not used.
//
// Errors: BudgetNotFound; RequestConflict; Invalid; AmountExceedsRemaining with the figure;
// Unavailable; OutcomeUnknown: repeat the same request id; a shrink that waits for units goes on until
// its deadline.
func (s *Service) Adjust(ctx context.Context, r AdjustRequest) (View, error) {
	entry, err := s.budgets.find(ctx, r.Budget)
	if err != nil {
		return View{}, err
	}
	if entry.value.Load().Unlimited {
		return View{}, &budget.Error{Code: budget.Invalid, Op: "adjust", Message: "an unlimited budget has no total to change",
			Fields: []budget.FieldError{{Field: "quantity", Message: "belongs to a budget with a total"}}}
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	s.turnFirst(step, entry)
	adjustment := Adjustment{Budget: entry.id, RequestID: r.RequestID, Nonce: s.nonce(), Quantity: r.Quantity,
		Deadline: s.sql.Now().Add(s.set.StepTimeout)}
	state, replayed, err := s.sql.Adjust(step, adjustment)
	if err != nil {
		return View{}, s.sqlFailed(err)
	}
	if state == AdjustmentPending {
		if state, err = s.shrink(step, adjustment); err != nil {
			return View{}, s.sqlFailed(afterWrite("shrink", true, err))
		}
	}
	if state != AdjustmentDone {
		return View{}, unknown("shrink", errors.New("units are still being brought back"))
	}
	entry.soldOut.Store(0)
	// Also for a repetition, and after a shrink that took whole buckets back: what is undistributed
	// has to be where it can be had.
	if err := s.handOut(step, entry.id); err != nil {
		s.log.Warn("units not handed out yet", "budget", entry.id, "error", err)
	}
	v, err := s.View(step, BudgetRef{ID: entry.id})
	v.Replayed = replayed
	return v, afterWrite("adjust", true, err)
}

// shrink brings units back until the pending adjustment is done or refused.
func (s *Service) shrink(ctx context.Context, adjustment Adjustment) (AdjustmentState, error) {
	const rounds, wait = 5, 20 * time.Millisecond
	state := AdjustmentPending
	for range rounds {
		if _, err := s.sql.Sweep(ctx, adjustment.Budget); err != nil {
			return state, err
		}
		if err := s.recall(ctx, adjustment.Budget, -adjustment.Quantity); err != nil {
			s.log.Warn("shrink waits for units", "budget", adjustment.Budget, "error", err)
		}
		var err error
		if state, _, err = s.sql.Adjust(ctx, adjustment); err != nil || state != AdjustmentPending {
			return state, err
		}
		if err := s.clock.Sleep(ctx, wait); err != nil {
			return state, nil
		}
	}
	return state, nil
}

// Buckets shows the buckets of a budget. Errors: BudgetNotFound, Unavailable.
func (s *Service) Buckets(ctx context.Context, ref BudgetRef) ([]BucketView, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	b, err := s.sql.Budget(ctx, BudgetRef{ID: entry.id})
	if err != nil {
		return nil, s.sqlFailed(err)
	}
	ring := b.Ring()
	views := make([]BucketView, len(ring))
	for i := range ring {
		views[i] = BucketView{Bucket: ring[i], Remaining: ring[i].Epoch.Outstanding}
	}
	return views, nil
}
