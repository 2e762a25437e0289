package sim

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Verbs of the database for store mode.
var (
	verbUseLane       = sqlWrite("UseLane")
	verbSeeUses       = sqlWrite("SeeUses")
	verbSilentUses    = sqlRead("SilentUses")
	verbEndSilent     = sqlWrite("EndSilent")
	verbLaneUses      = sqlRead("LaneUses")
	verbReportLane    = sqlWrite("ReportLane")
	verbUnsettled     = sqlRead("Unsettled")
	verbEndLost       = sqlWrite("EndLost")
	verbReleaseProven = sqlWrite("ReleaseProven")
	verbRelease       = sqlWrite("Release")
	verbQuarantined   = sqlRead("Quarantined")
	verbCancelKnown   = sqlWrite("CancelKnown")
	verbVoids         = sqlRead("Voids")
)

// UseLane asks the database. See bucket.SQL.
func (d *database) UseLane(ctx context.Context, node string, lane bucket.Lane, activation int64,
	lease time.Duration) (bucket.UseState, error) {
	return over(ctx, d, verbUseLane, []any{node, lane, activation, lease}, func() (bucket.UseState, error) {
		return d.n.w.model.UseLane(bg, node, lane, activation, lease)
	})
}

// SeeUses asks the database. See bucket.SQL.
func (d *database) SeeUses(ctx context.Context, node string, lease time.Duration) ([]bucket.LaneUse, error) {
	return over(ctx, d, verbSeeUses, []any{node, lease}, func() ([]bucket.LaneUse, error) {
		return d.n.w.model.SeeUses(bg, node, lease)
	})
}

// SilentUses asks the database. See bucket.SQL.
func (d *database) SilentUses(ctx context.Context, silence time.Duration, limit int) ([]bucket.LaneUse, error) {
	return over(ctx, d, verbSilentUses, []any{silence, limit}, func() ([]bucket.LaneUse, error) {
		return d.n.w.model.SilentUses(bg, silence, limit)
	})
}

// EndSilent asks the database. See bucket.SQL.
func (d *database) EndSilent(ctx context.Context, use bucket.LaneUse, silence time.Duration) error {
	_, err := over(ctx, d, verbEndSilent, []any{use, silence}, func() (struct{}, error) {
		d.n.w.count(faultSilent)
		return struct{}{}, d.n.w.model.EndSilent(bg, use, silence)
	})
	return err
}

// LaneUses asks the database. See bucket.SQL.
func (d *database) LaneUses(ctx context.Context, node string) ([]bucket.LaneUse, error) {
	return over(ctx, d, verbLaneUses, node, func() ([]bucket.LaneUse, error) { return d.n.w.model.LaneUses(bg, node) })
}

// ReportLane asks the database. See bucket.SQL.
func (d *database) ReportLane(ctx context.Context, node string, lane bucket.Lane, activation int64,
	acknowledged map[bucket.Ref]int64) error {
	_, err := over(ctx, d, verbReportLane, []any{node, lane, activation, acknowledged}, func() (struct{}, error) {
		return struct{}{}, d.n.w.model.ReportLane(bg, node, lane, activation, acknowledged)
	})
	return err
}

// Unsettled asks the database. See bucket.SQL.
func (d *database) Unsettled(ctx context.Context, lane bucket.Lane, activation int64, limit int) (
	[]bucket.EpochOf, error) {
	return over(ctx, d, verbUnsettled, []any{lane, activation, limit}, func() ([]bucket.EpochOf, error) {
		return d.n.w.model.Unsettled(bg, lane, activation, limit)
	})
}

// EndLost asks the database. See bucket.SQL.
func (d *database) EndLost(ctx context.Context, order bucket.LostOrder) (bucket.Settlement, error) {
	return over(ctx, d, verbEndLost, order, func() (bucket.Settlement, error) {
		got, err := d.n.w.model.EndLost(bg, order)
		d.n.w.noted(func(s *StoreMode) { s.Quarantined += got.Quarantined })
		return got, err
	})
}

// ReleaseProven asks the database. See bucket.SQL.
func (d *database) ReleaseProven(ctx context.Context, limit int) (int64, error) {
	return over(ctx, d, verbReleaseProven, limit, func() (int64, error) {
		units, err := d.n.w.model.ReleaseProven(bg, limit)
		d.n.w.noted(func(s *StoreMode) { s.Released += units })
		return units, err
	})
}

// Release asks the database. See bucket.SQL.
func (d *database) Release(ctx context.Context, order bucket.ReleaseOrder) (int64, bool, error) {
	p, err := over(ctx, d, verbRelease, order, func() (pair[int64, bool], error) {
		return two(d.n.w.model.Release(bg, order))
	})
	return p.First, p.Second, err
}

// Quarantined asks the database. See bucket.SQL.
func (d *database) Quarantined(ctx context.Context, budgetID int64, limit int) ([]bucket.Quarantine, error) {
	return over(ctx, d, verbQuarantined, []any{budgetID, limit}, func() ([]bucket.Quarantine, error) {
		return d.n.w.model.Quarantined(bg, budgetID, limit)
	})
}

// CancelKnown asks the database. See bucket.SQL.
func (d *database) CancelKnown(ctx context.Context, budgetID int64, requestID string, known []bucket.Ref) (
	ledger.Deduction, bool, error) {
	p, err := over(ctx, d, verbCancelKnown, []any{budgetID, requestID, known}, func() (pair[ledger.Deduction, bool], error) {
		return two(d.n.w.model.CancelKnown(bg, budgetID, requestID, known))
	})
	return p.First, p.Second, err
}

// Voids asks the database. See bucket.SQL.
func (d *database) Voids(ctx context.Context, budgetID, after int64, limit int) ([]string, error) {
	return over(ctx, d, verbVoids, []any{budgetID, after, limit}, func() ([]string, error) {
		return d.n.w.model.Voids(bg, budgetID, after, limit)
	})
}
