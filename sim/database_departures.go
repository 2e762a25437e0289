package sim

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// Verbs of the database for lanes that are being drained, and for the number of buckets.
var (
	verbKnownLanes  = sqlRead("KnownLanes")
	verbSetDraining = sqlWrite("SetDraining")
	verbLaneLoads   = sqlRead("LaneLoads")
	verbOnLane      = sqlRead("OnLane")
	verbMove        = sqlWrite("Move")
	verbDeparted    = sqlRead("Departed")
	verbCleared     = sqlWrite("Cleared")
	verbResize      = sqlWrite("Resize")
)

// KnownLanes asks the database. See bucket.SQL.
func (d *database) KnownLanes(ctx context.Context) ([]bucket.LaneRow, error) {
	return over(ctx, d, verbKnownLanes, nil, func() ([]bucket.LaneRow, error) { return d.n.w.model.KnownLanes(bg) })
}

// SetDraining asks the database. See bucket.SQL.
func (d *database) SetDraining(ctx context.Context, lanes []bucket.Lane, draining bool) error {
	_, err := over(ctx, d, verbSetDraining, []any{lanes, draining}, func() (struct{}, error) {
		return struct{}{}, d.n.w.model.SetDraining(bg, lanes, draining)
	})
	return err
}

// LaneLoads asks the database. See bucket.SQL.
func (d *database) LaneLoads(ctx context.Context, lanes []bucket.Lane) (map[bucket.Lane]bucket.LaneLoad, error) {
	return over(ctx, d, verbLaneLoads, lanes, func() (map[bucket.Lane]bucket.LaneLoad, error) {
		return d.n.w.model.LaneLoads(bg, lanes)
	})
}

// OnLane asks the database. See bucket.SQL.
func (d *database) OnLane(ctx context.Context, lane bucket.Lane, after int64, limit int) ([]bucket.EpochOf, error) {
	return over(ctx, d, verbOnLane, []any{lane, after, limit}, func() ([]bucket.EpochOf, error) {
		return d.n.w.model.OnLane(bg, lane, after, limit)
	})
}

// Move asks the database. See bucket.SQL.
func (d *database) Move(ctx context.Context, m bucket.Moving) (bucket.Handout, bool, error) {
	p, err := over(ctx, d, verbMove, m, func() (pair[bucket.Handout, bool], error) {
		return two(d.n.w.model.Move(bg, m))
	})
	return p.First, p.Second, err
}

// Departed asks the database. See bucket.SQL.
func (d *database) Departed(ctx context.Context, lane bucket.Lane, silence time.Duration, limit int) (
	[]bucket.Ref, error) {
	return over(ctx, d, verbDeparted, []any{lane, silence, limit}, func() ([]bucket.Ref, error) {
		return d.n.w.model.Departed(bg, lane, silence, limit)
	})
}

// Cleared asks the database. See bucket.SQL.
func (d *database) Cleared(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) error {
	_, err := over(ctx, d, verbCleared, []any{lane, refs}, func() (struct{}, error) {
		return struct{}{}, d.n.w.model.Cleared(bg, lane, refs)
	})
	return err
}

// Resize asks the database. See bucket.SQL.
func (d *database) Resize(ctx context.Context, budgetID int64, lanes []bucket.Lane) (bucket.Resizing, error) {
	return over(ctx, d, verbResize, []any{budgetID, lanes}, func() (bucket.Resizing, error) {
		return d.n.w.model.Resize(bg, budgetID, lanes)
	})
}
