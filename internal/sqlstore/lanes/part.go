// Package lanes is the database's part of store mode: package bucket/counter.
//
// Transactions that act on a store's answer lock the lane's row for reading and compare its
// activation, so that an answer from a memory that was given up changes nothing. The lane's row
// comes after the rows in the lock order of package rows.
package lanes

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

var (
	_ counter.Lanes   = (*Part)(nil)
	_ counter.Epochs  = (*Part)(nil)
	_ counter.Supply  = (*Part)(nil)
	_ counter.Periods = (*Part)(nil)
	_ counter.Moves   = (*Part)(nil)
)

// Part stores the memories of lanes and the epochs of store mode. It is safe for concurrent use.
type Part struct {
	db *engine.DB
	// Node is the name of this node, for the causes of quarantines; set it before use.
	Node string
}

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }

const (
	selectLane = `SELECT instance, lane, identity, activation, since_activation, activated_at
		FROM lane WHERE instance = ? AND lane = ?`
	insertLane = `INSERT INTO lane (instance, lane, identity, activation, since_activation,
		activated_at, cause)`
	laneWidth  = 7
	changeLane = `UPDATE lane SET identity = ?, activation = ?, since_activation = ?,
		activated_at = ?, cause = ? WHERE instance = ? AND lane = ? AND activation = ?`
	shared = ` /*shared*/`
	// mostCause bounds a cause, in bytes.
	mostCause = 512
)

type laneRow struct {
	Instance    string `db:"instance"`
	Index       int    `db:"lane"`
	Identity    string `db:"identity"`
	Activation  int64  `db:"activation"`
	Since       int64  `db:"since_activation"`
	ActivatedAt int64  `db:"activated_at"`
}

// readLane reads the row of a lane; one that is missing has activation 0.
func readLane(r *engine.Reader, lane bucket.Lane, suffix string) (laneRow, error) {
	var row laneRow
	_, err := r.Get(&row, selectLane+suffix, []byte(lane.Instance), lane.Index)
	return row, err
}

// Lane reads the row of a lane. See counter.Lanes.
func (p *Part) Lane(ctx context.Context, lane bucket.Lane) (out counter.LaneRow, err error) {
	err = p.db.Read(ctx, "read a lane", func(r *engine.Reader) error {
		row, err := readLane(r, lane, "")
		out = counter.LaneRow{Lane: lane, Activation: row.Activation, Since: row.Since,
			Identity: row.Identity, ActivatedAt: engine.FromMS(row.ActivatedAt)}
		return err
	})
	return out, err
}

// Activate begins an activation of a lane. See counter.Lanes.
func (p *Part) Activate(ctx context.Context, was int64, next counter.LaneRow, cause string) (
	made bool, err error) {
	instance, why := []byte(next.Lane.Instance), []byte(cause[:min(len(cause), mostCause)])
	err = p.db.Write(ctx, "activate a lane", func(t *engine.Tx) error {
		made = false
		row, err := readLane(&t.Reader, next.Lane, rows.Locked)
		if err != nil || row.Activation != was {
			return err
		}
		made = true
		now := engine.ToMS(t.Now)
		if row.Instance == "" {
			return t.Insert(insertLane, laneWidth, []any{instance, next.Lane.Index,
				[]byte(next.Identity), next.Activation, next.Since, now, why})
		}
		return t.Hit(1, changeLane, []byte(next.Identity), next.Activation, next.Since, now, why,
			instance, next.Lane.Index, was)
	})
	return made && err == nil, err
}

// current locks the lane's row for reading and compares it with a memory. since is the first
// activation whose epochs the memory has. It returns bucket.ErrOtherMemory, wrapped, if the memory
// was given up.
func current(t *engine.Tx, m bucket.Memory) (since int64, err error) {
	row, err := readLane(&t.Reader, m.Lane, shared)
	if err == nil && row.Activation != m.Activation {
		err = &budget.Error{Code: budget.Unavailable, Op: "compare a memory",
			Message: "the lane has another activation by now", Err: bucket.ErrOtherMemory}
	}
	return row.Since, err
}

// homes returns the lanes of epochs' buckets, and whether each epoch is its bucket's newest.
func homes(t *engine.Tx, positions []rows.Position) (map[rows.Position]home, error) {
	out := make(map[rows.Position]home, len(positions))
	for chunk := range slices.Chunk(positions, engine.ListChunk) {
		ids := make([]int64, len(chunk))
		for i, p := range chunk {
			ids[i] = p.Bucket
		}
		var found []home
		s := t.Statement()
		s.SQL(selectHomes)
		s.Numbers("b.id", ids)
		if err := t.RowsOf(&found, s); err != nil {
			return nil, err
		}
		byID := make(map[int64]home, len(found))
		for _, h := range found {
			byID[h.Bucket] = h
		}
		for _, p := range chunk {
			out[p] = byID[p.Bucket]
		}
	}
	return out, nil
}

const selectHomes = `SELECT b.id, b.instance, b.lane, b.epoch
	FROM sharding_budget_management_bucket b /*by PRIMARY*/ WHERE `

type home struct {
	Bucket   int64  `db:"id"`
	Instance string `db:"instance"`
	Index    int    `db:"lane"`
	Epoch    int64  `db:"epoch"`
}

func (h *home) lane() bucket.Lane { return bucket.Lane{Instance: h.Instance, Index: h.Index} }
