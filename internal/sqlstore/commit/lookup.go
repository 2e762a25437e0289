package commit

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/counters"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Recorded reads the deductions of ids. The result has no element for an id without a row. Error:
// Unavailable.
func (p *Part) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	return rows.Recorded(ctx, p.db, ids)
}

// Exceeded reads which limits each operation would exceed if it were committed alone, with the use
// before it and the instant at which it would fit. An operation that exceeds no limit has nil. One
// statement reads the rows of all operations; counts of a changed limit are read from the
// deductions, as the next flight will do. It takes no locks. Error: Unavailable.
func (p *Part) Exceeded(ctx context.Context, ops []bucket.Operation) (
	out [][]budget.LimitState, err error) {
	err = p.db.Read(ctx, "read limits", func(r *engine.Reader) error {
		out, err = exceeded(r, ops, engine.ToMS(p.db.Now()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func exceeded(r *engine.Reader, ops []bucket.Operation, nowMS int64) (
	[][]budget.LimitState, error) {
	out := make([][]budget.LimitState, len(ops))
	var b limitRows
	f := &flight{ops: ops}
	if b.open(f); b.empty() {
		return out, nil
	}
	found, err := counters.Read(r, b.keys())
	if err != nil {
		return nil, err
	}
	for _, row := range found {
		b.put(row)
	}
	for _, m := range b.tally(f, max(nowMS, b.notBefore())) {
		if err := counters.Load(r, m.row.Key.Budget, &m.tally.Tally); err != nil {
			return nil, err
		}
	}
	for i := range ops {
		out[i] = limit.Exceeded(ops[i].Touches, b.tallies(i, nil))
	}
	return out, nil
}

const selectStandings = `SELECT e.bucket_id, e.epoch, e.status, e.fill, e.outstanding_quantity,
	LENGTH(e.halted) AS halt, b.instance, b.partition_number FROM sharding_budget_management_bucket b
	JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch WHERE `

type standingRow struct {
	Bucket      int64  `db:"bucket_id"`
	Epoch       int64  `db:"epoch"`
	Status      string `db:"status"`
	Fill        int64  `db:"fill"`
	Outstanding int64  `db:"outstanding_quantity"`
	Halt        int64  `db:"halt"`
	Instance    string `db:"instance"`
	Partition   int    `db:"partition_number"`
}

func (r *standingRow) level() bucket.Level {
	return bucket.Level{Bucket: r.Bucket, Epoch: r.Epoch,
		Partition: bucket.Partition{Instance: r.Instance, Index: r.Partition}, Fill: r.Fill,
		Outstanding: r.Outstanding, Open: r.Status == string(ledger.Open) && r.Halt == 0}
}

// Standings reads fill and O of the newest epochs of buckets, 512 buckets per statement. Added is
// 0. The result has no element for a bucket that does not exist. Error: Unavailable.
func (p *Part) Standings(ctx context.Context, buckets []int64) (
	out map[int64]bucket.Level, err error) {
	list := slices.Compact(slices.Sorted(slices.Values(buckets)))
	err = p.db.Read(ctx, "standings", func(r *engine.Reader) error {
		out, err = standings(r, list)
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func standings(r *engine.Reader, list []int64) (map[int64]bucket.Level, error) {
	out := make(map[int64]bucket.Level, len(list))
	for chunk := range slices.Chunk(list, engine.ListChunk) {
		var found []standingRow
		s := r.Statement()
		s.SQL(selectStandings)
		s.Numbers("b.id", chunk)
		if err := r.RowsOf(&found, s); err != nil {
			return nil, err
		}
		for i := range found {
			out[found[i].Bucket] = found[i].level()
		}
	}
	return out, nil
}

// raiseFill raises the fill to 2 above that of the wrong content: a filter adds to a content whose
// fill is one below, and replaces a content of a smaller fill.
const raiseFill = `UPDATE bucket_epoch /*by PRIMARY*/ SET fill = ? WHERE bucket_id = ? AND epoch = ?
	AND fill <= ?`

// mostFill is the largest fill that is raised. A filter accepts no fill above 2^52.
const mostFill = int64(1)<<52 - 2

// RaiseFill raises the fill of a bucket's newest epoch above level.Fill, the fill of a filter
// content that was found wrong, unless it is above already. It returns the bucket's level then,
// with Added 0; a filter that gets this level replaces the wrong content. Errors: BucketNotFound,
// Unavailable, OutcomeUnknown.
func (p *Part) RaiseFill(ctx context.Context, level bucket.Level) (now bucket.Level, err error) {
	err = p.db.Write(ctx, "raise fill", func(t *engine.Tx) error {
		found, err := standings(&t.Reader, []int64{level.Bucket})
		if err != nil {
			return err
		}
		var known bool
		if now, known = found[level.Bucket]; !known {
			return budget.Refuse(budget.BucketNotFound, "raise fill", "there is no bucket %d",
				level.Bucket)
		}
		if now.Fill > level.Fill || level.Fill > mostFill {
			return nil
		}
		hit, err := t.Exec(raiseFill, level.Fill+2, level.Bucket, now.Epoch, level.Fill)
		if err != nil {
			return err
		}
		if hit == 0 {
			return engine.ErrAgain
		}
		locked, err := rows.LockEpochs(t, []rows.Position{{Bucket: level.Bucket, Epoch: now.Epoch}})
		for _, row := range locked {
			now.Fill, now.Outstanding = row.Fill, row.Outstanding
			now.Open = row.MayGrow()
		}
		return err
	})
	if err != nil {
		return bucket.Level{}, err
	}
	return now, nil
}
