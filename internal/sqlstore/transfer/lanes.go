package transfer

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
)

const (
	selectLanes = `SELECT instance, lane, activation, is_draining, identity, activated_at, cause
		FROM lane ORDER BY instance, lane`
	selectAtRisk = `SELECT b.instance, b.lane, SUM(e.outstanding_quantity) AS units
		FROM budget_management_bucket u
		/*in order*/ JOIN sharding_budget_management_bucket b ON b.budget_id = u.id
		/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE u.durability = 'store' AND u.unlimited = 0 GROUP BY b.instance, b.lane`
	countOnLanes = `SELECT instance, lane, COUNT(*) AS buckets
		FROM sharding_budget_management_bucket /*by sharding_budget_management_bucket_lane*/
		GROUP BY instance, lane`
	selectLane = `SELECT instance, lane, activation, is_draining FROM lane
		WHERE instance = ? AND lane = ?`
	setDraining = `UPDATE lane SET is_draining = ?
		WHERE instance = ? AND lane = ? AND is_draining <> ?`
	// insertDraining inserts the row of a lane that was never reached.
	insertDraining = `INSERT INTO lane (instance, lane, identity, activation, since_activation,
		is_draining, activated_at) VALUES (?, ?, ?, 1, 1, 1, ?)`
)

// laneRow is a row of lane, or of the buckets counted by lane.
type laneRow struct {
	Instance    string `db:"instance"`
	Index       int    `db:"lane"`
	Activation  int64  `db:"activation"`
	Draining    int64  `db:"is_draining"`
	Buckets     int    `db:"buckets"`
	Units       int64  `db:"units"`
	Identity    string `db:"identity"`
	ActivatedAt int64  `db:"activated_at"`
	Cause       string `db:"cause"`
}

// Lane returns the row's lane.
func (r *laneRow) Lane() bucket.Lane { return bucket.Lane{Instance: r.Instance, Index: r.Index} }

func compareLanes(a, b bucket.Lane) int {
	return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Index, b.Index))
}

