package sqlstore

import (
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

const (
	bringOnline = `UPDATE sharding_budget_management_bucket /*by PRIMARY*/ SET status = 'online',
		offline_by = '', is_idle = 0, epoch = epoch + 1, updated_at = ? WHERE `
	countAnew  = `UPDATE sharding_budget_management_bucket /*by PRIMARY*/ SET counters_from = epoch + 1 WHERE `
	changeList = `UPDATE budget_management_bucket SET list_version = list_version + ? WHERE id = ?`
)

// listChanged notes changes of a budget's bucket list or of its epochs' statuses.
func (t *tx) listChanged(budgetID int64, changes int) error {
	return t.hit(1, changeList, changes, budgetID)
}

// begin gives buckets, whose newest epochs are locked and have ended, their next epochs: opening,
// without units, under their lanes' present activations. It brings them online and replaces the
// epochs in the rows.
func (t *tx) begin(op string, b *budgetRow, rows []*bucketRow) error {
	return t.beginAll(op, map[int64]*budgetRow{b.ID: b}, rows)
}

// beginAll is begin for buckets of several budgets.
func (t *tx) beginAll(op string, budgets map[int64]*budgetRow, rows []*bucketRow) error {
	if len(rows) == 0 {
		return nil
	}
	lanes := make([]bucket.Lane, len(rows))
	for i, row := range rows {
		lanes[i] = row.lane()
	}
	activations, err := t.activations(op, lanes)
	if err != nil {
		return err
	}
	now := toMS(t.now)
	var epochs, buckets, forgotten []any
	changes := map[int64]int{}
	for i, row := range rows {
		old, b := row.epochRow, budgets[row.Budget]
		next := epochRow{
			Bucket: old.Bucket, Number: old.Number + 1, Budget: b.ID, Status: string(ledger.Opening),
			Activation: activations[lanes[i]], NextGrant: 1, NextEntry: old.NextEntry, Period: b.Period,
			LimitsVersion: b.LimitsVersion,
			PeriodEndMS:   commitsEndMS(budget.Durability(b.Durability), b.period()),
		}
		next.DrainedChain = ledger.OpenChain(next.Bucket, next.Number, next.Activation)
		epochs = append(epochs, next.opening(now)...)
		buckets = append(buckets, next.Bucket, old.Number)
		unsure := next.Activation != old.Activation || old.Status == string(ledger.Lost)
		if unsure && row.Counters != next.Number { // what its store counted may be gone, or broken
			forgotten = append(forgotten, next.Bucket, old.Number)
			row.Counters = next.Number
		}
		row.epochRow, row.ListStatus, row.OfflineBy, row.UpdatedAt = next, online, "", now
		changes[b.ID]++
	}
	if err := t.insert(insertEpoch, epochWidth, epochs); err != nil {
		return err
	}
	if err := t.hitAll(countAnew, nil, `(id = ? AND epoch = ?)`, forgotten); err != nil {
		return err
	}
	if err := t.hitAll(bringOnline, []any{now}, `(id = ? AND epoch = ?)`, buckets); err != nil {
		return err
	}
	return t.listsChanged(changes)
}

// Reopen gives a bucket whose newest epoch has ended a new one. See bucket.Transfers.
func (db *DB) Reopen(ctx context.Context, budgetID, bucketID int64) (
	out bucket.Handout, err error) {
	made := int64(0) // the epoch that an earlier attempt made, committed or not
	err = db.write(ctx, "reopen", func(t *tx) error {
		out = bucket.Handout{}
		b, err := t.lockBudget("reopen", budgetID)
		if err != nil {
			return err
		}
		var row bucketRow
		found, err := t.get(&row, selectBucket, bucketID)
		if err != nil || !found || row.Budget != budgetID {
			return err
		}
		rows, err := t.lockEpochs(row.position())
		if err != nil {
			return err
		}
		row.epochRow = *rows[row.position()]
		left, err := t.drainingLanes()
		if err != nil {
			return err
		}
		switch {
		case t.unsure && row.Number == made && row.Status == string(ledger.Opening):
		case row.retired() || b.halted() || slices.Contains(left, row.lane()):
			return nil
		case row.live() || b.IsOver == 1:
			return nil
		default:
			if err := t.begin("reopen", b, []*bucketRow{&row}); err != nil {
				return err
			}
			made = row.Number
		}
		out.Opened = []bucket.Bucket{row.bucket()}
		return nil
	})
	if err != nil {
		return bucket.Handout{}, err
	}
	return out, nil
}

const (
	openEpochs   = `UPDATE bucket_epoch /*by PRIMARY*/ SET status = 'open' WHERE `
	openWhere    = `(bucket_id = ? AND epoch = ? AND status = 'opening')`
	endingEpochs = `UPDATE bucket_epoch /*by PRIMARY*/ SET status = 'closing' WHERE `
	endingWhere  = `(bucket_id = ? AND epoch = ? AND status = 'open')`
	fenceEpoch   = `UPDATE bucket_epoch SET fenced = ?
		WHERE bucket_id = ? AND epoch = ? AND LENGTH(fenced) = 0`
	claimBucket = `UPDATE sharding_budget_management_bucket SET offline_by = 'operator', updated_at = ?
		WHERE id = ? AND epoch = ? AND status = 'offline' AND offline_by = 'service'`
	takeOffline = `UPDATE sharding_budget_management_bucket SET status = 'offline', offline_by = ?,
		is_idle = 0, updated_at = ? WHERE id = ?`
	countOnline = `SELECT COUNT(*) FROM sharding_budget_management_bucket
		WHERE budget_id = ? AND status = 'online'`
)

// MarkOpen moves epochs opening -> open.
func (db *DB) MarkOpen(ctx context.Context, refs []bucket.Ref) error {
	if len(refs) == 0 {
		return nil
	}
	return db.write(ctx, "open", func(t *tx) error {
		rows, budgets, err := t.lockWithBudgets("open", refs)
		if err != nil {
			return err
		}
		changes, keys, late := map[int64]int{}, []any(nil), []any(nil)
		for p, row := range rows {
			if row.Status != string(ledger.Opening) {
				continue
			}
			if changes[row.Budget]++; row.isLate(budgets[row.Budget]) {
				late = append(late, p.bucket, p.epoch)
			} else {
				keys = append(keys, p.bucket, p.epoch)
			}
		}
		if err := t.hitAll(openEpochs, nil, openWhere, keys); err != nil {
			return err
		}
		if err := t.hitAll(endingEpochs, nil, openWhere, late); err != nil {
			return err
		}
		return t.listsChanged(changes)
	})
}

// isLate reports whether an epoch is of a period that a roll-over has ended; in ledger mode that ended it too.
func (e *epochRow) isLate(b *budgetRow) bool {
	return b.Durability == string(budget.Store) && (e.Period != b.Period || b.IsOver == 1)
}

// Ending moves an epoch open -> closing. See bucket.Transfers. Error: LastBucket.
func (db *DB) Ending(ctx context.Context, budgetID int64, ref bucket.Ref, by bucket.OfflineBy,
	keep bool) (ending bool, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	err = db.write(ctx, "offline", func(t *tx) error {
		ending = false
		b, err := t.lockBudget("offline", budgetID)
		if err != nil {
			return err
		}
		rows, err := t.lockEpochs(at(ref))
		if err != nil {
			return err
		}
		row := rows[at(ref)]
		if row == nil || row.Budget != budgetID || row.Status != string(ledger.Open) {
			ending = row != nil && t.unsure && tried && row.Status == string(ledger.Closing)
			if row == nil || row.Budget != budgetID || by != bucket.ByOperator || keep || ending {
				return nil
			}
			return t.claim(b, row)
		}
		if !keep {
			if err := t.takeOffline(b, row, by); err != nil {
				return err
			}
		}
		ending, tried = true, true
		if err := t.hit(1, endingEpochs+endingWhere, row.Bucket, row.Number); err != nil {
			return err
		}
		return t.listChanged(budgetID, 1)
	})
	return ending && err == nil, err
}

// claim notes that an operator wants a bucket offline that the service took offline before, or whose epoch ends or has
// ended and would have another.
func (t *tx) claim(b *budgetRow, row *epochRow) error {
	claimed, err := t.exec(claimBucket, toMS(t.now), row.Bucket, row.Number)
	if err != nil {
		return err
	}
	if claimed == 0 {
		var bk bucketRow
		found, err := t.get(&bk, selectBucket, row.Bucket)
		if err != nil || !found || bk.Number != row.Number || bk.ListStatus != online || row.Status == string(ledger.Opening) {
			return err
		}
		if err := t.takeOffline(b, row, bucket.ByOperator); err != nil {
			return err
		}
	}
	return t.listChanged(b.ID, 1)
}

// takeOffline takes a bucket out of the bucket list unless it is the last one of an effective
// budget.
func (t *tx) takeOffline(b *budgetRow, row *epochRow, by bucket.OfflineBy) error {
	var others int
	if _, err := t.get(&others, countOnline, b.ID); err != nil {
		return err
	}
	if others == 1 && b.definition().StatusAt(t.now) == budget.Effective {
		return budget.Refuse(budget.LastBucket, "offline",
			"bucket %d is the last online one of budget %q, which is effective", row.Bucket, b.Name)
	}
	return t.hit(1, takeOffline, string(by), toMS(t.now), row.Bucket)
}

// maxFenced is the width of bucket_epoch.fenced.
const maxFenced = 512

// Fence stops a live epoch and notes why; the first reason stays. The list's version grows, so that
// no node goes on sending requests there.
func (db *DB) Fence(ctx context.Context, ref bucket.Ref, why string) error {
	if why == "" {
		why = "no reason was given"
	}
	return db.write(ctx, "fence", func(t *tx) error {
		rows, _, err := t.lockWithBudgets("fence", []bucket.Ref{ref})
		if err != nil {
			return err
		}
		row := rows[at(ref)]
		if row == nil || !row.live() || row.Fenced != "" {
			return nil
		}
		reason := []byte(strings.ToValidUTF8(why[:min(len(why), maxFenced)], ""))
		if err := t.hit(1, fenceEpoch, reason, row.Bucket, row.Number); err != nil {
			return err
		}
		return t.listChanged(row.Budget, 1)
	})
}
