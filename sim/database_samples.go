package sim

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// Verbs of the samples.
var (
	verbAddSamples  = sqlWrite("AddSamples")
	verbLastSamples = sqlRead("LastSamples")
	verbSamplesOf   = sqlRead("SamplesOf")
	verbDropSamples = sqlWrite("DropSamples")
	verbHoldings    = sqlRead("Holdings")
)

// AddSamples asks the database. See bucket.SQL.
func (d *database) AddSamples(ctx context.Context, samples []bucket.Sample) error {
	_, err := over(ctx, d, verbAddSamples, samples, func() (struct{}, error) {
		return struct{}{}, d.n.w.model.AddSamples(bg, samples)
	})
	return err
}

// LastSamples asks the database. See bucket.SQL.
func (d *database) LastSamples(ctx context.Context, first, last int64) (map[int64]bucket.Sample, error) {
	return over(ctx, d, verbLastSamples, []any{first, last}, func() (map[int64]bucket.Sample, error) {
		return d.n.w.model.LastSamples(bg, first, last)
	})
}

// SamplesOf asks the database. See bucket.SQL.
func (d *database) SamplesOf(ctx context.Context, budgetID int64, from, to time.Time, limit int) (
	[]bucket.Sample, error) {
	return over(ctx, d, verbSamplesOf, []any{budgetID, from, to, limit}, func() ([]bucket.Sample, error) {
		return d.n.w.model.SamplesOf(bg, budgetID, from, to, limit)
	})
}

// DropSamples asks the database. See bucket.SQL.
func (d *database) DropSamples(ctx context.Context, before time.Time, limit int) (int, error) {
	return over(ctx, d, verbDropSamples, []any{before, limit}, func() (int, error) {
		return d.n.w.model.DropSamples(bg, before, limit)
	})
}

// Holdings asks the database. See bucket.SQL.
func (d *database) Holdings(ctx context.Context, first, last int64) ([]bucket.Holding, error) {
	return over(ctx, d, verbHoldings, []any{first, last}, func() ([]bucket.Holding, error) {
		return d.n.w.model.Holdings(bg, first, last)
	})
}
