package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

const (
	selectAllLanes = `SELECT instance, lane, identity, activation, is_draining, last_reached_ms FROM lane`
	selectLanes    = selectAllLanes + ` WHERE `
	ofLane         = `instance = ? AND lane = ?`
	selectLane     = selectLanes + ofLane
	insertLane     = `INSERT INTO lane (instance, lane, identity, activation) VALUES (?, ?, ?, 1)`
	updateLane     = `UPDATE lane SET activation = activation + 1, identity = ?
		WHERE instance = ? AND lane = ? AND activation = ?`
	// noteReached changes a row whatever the clocks of the nodes say.
	noteReached = `UPDATE lane /*by PRIMARY*/ SET last_reached_ms =
		CASE WHEN last_reached_ms < ? THEN ? ELSE last_reached_ms + 1 END WHERE `
	declareDown = `UPDATE lane SET activation = activation + 1
		WHERE instance = ? AND lane = ? AND activation = ? AND last_reached_ms = ?`
)

type laneRow struct {
	Instance   string `db:"instance"`
	Lane       int    `db:"lane"`
	Identity   string `db:"identity"`
	Activation int64  `db:"activation"`
	Draining   int64  `db:"is_draining"`
	ReachedMS  int64  `db:"last_reached_ms"`
}

func (r *laneRow) row() bucket.LaneRow {
	return bucket.LaneRow{
		Lane: bucket.Lane{Instance: r.Instance, Index: r.Lane}, Identity: r.Identity,
		Activation: r.Activation, Draining: r.Draining != 0, ReachedMS: r.ReachedMS,
	}
}

// Lane reads the row of a lane, or makes it with activation 1.
func (db *DB) Lane(ctx context.Context, lane bucket.Lane, identity string) (bucket.LaneRow, error) {
	var row laneRow
	found := false
	err := db.read(ctx, "lane", func(r *reader) (err error) {
		found, err = r.get(&row, selectLane, []byte(lane.Instance), lane.Index)
		return err
	})
	if err != nil || found {
		return row.row(), err
	}
	err = db.write(ctx, "lane", func(t *tx) error {
		found, err := t.get(&row, selectLane, []byte(lane.Instance), lane.Index)
		if err != nil || found {
			return err
		}
		row = laneRow{Instance: lane.Instance, Lane: lane.Index, Identity: identity, Activation: 1}
		return t.hit(1, insertLane, []byte(lane.Instance), lane.Index, []byte(identity))
	})
	if err != nil {
		return bucket.LaneRow{}, err
	}
	return row.row(), nil
}

// NextActivation moves a lane from one activation to the next, unless somebody else already did.
// Error: InstanceNotFound for a lane that was never seen.
func (db *DB) NextActivation(ctx context.Context, lane bucket.Lane, from int64, identity string) (
	bucket.LaneRow, error) {
	var row laneRow
	err := db.write(ctx, "recover", func(t *tx) error {
		_, err := t.exec(updateLane, []byte(identity), []byte(lane.Instance), lane.Index, from)
		if err != nil {
			return err
		}
		found, err := t.get(&row, selectLane, []byte(lane.Instance), lane.Index)
		if err == nil && !found {
			err = budget.Refuse(budget.InstanceNotFound, "recover",
				"lane %d of instance %q is not known", lane.Index, lane.Instance)
		}
		return err
	})
	if err != nil {
		return bucket.LaneRow{}, err
	}
	return row.row(), nil
}

// Reached notes that lanes were reached just now. See bucket.Lanes.
func (db *DB) Reached(ctx context.Context, lanes []bucket.Lane) error {
	if len(lanes) == 0 {
		return nil
	}
	lanes = slices.Clone(lanes)
	slices.SortFunc(lanes, compareLanes)
	return db.write(ctx, "note lanes", func(t *tx) error {
		now := toMS(t.now)
		for chunk := range slices.Chunk(slices.Compact(lanes), listChunk) {
			args, list := t.lanesOf(chunk)
			if _, err := t.exec(noteReached+list, append([]any{now, now}, args...)...); err != nil {
				return err
			}
		}
		return nil
	})
}

