// Package manage implements the operators' calls on budgets: create, list, view, change, append and
// shrink.
//
// Each call reads what it decides by, and writes in one transaction of the ledger. In store mode it
// then sends what the transaction moved to the stores. Losing that is harmless: loops deliver what
// stores have missed.
//
// # Modes
//
// In ledger mode one commit completes a budget and its buckets: epochs begin open. In store mode
// they begin opening, with a pending grant, until their stores have them.
//
// # Versions
//
// Every change raises the budget's version. In the same transaction, under their locks, it raises
// the definition version of all live epochs. A commit that was judged by an older definition is
// judged again. So a pause, an end, a limit or a rule applies to every later commit at once (I8).
//
// # Unlimited budgets
//
// An unlimited budget has no total. T, F, U and the O of its epochs are always 0, it makes no
// grants, and movements between the budget and its buckets move nothing. Flights neither judge nor
// change O of its epochs. A deduction only adds to S or H, and a rollback only subtracts from them,
// without R. S and H of an epoch saturate at budget.MaxAmount. The equation of I1 does not apply to
// it.
package manage

import (
	"context"
	"log/slog"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/placement"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Service implements the calls. Set its fields before use. Stores may be nil if no budget is in
// store mode. It is safe for concurrent use.
type Service struct {
	Ledger  *Ledger
	Budgets Budgets
	Periods Periods
	Stores  Stores
	// Places maps buckets of store mode to partitions. Takes reports whether a partition accepts
	// buckets now.
	Places *placement.Map
	Takes  func(bucket.Partition) bool
	// Fit returns why a budget in store mode may not have buckets on partitions (Error: Invalid).
	Fit func(context.Context, []bucket.Partition) error
	// Unreachable lists the partitions whose stores do not answer. It may be nil.
	Unreachable func() []bucket.Partition
	// Moved reports units that were handed out.
	Moved func(step string, units int64)
	Clock bucket.Clock
	// Nonce returns a random text that identifies a call.
	Nonce func() string
	Log   *slog.Logger
	// Timeout bounds a call that has begun to write, even if its caller is gone. It must be above 0.
	Timeout time.Duration
}

// bounded returns a context that outlives the caller's by up to Timeout, so that a call that has
// begun is finished.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.Timeout)
}

