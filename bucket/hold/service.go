package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Settings bound the service. A zero field means its default, which is given after the semicolon.
type Settings struct {
	// StepTime bounds one transaction; 5 s. Grace is how much longer a caller whose time is over waits
	// for a transaction that has begun; 1 s.
	StepTime, Grace time.Duration
	// Orders bounds the orders of one transaction; 32. Queue bounds those that wait; 20,000.
	Orders, Queue int
}

func (s Settings) withDefaults() Settings {
	for _, d := range []struct {
		to  *time.Duration
		def time.Duration
	}{{&s.StepTime, 5 * time.Second}, {&s.Grace, time.Second}} {
		if *d.to <= 0 {
			*d.to = d.def
		}
	}
	for _, n := range []struct {
		to  *int
		def int
	}{{&s.Orders, 32}, {&s.Queue, 20_000}} {
		if *n.to <= 0 {
			*n.to = n.def
		}
	}
	return s
}

// Config configures a Service.
type Config struct {
	Budgets *bucket.Budgets
	Ledger  *Ledger
	// Observer receives SQL calls and moved units. It may be nil.
	Observer bucket.Observer
	// Away returns the time of a round trip to the database without its work; nil means 0.
	Away     func() time.Duration
	Settings Settings
}

// Service gives back and ends deductions. It runs no goroutines while it has no requests. It is
// safe for concurrent use.
type Service struct {
	budgets *bucket.Budgets
	ledger  *Ledger
	// execute is ledger.Execute, unless a test replaces it.
	execute  func(ctx context.Context, orders []Order) ([]Result, error)
	observer bucket.Observer
	set      Settings
	queue    *batch.Queue[*waiter]
}

// New returns a service. It does not contact the database.
func New(c Config) *Service {
	s := &Service{budgets: c.Budgets, ledger: c.Ledger, observer: c.Observer,
		set: c.Settings.withDefaults(), execute: c.Ledger.Execute}
	if c.Away == nil {
		c.Away = func() time.Duration { return 0 }
	}
	s.queue = batch.New(batch.Config[*waiter]{Run: s.run, Size: s.set.Orders, Bound: s.set.Queue,
		Owner: func(w *waiter) int64 { return w.order.Budget }, Claims: claims,
		Refuse: func(w *waiter) { w.done <- Result{Err: overloaded(w.order.Kind)} },
		Most:   func(usual time.Duration) int { return batch.InTheAir(usual, c.Away()) }})
	return s
}

// claims appends what an order has for itself: its deduction.
func claims(w *waiter, to []uint64) []uint64 {
	return append(to, batch.Claim(w.order.Budget, w.order.RequestID))
}

// Rollback gives units of a deduction back to the budget, whatever became of its bucket (I5), and
// never more than was deducted. Repeating a rollback id replays its result; without an id, the
// request rolls back the whole deduction.
//
// Errors: BudgetNotFound; LedgerModeOnly in store mode; DeductionNotFound, which is not final
// because the deduction may still be in progress (Cancel is final); RequestVoid; RequestConflict;
// AlreadyRolledBack; AmountExceedsRemaining; Unavailable; OutcomeUnknown, after which the caller
// must repeat the same rollback id.
func (s *Service) Rollback(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	return s.alone(ctx, r.Budget, r.Amounts, Order{Kind: Rollback, RequestID: r.RequestID,
		RollbackID: r.RollbackID, Amount: r.Amount, OnlyBy: r.OnlyBy})
}

// Cancel makes certain that a request id has no effect. It gives back what is left of its
// deduction. If there is no deduction, it writes a tombstone, which refuses one that arrives later.
// Repeating it returns the same answer. Errors: BudgetNotFound, LedgerModeOnly, Unavailable,
// OutcomeUnknown.
func (s *Service) Cancel(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	return s.alone(ctx, r.Budget, nil,
		Order{Kind: Cancel, RequestID: r.RequestID, OnlyBy: r.OnlyBy})
}

// Deduction reads the deduction of a request id. Errors: BudgetNotFound, LedgerModeOnly,
// DeductionNotFound (not final while the deduction is in progress), Unavailable.
func (s *Service) Deduction(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	if r.IsSet() {
		return s.readSet(ctx, &r)
	}
	b, err := s.find(ctx, "read", r.Budget)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.StepTime)
	defer cancel()
	id := bucket.ID{Budget: b.ID, RequestID: r.RequestID}
	found, err := s.ledger.Recorded(ctx, []bucket.ID{id})
	if err != nil {
		return bucket.DeductionView{}, s.failed(err)
	}
	d, ok := found[id]
	if !ok {
		return bucket.DeductionView{}, budget.Refuse(budget.DeductionNotFound, "read",
			"request %q is not in the ledger of budget %s", r.RequestID, b.Name)
	}
	return viewOf(b, &d, false), nil
}

