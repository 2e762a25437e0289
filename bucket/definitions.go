package bucket

import "context"

// Definitions reads budgets from the ledger. Safe for concurrent use.
type Definitions interface {
	// Budget reads a budget with its limits and its buckets, each with its newest epoch. Errors:
	// BudgetNotFound, also where Ref.Tenant is not "" and names another tenant than the budget's;
	// Unavailable.
	Budget(ctx context.Context, ref BudgetRef) (Budget, error)
	// Versions reads the versions of budgets in one statement. A budget that does not exist is missing.
	// Error: Unavailable.
	Versions(ctx context.Context, ids []int64) (map[int64]Version, error)
}
