package sim

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// Verbs of recycles.
var (
	verbBeginRecycle   = sqlWrite("BeginRecycle")
	verbAdvanceRecycle = sqlWrite("AdvanceRecycle")
	verbTakeRecycle    = sqlWrite("TakeRecycle")
	verbEndRecycle     = sqlWrite("EndRecycle")
	verbRecycleHistory = sqlRead("RecycleHistory")
	verbRenew          = sqlWrite("Renew")
	verbDemand         = sqlRead("Demand")
)

// BeginRecycle asks the database. See bucket.SQL.
func (d *database) BeginRecycle(ctx context.Context, order bucket.RecycleOrder) (bucket.Recycle, error) {
	return over(ctx, d, verbBeginRecycle, order, func() (bucket.Recycle, error) {
		return d.n.w.model.BeginRecycle(bg, order)
	})
}

// AdvanceRecycle asks the database. See bucket.SQL.
func (d *database) AdvanceRecycle(ctx context.Context, step bucket.RecycleStep) (bool, bool, error) {
	p, err := over(ctx, d, verbAdvanceRecycle, step, func() (pair[bool, bool], error) {
		return two(d.n.w.model.AdvanceRecycle(bg, step))
	})
	return p.First, p.Second, err
}

// TakeRecycle asks the database. See bucket.SQL.
func (d *database) TakeRecycle(ctx context.Context, budgetID, number int64, seen time.Time, holder string) (
	*bucket.Recycle, error) {
	args := []any{budgetID, number, seen, holder}
	return over(ctx, d, verbTakeRecycle, args, func() (*bucket.Recycle, error) {
		return d.n.w.model.TakeRecycle(bg, budgetID, number, seen, holder)
	})
}

// EndRecycle asks the database. See bucket.SQL.
func (d *database) EndRecycle(ctx context.Context, budgetID, number int64, holder string,
	after bucket.Spread) (bool, error) {
	return over(ctx, d, verbEndRecycle, []any{budgetID, number, holder, after}, func() (bool, error) {
		return d.n.w.model.EndRecycle(bg, budgetID, number, holder, after)
	})
}

// RecycleHistory asks the database. See bucket.SQL.
func (d *database) RecycleHistory(ctx context.Context, budgetID, before int64, limit int) (
	[]bucket.Recycle, error) {
	args := []any{budgetID, before, limit}
	return over(ctx, d, verbRecycleHistory, args, func() ([]bucket.Recycle, error) {
		return d.n.w.model.RecycleHistory(bg, budgetID, before, limit)
	})
}

// Renew asks the database. See bucket.SQL.
func (d *database) Renew(ctx context.Context, order bucket.Renewal) (bucket.Handout, error) {
	return over(ctx, d, verbRenew, order, func() (bucket.Handout, error) {
		return d.n.w.model.Renew(bg, order)
	})
}

// Demand asks the database. See bucket.SQL.
func (d *database) Demand(ctx context.Context, budgetID int64) (map[int64]bucket.Used, error) {
	return over(ctx, d, verbDemand, budgetID, func() (map[int64]bucket.Used, error) {
		return d.n.w.model.Demand(bg, budgetID)
	})
}