// LaneRows reads rows of lanes. See bucket.Lanes.
func (db *DB) LaneRows(ctx context.Context, lanes []bucket.Lane) (
	map[bucket.Lane]bucket.LaneRow, error) {
	out := make(map[bucket.Lane]bucket.LaneRow, len(lanes))
	err := db.read(ctx, "lanes", func(r *reader) error {
		for chunk := range slices.Chunk(lanes, listChunk) {
			args, list := r.lanesOf(chunk)
			var rows []laneRow
			if err := r.list(&rows, selectLanes+list, args...); err != nil {
				return err
			}
			for i := range rows {
				row := rows[i].row()
				out[row.Lane] = row
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// lanesOf makes the list of lanes for a WHERE.
func (r *reader) lanesOf(lanes []bucket.Lane) (args []any, list string) {
	lanes = padded(r.conn.dialect, lanes)
	for _, lane := range lanes {
		args = append(args, []byte(lane.Instance), lane.Index)
	}
	return args, repeat(`(`+ofLane+`)`, " OR ", len(lanes))
}

// compareLanes is the order in which rows of lanes are locked: that of their key.
func compareLanes(a, b bucket.Lane) int {
	return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Index, b.Index))
}

// DeclareDown moves a lane that nobody reaches to its next activation. See bucket.Lanes. Error:
// InstanceNotFound.
func (db *DB) DeclareDown(ctx context.Context, seen bucket.LaneRow) (
	out bucket.LaneRow, declared bool, err error) {
	key := []any{[]byte(seen.Lane.Instance), seen.Lane.Index}
	err = db.write(ctx, "declare down", func(t *tx) error {
		n, err := t.exec(declareDown, append(slices.Clone(key), seen.Activation, seen.ReachedMS)...)
		if err != nil {
			return err
		}
		var row laneRow
		found, err := t.get(&row, selectLane, key...)
		if err == nil && !found {
			err = budget.Refuse(budget.InstanceNotFound, "declare down",
				"lane %d of instance %q is not known", seen.Lane.Index, seen.Lane.Instance)
		}
		out, declared = row.row(), n == 1
		return err
	})
	if err != nil {
		return bucket.LaneRow{}, false, err
	}
	return out, declared, nil
}

// activations reads the present activation of lanes, locked against a change until the new epochs
// are committed, so that whoever moves a lane on finds all epochs of the activation before. Error:
// Unavailable for a lane that has never been reached, or, with bucket.ErrDraining, is being drained.
func (t *tx) activations(op string, lanes []bucket.Lane) (map[bucket.Lane]int64, error) {
	lanes = slices.Clone(lanes)
	slices.SortFunc(lanes, compareLanes)
	out := map[bucket.Lane]int64{}
	for _, lane := range slices.Compact(lanes) {
		var row laneRow
		found, err := t.get(&row, selectLane+" /*shared*/", []byte(lane.Instance), lane.Index)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, budget.Refuse(budget.Unavailable, op,
				"lane %d of instance %q has never been reached", lane.Index, lane.Instance)
		}
		if row.Draining != 0 {
			return nil, draining(op, lane)
		}
		out[lane] = row.Activation
	}
	return out, nil
}

// selectLaneEpochs reads the newest epochs of a lane's buckets: no others are live.
const (
	selectLaneEpochs = `SELECT ` + laneEpochColumns + `
	FROM sharding_budget_management_bucket b /*by sharding_budget_management_bucket_lane*/
	/*in order*/ JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
	WHERE b.instance = ? AND b.lane = ?`
	selectOlder = `SELECT ` + laneEpochColumns + `
	FROM sharding_budget_management_bucket b /*by sharding_budget_management_bucket_lane*/
	/*in order*/ JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
	/*in order*/ JOIN budget_management_bucket u /*by PRIMARY*/ ON u.id = e.budget_id
	WHERE b.instance = ? AND b.lane = ? AND e.status IN ('opening', 'open', 'closing')
		AND e.activation < ?`
	selectStale     = selectOlder + ` AND LENGTH(e.fenced) = 0 AND u.durability = 'ledger' ORDER BY b.id LIMIT ?`
	selectUnsettled = selectOlder + ` AND u.durability = 'store' ORDER BY b.id LIMIT ?`
	selectLive      = selectLaneEpochs + ` AND e.status IN ('open', 'closing')
		AND b.id >= ? AND (b.id > ? OR b.epoch > ?) ORDER BY b.id LIMIT ?`
)

// Stale lists live epochs of ledger-mode budgets of a lane that are older than an activation, but for fenced ones.
func (db *DB) Stale(ctx context.Context, lane bucket.Lane, activation int64, limit int) (
	[]bucket.EpochOf, error) {
	return db.listEpochs(ctx, "stale", selectStale, []byte(lane.Instance), lane.Index, activation,
		limit)
}

// Unsettled is Stale for budgets in store mode.
func (db *DB) Unsettled(ctx context.Context, lane bucket.Lane, activation int64, limit int) (
	[]bucket.EpochOf, error) {
	return db.listEpochs(ctx, "unsettled", selectUnsettled, []byte(lane.Instance), lane.Index,
		activation, limit)
}

// Live lists open and closing epochs of a lane after a key.
func (db *DB) Live(ctx context.Context, lane bucket.Lane, after bucket.Ref, limit int) (
	[]bucket.EpochOf, error) {
	return db.listEpochs(ctx, "live", selectLive, []byte(lane.Instance), lane.Index,
		after.Bucket, after.Bucket, after.Epoch, limit)
}

func (db *DB) listEpochs(ctx context.Context, op, query string, args ...any) (
	out []bucket.EpochOf, err error) {
	err = db.read(ctx, op, func(r *reader) error {
		out, err = r.epochsOf(query, args...)
		return err
	})
	return out, err
}

func (r *reader) epochsOf(query string, args ...any) ([]bucket.EpochOf, error) {
	var rows []laneEpochRow
	if err := r.list(&rows, query, args...); err != nil {
		return nil, err
	}
	out := make([]bucket.EpochOf, len(rows))
	for i := range rows {
		out[i] = rows[i].of()
	}
	return out, nil
}
