package bucket

import (
	"context"
	"sync"

	"github.com/budgetd/budgetd/budget"
)

// The parts of a Service. Each is implemented by a package below this one, which documents the
// methods.
type (
	// Deductor deducts units: package row in ledger mode, package counter in store mode.
	Deductor interface {
		Deduct(ctx context.Context, request DeductRequest) (DeductAnswer, error)
		DeductAll(ctx context.Context, requests []DeductRequest) []DeductResult
	}
	// Predictor predicts the answer of a deduct and changes nothing.
	Predictor interface {
		DryRun(ctx context.Context, request DeductRequest) (CheckAnswer, error)
		Check(ctx context.Context, requests []CheckRequest) []CheckAnswer
	}
	// Returner gives units of deductions back, and looks deductions up.
	Returner interface {
		Rollback(ctx context.Context, request RollbackRequest) (DeductionView, error)
		// Cancel and Deduction use Budget, RequestID, Key and Receipt of a request.
		Cancel(ctx context.Context, request RollbackRequest) (DeductionView, error)
		Deduction(ctx context.Context, request RollbackRequest) (DeductionView, error)
	}
	// Holder ends and extends holds. It works in ledger mode only.
	Holder interface {
		Confirm(ctx context.Context, request ConfirmRequest) ([]DeductionView, error)
		Extend(ctx context.Context, request ExtendRequest) ([]DeductionView, error)
		RollbackGroup(ctx context.Context, request RollbackRequest) ([]DeductionView, error)
		// HoldsOf lists the open holds of a budget, at most limit, by their expiry.
		HoldsOf(ctx context.Context, ref BudgetRef, limit int) ([]OpenHold, error)
	}
	// Feeder reads the change feed. It works in ledger mode only.
	Feeder interface {
		Feed(ctx context.Context, request FeedRequest) (FeedPage, error)
	}
	// Summer reads what was counted for values of dimensions. It works in ledger mode only.
	Summer interface {
		Usage(ctx context.Context, request UsageRequest) (Usage, error)
		Nearest(ctx context.Context, request NearestRequest) (Nearest, error)
	}
	// Manager creates, shows and changes budgets.
	Manager interface {
		Create(ctx context.Context, d budget.Definition) (v View, created bool, err error)
		List(ctx context.Context, page Page) ([]View, error)
		View(ctx context.Context, ref BudgetRef) (View, error)
		Change(ctx context.Context, ref BudgetRef, change Change) (View, error)
		Delete(ctx context.Context, ref BudgetRef) (View, error)
		Adjust(ctx context.Context, request AdjustRequest) (View, error)
	}
	// Mover moves units between a budget and its buckets.
	Mover interface {
		Buckets(ctx context.Context, ref BudgetRef) ([]BucketView, error)
		Offline(ctx context.Context, ref BudgetRef, bucketKey string) (BucketView, error)
		Online(ctx context.Context, ref BudgetRef, bucketKey string) (BucketView, error)
		ApplyTo(ctx context.Context, ref BudgetRef, bucketKey string) (BucketView, error)
		Recycle(ctx context.Context, ref BudgetRef) (Recycle, error)
		Recycles(ctx context.Context, ref BudgetRef, before int64, limit int) ([]Recycle, error)
	}
	// Auditor proves I1 of a budget, and resumes a halted bucket.
	Auditor interface {
		Audit(ctx context.Context, ref BudgetRef) (AuditReport, error)
		Resume(ctx context.Context, ref BudgetRef, bucketKey string) (BucketView, error)
	}
	// Sampler shows figures over time.
	Sampler interface {
		Series(ctx context.Context, request SeriesRequest) (SeriesAnswer, error)
	}
	// Quarantiner shows and releases units that lost stores may have sold.
	Quarantiner interface {
		Quarantines(ctx context.Context, ref BudgetRef) ([]Quarantine, error)
		Release(ctx context.Context, r ReleaseRequest) (ReleaseAnswer, error)
	}
	// Keeper moves buckets between the configured stores.
	Keeper interface {
		Drain(ctx context.Context, instance string) (DrainView, error)
		Undrain(ctx context.Context, instance string) (DrainView, error)
		Recover(ctx context.Context, instance string) ([]PartitionView, error)
		Rebalance(ctx context.Context, dryRun bool) (Rebalance, error)
		GiveUp(ctx context.Context, instance string) (DrainView, error)
	}
	// Watcher reports what the node can reach.
	Watcher interface {
		Partitions(ctx context.Context) ([]PartitionView, error)
		Ready(ctx context.Context) []string
		Missing() []string
		Nodes(ctx context.Context) ([]Node, error)
	}
	// Mode is the part that each of the two modes implements in its own way.
	Mode interface {
		Deductor
		Predictor
		Returner
	}
)

