package sqlstore

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
)

const (
	selectDraining = selectLanes + `is_draining = 1 ORDER BY instance, lane`
	setDraining    = `UPDATE lane SET is_draining = ? WHERE instance = ? AND lane = ? AND is_draining <> ?`
	// insertDraining makes the row of a lane that was never reached: whoever meets a store there gives it
	// the next activation.
	insertDraining = `INSERT INTO lane (instance, lane, identity, activation, is_draining)
		VALUES (?, ?, ?, 1, 1)`
	dropCleared = `DELETE FROM departure WHERE instance = ? AND lane = ? AND is_cleared = 1`
)

// draining is the error for an epoch that was about to begin on a lane that is being drained.
func draining(op string, lane bucket.Lane) error {
	return &budget.Error{Code: budget.Unavailable, Op: op, Message: "lane " + lane.String() + " is being drained",
		Err: bucket.ErrDraining, RetryAfter: time.Second}
}

// drainingLanes reads which lanes are being drained, without a lock: activations has the last word.
func (t *tx) drainingLanes() (lanes []bucket.Lane, err error) {
	var rows []laneRow
	err = t.list(&rows, selectDraining)
	for i := range rows {
		lanes = append(lanes, rows[i].row().Lane)
	}
	return lanes, err
}

// takingLanes reads the activations of the lanes on which units can be handed out: all but those that are being
// drained and those that are left out. Without a lock: a grant to an epoch whose lane has just moved on is settled
// with that epoch.
func (t *tx) takingLanes(without []bucket.Lane) (map[bucket.Lane]int64, error) {
	var rows []laneRow
	if err := t.list(&rows, selectAllLanes); err != nil {
		return nil, err
	}
	lanes := make(map[bucket.Lane]int64, len(rows))
	for i := range rows {
		if row := rows[i].row(); !row.Draining && !slices.Contains(without, row.Lane) {
			lanes[row.Lane] = row.Activation
		}
	}
	return lanes, nil
}

// KnownLanes reads the rows of all lanes. See bucket.Departures.
func (db *DB) KnownLanes(ctx context.Context) (out []bucket.LaneRow, err error) {
	err = db.read(ctx, "lanes", func(r *reader) error {
		var rows []laneRow
		if err := r.list(&rows, selectAllLanes+` ORDER BY instance, lane`); err != nil {
			return err
		}
		out = make([]bucket.LaneRow, len(rows))
		for i := range rows {
			out[i] = rows[i].row()
		}
		return nil
	})
	return out, err
}

