package partitions

import (
	"context"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectOver = `SELECT id FROM budget_management_bucket
		/*by budget_management_bucket_roll_over*/
		WHERE roll_over_ms > 0 AND roll_over_ms <= ? AND durability = 'store'
		ORDER BY roll_over_ms, id LIMIT ?`
	selectUsedSince = `SELECT COALESCE(SUM(e.used_quantity), 0)
		FROM bucket_epoch e /*by bucket_epoch_units*/
		/*in order*/ JOIN budget_period p /*by PRIMARY*/
			ON p.budget_id = e.budget_id AND p.number = e.period
		WHERE e.budget_id = ? AND p.start_ms >= ? AND (p.end_ms = 0 OR p.end_ms > ?)`
	listOffline = `UPDATE sharding_budget_management_bucket SET status = 'offline',
		offline_by = 'service', updated_at = ? WHERE budget_id = ? AND status = 'online'`
	// periodsAtOnce bounds the periods that one Turn skips.
	periodsAtOnce = 1000
)

// Over lists budgets in store mode whose rollover is due. See counter.Periods.
func (p *Part) Over(ctx context.Context, limit int) (ids []int64, err error) {
	now := engine.ToMS(p.db.Now())
	err = p.db.Read(ctx, "roll over", func(r *engine.Reader) error {
		ids = nil
		return r.List(&ids, selectOver, now, limit)
	})
	return ids, err
}

// End sets the epochs of a period that is over to closing. See counter.Periods.
func (p *Part) End(ctx context.Context, budgetID int64) (out counter.Rollover, err error) {
	for more := true; more; {
		err = p.db.Write(ctx, "roll over", func(t *engine.Tx) error {
			out, more = counter.Rollover{}, false
			b, err := rows.LockBudget(t, "roll over", budgetID)
			if err != nil || !due(t, b) {
				return err
			}
			if err := moves.Turnable(t, b); err != nil {
				return err
			}
			list, err := rows.Buckets(&t.Reader, b.ID)
			if err != nil {
				return err
			}
			var open []*rows.Bucket
			for i := range list {
				row := &list[i]
				if !row.Live() || row.Halted != "" {
					continue
				}
				out.Closing = append(out.Closing, row.Epoch.Bucket)
				if row.Status != string(ledger.Closing) {
					open = append(open, row)
				}
			}
			more = len(open) > counter.MaxEpochs
			return setClosing(t, b, open[:min(len(open), counter.MaxEpochs)])
		})
		if err != nil {
			return counter.Rollover{}, err
		}
	}
	return out, nil
}

// due reports whether the period of a locked budget is over and has not been turned. After the last
// period a turn is due once a changed definition has another one.
func due(t *engine.Tx, b *rows.Budget) bool {
	return b.Due(t.Now) && b.Durability == string(budget.Store) && b.PeriodNow().OverAt(t.Now)
}

// Turn opens the period that contains the present instant. See counter.Periods. Keeps I1.
func (p *Part) Turn(ctx context.Context, budgetID int64) (out counter.Rollover, err error) {
	err = p.db.Write(ctx, "roll over", func(t *engine.Tx) error {
		out = counter.Rollover{}
		b, err := rows.LockBudget(t, "roll over", budgetID)
		if err != nil || !due(t, b) {
			return err
		}
		if err := moves.Turnable(t, b); err != nil {
			return err
		}
		list, err := rows.LockBuckets(t, b.ID)
		if err != nil {
			return err
		}
		for i := range list {
			if row := &list[i]; row.Live() && row.Halted == "" &&
				row.Status != string(ledger.Closing) {
				out.Closing = append(out.Closing, row.Epoch.Bucket)
			}
		}
		if len(out.Closing) > 0 {
			return nil
		}
		if err := turn(t, b); err != nil {
			return err
		}
		if b.IsOver == 1 {
			_, err := t.Exec(listOffline, engine.ToMS(t.Now), b.ID)
			return err
		}
		all := make([]*rows.Bucket, len(list))
		for i := range list {
			all[i] = &list[i]
		}
		if err := moves.RestartCounts(t, all...); err != nil {
			return err
		}
		out.Begun, err = spread(t, b, list)
		return err
	})
	if err != nil {
		return counter.Rollover{}, err
	}
	return out, nil
}

// turn continues period by period to the one that contains the present instant.
func turn(t *engine.Tx, b *rows.Budget) error {
	d, p := b.Definition(), b.PeriodNow()
	for range periodsAtOnce {
		next, ok := allocation.Next(d, p, t.Now)
		used := int64(0)
		if ok && next.Start.Before(p.End) {
			since := engine.ToMS(next.Start)
			if _, err := t.Get(&used, selectUsedSince, b.ID, since, since); err != nil {
				return err
			}
		}
		turned := allocation.RollOver(d, p, next, ok, allocation.Account{Unfunded: b.Unfunded,
			Undistributed: b.Undistributed, Pending: b.PendingShrink, Used: used})
		if err := moves.Leave(t, b.ID, p.Number, turned.Left); err != nil {
			return err
		}
		if err := moves.Units(t, b, turned.Moved); err != nil {
			return err
		}
		p = turned.Period
		if err := moves.InsertPeriod(t, b.ID, p); err != nil {
			return err
		}
		if p.Over || !p.OverAt(t.Now) {
			break
		}
	}
	return moves.Turn(t, b, p)
}

// spread hands out what may be released, evenly over the buckets that are open or begin their next
// epochs now. begun are those that got units. The newest epochs are locked. Buckets that are still
// closing begin theirs when they need units.
func spread(t *engine.Tx, b *rows.Budget, list []rows.Bucket) (begun []int64, err error) {
	drained, err := moves.Drained(t)
	if err != nil {
		return nil, err
	}
	var takers []*rows.Bucket
	for i := range list {
		row := &list[i]
		open := row.MayGrow() && row.Period == b.Period && row.ListStatus == rows.Online
		if row.Live() && !open || drained[row.Partition()] || len(takers) == counter.MaxEpochs ||
			row.Halted != "" && row.Status != string(ledger.Lost) ||
			row.OfflineBy == string(bucket.ByOperator) || row.Retired() {
			continue
		}
		takers = append(takers, row)
	}
	var portions []moves.Portion
	var begin []*rows.Bucket
	sum := int64(0)
	for i, share := range allocation.Shares(b.Definition(), b.Releasable(t.Now), len(takers)) {
		if share == 0 {
			break
		}
		if !takers[i].Live() {
			begin = append(begin, takers[i])
		}
		begun = append(begun, takers[i].Epoch.Bucket)
		portions = append(portions, moves.Portion{Row: takers[i], Units: share})
		sum += share
	}
	if err := moves.Begin(t, "hand out", b, begin...); err != nil {
		return nil, err
	}
	if err := moves.Give(t, b, moves.Apply, portions...); err != nil {
		return nil, err
	}
	return begun, moves.Units(t, b, allocation.Movement{Undistributed: -sum})
}