// Service combines the packages below this one into all calls of a node. It sends each call to the
// part that implements it, depending on the durability of the budget. Calls that need rows return
// LedgerModeOnly for a budget in store mode. It is safe for concurrent use if its parts are.
type Service struct {
	// Budgets finds the durability.
	Budgets *Budgets
	// Ledger and Store are the two modes.
	Ledger, Store Mode
	Holds         Holder
	Feeder
	Summer
	Manager
	Mover
	Auditor
	Sampler
	Quarantiner
	Keeper
	Watcher
}

// mode returns the mode of a budget.
func (s *Service) mode(ctx context.Context, ref BudgetRef) (mode Mode, inStore bool, err error) {
	b, err := s.Budgets.Find(ctx, ref)
	switch {
	case err != nil:
		return nil, false, err
	case b.InStoreMode():
		return s.Store, true, nil
	}
	return s.Ledger, false, nil
}

// ledgerModeOnly refuses a call for a budget in store mode, and says what to use instead.
func ledgerModeOnly(call, instead string) *budget.Error {
	return budget.Refuse(budget.LedgerModeOnly, call,
		"%s needs the rows of ledger mode, and this budget has durability store; %s", call, instead)
}

// needsRows refuses a call if the budget is in store mode.
func (s *Service) needsRows(ctx context.Context, ref BudgetRef, call, instead string) error {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return err
	}
	return b.NeedsRows(call, instead)
}

// NeedsRows returns LedgerModeOnly if a budget is in store mode. It names the call and what to use
// instead.
func (b *Budget) NeedsRows(call, instead string) error {
	if b.InStoreMode() {
		return ledgerModeOnly(call, instead)
	}
	return nil
}

const (
	insteadOfHold = "deduct at once and roll back what is not needed"
	insteadOfSize = "create a budget with that many buckets: ids belong to buckets in store mode"
)

// Deduct sends a deduction to the mode of its budget.
func (s *Service) Deduct(ctx context.Context, r DeductRequest) (DeductAnswer, error) {
	mode, inStore, err := s.mode(ctx, r.Budget)
	if err != nil {
		return DeductAnswer{}, err
	}
	if inStore && isHold(&r) {
		return DeductAnswer{}, ledgerModeOnly("hold", insteadOfHold)
	}
	return mode.Deduct(ctx, r)
}

func isHold(r *DeductRequest) bool { return r.HoldTTL != 0 || r.Group != "" }

// DeductAll sends deductions to the modes of their budgets, concurrently. Requests with the same id
// stay in order, because an id belongs to one budget and so to one mode.
func (s *Service) DeductAll(ctx context.Context, requests []DeductRequest) []DeductResult {
	results := make([]DeductResult, len(requests))
	modes, errs := s.modes(ctx, len(requests), func(i int) BudgetRef { return requests[i].Budget })
	var parts [2]part // ledger, store
	for i, inStore := range modes {
		switch {
		case errs[i] != nil:
			results[i].Err = errs[i]
		case !inStore:
			parts[0].at = append(parts[0].at, i)
		case isHold(&requests[i]):
			results[i].Err = ledgerModeOnly("hold", insteadOfHold)
		default:
			parts[1].at = append(parts[1].at, i)
		}
	}
	var running sync.WaitGroup
	if len(parts[1].at) > 0 {
		running.Go(func() { parts[1].deduct(ctx, s.Store, requests, results) })
	}
	parts[0].deduct(ctx, s.Ledger, requests, results)
	running.Wait()
	return results
}

// modes reports for each request of a call whether its budget is in store mode. It reads budgets
// that are not cached concurrently.
func (s *Service) modes(ctx context.Context, n int, ref func(i int) BudgetRef) ([]bool, []error) {
	inStore, errs, of := make([]bool, n), make([]error, n), make([]int, n)
	var refs []BudgetRef
	places := map[BudgetRef]int{}
	for i := range n {
		r := ref(i)
		if len(refs) > 0 && refs[of[i-1]] == r {
			of[i] = of[i-1]
			continue
		}
		at, known := places[r]
		if !known {
			at = len(refs)
			refs, places[r] = append(refs, r), at
		}
		of[i] = at
	}
	found, problems := s.Budgets.FindAll(ctx, refs)
	for i, at := range of {
		if errs[i] = problems[at]; errs[i] == nil {
			inStore[i] = found[at].InStoreMode()
		}
	}
	return inStore, errs
}

// part is the requests of a call that belong to one mode, by index.
type part struct{ at []int }