// Confirm uses held units: of one hold, or of all holds of a group, which it closes. A part of a
// single hold may be confirmed; the rest is given back. More than is held takes units of the budget
// if the deduction allows that, as far as it has any. Such a hold may also be confirmed after its
// expiry, with units of the budget alone. There is one confirm per hold. Repeating it
// returns the same answer, even after the hold's time. It returns one view, or one per member of
// the group, by request id.
//
// Errors: BudgetNotFound; LedgerModeOnly; Invalid unless exactly one of request id and group is
// set, and if an amount is set with a group; DeductionNotFound, which is not final; RequestVoid;
// RequestConflict if another amount was confirmed; HoldExpired; NotHeld; AmountExceedsRemaining;
// Unavailable; OutcomeUnknown, after which the call may be repeated.
func (s *Service) Confirm(ctx context.Context, r bucket.ConfirmRequest) (
	[]bucket.DeductionView, error) {
	o := Order{Kind: Confirm, RequestID: r.RequestID, Amount: r.Amount, OnlyBy: r.OnlyBy}
	if r.Budget.IsTenant() {
		return s.heldSet(ctx, r.Budget, r.Amounts, o)
	}
	b, err := s.find(ctx, "confirm", r.Budget)
	switch {
	case err != nil:
		return nil, err
	case r.Group != "" && r.Amount != 0:
		return nil, invalid("confirm", "amount",
			"must not be given with a group, which is confirmed as a whole")
	case r.Amount != 0 && !budget.ValidAmount(r.Amount):
		return nil, invalid("confirm", "amount", fmt.Sprintf("must be 1 to %d", budget.MaxAmount))
	}
	return s.held(ctx, b, r.Group, o)
}

// Renew makes one step of a stream: what was used since the last one becomes used, and what to hold
// from now on is taken, as far as the budget has it, or given back. The last step again replays.
//
// Errors: BudgetNotFound; LedgerModeOnly; DeductionNotFound, which is not final; those of
// ledger.DecideRenew; Invalid for a deduction from several budgets; Unavailable; OutcomeUnknown,
// after which the same step must be repeated.
func (s *Service) Renew(ctx context.Context, r bucket.RenewRequest) (bucket.Renewal, error) {
	b, err := s.find(ctx, "renew", r.Budget)
	if err != nil {
		return bucket.Renewal{}, err
	}
	if !budget.ValidHoldTTL(r.HoldTTL) {
		return bucket.Renewal{}, invalid("renew", "hold_ttl", fmt.Sprintf(
			"must be %v to %v, in whole milliseconds", budget.MinHoldTTL, budget.MaxHoldTTL))
	}
	got, err := s.order(ctx, b, Order{Kind: Renew, RequestID: r.RequestID, Step: r.Step,
		Used: r.Used, Hold: r.Hold, TTL: r.HoldTTL, OnlyBy: r.OnlyBy})
	d := &got.Deduction
	return bucket.Renewal{RequestID: r.RequestID, Step: r.Step, UsedTotal: d.StepUsed,
		Held: d.StepHeld, IsFinal: d.IsFinal, Uncollected: d.Uncollected, OverLimit: d.OverLimit,
		State: d.State, HoldUntil: d.HoldUntil, Replayed: got.Replayed}, err
}

// HoldsOf lists the open holds of a budget, at most limit, by expiry. Errors: BudgetNotFound,
// Unavailable.
func (s *Service) HoldsOf(ctx context.Context, ref bucket.BudgetRef, limit int) (
	[]bucket.OpenHold, error) {
	b, err := s.find(ctx, "holds", ref)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.StepTime)
	defer cancel()
	list, err := s.ledger.HoldsOf(ctx, b.ID, limit)
	if err != nil {
		return nil, s.failed(err)
	}
	return list, nil
}

// Extend makes a hold, or all holds of a group, end HoldTTL from now, by SQL's clock. It may
// change what the end does. Each repetition counts from its own time. Answer and errors are those
// of Confirm; NotHeld if the hold was confirmed.
func (s *Service) Extend(ctx context.Context, r bucket.ExtendRequest) (
	[]bucket.DeductionView, error) {
	var b *bucket.Budget
	if !r.Budget.IsTenant() {
		var err error
		if b, err = s.find(ctx, "extend", r.Budget); err != nil {
			return nil, err
		}
	}
	if !budget.ValidHoldTTL(r.HoldTTL) {
		return nil, invalid("extend", "hold_ttl", fmt.Sprintf("must be %v to %v, in whole milliseconds",
			budget.MinHoldTTL, budget.MaxHoldTTL))
	}
	o := Order{Kind: Extend, RequestID: r.RequestID, TTL: r.HoldTTL, ExpiresAs: r.ExpiresAs,
		OnlyBy: r.OnlyBy}
	if b == nil {
		return s.heldSet(ctx, r.Budget, nil, o)
	}
	return s.held(ctx, b, r.Group, o)
}

