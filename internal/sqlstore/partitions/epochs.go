package partitions

import (
	"context"
	"maps"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectUnfinished = `SELECT e.bucket_id FROM bucket_epoch e /*by bucket_epoch_unfinished*/
		WHERE e.is_unfinished = 1 AND LENGTH(e.halted) = 0 LIMIT ?`
	selectUndelivered = `SELECT DISTINCT g.bucket_id FROM grant_log g /*by grant_log_status*/
		WHERE g.status = 'pending' LIMIT ?`
	selectTasks = `SELECT ` + rows.BucketColumns + ` FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		JOIN budget_management_bucket u ON u.id = b.budget_id WHERE u.durability = 'store' AND `
	selectPending = `SELECT g.bucket_id, g.epoch, g.number, g.amount FROM grant_log g
		/*by grant_log_status*/ WHERE g.status = 'pending' AND `
	byNumber = ` ORDER BY g.bucket_id, g.epoch, g.number`

	openEpoch = `UPDATE bucket_epoch /*by PRIMARY*/ SET status = 'open' WHERE bucket_id = ?
		AND epoch = ? AND status = 'opening'`
	deliverGrants = `UPDATE grant_log /*by PRIMARY*/ SET status = 'done' WHERE bucket_id = ?
		AND epoch = ? AND number <= ? AND status = 'pending'`
)

// Unfinished lists buckets with unfinished work. See counter.Epochs.
func (p *Part) Unfinished(ctx context.Context, limit int) (ids []int64, err error) {
	err = p.db.Read(ctx, "unfinished", func(r *engine.Reader) error {
		var more []int64
		ids = nil
		if err := r.List(&ids, selectUnfinished, limit); err != nil {
			return err
		}
		err := r.List(&more, selectUndelivered, limit)
		ids = slices.Compact(slices.Sorted(slices.Values(append(ids, more...))))
		return err
	})
	return ids, err
}

type pendingRow struct {
	Bucket int64 `db:"bucket_id"`
	Epoch  int64 `db:"epoch"`
	Number int64 `db:"number"`
	Amount int64 `db:"amount"`
}

// Tasks returns the unfinished work of buckets. See counter.Epochs.
func (p *Part) Tasks(ctx context.Context, buckets []int64) (out []counter.Task, err error) {
	buckets = slices.Compact(slices.Sorted(slices.Values(buckets)))
	err = p.db.Read(ctx, "tasks", func(r *engine.Reader) error {
		out = nil
		for chunk := range slices.Chunk(buckets, engine.ListChunk) {
			some, err := tasks(r, chunk)
			if err != nil {
				return err
			}
			out = append(out, some...)
		}
		return nil
	})
	return out, err
}

func tasks(r *engine.Reader, buckets []int64) ([]counter.Task, error) {
	var found []rows.Bucket
	s := r.Statement()
	s.SQL(selectTasks)
	s.Numbers("b.id", buckets)
	if err := r.RowsOf(&found, s); err != nil {
		return nil, err
	}
	var pending []pendingRow
	s = r.Statement()
	s.SQL(selectPending)
	s.Numbers("g.bucket_id", buckets)
	s.SQL(byNumber)
	if err := r.RowsOf(&pending, s); err != nil {
		return nil, err
	}
	grants := map[rows.Position][]pendingRow{}
	for _, g := range pending {
		at := rows.Position{Bucket: g.Bucket, Epoch: g.Epoch}
		grants[at] = append(grants[at], g)
	}
	out := make([]counter.Task, len(found))
	for i := range found {
		row := &found[i]
		task := counter.Task{Ref: row.Ref(), Budget: row.Budget, Partition: row.Partition(),
			Status: ledger.Status(row.Status), Halted: row.Halted != ""}
		if row.CopiedEpoch == row.Number-1 { // the first epoch on the partition that it moved to
			task.CopyOf = row.CopiedEpoch
		}
		for _, g := range grants[row.Position()] {
			task.Grants = append(task.Grants, bucket.StoreGrant{Ref: task.Ref, Number: g.Number,
				Amount: g.Amount})
		}
		out[i] = task
	}
	return out, nil
}

// Confirm records what a store did. See counter.Epochs. It locks a budget only if an epoch opens.
func (p *Part) Confirm(ctx context.Context, m bucket.Memory, done []counter.Done) error {
	return p.db.Write(ctx, "confirm", func(t *engine.Tx) error {
		positions := make([]rows.Position, len(done))
		for i, d := range done {
			positions[i] = rows.At(d.Ref)
		}
		seen, err := rows.ReadEpochs(&t.Reader, positions)
		if err != nil {
			return err
		}
		opened := map[int64]int{}
		for _, d := range done {
			if e := seen[rows.At(d.Ref)]; e != nil && d.Opened {
				opened[e.Budget] = 0
			}
		}
		for _, id := range slices.Sorted(maps.Keys(opened)) {
			if _, err := rows.LockBudget(t, "confirm", id); err != nil {
				return err
			}
		}
		locked, err := rows.LockEpochs(t, positions)
		if err != nil {
			return err
		}
		since, err := current(t, m)
		if err != nil {
			return err
		}
		for _, d := range done {
			e := locked[rows.At(d.Ref)]
			if e == nil || e.Incarnation < since {
				continue
			}
			if d.Opened && e.Status == string(ledger.Opening) {
				if err := t.Hit(1, openEpoch, e.Bucket, e.Number); err != nil {
					return err
				}
				opened[e.Budget]++
			}
			if d.Grants > 0 && e.Live() {
				if _, err := t.Exec(deliverGrants, e.Bucket, e.Number, d.Grants); err != nil {
					return err
				}
			}
		}
		for _, id := range slices.Sorted(maps.Keys(opened)) {
			if opened[id] > 0 {
				if err := moves.ListChanged(t, id, opened[id]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
