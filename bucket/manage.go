package bucket

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Create makes a budget: its buckets are placed by the ring over the lanes of all instances, none of
// which gets more than its even share, and a promo budget hands out everything at once. created is
// false when the same definition was created before. The budget, its buckets and the hand-out are
// one transaction; the buckets are then opened in their stores, by this node or, if it stops, by
// any.
//
// Errors: Invalid with every faulty field, NameTaken, Unavailable, OutcomeUnknown (repeat it).
func (s *Service) Create(ctx context.Context, d budget.Definition) (v View, created bool, err error) {
	if d.BucketQuantity == 0 && budget.ValidAmount(d.TotalQuantity) {
		d.BucketQuantity = budget.DefaultBuckets(d.Unit, d.TotalQuantity)
	}
	if faults := d.Check(); len(faults) > 0 {
		return View{}, false, &budget.Error{Code: budget.Invalid, Op: "create", Fields: faults,
			Message: "the definition has faults"}
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	lanes, err := s.place(d.Tenant, d.Name, d.BucketQuantity)
	if err != nil {
		return View{}, false, err
	}
	b, created, err := s.sql.Create(step, d, lanes)
	if err != nil {
		return View{}, false, s.sqlFailed(err)
	}
	if created {
		s.observer.Moved("handout", d.TotalQuantity)
		s.log.Info("budget created", "budget", b.ID, "name", b.Name, "units", b.TotalQuantity,
			"buckets", len(b.Buckets))
	}
	s.begin(step, b.ID)
	v, err = s.View(step, BudgetRef{ID: b.ID})
	v.Replayed = !created
	return v, created, afterWrite("create", true, err)
}

// place chooses a lane for each bucket: the first clockwise from its key that can be used and does
// not yet hold its even share of this budget's buckets. Unavailable when no lane can be used.
func (s *Service) place(tenant, name string, n int) ([]Lane, error) {
	load := make([]int, len(s.laneOrder))
	fit := make([]bool, len(s.laneOrder))
	count := 0
	for i, id := range s.laneOrder {
		if l := s.lanes[id]; s.usable(l, l.current()) && l.current() > 0 {
			fit[i] = true
			count++
		}
	}
	if count == 0 {
		return nil, unavailable("create", errNoTarget)
	}
	share := (n-1)/count + 1
	lanes := make([]Lane, n)
	for i := range lanes {
		at := s.placement.LocateIndex(tenant+"/"+bucketKey(name, i), func(i int) bool {
			return !fit[i] || load[i] >= share
		})
		load[at]++
		lanes[i] = s.laneOrder[at]
	}
	return lanes, nil
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
	for id, refs := range opening {
		s.open(ctx, id, refs)
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
	return View{Definition: d, Status: d.StatusAt(s.sql.Now()), Figures: f}, nil
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
		views = append(views, View{Definition: d, Status: d.StatusAt(s.sql.Now()), Figures: f})
	}
	return views, nil
}

// Change changes a definition; it holds on every node within 1 s (I8), and a changed end for every
// commit at once.
// Errors: BudgetNotFound, VersionConflict, Invalid, Unavailable, OutcomeUnknown.
func (s *Service) Change(ctx context.Context, ref BudgetRef, change Change) (View, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return View{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	if _, err := s.sql.Change(step, entry.id, change); err != nil {
		return View{}, s.sqlFailed(err)
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
	step, cancel := s.bounded(ctx)
	defer cancel()
	adjustment := Adjustment{Budget: entry.id, RequestID: r.RequestID, Quantity: r.Quantity,
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
	views := make([]BucketView, len(b.Buckets))
	for i := range b.Buckets {
		views[i] = BucketView{Bucket: b.Buckets[i], Remaining: b.Buckets[i].Epoch.Outstanding}
	}
	return views, nil
}
