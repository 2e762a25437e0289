package warn

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// stepTime bounds one read or transaction.
const stepTime = 5 * time.Second

// Config configures a Service.
type Config struct {
	Budgets Budgets
	Ledger  Ledger
	Samples Samples
	// Tallies returns the present usage of the limits of touches. Error: Unavailable.
	Tallies func(ctx context.Context, asked []bucket.Touched) ([][]*limit.Tally, error)
	// Now is this node's estimate of SQL's time.
	Now func() time.Time
	// Defaults says that budgets without thresholds of their own have alert.Defaults.
	Defaults bool
	Observer Observer
	Log      *slog.Logger
}

// Service shows and changes thresholds and shows alerts. It is safe for concurrent use.
type Service struct{ Config }

// New returns a service. It contacts nothing.
func New(c Config) *Service { return &Service{c} }

// Thresholds returns the thresholds of a budget, and whether they are its own. Errors:
// BudgetNotFound, Unavailable.
func (s *Service) Thresholds(ctx context.Context, ref bucket.BudgetRef) (
	list []alert.Threshold, own bool, err error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return nil, false, err
	}
	all, err := s.Ledger.Thresholds(ctx, b.ID, b.ID)
	if err != nil {
		return nil, false, err
	}
	list, own = all[b.ID]
	if !own && s.Defaults {
		list = alert.Defaults()
	}
	return list, own, nil
}

// SetThresholds replaces the thresholds of a budget; nil restores the defaults. States of removed
// thresholds are resolved. Errors: BudgetNotFound; Invalid with the faulty fields; LedgerModeOnly
// for a limit in store mode; Unavailable, OutcomeUnknown. It is idempotent.
func (s *Service) SetThresholds(ctx context.Context, ref bucket.BudgetRef,
	list []alert.Threshold) error {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return err
	}
	faults := alert.Check(list)
	for _, t := range list {
		switch {
		case t.Of != alert.Limit:
		case b.Durability == budget.Store:
			return budget.Refuse(budget.LedgerModeOnly, "thresholds",
				"the counts of limits of a budget in store mode are in its stores")
		case touchOf(b, t) == nil:
			faults = append(faults, budget.FieldError{Field: "thresholds",
				Message: t.Name() + ": the budget has no limit " + t.Limit + " of one dimension"})
		}
	}
	if len(faults) > 0 {
		return &budget.Error{Code: budget.Invalid, Op: "thresholds", Fields: faults,
			Message: "the thresholds have faults"}
	}
	return s.Ledger.SetThresholds(ctx, b.ID, b.Tenant, b.Name, list)
}

// Alerts lists alerts, the newest first. Error: Unavailable.
func (s *Service) Alerts(ctx context.Context, q alert.Query) ([]alert.View, error) {
	q.Before = cmp.Or(q.Before, math.MaxInt64)
	return s.Ledger.Alerts(ctx, q)
}

// touchOf returns the value of a limit that a threshold watches. It returns nil if there is no such
// limit, or if the limit has several dimensions.
func touchOf(b *bucket.Budget, t alert.Threshold) *limit.Touch {
	set := b.LimitSet()
	if set == nil || set.InStores {
		return nil
	}
	l := set.Limit(t.Limit)
	if l == nil || len(l.Dimensions()) != 1 {
		return nil
	}
	only := limit.Set{List: []*limit.Limit{l}}
	touches, _ := only.Touches(1, map[string]string{l.Dimensions()[0]: t.Value}, nil)
	if len(touches) != 1 {
		return nil
	}
	return &touches[0]
}
