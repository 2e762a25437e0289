package bucket

import (
	"context"

	"github.com/budgetd/budgetd/budget"
)

// The parts of a Service. Each is implemented by a package below this one, which documents the
// methods.
type (
	// Deductor deducts units.
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
)

// Service combines the packages below this one into all calls of a node. Calls that need rows
// return LedgerModeOnly for a budget in store mode. It is safe for concurrent use if its parts are.
type Service struct {
	Deductor
	Predictor
	Returner
	Holder
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

// NeedsRows returns LedgerModeOnly if a budget is in store mode. It names the call and what to use
// instead.
func (b *Budget) NeedsRows(call, instead string) error {
	if !b.InStoreMode() {
		return nil
	}
	return budget.Refuse(budget.LedgerModeOnly, call,
		"%s needs the rows of ledger mode, and this budget has durability store; %s", call, instead)
}

// InsteadOfHold is what to use instead of a hold where there are no rows: see NeedsRows.
const InsteadOfHold = "deduct at once and roll back what is not needed"
