package store

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectUnfinished = `SELECT e.bucket_id FROM bucket_epoch e /*by bucket_epoch_unfinished*/
		WHERE e.is_unfinished = 1 AND LENGTH(e.halted) = 0 LIMIT ?`
	selectUndelivered = `SELECT DISTINCT g.bucket_id FROM grant_log g /*by grant_log_status*/
		WHERE g.status = 'pending' LIMIT ?`
	selectTasks = `SELECT e.bucket_id, e.epoch, e.incarnation, e.budget_id, e.status, e.halted,
		b.instance, b.partition_number, b.copied_epoch FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		JOIN budget_management_bucket u ON u.id = b.budget_id WHERE u.durability = 'store' AND `
	selectPending = `SELECT g.bucket_id, g.epoch, g.number, g.amount FROM grant_log g
		/*by grant_log_status*/ WHERE g.status = 'pending' AND `
	byNumber = ` ORDER BY g.bucket_id, g.epoch, g.number`
)

// Unfinished lists buckets with unfinished work.
func (l *Ledger) Unfinished(ctx context.Context, limit int) (ids []int64, err error) {
	err = l.db.Read(ctx, "unfinished", func(r *engine.Reader) error {
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

// Tasks reads the newest epochs of buckets in store mode with their unfinished work.
func (l *Ledger) Tasks(ctx context.Context, buckets []int64) (out []Task, err error) {
	buckets = slices.Compact(slices.Sorted(slices.Values(buckets)))
	for chunk := range slices.Chunk(buckets, engine.ListChunk) {
		some, err := l.tasks(ctx, chunk)
		if err != nil {
			return nil, err
		}
		out = append(out, some...)
	}
	return out, nil
}

// taskRow is the newest epoch of a bucket in a store.
type taskRow struct {
	Bucket      int64         `db:"bucket_id"`
	Epoch       int64         `db:"epoch"`
	Incarnation int64         `db:"incarnation"`
	Budget      int64         `db:"budget_id"`
	Status      ledger.Status `db:"status"`
	Halted      string        `db:"halted"`
	Instance    string        `db:"instance"`
	Partition   int           `db:"partition_number"`
	CopiedEpoch int64         `db:"copied_epoch"`
}

func (l *Ledger) tasks(ctx context.Context, buckets []int64) (out []Task, err error) {
	var found []taskRow
	var pending []pendingRow
	err = l.db.Look(ctx, "tasks", func(begin func() *engine.Statement) ([]*engine.Statement, []any) {
		found, pending = nil, nil
		tasks, grants := begin(), begin()
		tasks.SQL(selectTasks)
		tasks.Numbers("b.id", buckets)
		grants.SQL(selectPending)
		grants.Numbers("g.bucket_id", buckets)
		grants.SQL(byNumber)
		return []*engine.Statement{tasks, grants}, []any{&found, &pending}
	})
	if err != nil {
		return nil, err
	}
	grants := map[books.Position][]bucket.StoreGrant{}
	for _, g := range pending {
		at := books.Position{Bucket: g.Bucket, Epoch: g.Epoch}
		grants[at] = append(grants[at], bucket.StoreGrant{Number: g.Number, Amount: g.Amount})
	}
	for i := range found {
		row := &found[i]
		out = append(out, taskOf(row, grants[books.Position{Bucket: row.Bucket, Epoch: row.Epoch}]))
	}
	return out, nil
}

func taskOf(row *taskRow, grants []bucket.StoreGrant) Task {
	ref := bucket.Ref{Bucket: row.Bucket, Epoch: row.Epoch, Incarnation: row.Incarnation}
	task := Task{Ref: ref, Budget: row.Budget, Status: row.Status, Halted: row.Halted != "",
		Partition: bucket.Partition{Instance: row.Instance, Index: row.Partition}, Grants: grants}
	for i := range task.Grants {
		task.Grants[i].Ref = ref
	}
	if row.CopiedEpoch == row.Epoch-1 { // the first epoch on the partition that it moved to
		task.CopyOf = row.CopiedEpoch
	}
	return task
}
