package partitions

import (
	"context"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	recordSums = `UPDATE bucket_epoch /*by PRIMARY*/ SET taken_quantity = $value,
		given_back_quantity = $value, outstanding_quantity = outstanding_quantity - $value,
		used_quantity = used_quantity + $value WHERE `
	recordLate = `UPDATE bucket_epoch /*by PRIMARY*/ SET late_sum_quantity = $value,
		used_quantity = used_quantity - $value, returning_quantity = returning_quantity + $value,
		late_quantity = late_quantity + $value WHERE `
	ofEpoch    = `bucket_id = ? AND epoch = ?`
	selectLive = `SELECT ` + rows.EpochColumns + ` FROM sharding_budget_management_bucket b
		/*by sharding_budget_management_bucket_partition*/
		JOIN budget_management_bucket u ON u.id = b.budget_id
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE b.instance = ? AND b.partition_number = ? AND b.id > ? AND u.durability = 'store'
		AND e.status IN ('opening', 'open', 'closing') ORDER BY b.id LIMIT ?`
)

// Live lists live epochs of a partition. See counter.Partitions.
func (p *Part) Live(ctx context.Context, partition bucket.Partition, after int64, limit int) (
	out []ledger.Epoch, err error) {
	err = p.db.Read(ctx, "read epochs", func(r *engine.Reader) error {
		var found []rows.Epoch
		if err := r.List(&found, selectLive, []byte(partition.Instance), partition.Index, after,
			limit); err != nil {
			return err
		}
		out = make([]ledger.Epoch, len(found))
		for i := range found {
			out[i] = found[i].Ledger()
		}
		return nil
	})
	return out, err
}

// Record records what the stores of a partition counted. See counter.Partitions. It locks only
// epochs: O, S and R of an epoch are in its row. Keeps I1.
func (p *Part) Record(ctx context.Context, m bucket.Memory, sums []bucket.Sum) (
	out counter.Recorded, err error) {
	for chunk := range slices.Chunk(sums, engine.ListChunk) {
		part := &recording{m: m}
		err = p.db.Write(ctx, "sync", func(t *engine.Tx) error {
			*part = recording{m: m}
			return part.run(t, chunk)
		})
		if err != nil {
			return out, err
		}
		out.Known = append(out.Known, part.out.Known...)
		out.Behind = append(out.Behind, part.out.Behind...)
		out.Lost = append(out.Lost, part.out.Lost...)
		out.Early = append(out.Early, part.out.Early...)
		out.Taken, out.Late = out.Taken+part.out.Taken, out.Late+part.out.Late
	}
	return out, nil
}

// recording is one transaction of Record.
type recording struct {
	m     bucket.Memory
	out   counter.Recorded
	sums  []engine.RowChange
	late  []engine.RowChange
	wrong map[rows.Position]string
}

func (r *recording) run(t *engine.Tx, sums []bucket.Sum) error {
	positions := make([]rows.Position, len(sums))
	for i, s := range sums {
		positions[i] = rows.Position{Bucket: s.Bucket, Epoch: s.Epoch}
	}
	locked, err := rows.LockEpochs(t, positions)
	if err != nil {
		return err
	}
	since, err := current(t, r.m)
	if err != nil {
		return err
	}
	lived, err := homes(t, positions)
	if err != nil {
		return err
	}
	r.wrong = map[rows.Position]string{}
	for i, s := range sums {
		e, at := locked[positions[i]], lived[positions[i]]
		switch {
		case e == nil, at.partition() != r.m.Partition: // nothing of SQL's: it stays in the store
			r.out.Known = append(r.out.Known, s)
		case s.Late:
			r.lateSum(t, e, s)
		default:
			r.sum(e, s, since)
		}
	}
	if err := t.ChangeRows(recordSums, ofEpoch, ofEpoch, r.sums); err != nil {
		return err
	}
	if err := t.ChangeRows(recordLate, ofEpoch, ofEpoch, r.late); err != nil {
		return err
	}
	for at, why := range r.wrong {
		if _, err := t.Exec(halt, []byte(why), at.Bucket, at.Epoch); err != nil {
			return err
		}
	}
	return nil
}

// sum moves what an epoch of this memory took from O to S, and what was given back the other way.
func (r *recording) sum(e *rows.Epoch, s bucket.Sum, since int64) {
	switch {
	case e.Incarnation < since || !e.Live(): // lost, or ended with its final figures
		r.out.Known = append(r.out.Known, s)
		return
	case s.Verdict == bucket.Lost:
		r.out.Lost = append(r.out.Lost, e.Ref())
		return
	case s.Verdict == bucket.Broken:
		r.wrong[e.Position()] = "the store holds no number of it"
		return
	case s.Taken < e.Taken || s.GivenBack < e.GivenBack:
		r.out.Behind = append(r.out.Behind, e.Ref())
		return
	}
	r.out.Known = append(r.out.Known, s)
	taken, back := s.Taken-e.Taken, s.GivenBack-e.GivenBack
	used := taken - back
	switch {
	case taken == 0 && back == 0:
		return
	case e.Outstanding < used || e.Used+used < 0:
		r.wrong[e.Position()] = fmt.Sprintf("the store took %d and got %d back, SQL has %d and %d used",
			taken, back, e.Outstanding, e.Used)
		return
	}
	r.out.Taken += used
	r.sums = append(r.sums, engine.RowChange{Key: []any{e.Bucket, e.Number},
		Values: []any{s.Taken, s.GivenBack, used, used}, Where: []any{e.Bucket, e.Number}})
}

// lateSum moves what was given back after an epoch from S to R. S of a lost epoch has only what the
// last sync said: the rest of the late sum is already in Q.
func (r *recording) lateSum(t *engine.Tx, e *rows.Epoch, s bucket.Sum) {
	if s.Verdict == bucket.Lost {
		r.out.Known = append(r.out.Known, s)
		return
	}
	if e.Live() { // the end of the epoch, which its store has seen, comes first
		if e.Halted == "" {
			r.out.Early = append(r.out.Early, e.Bucket)
		}
		return
	}
	r.out.Known = append(r.out.Known, s)
	units := s.LateSum - e.LateSum
	if units <= 0 {
		return
	}
	back := min(units, e.Used)
	if back < units && e.Status != string(ledger.Lost) {
		r.wrong[e.Position()] = fmt.Sprintf("%d came back late, %d were used", units, e.Used)
		return
	}
	late := int64(0)
	if e.PeriodEndMS > 0 && engine.ToMS(t.Now) >= e.PeriodEndMS {
		late = back
	}
	r.out.Late += back
	r.late = append(r.late, engine.RowChange{Key: []any{e.Bucket, e.Number},
		Values: []any{s.LateSum, back, back, late}, Where: []any{e.Bucket, e.Number}})
}