// RollbackGroup gives back all that is left of a group's deductions, held or used, and closes the
// group. Repeating it returns the same answer. It returns one view per member, by request id.
// Errors: BudgetNotFound; LedgerModeOnly; Invalid; DeductionNotFound, which is not final;
// Unavailable; OutcomeUnknown, after which the call may be repeated.
func (s *Service) RollbackGroup(ctx context.Context, r bucket.RollbackRequest) (
	[]bucket.DeductionView, error) {
	b, err := s.find(ctx, "rollback of a group", r.Budget)
	if err != nil {
		return nil, err
	}
	if r.Group == "" || r.RollbackID != "" || r.Amount != 0 {
		return nil, invalid("rollback", "group", "must be given, without a rollback id and an amount")
	}
	return s.held(ctx, b, r.Group,
		Order{Kind: Rollback, RequestID: r.RequestID, OnlyBy: r.OnlyBy})
}

// held carries out an order on one hold, or on a group if group is not empty.
func (s *Service) held(ctx context.Context, b *bucket.Budget, group string, o Order) (
	[]bucket.DeductionView, error) {
	switch {
	case (o.RequestID == "") == (group == ""):
		return nil, invalid(string(o.Kind), "request_id",
			"exactly one of request_id and group must be given")
	case group == "":
		view, err := s.one(ctx, b, o)
		if err != nil {
			return nil, err
		}
		return []bucket.DeductionView{view}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.StepTime)
	defer cancel()
	got, err := s.ledger.ExecuteGroup(ctx, GroupOrder{Kind: o.Kind, Budget: b.ID, Group: group,
		TTL: o.TTL, ExpiresAs: o.ExpiresAs, OnlyBy: o.OnlyBy})
	if err != nil {
		return nil, s.failed(err)
	}
	views := make([]bucket.DeductionView, len(got))
	for i := range got {
		views[i] = viewOf(b, &got[i].Deduction, got[i].Replayed)
	}
	return views, nil
}

// alone carries out an order on one deduction of a budget, or on a set with parts of its legs.
func (s *Service) alone(ctx context.Context, ref bucket.BudgetRef, parts map[string]int64,
	o Order) (bucket.DeductionView, error) {
	if ref.IsTenant() {
		return s.onSet(ctx, ref.Tenant, parts, o)
	}
	b, err := s.find(ctx, string(o.Kind), ref)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return s.one(ctx, b, o)
}

// one carries out an order on one deduction.
func (s *Service) one(ctx context.Context, b *bucket.Budget, o Order) (
	bucket.DeductionView, error) {
	got, err := s.order(ctx, b, o)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return viewOf(b, &got.Deduction, got.Replayed), nil
}

// order is one, with what the ledger has of the deduction.
func (s *Service) order(ctx context.Context, b *bucket.Budget, o Order) (Result, error) {
	if b.HasLimits() { // whose counts it may lower
		if err := b.UnknownZone(); err != nil {
			return Result{}, err
		}
	}
	o.Budget = b.ID
	got := s.submit(ctx, o)
	if got.Err != nil {
		return Result{}, s.failed(got.Err)
	}
	return got, nil
}

// find returns a budget in ledger mode.
func (s *Service) find(ctx context.Context, call string, ref bucket.BudgetRef) (
	*bucket.Budget, error) {
	b, err := s.budgets.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return b, b.NeedsRows(call, bucket.InsteadOfHold)
}

// failed reports an SQL error to the observer and returns it.
func (s *Service) failed(err error) error {
	kind := budget.CodeOf(err).Kind()
	if s.observer != nil && (kind == budget.NotDone || kind == budget.MayBeDone) {
		s.observer.Failed("sql", budget.CodeOf(err))
	}
	return err
}

// viewOf returns a deduction as shown to callers.
func viewOf(b *bucket.Budget, d *ledger.Deduction, replayed bool) bucket.DeductionView {
	v := bucket.DeductionView{RequestID: ledger.CallerID(d.RequestID), State: d.State,
		Amount:     d.Amount,
		RolledBack: d.RolledBack, Confirmed: d.Confirmed, Extra: d.Extra,
		Uncollected: d.Uncollected, OverLimit: d.OverLimit, Late: d.Late, Above: d.Above,
		ExpiresAs: d.ExpiresAs,
		HoldUntil: d.HoldUntil, Group: d.Group, Reference: d.Reference, Dimensions: d.Dimensions,
		CountedAt: d.CountedAt, Replayed: replayed}
	if d.State == ledger.StateVoid {
		return v
	}
	v.Receipt = bucket.Receipt(d.Bucket, d.Epoch)
	if bk := b.Bucket(d.Bucket); bk != nil {
		v.Bucket = bk.Key
	}
	return v
}

func invalid(op, field, message string) error {
	return &budget.Error{Code: budget.Invalid, Op: op, Message: field + " " + message,
		Fields: []budget.FieldError{{Field: field, Message: message}}}
}
