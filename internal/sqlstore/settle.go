package sqlstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
)

const selectBucketsOf = `SELECT ` + bucketColumns + ` FROM sharding_budget_management_bucket b /*by budget_id*/
	JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
	WHERE b.budget_id IN (`

// Settle gives buckets whose epochs have ended new ones, and the units that came back a home. See
// bucket.Transfers. After an attempt whose commit stayed unknown the result may lack what that
// attempt did: it is in Unfinished. Keeps I1.
func (db *DB) Settle(ctx context.Context, budgetIDs []int64, without ...bucket.Lane) (
	out bucket.Handout, err error) {
	if len(budgetIDs) == 0 {
		return out, nil
	}
	err = db.write(ctx, "settle", func(t *tx) error {
		out = bucket.Handout{}
		budgets, err := t.lockBudgets(budgetIDs)
		if err != nil || len(budgets) == 0 {
			return err
		}
		maps.DeleteFunc(budgets, func(_ int64, b *budgetRow) bool { return b.halted() })
		all, err := t.lockBucketsOf(budgets)
		if err != nil {
			return err
		}
		lanes, err := t.takingLanes(without)
		if err != nil {
			return err
		}
		var ended []*bucketRow
		var shares []share
		for len(all) > 0 {
			n := slices.IndexFunc(all, func(row *bucketRow) bool { return row.Budget != all[0].Budget })
			if n < 0 {
				n = len(all)
			}
			e, s := settle(budgets[all[0].Budget], all[:n], t.now, lanes)
			ended, shares, all = append(ended, e...), append(shares, s...), all[n:]
		}
		if err := t.beginAll("settle", budgets, ended); err != nil {
			return err
		}
		if out.Grants, err = t.giveShares(shares); err != nil {
			return err
		}
		for _, row := range ended {
			out.Opened = append(out.Opened, row.bucket())
		}
		return nil
	})
	if err != nil {
		return bucket.Handout{}, err
	}
	return out, nil
}

// lockBucketsOf reads the buckets of budgets, by budget and ordinal, with their newest epochs locked.
func (t *tx) lockBucketsOf(budgets map[int64]*budgetRow) ([]*bucketRow, error) {
	ids := make([]int64, 0, len(budgets))
	for id := range budgets {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var all []*bucketRow
	var positions []position
	for chunk := range slices.Chunk(ids, listChunk) {
		args := t.numbersOf(chunk)
		var rows []bucketRow
		query := selectBucketsOf + repeat("?", ",", len(args)) + `) ORDER BY b.budget_id, b.ordinal`
		if err := t.list(&rows, query, args...); err != nil {
			return nil, err
		}
		for i := range rows {
			all, positions = append(all, &rows[i]), append(positions, rows[i].position())
		}
	}
	locked, err := t.lockEpochs(positions...)
	if err != nil {
		return nil, err
	}
	for _, row := range all {
		row.epochRow = *locked[row.position()]
	}
	return all, nil
}

// share is what a bucket is handed out.
type share struct {
	row   *bucketRow
	units int64
}

// settle decides for one budget which buckets get a new epoch and what each is handed out: those in
// the list whose epoch has ended get one in any case.
func settle(b *budgetRow, buckets []*bucketRow, now time.Time, lanes map[bucket.Lane]int64) (ended []*bucketRow, shares []share) {
	if b.period().OverAt(now) {
		return nil, nil // the roll-over is next
	}
	var takers []*bucketRow
	for _, row := range buckets {
		idle := row.ListStatus == online && !row.live()
		activation, taking := lanes[row.lane()]
		if !taking {
			continue
		}
		if idle {
			ended = append(ended, row)
		}
		if idle || row.mayTake(b, activation) {
			takers = append(takers, row)
		}
	}
	if b.releasable(now) == 0 || len(takers) == 0 {
		return ended, nil
	}
	for i, units := range allocation.Shares(b.definition(), b.releasable(now), len(takers)) {
		if units == 0 {
			break
		}
		shares = append(shares, share{takers[i], units})
		if row := takers[i]; !row.live() && row.ListStatus != online {
			ended = append(ended, row)
		}
	}
	return ended, shares
}

// giveShares moves units U -> O, one grant per bucket.
func (t *tx) giveShares(shares []share) (out []bucket.PendingGrant, err error) {
	if len(shares) == 0 {
		return nil, nil
	}
	grants, units := make([]granting, len(shares)), map[int64]int64{}
	for i, s := range shares {
		grants[i] = granting{&s.row.epochRow, s.units, ordinaryKey(&s.row.epochRow)}
		units[s.row.Budget] -= s.units
	}
	orders, err := t.grant(1, grants...)
	if err != nil {
		return nil, err
	}
	for i, s := range shares {
		s.row.OutQuantity += s.units
		s.row.OutCnt++
		out = append(out, bucket.PendingGrant{Lane: s.row.lane(), Order: orders[i]})
	}
	return out, t.addUndistributedAll(units)
}
