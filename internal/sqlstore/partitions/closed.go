package partitions

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const selectAbove = `SELECT COALESCE(SUM(amount), 0) FROM grant_log
	WHERE bucket_id = ? AND epoch = ? AND number > ? AND status = 'pending'`

// Closed ends closing epochs with their final figures. See counter.Epochs. It skips epochs that
// have ended, so it is idempotent. Keeps I1.
func (p *Part) Closed(ctx context.Context, m bucket.Memory, closings []counter.Closing,
	need int64) (
	begun []int64, err error) {
	if len(closings) == 0 {
		return nil, nil
	}
	positions := make([]rows.Position, len(closings))
	for i := range closings {
		positions[i] = rows.At(closings[i].Ref)
	}
	var budgetID int64
	err = p.db.Read(ctx, "close", func(r *engine.Reader) error {
		found, err := rows.ReadEpochs(r, positions[:1])
		if e := found[positions[0]]; e != nil {
			budgetID = e.Budget
		}
		return err
	})
	if err != nil || budgetID == 0 {
		return nil, err
	}
	err = p.db.Write(ctx, "close", func(t *engine.Tx) error {
		begun = nil
		b, err := rows.LockBudget(t, "close", budgetID)
		if err != nil {
			return err
		}
		locked, err := rows.LockEpochs(t, positions)
		if err != nil {
			return err
		}
		c := closing{t: t, b: b, m: m}
		if c.since, err = current(t, m); err != nil {
			return err
		}
		if c.lived, err = homes(t, positions); err != nil {
			return err
		}
		for i := range closings {
			if err := c.end(locked[positions[i]], &closings[i]); err != nil {
				return err
			}
		}
		begun, err = c.keep(need)
		return err
	})
	return begun, err
}

// closing is one transaction of Closed.
type closing struct {
	t     *engine.Tx
	b     *rows.Budget
	m     bucket.Memory
	since int64
	lived map[rows.Position]home
	back  map[int64]int64 // what each bucket brought
}

// end records the final figures of an epoch and returns what is left.
func (c *closing) end(e *rows.Epoch, from *counter.Closing) error {
	at := rows.At(from.Ref)
	h := c.lived[at]
	if e == nil || e.Budget != c.b.ID || e.Status != string(ledger.Closing) || e.Halted != "" ||
		e.Incarnation < c.since || h.partition() != c.m.Partition || h.Epoch != e.Number {
		return nil
	}
	taken, given := from.Taken-e.Taken, from.GivenBack-e.GivenBack
	used := taken - given
	var above int64
	if _, err := c.t.Get(&above, selectAbove, e.Bucket, e.Number, from.LastGrant); err != nil {
		return err
	}
	left := e.Outstanding - used
	if taken < 0 || given < 0 || left != from.Balance+above || e.Used+used < 0 {
		why := fmt.Sprintf("closed with a balance of %d and %d in grants on their way, SQL has %d",
			from.Balance, above, left)
		_, err := c.t.Exec(halt, []byte(why), e.Bucket, e.Number)
		return err
	}
	if taken > 0 || given > 0 {
		err := c.t.ChangeRows(recordSums, ofEpoch, ofEpoch, []engine.RowChange{{
			Key:    []any{e.Bucket, e.Number},
			Values: []any{from.Taken, from.GivenBack, used, used},
			Where:  []any{e.Bucket, e.Number}}})
		if err != nil {
			return err
		}
		e.Taken, e.GivenBack, e.Outstanding = from.Taken, from.GivenBack, left
		e.Used += used
	}
	if _, err := c.t.Exec(deliverGrants, e.Bucket, e.Number, from.LastGrant); err != nil {
		return err
	}
	units, err := moves.End(c.t, c.b, ledger.Closed, e)
	if err != nil {
		return err
	}
	if c.back == nil {
		c.back = map[int64]int64{}
	}
	c.back[e.Bucket] = units
	return moves.ComeBack(c.t, c.b, moves.Coming{Row: e, Never: units})
}

// keep begins the next epochs of donors that are in the bucket list, with up to half of their
// units.
func (c *closing) keep(need int64) (begun []int64, err error) {
	if need < 0 || len(c.back) == 0 || c.b.IsOver == 1 || c.b.PeriodNow().OverAt(c.t.Now) {
		return nil, nil
	}
	list, err := rows.Buckets(&c.t.Reader, c.b.ID)
	if err != nil {
		return nil, err
	}
	drained, err := moves.Drained(c.t)
	if err != nil {
		return nil, err
	}
	spare, sum := c.b.Releasable(c.t.Now)-need, int64(0)
	var portions []moves.Portion
	var again []*rows.Bucket
	for i := range list {
		row := &list[i]
		back, ended := c.back[row.Epoch.Bucket]
		half := min(back/2, spare)
		if !ended || half <= 0 || row.ListStatus != rows.Online || row.Live() ||
			drained[row.Partition()] {
			continue
		}
		spare, sum = spare-half, sum+half
		again, portions = append(again, row), append(portions, moves.Portion{Row: row, Units: half})
		begun = append(begun, row.Epoch.Bucket)
	}
	if len(again) == 0 {
		return nil, nil
	}
	if err := moves.Begin(c.t, "close", c.b, again...); err != nil {
		return nil, err
	}
	if err := moves.Give(c.t, c.b, moves.Again, portions...); err != nil {
		return nil, err
	}
	return begun, moves.Units(c.t, c.b, allocation.Movement{Undistributed: -sum})
}
