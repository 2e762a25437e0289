package sim

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/limit"
)

// Verbs of the database about limits.
var (
	verbCheckLimits    = sqlRead("CheckLimits")
	verbLoadLimits     = sqlRead("LoadLimits")
	verbUsage          = sqlRead("Usage")
	verbExpireCounters = sqlWrite("ExpireCounters")
)

// CheckLimits asks the database. See bucket.SQL.
func (d *database) CheckLimits(ctx context.Context, id int64, asks []bucket.LimitAsk) ([]bucket.LimitAnswer, error) {
	return over(ctx, d, verbCheckLimits, []any{id, asks}, func() ([]bucket.LimitAnswer, error) {
		return d.n.w.model.CheckLimits(bg, id, asks)
	})
}

// LoadLimits asks the database. See bucket.SQL.
func (d *database) LoadLimits(ctx context.Context, id int64, touches []limit.Touch, at time.Time) ([]*limit.Tally, error) {
	return over(ctx, d, verbLoadLimits, []any{id, len(touches), at}, func() ([]*limit.Tally, error) {
		return d.n.w.model.LoadLimits(bg, id, touches, at)
	})
}

// Usage asks the database. See bucket.SQL.
func (d *database) Usage(ctx context.Context, id int64, dimensions map[string]string, from, to time.Time) (
	bucket.Usage, error) {
	return over(ctx, d, verbUsage, []any{id, dimensions, from, to}, func() (bucket.Usage, error) {
		return d.n.w.model.Usage(bg, id, dimensions, from, to)
	})
}

// ExpireCounters asks the database. See bucket.SQL.
func (d *database) ExpireCounters(ctx context.Context, limit int) (int, error) {
	return over(ctx, d, verbExpireCounters, limit, func() (int, error) {
		return d.n.w.model.ExpireCounters(bg, limit)
	})
}
