package sim

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// Verbs of the database about holds.
var (
	verbConfirm       = sqlWrite("Confirm")
	verbExtend        = sqlWrite("Extend")
	verbRollbackGroup = sqlWrite("RollbackGroup")
	verbExpireHolds   = sqlWrite("ExpireHolds")
	verbOpenHolds     = sqlRead("OpenHolds")
)

// Confirm asks the database. See bucket.SQL.
func (d *database) Confirm(ctx context.Context, order bucket.HoldOrder, amount int64) ([]bucket.Held, error) {
	return over(ctx, d, verbConfirm, []any{order, amount}, func() ([]bucket.Held, error) {
		return d.n.w.model.Confirm(bg, order, amount)
	})
}

// Extend asks the database. See bucket.SQL.
func (d *database) Extend(ctx context.Context, order bucket.HoldOrder, ttl time.Duration) ([]bucket.Held, error) {
	return over(ctx, d, verbExtend, []any{order, ttl}, func() ([]bucket.Held, error) {
		return d.n.w.model.Extend(bg, order, ttl)
	})
}

// RollbackGroup asks the database. See bucket.SQL.
func (d *database) RollbackGroup(ctx context.Context, id int64, group string) ([]bucket.Held, error) {
	return over(ctx, d, verbRollbackGroup, []any{id, group}, func() ([]bucket.Held, error) {
		return d.n.w.model.RollbackGroup(bg, id, group)
	})
}

// OpenHolds asks the database. See bucket.SQL.
func (d *database) OpenHolds(ctx context.Context, limit int) (int, error) {
	return over(ctx, d, verbOpenHolds, limit, func() (int, error) { return d.n.w.model.OpenHolds(bg, limit) })
}

// ExpireHolds asks the database. See bucket.SQL.
func (d *database) ExpireHolds(ctx context.Context, limit, skip int) (bucket.Expired, error) {
	return over(ctx, d, verbExpireHolds, limit, func() (bucket.Expired, error) {
		return d.n.w.model.ExpireHolds(bg, limit, skip)
	})
}