// LaneRows reads the lanes that SQL knows and those of buckets, by instance and index.
func (p *Part) LaneRows(ctx context.Context) (out []transfer.LaneRow, err error) {
	err = p.db.Read(ctx, "lanes", func(r *engine.Reader) error {
		var known, loads []laneRow
		if err := r.List(&known, selectLanes); err != nil {
			return err
		}
		if err := r.List(&loads, countOnLanes); err != nil {
			return err
		}
		found := map[bucket.Lane]transfer.LaneRow{}
		for i := range known {
			k := &known[i]
			row := transfer.LaneRow{Lane: k.Lane(), Activation: k.Activation,
				Draining: k.Draining == 1}
			if words := strings.Fields(k.Identity); len(words) > 2 { // run id, replication id, role
				row.Role, row.Cause = words[2], k.Cause
				row.ActivatedAt = engine.FromMS(k.ActivatedAt)
			}
			found[k.Lane()] = row
		}
		for i := range loads {
			row := found[loads[i].Lane()]
			row.Lane, row.Buckets = loads[i].Lane(), loads[i].Buckets
			found[row.Lane] = row
		}
		out = make([]transfer.LaneRow, 0, len(found))
		for _, row := range found {
			out = append(out, row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b transfer.LaneRow) int { return compareLanes(a.Lane, b.Lane) })
	return out, nil
}

// AtRisk sums what epochs of budgets in store mode hold, by lane. See transfer.Lanes.
func (p *Part) AtRisk(ctx context.Context) (out map[bucket.Lane]int64, err error) {
	err = p.db.Read(ctx, "at risk", func(r *engine.Reader) error {
		var found []laneRow
		if err := r.List(&found, selectAtRisk); err != nil {
			return err
		}
		out = make(map[bucket.Lane]int64, len(found))
		for i := range found {
			out[found[i].Lane()] = found[i].Units
		}
		return nil
	})
	return out, err
}

// SetDraining sets whether buckets are to leave lanes. It inserts missing rows of lanes. It is
// idempotent.
func (p *Part) SetDraining(ctx context.Context, lanes []bucket.Lane, on bool) error {
	lanes = slices.Clone(lanes)
	slices.SortFunc(lanes, compareLanes)
	lanes = slices.Compact(lanes)
	is := 0
	if on {
		is = 1
	}
	return p.db.Write(ctx, "drain", func(t *engine.Tx) error {
		for _, lane := range lanes {
			instance := []byte(lane.Instance)
			var row laneRow
			found, err := t.Get(&row, selectLane+" /*locked*/", instance, lane.Index)
			switch {
			case err != nil:
				return err
			case found && row.Draining != int64(is):
				err = t.Hit(1, setDraining, is, instance, lane.Index, is)
			case !found && on:
				err = t.Hit(1, insertDraining, instance, lane.Index, []byte{}, engine.ToMS(t.Now))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	selectPlaced = `SELECT b.budget_id, b.id, b.ordinal, b.instance, b.lane, u.tenant, u.name,
		u.durability FROM sharding_budget_management_bucket b
		JOIN budget_management_bucket u ON u.id = b.budget_id
		WHERE b.offline_by <> 'resize' AND b.budget_id IN (`
	selectAfter = `SELECT id FROM budget_management_bucket WHERE id > ? ORDER BY id LIMIT ?`
	selectOn    = `SELECT DISTINCT budget_id
		FROM sharding_budget_management_bucket /*by sharding_budget_management_bucket_lane*/
		WHERE budget_id > ? AND offline_by <> 'resize' AND (`
)

// PlacedAfter returns budgets above an id with the lanes of their buckets. See transfer.Lanes.
func (p *Part) PlacedAfter(ctx context.Context, lanes []bucket.Lane, after int64, limit int) (
	out []transfer.Placed, err error) {
	err = p.db.Read(ctx, "placement", func(r *engine.Reader) error {
		out = nil
		ids, err := budgetsOn(r, lanes, after, limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		var rows []placedRow
		s := r.Statement()
		s.SQL(selectPlaced)
		for i, id := range ids {
			if i > 0 {
				s.SQL(",")
			}
			s.Number(id)
		}
		s.SQL(`) ORDER BY b.budget_id, b.ordinal`)
		if err := r.RowsOf(&rows, s); err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			if len(out) == 0 || out[len(out)-1].Budget != row.Budget {
				out = append(out, transfer.Placed{Budget: row.Budget, Tenant: row.Tenant,
					Name: row.Name, Durability: budget.Durability(row.Durability)})
			}
			last := &out[len(out)-1]
			last.Buckets = append(last.Buckets, transfer.PlacedBucket{ID: row.ID,
				Ordinal: row.Ordinal,
				Lane:    bucket.Lane{Instance: row.Instance, Index: row.Lane}})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// placedRow is a bucket with its lane and its budget's name.
type placedRow struct {
	Budget     int64  `db:"budget_id"`
	ID         int64  `db:"id"`
	Ordinal    int    `db:"ordinal"`
	Instance   string `db:"instance"`
	Lane       int    `db:"lane"`
	Tenant     string `db:"tenant"`
	Name       string `db:"name"`
	Durability string `db:"durability"`
}

// budgetsOn reads ids of budgets with a bucket on one of the lanes, or of all budgets.
func budgetsOn(r *engine.Reader, lanes []bucket.Lane, after int64, limit int) (
	ids []int64, err error) {
	if len(lanes) == 0 {
		err = r.List(&ids, selectAfter, after, limit)
		return ids, err
	}
	args := []any{after}
	for _, lane := range lanes {
		args = append(args, []byte(lane.Instance), lane.Index)
	}
	query := selectOn + engine.Repeat("instance = ? AND lane = ?", " OR ", len(lanes)) +
		`) ORDER BY budget_id LIMIT ?`
	err = r.List(&ids, query, append(args, limit)...)
	return ids, err
}