// deduct makes the deductions of the part.
func (p *part) deduct(ctx context.Context, mode Mode, requests []DeductRequest,
	results []DeductResult) {
	switch len(p.at) {
	case 0:
		return
	case len(requests):
		copy(results, mode.DeductAll(ctx, requests))
		return
	}
	mine := make([]DeductRequest, len(p.at))
	for n, i := range p.at {
		mine[n] = requests[i]
	}
	for n, result := range mode.DeductAll(ctx, mine) {
		results[p.at[n]] = result
	}
}

// DryRun sends a dry run to the mode of its budget.
func (s *Service) DryRun(ctx context.Context, r DeductRequest) (CheckAnswer, error) {
	mode, inStore, err := s.mode(ctx, r.Budget)
	if err != nil {
		return CheckAnswer{}, err
	}
	if inStore && isHold(&r) {
		return CheckAnswer{}, ledgerModeOnly("hold", insteadOfHold)
	}
	return mode.DryRun(ctx, r)
}

// Check sends checks to the modes of their budgets.
func (s *Service) Check(ctx context.Context, requests []CheckRequest) []CheckAnswer {
	answers := make([]CheckAnswer, len(requests))
	modes, errs := s.modes(ctx, len(requests), func(i int) BudgetRef { return requests[i].Budget })
	var mine [2][]CheckRequest // ledger, store
	var at [2][]int
	for i, inStore := range modes {
		if answers[i].Err = errs[i]; errs[i] != nil {
			continue
		}
		in := 0
		if inStore {
			in = 1
		}
		mine[in], at[in] = append(mine[in], requests[i]), append(at[in], i)
	}
	for in, mode := range []Mode{s.Ledger, s.Store} {
		if len(mine[in]) == 0 {
			continue
		}
		for n, answer := range mode.Check(ctx, mine[in]) {
			answers[at[in][n]] = answer
		}
	}
	return answers
}

// Rollback sends a rollback to the mode of its budget.
func (s *Service) Rollback(ctx context.Context, r RollbackRequest) (DeductionView, error) {
	mode, inStore, err := s.mode(ctx, r.Budget)
	if err == nil && inStore {
		err = ownersUnknown("rollback", &r)
	}
	if err != nil {
		return DeductionView{}, err
	}
	return mode.Rollback(ctx, r)
}

// ownersUnknown returns Forbidden if the caller may give back only its own deductions, because
// stores do not record the principal.
func ownersUnknown(op string, r *RollbackRequest) error {
	if r.OnlyBy == "" {
		return nil
	}
	return budget.Refuse(budget.Forbidden, op,
		"a store does not record who deducted; the call needs the role rollback")
}

// Cancel sends a cancel to the mode of its budget.
func (s *Service) Cancel(ctx context.Context, r RollbackRequest) (DeductionView, error) {
	mode, inStore, err := s.mode(ctx, r.Budget)
	if err == nil && inStore {
		err = ownersUnknown("cancel", &r)
	}
	if err != nil {
		return DeductionView{}, err
	}
	return mode.Cancel(ctx, r)
}

// Deduction sends a lookup to the mode of its budget.
func (s *Service) Deduction(ctx context.Context, r RollbackRequest) (DeductionView, error) {
	mode, _, err := s.mode(ctx, r.Budget)
	if err != nil {
		return DeductionView{}, err
	}
	return mode.Deduction(ctx, r)
}

// Confirm confirms holds. It works in ledger mode only.
func (s *Service) Confirm(ctx context.Context, r ConfirmRequest) ([]DeductionView, error) {
	if err := s.needsRows(ctx, r.Budget, "confirm", insteadOfHold); err != nil {
		return nil, err
	}
	return s.Holds.Confirm(ctx, r)
}

// Extend prolongs holds. It works in ledger mode only.
func (s *Service) Extend(ctx context.Context, r ExtendRequest) ([]DeductionView, error) {
	if err := s.needsRows(ctx, r.Budget, "extend", insteadOfHold); err != nil {
		return nil, err
	}
	return s.Holds.Extend(ctx, r)
}

// RollbackGroup rolls a group of holds back. It works in ledger mode only.
func (s *Service) RollbackGroup(ctx context.Context, r RollbackRequest) ([]DeductionView, error) {
	if err := s.needsRows(ctx, r.Budget, "rollback of a group", insteadOfHold); err != nil {
		return nil, err
	}
	return s.Holds.RollbackGroup(ctx, r)
}

// Change changes a definition. The number of buckets can be changed in ledger mode only.
func (s *Service) Change(ctx context.Context, ref BudgetRef, change Change) (View, error) {
	if change.BucketQuantity != nil {
		if err := s.needsRows(ctx, ref, "another bucket_quantity", insteadOfSize); err != nil {
			return View{}, err
		}
	}
	return s.Manager.Change(ctx, ref, change)
}
