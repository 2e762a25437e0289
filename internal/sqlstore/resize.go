package sqlstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

const (
	closeEpochs  = `UPDATE bucket_epoch /*by PRIMARY*/ SET status = 'closing' WHERE `
	closeWhere   = `(bucket_id = ? AND epoch = ? AND status = 'open')`
	retireBucket = `UPDATE sharding_budget_management_bucket SET status = 'offline', offline_by = 'resize',
		is_idle = 0, updated_at = ? WHERE id = ?`
	reviveBucket = `UPDATE sharding_budget_management_bucket SET status = 'online', offline_by = '',
		is_idle = ?, updated_at = ? WHERE id = ?`
	countAllAnew = `UPDATE sharding_budget_management_bucket SET counters_from = epoch + 1 WHERE budget_id = ?`
	finishResize = `UPDATE budget_management_bucket SET bucket_quantity = ?, resize_quantity = 0,
		version = version + 1, list_version = list_version + 1, updated_at = ? WHERE id = ?`
)

// Resize goes on with a change of the number of buckets. See bucket.Resizes. Keeps I1, I4.
func (db *DB) Resize(ctx context.Context, budgetID int64, lanes []bucket.Lane) (
	out bucket.Resizing, err error) {
	err = db.write(ctx, "resize", func(t *tx) error {
		out = bucket.Resizing{}
		b, err := t.lockBudget("resize", budgetID)
		if err != nil || b.Resize == 0 {
			return err
		}
		if out.Target = b.Resize; len(lanes) != b.Resize {
			return nil
		}
		rows, err := t.lockBucketsOf(map[int64]*budgetRow{b.ID: b})
		if err != nil {
			return err
		}
		if out.Ending, err = t.endForResize(b, rows); err != nil {
			return err
		}
		if b.halted() && len(out.Ending) > 0 {
			return nil
		}
		out.Target = 0
		out.Opened, err = t.resized(b, rows, lanes)
		return err
	})
	if err != nil {
		return bucket.Resizing{}, err
	}
	return out, nil
}

// endForResize ends the epochs that have to end: in store mode all of them, else those of the buckets
// that retire. Nothing was ever deducted from one that is opening: it is lost at once. It returns those
// that are closing.
func (t *tx) endForResize(b *budgetRow, rows []*bucketRow) (ending []bucket.EpochOf, err error) {
	var closing []any
	var opening []*epochRow
	var back []coming
	for _, row := range rows {
		if !row.live() || !b.halted() && row.Ordinal < b.Resize {
			continue
		}
		switch row.Status {
		case string(ledger.Opening):
			opening, back = append(opening, &row.epochRow), append(back, coming{row: &row.epochRow, never: row.Outstanding})
			continue
		case string(ledger.Open):
			closing = append(closing, row.Bucket, row.Number)
			row.Status = string(ledger.Closing)
		}
		ending = append(ending, row.of())
	}
	if len(opening) > 0 {
		if err := t.end(ledger.Lost, opening...); err != nil {
			return nil, err
		}
		for _, row := range opening {
			row.Status, row.Outstanding = string(ledger.Lost), 0
		}
		if err := t.comeBack(b, back...); err != nil {
			return nil, err
		}
	}
	if len(closing) == 0 {
		return ending, nil
	}
	if err := t.hitAll(closeEpochs, nil, closeWhere, closing); err != nil {
		return nil, err
	}
	return ending, t.listChanged(b.ID, 1)
}