// Create creates a budget. A promo budget hands out everything at once. In store mode its buckets
// are placed evenly over the instances. BucketQuantity 0 asks for budget.DefaultBuckets of the
// units of the first period; an unlimited budget gets one bucket, in store mode one per partition.
// The budget, its buckets and the distribution are one transaction. If the same definition was
// created before, Create returns that budget, whatever became of it, and created is false.
//
// With DryRun nothing is created. The view has the definition and what its first periods would get.
//
// A definition that names a parent is carved out of it: see books.Carve.
//
// Errors: Invalid with every faulty field, also for store mode without a configured instance;
// BudgetNotFound for a parent; those of books.Carve; NameTaken; Unavailable, in store mode also if
// no partition accepts buckets; OutcomeUnknown, after which the call may be repeated.
func (s *Service) Create(ctx context.Context, d budget.Definition) (
	v bucket.View, created bool, err error) {
	placed := d
	if placed.BucketQuantity == 0 {
		placed.BucketQuantity = s.defaultBuckets(d)
	}
	faults := append(allocation.CheckDefinition(placed), limit.CheckDefinition(placed)...)
	faults = append(faults, s.checkStores(d)...)
	if d.DryRun && !d.AllowPast { // otherwise the ledger checks it if the budget is new
		faults = append(faults, budget.CheckEnd(d.EndAt, s.Clock.Now())...)
	}
	if len(faults) > 0 {
		return v, false, &budget.Error{Code: budget.Invalid, Op: "create", Fields: faults,
			Message: "the definition has faults"}
	}
	if err := s.parentOf(ctx, &d); err != nil {
		return v, false, err
	}
	if err := s.chargesOf(ctx, d.Tenant, 0, d.Parent, &d.AlsoCharges); err != nil {
		return v, false, err
	}
	if d.DryRun && d.Parent == 0 {
		return s.preview(placed), false, nil
	}
	homes := make([]bucket.Partition, placed.BucketQuantity)
	if d.Durability == budget.Store {
		if homes, err = s.partitions(d.Tenant, d.Name, placed.BucketQuantity); err != nil {
			return v, false, err
		}
		if err := s.Fit(ctx, homes); err != nil {
			return v, false, err
		}
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	made, err := s.Ledger.Create(step, d, homes)
	if err != nil {
		return v, false, err
	}
	if d.DryRun {
		return made.View, false, nil
	}
	id := made.Budget.ID
	if made.New {
		s.Log.Info("budget created", "budget", id, "name", d.Name, "units", d.TotalQuantity,
			"buckets", len(made.Budget.Buckets))
	}
	v = made.View
	if !made.New || d.Durability == budget.Store {
		s.deliver(step, &made.Budget)
		if v, err = s.Ledger.View(step, bucket.BudgetRef{ID: id}); err == nil {
			err = s.named(step, &v)
		}
	}
	v.Replayed = !made.New
	if made.New && err == nil && s.Moved != nil {
		s.Moved("distribute", v.Figures.OutQuantity())
	}
	return v, made.New && err == nil, afterWrite("create", err)
}

// defaultBuckets returns the number of buckets of a budget whose definition has none. It does not
// depend on which partitions are reachable, so that a repeat at another node asks for the same
// number.
func (s *Service) defaultBuckets(d budget.Definition) int {
	partitions := 1
	if d.Durability == budget.Store {
		partitions = s.Places.Size()
	}
	if d.Unlimited {
		return min(partitions, budget.MaxDefaultBuckets)
	}
	if len(allocation.CheckDefinition(onlyOne(d))) > 0 {
		return 1 // Create returns its faults
	}
	_, first := allocation.Begin(d, s.Clock.Now())
	return budget.DefaultBuckets(d.Unit, first.Funded, partitions)
}

// preview returns a new budget as it would be created, with what its first periods and its last one
// would get.
func (s *Service) preview(d budget.Definition) bucket.View {
	const shown = 3
	now := s.Clock.Now()
	if d.Limits, d.CreatedAt = limit.Zoned(d), now; d.Limits != nil {
		d.Limits = limit.Begin(d.Limits.List, now)
	}
	unfunded, first := allocation.Begin(d, now)
	v := bucket.View{Definition: d, Period: first, Plan: allocation.Preview(d, now, shown)}
	v.Figures = ledger.Figures{Total: d.TotalQuantity, Unfunded: unfunded, InBuckets: first.Funded,
		PeriodUnits: first.Funded, Period: first, Online: d.BucketQuantity}
	v.At(now)
	return v
}

func onlyOne(d budget.Definition) budget.Definition {
	d.BucketQuantity = 1
	return d
}

// partitions chooses a partition for each bucket of a new budget in store mode.
func (s *Service) partitions(tenant, name string, n int) ([]bucket.Partition, error) {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = placement.Key(tenant, bucket.KeyOf(name, i))
	}
	partitions, ok := s.Places.Partitions(keys, s.Takes)
	if !ok {
		return nil, budget.Refuse(budget.Unavailable, "create", "no instance takes buckets now")
	}
	return partitions, nil
}

// checkStores returns the fault of a definition in store mode if no instance is configured.
func (s *Service) checkStores(d budget.Definition) []budget.FieldError {
	if d.Durability != budget.Store || s.Stores != nil && s.Places.Size() > 0 {
		return nil
	}
	return []budget.FieldError{{Field: "durability", Message: `must be "ledger": ` +
		`"store" needs a Redis, and this node has none; add one under "instances" in the ` +
		`configuration of every node`}}
}

