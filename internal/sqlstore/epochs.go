package sqlstore

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// listChunk is the most keys in one list.
const listChunk = 512

const (
	selectEpochs = `SELECT ` + epochColumns + ` FROM bucket_epoch e /*by PRIMARY*/ WHERE `
	onePosition  = `(e.bucket_id = ? AND e.epoch = ?)`
	positionIn   = `(e.bucket_id, e.epoch) IN (`
	ofEpoch      = `bucket_id = ? AND epoch = ?`
	inKeyOrder   = ` ORDER BY e.bucket_id, e.epoch`
	locked       = ` /*locked*/`
)

// readEpochs reads epoch rows by key, in key order, with a suffix to the statement (a lock).
func (r *reader) readEpochs(positions []position, suffix string) (map[position]*epochRow, error) {
	positions = slices.Clone(positions)
	slices.SortFunc(positions, comparePositions)
	positions = slices.Compact(positions)
	out := make(map[position]*epochRow, len(positions))
	for chunk := range slices.Chunk(positions, listChunk) {
		s := r.ofPositions(selectEpochs, chunk, inKeyOrder+suffix)
		rows := make([]epochRow, 0, len(chunk))
		if err := r.rowsOf(&rows, s); err != nil {
			return nil, err
		}
		for i := range rows {
			out[rows[i].position()] = &rows[i]
		}
	}
	return out, nil
}

// ofPositions makes a statement of epochs e: selected ends with WHERE, suffix follows the list of them.
func (r *reader) ofPositions(selected string, positions []position, suffix string) *statement {
	s := &statement{dialect: r.conn.dialect}
	s.sql(selected)
	if s.dialect.tuples && len(positions) > 1 {
		s.sql(positionIn)
		for i, p := range positions {
			s.sql(separator(i, "(", "),("))
			s.number(p.bucket)
			s.sql(",")
			s.number(p.epoch)
		}
		s.sql("))")
	} else {
		for i, p := range padded(s.dialect, positions) {
			s.sql(separator(i, "(e.bucket_id = ", ") OR (e.bucket_id = "))
			s.number(p.bucket)
			s.sql(" AND e.epoch = ")
			s.number(p.epoch)
		}
		s.sql(")")
	}
	s.sql(suffix)
	return s
}

// separator is what stands before an element of a list.
func separator(i int, first, others string) string {
	if i == 0 {
		return first
	}
	return others
}

func comparePositions(p, q position) int {
	switch {
	case p.less(q):
		return -1
	case q.less(p):
		return 1
	}
	return 0
}

// lockEpochs locks epoch rows in the order of (bucket, epoch).
func (t *tx) lockEpochs(positions ...position) (map[position]*epochRow, error) {
	return t.readEpochs(positions, locked)
}

// Epochs reads epoch rows. The activation of a reference is not looked at: an epoch has one.
func (db *DB) Epochs(ctx context.Context, refs []bucket.Ref) (map[bucket.Ref]ledger.Epoch, error) {
	out := make(map[bucket.Ref]ledger.Epoch, len(refs))
	if len(refs) == 0 {
		return out, nil
	}
	positions := make([]position, len(refs))
	for i, ref := range refs {
		positions[i] = at(ref)
	}
	err := db.read(ctx, "epochs", func(r *reader) error {
		rows, err := r.readEpochs(positions, "")
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if row := rows[at(ref)]; row != nil {
				out[ref] = row.epoch()
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const (
	selectBudget = `SELECT ` + budgetColumns + `
		FROM budget_management_bucket /*by PRIMARY*/ WHERE id = ?`
	// selectBuckets reads a budget's buckets with their newest epochs.
	selectBuckets = `SELECT ` + bucketColumns + ` FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE b.budget_id = ? ORDER BY b.ordinal`
	selectBucket = `SELECT ` + bucketColumns + ` FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE b.id = ?`
)

// lockBudget locks a budget's row. Error: BudgetNotFound.
func (t *tx) lockBudget(op string, id int64) (*budgetRow, error) {
	return t.budget(op, id, locked)
}

func (r *reader) budget(op string, id int64, suffix string) (*budgetRow, error) {
	var row budgetRow
	found, err := r.get(&row, selectBudget+suffix, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, budget.Refuse(budget.BudgetNotFound, op, "there is no budget %d", id)
	}
	return &row, nil
}

// buckets reads a budget's buckets, by ordinal.
func (r *reader) buckets(budgetID int64) ([]bucketRow, error) {
	var rows []bucketRow
	err := r.list(&rows, selectBuckets, budgetID)
	return rows, err
}
