package partitions

import (
	"context"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectLost = `SELECT e.bucket_id, e.epoch, e.budget_id FROM store_partition l
		/*in order*/ JOIN sharding_budget_management_bucket b
			/*by sharding_budget_management_bucket_partition*/
			ON b.instance = l.instance AND b.partition_number = l.partition_number
		JOIN budget_management_bucket u ON u.id = b.budget_id
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE l.instance = ? AND l.partition_number = ? AND u.durability = 'store'
		AND e.status IN ('opening', 'open', 'closing') AND e.incarnation < l.since_incarnation
		ORDER BY e.budget_id, e.bucket_id LIMIT ?`
	insertQuarantine = `INSERT INTO quarantine (bucket_id, epoch, budget_id, instance,
		partition_number,
		quantity, released_quantity, cause, created_at)`
	quarantineWidth = 9
	addQuarantined  = `UPDATE budget_management_bucket
		SET quarantined_quantity = quarantined_quantity + ?
		WHERE id = ? AND quarantined_quantity + ? >= 0`
	halt = `UPDATE bucket_epoch SET halted = ? WHERE bucket_id = ? AND epoch = ?
		AND LENGTH(halted) = 0`
)

type lostRow struct {
	Bucket int64 `db:"bucket_id"`
	Epoch  int64 `db:"epoch"`
	Budget int64 `db:"budget_id"`
}

// EndLost ends epochs of memories that were given up. See counter.Partitions. It takes one
// transaction per budget. Keeps I1, I2.
func (p *Part) EndLost(ctx context.Context, partition bucket.Partition) (
	out counter.LostEpochs, err error) {
	var found []lostRow
	err = p.db.Read(ctx, "end lost epochs", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, selectLost, []byte(partition.Instance), partition.Index, counter.MaxEpochs)
	})
	if err != nil {
		return out, err
	}
	out.More = len(found) == counter.MaxEpochs
	for len(found) > 0 {
		n := 1
		for n < len(found) && found[n].Budget == found[0].Budget {
			n++
		}
		var one counter.LostEpochs
		err := p.db.Write(ctx, "end lost epochs", func(t *engine.Tx) error {
			one = counter.LostEpochs{}
			l := loss{t: t, node: p.Node, partition: partition, out: &one}
			return l.endAll(found[0].Budget, found[:n], func(e *rows.Epoch) (string, error) {
				row, err := readPartition(&t.Reader, partition, shared)
				if err != nil || e.Incarnation >= row.Since {
					return "", err
				}
				return fmt.Sprintf("the memory of incarnation %d of %s was lost", e.Incarnation, partition), nil
			})
		})
		if err != nil {
			return out, err
		}
		out.Buckets = append(out.Buckets, one.Buckets...)
		out.Quarantined += one.Quarantined
		out.Returned += one.Returned
		found = found[n:]
	}
	return out, nil
}

// Lost ends one epoch whose entry is missing. See counter.Epochs. Keeps I1, I2.
func (p *Part) Lost(ctx context.Context, m bucket.Memory, ref bucket.Ref, cause string) error {
	var budgetID int64
	err := p.db.Read(ctx, "lose an epoch", func(r *engine.Reader) error {
		found, err := rows.ReadEpochs(r, []rows.Position{rows.At(ref)})
		if e := found[rows.At(ref)]; e != nil {
			budgetID = e.Budget
		}
		return err
	})
	if err != nil || budgetID == 0 {
		return err
	}
	return p.db.Write(ctx, "lose an epoch", func(t *engine.Tx) error {
		l := loss{t: t, node: p.Node, partition: m.Partition, out: &counter.LostEpochs{}}
		return l.endAll(budgetID, []lostRow{{ref.Bucket, ref.Epoch, budgetID}},
			func(e *rows.Epoch) (string, error) {
				since, err := current(t, m)
				if err != nil || e.Incarnation < since {
					return "", err
				}
				return cause, nil
			})
	})
}

// loss is one transaction that ends epochs of one budget.
type loss struct {
	t         *engine.Tx
	partition bucket.Partition
	out       *counter.LostEpochs
	// node is the one that noticed it.
	node string
}

// endAll ends the epochs that are live and on the partition and for which judge returns a cause.
func (l *loss) endAll(budgetID int64, found []lostRow,
	judge func(*rows.Epoch) (cause string, err error)) error {
	t := l.t
	b, err := rows.LockBudget(t, "end lost epochs", budgetID)
	if err != nil || b.Durability != string(budget.Store) {
		return err
	}
	positions := make([]rows.Position, len(found))
	for i, f := range found {
		positions[i] = rows.Position{Bucket: f.Bucket, Epoch: f.Epoch}
	}
	locked, err := rows.LockEpochs(t, positions)
	if err != nil {
		return err
	}
	lived, err := homes(t, positions)
	if err != nil {
		return err
	}
	slices.SortFunc(positions, rows.Position.Compare)
	for _, at := range positions {
		e, h := locked[at], lived[at]
		if e == nil || !e.Live() || h.partition() != l.partition || h.Epoch != at.Epoch {
			continue
		}
		cause, err := judge(e)
		if err != nil {
			return err
		}
		if cause == "" {
			continue
		}
		if err := l.end(b, e, cause); err != nil {
			return err
		}
	}
	return nil
}

// end ends a lost epoch. Nothing was deducted from one that was only opening, so its units come
// back. Nothing is quarantined for an unlimited budget.
func (l *loss) end(b *rows.Budget, e *rows.Epoch, cause string) error {
	opening := e.Status == string(ledger.Opening)
	units, err := moves.End(l.t, b, ledger.Lost, e)
	if err != nil {
		return err
	}
	l.out.Buckets = append(l.out.Buckets, e.Bucket)
	if b.Unlimited == 1 {
		return nil // there is no total that could lack them
	}
	if opening || b.OnLoss == string(budget.AssumeUnused) {
		l.out.Returned += units
		return moves.ComeBack(l.t, b, moves.Coming{Row: e, Never: units})
	}
	if units == 0 {
		return nil
	}
	l.out.Quarantined += units
	if e.Halted != "" {
		cause += "; the bucket was stopped: " + e.Halted
	}
	if l.node != "" {
		cause += "; noticed by node " + l.node
	}
	err = l.t.Insert(insertQuarantine, quarantineWidth, []any{e.Bucket, e.Number, b.ID,
		[]byte(l.partition.Instance), l.partition.Index, units, 0, []byte(cause[:min(len(cause),
			mostCause)]), engine.ToMS(l.t.Now)})
	if err != nil {
		return err
	}
	return l.t.Hit(1, addQuarantined, units, b.ID, units)
}

// Halt stops an epoch. See counter.Epochs.
func (p *Part) Halt(ctx context.Context, ref bucket.Ref, why string) error {
	return p.db.Write(ctx, "halt", func(t *engine.Tx) error {
		_, err := t.Exec(halt, []byte(why[:min(len(why), mostCause)]), ref.Bucket, ref.Epoch)
		return err
	})
}