// resized gives a budget its new number of buckets: those beyond it retire, those that had retired below
// it come back, missing ones are made, and every online one whose epoch has ended gets another. It
// returns the buckets that have to be opened.
func (t *tx) resized(b *budgetRow, rows []*bucketRow, lanes []bucket.Lane) (opened []bucket.Bucket, err error) {
	now := toMS(t.now)
	for _, row := range rows {
		switch {
		case row.Ordinal >= b.Resize && !row.retired():
			row.ListStatus, row.OfflineBy = offline, string(bucket.ByResize)
			err = t.hit(1, retireBucket, now, row.Bucket)
		case row.Ordinal < b.Resize && row.retired():
			err = t.revive(row)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := t.keepOne(b, rows); err != nil {
		return nil, err
	}
	left, err := t.drainingLanes()
	if err != nil {
		return nil, err
	}
	for _, lane := range lanes[min(len(rows), len(lanes)):] {
		if slices.Contains(left, lane) {
			return nil, draining("resize", lane)
		}
	}
	made, err := t.addBuckets(b, len(rows), lanes)
	if err != nil {
		return nil, err
	}
	// Values are routed to other buckets from now on.
	if _, err := t.exec(countAllAnew, b.ID); err != nil {
		return nil, err
	}
	var ended []*bucketRow
	for _, row := range append(rows, made...) {
		row.Counters = row.Number + 1
		if row.ListStatus == online && !row.live() && !slices.Contains(left, row.lane()) && b.IsOver == 0 {
			ended = append(ended, row)
		}
	}
	if err := t.begin("resize", b, ended); err != nil {
		return nil, err
	}
	for _, row := range ended {
		opened = append(opened, row.bucket())
	}
	if b.IsOver == 1 {
		if _, err := t.exec(listOffline, now, b.ID); err != nil {
			return nil, err
		}
	}
	return opened, t.hit(1, finishResize, b.Resize, now, b.ID)
}

// revive brings a bucket that is not in the list back into it.
func (t *tx) revive(row *bucketRow) error {
	row.ListStatus, row.OfflineBy = online, ""
	idle := 1
	if row.live() {
		idle = 0
	}
	return t.hit(1, reviveBucket, idle, toMS(t.now), row.Bucket)
}

// keepOne brings the first bucket back that an operator took offline, if an effective budget would have no other: the
// ones that retire may be all that were left (I5).
func (t *tx) keepOne(b *budgetRow, rows []*bucketRow) error {
	if len(rows) < b.Resize || b.definition().StatusAt(t.now) != budget.Effective {
		return nil
	}
	for _, row := range rows[:b.Resize] {
		if row.OfflineBy != string(bucket.ByOperator) {
			return nil
		}
	}
	return t.revive(rows[0])
}

// addBuckets makes the buckets with ordinals from `from`. Their first epoch has ended before it began:
// only a budget's first buckets have one in which no id can have been accepted before (I4, store mode).
func (t *tx) addBuckets(b *budgetRow, from int, lanes []bucket.Lane) (rows []*bucketRow, err error) {
	if from >= len(lanes) {
		return nil, nil
	}
	first, err := t.numbers(sequenceBucket, len(lanes)-from)
	if err != nil {
		return nil, err
	}
	now := toMS(t.now)
	var buckets, epochs []any
	for i, lane := range lanes[from:] {
		id, ordinal := first+int64(i), from+i
		row := &bucketRow{Ordinal: ordinal, Key: fmt.Sprintf("%s:bucket-%d", b.Name, ordinal),
			ListStatus: online, Counters: 2, UpdatedAt: now}
		row.Instance, row.Lane = lane.Instance, lane.Index
		row.epochRow = epochRow{Bucket: id, Number: 1, Budget: b.ID, Status: string(ledger.Lost),
			Activation: 1, NextGrant: 1, NextEntry: 1, Period: b.Period, LimitsVersion: b.LimitsVersion}
		buckets = append(buckets, id, b.ID, ordinal, []byte(row.Key), []byte(lane.Instance), lane.Index,
			0, 0, 0, online, "", 1, now, now)
		values := row.opening(now)
		values[3] = row.Status
		epochs = append(epochs, values...)
		rows = append(rows, row)
	}
	if err := t.insert(insertBucket, bucketWidth, buckets); err != nil {
		return nil, err
	}
	return rows, t.insert(insertEpoch, epochWidth, epochs)
}