// SetDraining notes whether lanes are being drained. See bucket.Departures.
func (db *DB) SetDraining(ctx context.Context, lanes []bucket.Lane, on bool) error {
	lanes = slices.Clone(lanes)
	slices.SortFunc(lanes, compareLanes)
	is := 0
	if on {
		is = 1
	}
	return db.write(ctx, "drain", func(t *tx) error {
		for _, lane := range slices.Compact(lanes) {
			key := []any{[]byte(lane.Instance), lane.Index}
			var row laneRow
			found, err := t.get(&row, selectLane+locked, key...)
			switch {
			case err != nil:
				return err
			case !found && on:
				if err := t.hit(1, insertDraining, append(key, []byte{})...); err != nil {
					return err
				}
				continue
			case !found || (row.Draining != 0) == on:
				continue
			}
			if err := t.hit(1, setDraining, is, key[0], key[1], is); err != nil {
				return err
			}
			if _, err := t.exec(dropCleared, key...); err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	selectOnLane = selectLaneEpochs + ` AND b.id > ? ORDER BY b.id LIMIT ?`
	moveBucket   = `UPDATE sharding_budget_management_bucket SET instance = ?, lane = ?,
		counters_from = epoch + 1, updated_at = ? WHERE id = ? AND epoch = ? AND instance = ? AND lane = ?`
	dropDeparture   = `DELETE FROM departure WHERE instance = ? AND lane = ? AND bucket_id = ?`
	insertDeparture = `INSERT INTO departure (instance, lane, bucket_id, epoch, activation, is_cleared,
		created_at) VALUES (?, ?, ?, ?, ?, 0, ?)`
)

// OnLane lists buckets of a lane after an id. See bucket.Departures.
func (db *DB) OnLane(ctx context.Context, lane bucket.Lane, after int64, limit int) (
	[]bucket.EpochOf, error) {
	return db.listEpochs(ctx, "on lane", selectOnLane, []byte(lane.Instance), lane.Index, after, limit)
}

// Move gives an ended bucket of a lane that is being drained another lane. See bucket.Departures. Keeps I1.
func (db *DB) Move(ctx context.Context, m bucket.Moving) (out bucket.Handout, moved bool, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	err = db.write(ctx, "move", func(t *tx) error {
		out, moved = bucket.Handout{}, false
		b, err := t.lockBudget("move", m.Budget)
		if err != nil {
			return err
		}
		var row bucketRow
		found, err := t.get(&row, selectBucket, m.Bucket)
		if err != nil || !found || row.Budget != m.Budget {
			return err
		}
		rows, err := t.lockEpochs(row.position())
		if err != nil {
			return err
		}
		row.epochRow = *rows[row.position()]
		if t.unsure && tried && row.lane() == m.To { // what it opened and granted is in Unfinished
			moved = true
			return nil
		}
		if row.lane() != m.From || row.live() {
			return nil
		}
		if moved, err = t.depart(&row, m); err != nil || !moved {
			return err
		}
		tried = true
		if row.ListStatus != online || b.halted() {
			return t.listChanged(b.ID, 1)
		}
		out, err = t.settleIn(b, &row)
		return err
	})
	if err != nil {
		return bucket.Handout{}, false, err
	}
	return out, moved, nil
}

// depart changes the lane of a locked bucket and notes that it left the old one; false when that is
// no longer being drained. The lanes' rows stay locked against a change.
func (t *tx) depart(row *bucketRow, m bucket.Moving) (bool, error) {
	from := []any{[]byte(m.From.Instance), m.From.Index}
	var old, next laneRow
	lanes := []struct {
		lane bucket.Lane
		row  *laneRow
	}{{m.From, &old}, {m.To, &next}}
	if compareLanes(m.To, m.From) < 0 {
		slices.Reverse(lanes)
	}
	for _, l := range lanes {
		found, err := t.get(l.row, selectLane+" /*shared*/", []byte(l.lane.Instance), l.lane.Index)
		if err != nil {
			return false, err
		}
		if !found {
			return false, budget.Refuse(budget.Unavailable, "move", "lane %s has never been reached", l.lane)
		}
	}
	switch {
	case old.Draining == 0:
		return false, nil
	case next.Draining != 0:
		return false, draining("move", m.To)
	}
	now := toMS(t.now)
	err := t.hit(1, moveBucket, []byte(m.To.Instance), m.To.Index, now, row.Bucket, row.Number, from[0], from[1])
	if err != nil {
		return false, err
	}
	key := append(slices.Clone(from), row.Bucket)
	if _, err := t.exec(dropDeparture, key...); err != nil {
		return false, err
	}
	if err := t.hit(1, insertDeparture, append(key, row.Number, old.Activation, now)...); err != nil {
		return false, err
	}
	row.Instance, row.Lane, row.Counters = m.To.Instance, m.To.Index, row.Number+1
	return true, nil
}

// settleIn begins the next epoch of a bucket that has just moved, with as many units as its last one
// gave back, if they are there still.
func (t *tx) settleIn(b *budgetRow, row *bucketRow) (out bucket.Handout, err error) {
	units := min(row.Closed, b.releasable(t.now))
	if err := t.begin("move", b, []*bucketRow{row}); err != nil {
		return out, err
	}
	if units > 0 {
		if out.Grants, err = t.giveShares([]share{{row, units}}); err != nil {
			return bucket.Handout{}, err
		}
	}
	out.Opened = []bucket.Bucket{row.bucket()}
	return out, nil
}

const (
	countOnLane     = `SELECT COUNT(*) FROM sharding_budget_management_bucket WHERE instance = ? AND lane = ?`
	countDepartures = `SELECT COUNT(*) AS moved,
		COALESCE(SUM(CASE WHEN d.is_cleared = 0 THEN 1 ELSE 0 END), 0) AS uncleared,
		COALESCE(SUM(CASE WHEN d.is_cleared = 0 AND d.activation >= l.activation THEN 1 ELSE 0 END), 0) AS held
		FROM departure d JOIN lane l ON l.instance = d.instance AND l.lane = d.lane
		WHERE d.instance = ? AND d.lane = ?`
	selectDeparted = `SELECT d.bucket_id, d.epoch, d.activation FROM departure d
		JOIN lane l ON l.instance = d.instance AND l.lane = d.lane
		WHERE d.instance = ? AND d.lane = ? AND d.is_cleared = 0`
	// unheardOf leaves out departures while a node may still acknowledge under their activations.
	unheardOf = ` AND d.activation < l.activation AND NOT EXISTS (SELECT 1 FROM lane_use u
		WHERE u.instance = d.instance AND u.lane = d.lane AND u.activation <= d.activation
		AND u.is_reported = 0 AND u.until_ms >= ?)`
	clearDepartures = `UPDATE departure /*by PRIMARY*/ SET is_cleared = 1 WHERE `
	clearWhere      = `(instance = ? AND lane = ? AND bucket_id = ? AND epoch = ?)`
)

// LaneLoads counts the buckets on lanes and those that left them. See bucket.Departures.
func (db *DB) LaneLoads(ctx context.Context, lanes []bucket.Lane) (
	map[bucket.Lane]bucket.LaneLoad, error) {
	out := make(map[bucket.Lane]bucket.LaneLoad, len(lanes))
	err := db.read(ctx, "lane loads", func(r *reader) error {
		for _, lane := range lanes {
			var load bucket.LaneLoad
			key := []any{[]byte(lane.Instance), lane.Index}
			if _, err := r.get(&load.Buckets, countOnLane, key...); err != nil {
				return err
			}
			var counts struct {
				Moved     int `db:"moved"`
				Uncleared int `db:"uncleared"`
				Held      int `db:"held"`
			}
			if _, err := r.get(&counts, countDepartures, key...); err != nil {
				return err
			}
			load.Moved, load.Uncleared, load.Held = counts.Moved, counts.Uncleared, counts.Held
			out[lane] = load
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Departed lists buckets whose keys can be removed from a lane. See bucket.Departures.
func (db *DB) Departed(ctx context.Context, lane bucket.Lane, silence time.Duration, limit int) (
	out []bucket.Ref, err error) {
	query, args := selectDeparted, []any{[]byte(lane.Instance), lane.Index}
	if !safeguard.Off(safeguard.DepartedUses) {
		query, args = query+unheardOf, append(args, toMS(db.Now().Add(-silence)))
	}
	err = db.read(ctx, "departed", func(r *reader) error {
		var rows []struct {
			Bucket     int64 `db:"bucket_id"`
			Epoch      int64 `db:"epoch"`
			Activation int64 `db:"activation"`
		}
		if err := r.list(&rows, query+` ORDER BY d.bucket_id LIMIT ?`, append(args, limit)...); err != nil {
			return err
		}
		out = make([]bucket.Ref, len(rows))
		for i, row := range rows {
			out[i] = bucket.Ref{Bucket: row.Bucket, Epoch: row.Epoch, Activation: row.Activation}
		}
		return nil
	})
	return out, err
}

// Cleared notes that keys were removed. See bucket.Departures.
func (db *DB) Cleared(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	var keys []any
	for _, ref := range refs {
		keys = append(keys, []byte(lane.Instance), lane.Index, ref.Bucket, ref.Epoch)
	}
	return db.write(ctx, "cleared", func(t *tx) error { return t.execAll(clearDepartures, clearWhere, keys) })
}
