package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

const (
	insertUse = `INSERT INTO lane_use (instance, lane, activation, node, is_reported, until_ms, created_at)
		VALUES (?, ?, ?, ?, 0, ?, ?)`
	seeUse = `UPDATE lane_use SET until_ms = ?
		WHERE instance = ? AND lane = ? AND activation = ? AND node = ? AND is_reported = 0`
	seeUses      = `UPDATE lane_use SET until_ms = ? WHERE node = ? AND is_reported = 0`
	selectSilent = `SELECT u.node, u.instance, u.lane, u.activation
		FROM lane_use u JOIN lane l ON l.instance = u.instance AND l.lane = u.lane AND l.activation = u.activation
		WHERE u.is_reported = 0 AND u.until_ms < ? ORDER BY u.instance, u.lane, u.activation, u.node LIMIT ?`
	endSilent = `UPDATE lane_use SET is_reported = 1
		WHERE instance = ? AND lane = ? AND activation = ? AND node = ? AND is_reported = 0 AND until_ms < ?`
	selectUse = `SELECT is_reported FROM lane_use
		WHERE instance = ? AND lane = ? AND activation = ? AND node = ?`
	selectUses = `SELECT u.instance, u.lane, u.activation, l.activation AS present
		FROM lane_use u JOIN lane l ON l.instance = u.instance AND l.lane = u.lane
		WHERE u.node = ? AND u.is_reported = 0 ORDER BY u.instance, u.lane, u.activation`
	reportUse = `UPDATE lane_use SET is_reported = 1
		WHERE instance = ? AND lane = ? AND activation = ? AND node = ? AND is_reported = 0`
	raiseAcknowledged = `UPDATE bucket_epoch SET acknowledged_seq = ?
		WHERE bucket_id = ? AND epoch = ? AND acknowledged_seq < ?`
	selectUsers = `SELECT node, is_reported FROM lane_use
		WHERE instance = ? AND lane = ? AND activation = ? ORDER BY node /*shared*/`
)

// UseLane notes that a node acknowledges deductions under a lane's activation. The lane's row is
// locked against a change, so whoever moves the lane on finds every use of the activation before.
func (db *DB) UseLane(ctx context.Context, node string, lane bucket.Lane, activation int64,
	lease time.Duration) (state bucket.UseState, err error) {
	err = db.write(ctx, "use lane", func(t *tx) error {
		state = bucket.UseOver
		var row laneRow
		found, err := t.get(&row, selectLane+" /*shared*/", []byte(lane.Instance), lane.Index)
		if err != nil || !found || row.Activation != activation {
			return err
		}
		var reported int64
		key := []any{[]byte(lane.Instance), lane.Index, activation, []byte(node)}
		// Locked, because whoever takes the node for silent ends the use.
		if found, err = t.get(&reported, selectUse+locked, key...); err != nil {
			return err
		}
		now, until := toMS(t.now), toMS(t.now.Add(lease))
		if state = bucket.UseNoted; !found {
			return t.hit(1, insertUse, append(key, until, now)...)
		}
		if reported == 1 {
			state = bucket.UseEnded
			return nil
		}
		_, err = t.exec(seeUse, append([]any{until}, key...)...)
		return err
	})
	if err != nil {
		return bucket.UseOver, err
	}
	return state, nil
}

// SeeUses notes that a node is alive, and lists its uses that nobody has ended.
func (db *DB) SeeUses(ctx context.Context, node string, lease time.Duration) (uses []bucket.LaneUse, err error) {
	err = db.write(ctx, "see uses", func(t *tx) error {
		if _, err := t.exec(seeUses, toMS(t.now.Add(lease)), []byte(node)); err != nil {
			return err
		}
		uses, err = t.usesOf(node)
		return err
	})
	return uses, err
}

// SilentUses lists uses whose nodes have had no right to acknowledge for so long.
func (db *DB) SilentUses(ctx context.Context, silence time.Duration, limit int) (
	out []bucket.LaneUse, err error) {
	err = db.read(ctx, "silent uses", func(r *reader) error {
		var rows []struct {
			laneRow
			Node string `db:"node"`
		}
		err := r.list(&rows, selectSilent, toMS(db.Now().Add(-silence)), limit)
		if err != nil {
			return err
		}
		out = make([]bucket.LaneUse, len(rows))
		for i := range rows {
			row := rows[i].row()
			out[i] = bucket.LaneUse{Node: rows[i].Node, Lane: row.Lane, Activation: row.Activation}
		}
		return nil
	})
	return out, err
}

// EndSilent ends a use whose node is still silent. Error: Unavailable where this node's clock is wrong: to it all others
// would be silent.
func (db *DB) EndSilent(ctx context.Context, use bucket.LaneUse, silence time.Duration) error {
	return db.write(ctx, "end silent", func(t *tx) error {
		if err := t.checkClock("end silent"); err != nil {
			return err
		}
		_, err := t.exec(endSilent, []byte(use.Lane.Instance), use.Lane.Index, use.Activation,
			[]byte(use.Node), toMS(t.now.Add(-silence)))
		return err
	})
}

// LaneUses lists what a node has to report sooner or later.
func (db *DB) LaneUses(ctx context.Context, node string) (out []bucket.LaneUse, err error) {
	err = db.read(ctx, "lane uses", func(r *reader) error {
		out, err = r.usesOf(node)
		return err
	})
	return out, err
}

func (r *reader) usesOf(node string) ([]bucket.LaneUse, error) {
	var rows []struct {
		laneRow
		Present int64 `db:"present"`
	}
	if err := r.list(&rows, selectUses, []byte(node)); err != nil {
		return nil, err
	}
	out := make([]bucket.LaneUse, len(rows))
	for i := range rows {
		row := rows[i].row()
		out[i] = bucket.LaneUse{Node: node, Lane: row.Lane, Activation: row.Activation,
			Over: rows[i].Present > row.Activation}
	}
	return out, nil
}

// ReportLane ends a node's use of a lane's activation. See bucket.Quarantines.
func (db *DB) ReportLane(ctx context.Context, node string, lane bucket.Lane, activation int64,
	acknowledged map[bucket.Ref]int64) error {
	refs := make([]bucket.Ref, 0, len(acknowledged))
	for ref := range acknowledged {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b bucket.Ref) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Epoch, b.Epoch))
	})
	return db.write(ctx, "report lane", func(t *tx) error {
		for _, ref := range refs {
			seq := acknowledged[ref]
			if _, err := t.exec(raiseAcknowledged, seq, ref.Bucket, ref.Epoch, seq); err != nil {
				return err
			}
		}
		_, err := t.exec(reportUse, []byte(lane.Instance), lane.Index, activation, []byte(node))
		return err
	})
}

// unheard lists the nodes that used a lane's activation and have not reported.
func (t *tx) unheard(lane bucket.Lane, activation int64) (nodes []string, err error) {
	var rows []struct {
		Node     string `db:"node"`
		Reported int64  `db:"is_reported"`
	}
	err = t.list(&rows, selectUsers, []byte(lane.Instance), lane.Index, activation)
	for _, row := range rows {
		if row.Reported == 0 {
			nodes = append(nodes, row.Node)
		}
	}
	return nodes, err
}
