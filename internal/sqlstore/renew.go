package sqlstore

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Renew ends a bucket's epoch and gives the bucket its next one. See bucket.Recycles. Keeps I1.
func (db *DB) Renew(ctx context.Context, order bucket.Renewal) (out bucket.Handout, err error) {
	made := int64(0) // the epoch that an earlier attempt made, committed or not
	err = db.write(ctx, "recycle", func(t *tx) error {
		out = bucket.Handout{}
		b, err := t.lockBudget("recycle", order.Budget)
		if err != nil {
			return err
		}
		var row bucketRow
		found, err := t.get(&row, selectBucket, order.Ref.Bucket)
		if err != nil || !found || row.Budget != order.Budget {
			return err
		}
		rows, err := t.lockEpochs(row.position())
		if err != nil {
			return err
		}
		row.epochRow = *rows[row.position()]
		if t.unsure && row.Number == made && row.Status == string(ledger.Opening) {
			return t.made(&row, &out)
		}
		if ended, err := t.endForRenewal(b, &row, order); err != nil || !ended {
			return err
		}
		if row.ListStatus != online && row.OfflineBy != string(bucket.ByService) || b.IsOver == 1 {
			return nil
		}
		made = row.Number + 1
		out, err = t.renew(b, &row, order.Units)
		return err
	})
	if err != nil {
		return bucket.Handout{}, err
	}
	return out, nil
}

// endForRenewal ends the epoch that a renewal names, O -> U, unless it has ended. false: the renewal is
// not for this bucket as it is.
func (t *tx) endForRenewal(b *budgetRow, row *bucketRow, order bucket.Renewal) (bool, error) {
	switch {
	case row.Number != order.Ref.Epoch:
		return false, nil
	case !row.live():
		return true, nil
	case order.Close == nil || row.Status != string(ledger.Closing):
		return false, nil
	}
	_, err := t.closeInto(b, &row.epochRow, *order.Close, nil, 0)
	return err == nil, err
}

// renew gives a bucket whose epoch has ended its next one, with a first grant of up to so many units.
func (t *tx) renew(b *budgetRow, row *bucketRow, units int64) (out bucket.Handout, err error) {
	if err := t.begin("recycle", b, []*bucketRow{row}); err != nil {
		return out, err
	}
	if units = min(units, b.releasable(t.now)); units > 0 {
		orders, err := t.grant(1, granting{&row.epochRow, units, ordinaryKey(&row.epochRow)})
		if err != nil {
			return out, err
		}
		if err := t.addUndistributed(b.ID, -units); err != nil {
			return out, err
		}
		row.OutQuantity, row.OutCnt = row.OutQuantity+units, 1
		out.Grants = []bucket.PendingGrant{{Lane: row.lane(), Order: orders[0]}}
	}
	out.Opened = []bucket.Bucket{row.bucket()}
	return out, nil
}

// made is what an earlier attempt of this transaction, which was committed after all, has opened.
func (t *tx) made(row *bucketRow, out *bucket.Handout) error {
	out.Opened = []bucket.Bucket{row.bucket()}
	var amount int64
	found, err := t.get(&amount, selectGrantAmount, row.Bucket, row.Number, 1)
	if err != nil || !found {
		return err
	}
	out.Grants = []bucket.PendingGrant{{Lane: row.lane(),
		Order: bucket.GrantOrder{Ref: row.ref(), Number: 1, Amount: amount}}}
	return nil
}

const (
	selectLastEntries = `SELECT b.id AS bucket_id, e.next_entry - 1 AS entry
		FROM sharding_budget_management_bucket b /*by budget_id*/
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE b.budget_id = ? AND e.next_entry > 1`
	selectUsed = `SELECT d.bucket_id, SUM(d.amount) AS units, MAX(d.amount) AS largest,
		MIN(d.counted_at) AS since
		FROM deduction d /*by deduction_entry*/ WHERE `
)

// Demand reads what each bucket of a budget sold lately. See bucket.Recycles.
func (db *DB) Demand(ctx context.Context, budgetID int64) (map[int64]bucket.Used, error) {
	out := map[int64]bucket.Used{}
	err := db.read(ctx, "demand", func(r *reader) error {
		clear(out)
		var last []struct {
			Bucket int64 `db:"bucket_id"`
			Entry  int64 `db:"entry"`
		}
		if err := r.list(&last, selectLastEntries, budgetID); err != nil {
			return err
		}
		for chunk := range slices.Chunk(last, spanChunk) {
			list := padded(r.conn.dialect, chunk)
			args := make([]any, 0, 3*len(list))
			for _, l := range list {
				args = append(args, l.Bucket, l.Entry-bucket.LastDeductions, l.Entry)
			}
			var rows []struct {
				Bucket  int64 `db:"bucket_id"`
				Units   int64 `db:"units"`
				Largest int64 `db:"largest"`
				Since   int64 `db:"since"`
			}
			query := selectUsed + repeat(deductionSpan, " OR ", len(list)) + ` GROUP BY d.bucket_id`
			if err := r.list(&rows, query, args...); err != nil {
				return err
			}
			for _, row := range rows {
				out[row.Bucket] = bucket.Used{Units: row.Units, Largest: row.Largest, Since: fromMS(row.Since)}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
