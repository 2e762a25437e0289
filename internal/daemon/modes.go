package daemon

import (
	"context"
	"log/slog"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
)

// mover passes calls on buckets to the mode of their budget.
type mover struct {
	*transfer.Service
	budgets *bucket.Budgets
	health  *health
}

// Buckets returns the buckets of a budget, and marks those that this node cannot reach.
func (m *mover) Buckets(ctx context.Context, ref bucket.BudgetRef) ([]bucket.BucketView, error) {
	views, err := m.Service.Buckets(ctx, ref)
	for i := range views {
		views[i].Problem = m.health.problem(views[i].Partition)
	}
	return views, err
}

// RollOver rolls a ledger-mode budget over if that is due. Loops do so for budgets in store mode.
func (m *mover) RollOver(ctx context.Context, budgetID int64) error {
	b, err := m.budgets.Find(ctx, bucket.BudgetRef{ID: budgetID})
	if err != nil || b.InStoreMode() {
		return err
	}
	return m.Service.RollOver(ctx, budgetID)
}

// stores has what creating and changing budgets in store mode needs.
type stores struct {
	*counter.Service
	backends *backends
	log      *slog.Logger
}

// Fit returns an error if a budget may not have buckets on partitions, because some servers that
// speak the Redis protocol lack what store mode needs. It warns once of settings with which other
// servers may lose their contents. Error: Invalid.
func (s stores) Fit(ctx context.Context, partitions []bucket.Partition) error {
	for _, partition := range partitions {
		// A server that is down is checked when its partition is verified.
		condition, err := s.backends.stores[partition.Instance].Condition(ctx, partition)
		if err == nil && condition.Unfit != "" {
			return &budget.Error{Code: budget.Invalid, Op: "create", Message: "the definition has faults",
				Fields: []budget.FieldError{{Field: "durability", Message: condition.Unfit}}}
		}
	}
	return s.backends.checkStore(ctx, partitions, false, s.log)
}

// Open opens the epochs of a new budget and delivers its grants.
func (s stores) Open(ctx context.Context, budgetID int64) error { return s.Push(ctx, budgetID) }

// Recall closes epochs until units have come back.
func (s stores) Recall(ctx context.Context, budgetID, units int64) error {
	return s.Gather(ctx, budgetID, units)
}