// Change changes a definition. The change applies to every commit that follows (I8), and on this
// node to every call that follows. A new number of buckets (ledger mode) is part of the same
// transaction.
//
// Errors: BudgetNotFound, VersionConflict, Invalid, LedgerModeOnly, Unavailable, OutcomeUnknown.
func (s *Service) Change(ctx context.Context, ref bucket.BudgetRef, change bucket.Change) (
	bucket.View, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err == nil && change.BucketQuantity != nil {
		err = b.NeedsRows("another bucket_quantity",
			"create a budget with that many buckets: ids belong to buckets in store mode")
	}
	if err != nil {
		return bucket.View{}, err
	}
	if change.AlsoCharges != nil {
		charges := *change.AlsoCharges
		if err := s.chargesOf(ctx, b.Tenant, b.ID, b.Parent, &charges); err != nil {
			return bucket.View{}, err
		}
		change.AlsoCharges = &charges
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	s.rollOverFirst(step, b)
	var changed Changed
	_, err = s.Budgets.Learn(func() (_ bucket.Budget, err error) {
		changed, err = s.Ledger.Change(step, b.ID, change)
		return changed.Budget, err
	})
	if err != nil {
		return bucket.View{}, err
	}
	s.deliver(step, b)
	if changed.IsDue {
		s.rollOver(step, b)
	}
	return s.viewAfter(step, "change", b, changed.View, changed.IsDue)
}

// viewAfter returns the view of a budget after a call: the one that its transaction read, unless
// something has happened since.
func (s *Service) viewAfter(ctx context.Context, op string, b *bucket.Budget, v bucket.View,
	changed bool) (bucket.View, error) {
	var err error
	if changed || b.InStoreMode() {
		v, err = s.Ledger.View(ctx, bucket.BudgetRef{ID: b.ID})
	}
	if err == nil {
		err = s.named(ctx, &v)
	}
	return v, afterWrite(op, err)
}

// Delete deletes a budget that never had a deduction, and returns it as it was. Its name is free
// afterwards. A node that still knows the budget for a second cannot deduct from it, because its
// epochs are gone. In store mode all buckets must be offline.
//
// Errors: BudgetNotFound, HasDeductions, InUse, Unavailable, OutcomeUnknown.
func (s *Service) Delete(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	v, err := s.Ledger.View(ctx, ref)
	if err != nil {
		return bucket.View{}, err
	}
	id := v.Definition.ID
	step, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.Ledger.Delete(step, id, v.Definition.AlsoCharges.IDs); err != nil {
		return bucket.View{}, err
	}
	s.Log.Info("budget deleted", "budget", id, "name", v.Definition.Name,
		"units", v.Definition.TotalQuantity)
	s.Budgets.Forget(id)
	return v, s.named(ctx, &v)
}

// Adjust appends to a budget, or shrinks it by a negative quantity, once per request id. An append
// is handed out at once. If the total does not cover a shrink, it takes units back from buckets,
// but none that are used or held. In store mode it closes buckets for that, and keeps trying until
// Timeout.
//
// Errors: BudgetNotFound; RequestConflict; Invalid; AmountExceedsRemaining with the figure;
// Unavailable; OutcomeUnknown, after which the caller must repeat the same request id.
func (s *Service) Adjust(ctx context.Context, r bucket.AdjustRequest) (bucket.View, error) {
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err != nil {
		return bucket.View{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	s.rollOverFirst(step, b)
	order := Adjustment{Budget: b.ID, RequestID: r.RequestID, Nonce: s.Nonce(), Quantity: r.Quantity,
		Deadline: s.Clock.Now().Add(s.Timeout)}
	done, err := s.Ledger.Adjust(step, order)
	if err != nil {
		return bucket.View{}, err
	}
	if done.State == bucket.AdjustmentPending {
		if err := s.await(step, order); err != nil {
			return bucket.View{}, afterWrite("shrink", err)
		}
	}
	s.deliver(step, b)
	v, err := s.viewAfter(step, "adjust", b, done.View, done.State == bucket.AdjustmentPending)
	v.Replayed = done.Replayed
	return v, err
}

// await collects units until a pending shrink is done or refused (store mode).
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
		"units are still being collected; repeat the same request id")
}

// FinishShrinks continues at most 100 pending shrinks whose callers are gone. Each is done, waits
// for units, or is refused at its deadline (store mode). A loop calls it; any node may do so at any
// time. Errors: Unavailable, OutcomeUnknown; the next run tries again.
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

// rollOverFirst rolls a budget over if its period has ended, so that a call decides about the open
// one.
func (s *Service) rollOverFirst(ctx context.Context, b *bucket.Budget) {
	if b.Period.OverAt(s.Clock.Now()) && !b.Period.Over {
		s.rollOver(ctx, b)
	}
}

// rollOver rolls a budget in ledger mode over. Loops do so for budgets in store mode.
func (s *Service) rollOver(ctx context.Context, b *bucket.Budget) {
	if b.InStoreMode() {
		return
	}
	if err := s.Periods.RollOver(ctx, b.ID); err != nil {
		s.Log.Warn("budget not rolled over yet", "budget", b.ID, "error", err)
	}
}

// deliver sends pending epochs and grants to the stores (store mode). A loop delivers what it
// cannot.
func (s *Service) deliver(ctx context.Context, b *bucket.Budget) {
	if !b.InStoreMode() || s.Stores == nil {
		return
	}
	if err := s.Stores.Push(ctx, b.ID); err != nil {
		s.Log.Warn("stores do not have all units yet", "budget", b.ID, "error", err)
	}
}

// afterWrite turns an error that means "certainly not done" into OutcomeUnknown, because the call
// has written something.
func afterWrite(op string, err error) error {
	code := budget.CodeOf(err)
	if err == nil || code.Kind() != budget.NotDone && code != budget.Internal {
		return err
	}
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op,
		Message: "the change was written, but could not be read back; repeat the call", Err: err}
}
