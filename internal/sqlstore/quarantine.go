package sqlstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectHome = `SELECT b.instance, b.lane, e.acknowledged_seq
		FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id
		WHERE e.bucket_id = ? AND e.epoch = ?`
	insertQuarantine = `INSERT INTO quarantine (bucket_id, epoch, budget_id, instance, lane,
		quantity, released_quantity, cause, created_at) VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?)`
	addQuarantined = `UPDATE budget_management_bucket
		SET quarantined_quantity = quarantined_quantity + ?
		WHERE id = ? AND quarantined_quantity + ? >= 0`
)

// homeRow says where an epoch lives and what of it was acknowledged.
type homeRow struct {
	Instance     string `db:"instance"`
	Lane         int    `db:"lane"`
	Acknowledged int64  `db:"acknowledged_seq"`
}

func (r *homeRow) lane() bucket.Lane { return bucket.Lane{Instance: r.Instance, Index: r.Lane} }

// EndLost ends an epoch whose store lost its memory. See bucket.Quarantines. Keeps I1, I2.
func (db *DB) EndLost(ctx context.Context, order bucket.LostOrder) (
	out bucket.Settlement, err error) {
	err = db.write(ctx, "end lost", func(t *tx) error {
		out = bucket.Settlement{}
		rows, budgets, err := t.lockWithBudgets("end lost", []bucket.Ref{order.Ref})
		if err != nil {
			return err
		}
		row := rows[at(order.Ref)]
		if row == nil || !row.live() {
			return nil
		}
		var home homeRow
		if _, err := t.get(&home, selectHome, row.Bucket, row.Number); err != nil {
			return err
		}
		if row.Status != string(ledger.Opening) && !safeguard.Off(safeguard.UnheardNodes) {
			if out.Unheard, err = t.unheard(home.lane(), row.Activation); err != nil {
				return err
			}
		}
		unknown := home.Acknowledged > row.DrainedSeq
		fenced := row.Fenced != "" && row.Status != string(ledger.Opening) // nothing was ever deducted in that one
		if len(out.Unheard) > 0 && !order.Force {
			return nil
		}
		if out.Beyond = len(out.Unheard) == 0 && unknown && !fenced && !order.Drained; out.Beyond {
			return nil
		}
		out.Ended = true
		if err := t.end(ledger.Lost, row); err != nil {
			return err
		}
		if len(out.Unheard) == 0 && !unknown && !fenced || safeguard.Off(safeguard.Quarantine) {
			out.Returned = row.Outstanding
			return t.comeBack(budgets[row.Budget], coming{row: row, never: row.Outstanding})
		}
		out.Quarantined = row.Outstanding
		return t.quarantine(row, home.lane(), cause(row, &home, out.Unheard))
	})
	if err != nil {
		return bucket.Settlement{}, err
	}
	return out, nil
}

// cause says why an epoch's units could not be returned.
func cause(row *epochRow, home *homeRow, unheard []string) string {
	switch {
	case row.Fenced != "":
		return "the bucket was fenced: " + row.Fenced
	case len(unheard) > 0:
		return "nodes that did not report: " + strings.Join(unheard, ", ")
	}
	return fmt.Sprintf("accepted up to log position %d, the log ended at %d", home.Acknowledged,
		row.DrainedSeq)
}

// quarantine puts the units of an epoch, which has just been ended, into Q. lane is where it lived.
func (t *tx) quarantine(row *epochRow, lane bucket.Lane, why string) error {
	if row.Outstanding == 0 {
		return nil
	}
	err := t.hit(1, insertQuarantine, row.Bucket, row.Number, row.Budget,
		[]byte(lane.Instance), lane.Index, row.Outstanding,
		[]byte(strings.ToValidUTF8(why[:min(len(why), maxFenced)], "")), toMS(t.now))
	if err != nil {
		return err
	}
	return t.addQuarantined(row.Budget, row.Outstanding)
}

// addQuarantined moves units into Q, out of it where they are negative. They have left O, so
// out_quantity stays. The budget is locked.
func (t *tx) addQuarantined(budgetID, units int64) error {
	return t.hit(1, addQuarantined, units, budgetID, units)
}

const (
	quarantineColumns = `q.bucket_id, q.epoch, q.budget_id, q.quantity, q.released_quantity, q.cause,
		q.created_at, b.sharding_bucket_key AS bucket_key, e.period`
	selectQuarantines = `SELECT ` + quarantineColumns + ` FROM quarantine q
		JOIN sharding_budget_management_bucket b ON b.id = q.bucket_id
		JOIN bucket_epoch e ON e.bucket_id = q.bucket_id AND e.epoch = q.epoch
		WHERE q.budget_id = ? ORDER BY q.bucket_id, q.epoch`
	selectProvable = `SELECT ` + quarantineColumns + ` FROM quarantine q /*by quarantine_held*/
		JOIN sharding_budget_management_bucket b ON b.id = q.bucket_id
		JOIN bucket_epoch e ON e.bucket_id = q.bucket_id AND e.epoch = q.epoch
		WHERE q.is_held = 1 AND e.acknowledged_seq <= e.drained_seq AND LENGTH(e.fenced) = 0
		AND NOT EXISTS (SELECT 1 FROM lane_use u WHERE u.instance = q.instance AND u.lane = q.lane
			AND u.activation = e.activation AND u.is_reported = 0)
		ORDER BY q.bucket_id, q.epoch LIMIT ?`
	raiseReleased = `UPDATE quarantine SET released_quantity = released_quantity + ?
		WHERE bucket_id = ? AND epoch = ? AND released_quantity = ?`
	insertRelease = `INSERT INTO quarantine_release (budget_id, request_id, bucket_id, epoch, quantity,
		asked_quantity, reason, released_by, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
	selectReleased = `SELECT COALESCE(SUM(quantity), 0) AS quantity,
		COALESCE(MAX(asked_quantity), 0) AS asked, COUNT(*) AS found
		FROM quarantine_release WHERE budget_id = ? AND request_id = ?`
)

type quarantineRow struct {
	Bucket   int64  `db:"bucket_id"`
	Epoch    int64  `db:"epoch"`
	Budget   int64  `db:"budget_id"`
	Quantity int64  `db:"quantity"`
	Released int64  `db:"released_quantity"`
	Cause    string `db:"cause"`
	Created  int64  `db:"created_at"`
	Key      string `db:"bucket_key"`
	Period   int64  `db:"period"`
}

func (r *quarantineRow) quarantine() bucket.Quarantine {
	return bucket.Quarantine{Bucket: r.Bucket, Key: r.Key, Epoch: r.Epoch, Quantity: r.Quantity,
		Released: r.Released, Cause: r.Cause, At: fromMS(r.Created)}
}

// Quarantined lists a budget's quarantines.
func (db *DB) Quarantined(ctx context.Context, budgetID int64, limit int) (
	out []bucket.Quarantine, err error) {
	err = db.read(ctx, "quarantines", func(r *reader) error {
		var rows []quarantineRow
		if err := r.list(&rows, selectQuarantines+" LIMIT ?", budgetID, limit); err != nil {
			return err
		}
		out = make([]bucket.Quarantine, len(rows))
		for i := range rows {
			out[i] = rows[i].quarantine()
		}
		return nil
	})
	return out, err
}

// ReleaseProven moves units Q -> U whose proof came later. See bucket.Quarantines. Keeps I1, I2.
func (db *DB) ReleaseProven(ctx context.Context, limit int) (units int64, err error) {
	var found []quarantineRow
	err = db.read(ctx, "quarantines", func(r *reader) error {
		return r.list(&found, selectProvable, limit)
	})
	if err != nil || len(found) == 0 {
		return 0, err
	}
	err = db.write(ctx, "release", func(t *tx) error {
		units = 0
		// What was proven stays so: only how much is still held has to be read again, locked.
		budgets := map[int64]bool{}
		for _, row := range found {
			budgets[row.Budget] = true
		}
		wanted := func(row *quarantineRow) bool {
			return slices.ContainsFunc(found, func(f quarantineRow) bool {
				return f.Bucket == row.Bucket && f.Epoch == row.Epoch
			})
		}
		for _, id := range slices.Sorted(maps.Keys(budgets)) {
			released, err := t.release(bucket.ReleaseOrder{Budget: id, Reason: "every node has reported"},
				wanted)
			if err != nil {
				return err
			}
			units += released
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return units, nil
}

// Release moves units Q -> U. See bucket.Quarantines. Keeps I1.
func (db *DB) Release(ctx context.Context, order bucket.ReleaseOrder) (
	units int64, replayed bool, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	err = db.write(ctx, "release", func(t *tx) error {
		b, err := t.lockBudget("release", order.Budget)
		if err != nil {
			return err
		}
		var earlier struct {
			Quantity int64 `db:"quantity"`
			Asked    int64 `db:"asked"`
			Found    int64 `db:"found"`
		}
		_, err = t.get(&earlier, selectReleased, order.Budget, []byte(order.RequestID))
		switch {
		case err != nil:
			return err
		case earlier.Found > 0 && earlier.Asked != order.Quantity:
			return budget.Refuse(budget.RequestConflict, "release",
				"request %q released another quantity", order.RequestID)
		case earlier.Found > 0:
			units, replayed = earlier.Quantity, !(t.unsure && tried)
			return nil
		}
		if err := order.Refusal(b.Quarantined); err != nil {
			return err
		}
		replayed, tried = false, true
		units, err = t.release(order, func(*quarantineRow) bool { return true })
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return units, replayed, nil
}

// release takes units out of quarantines in the order of (bucket, epoch), all that is held where
// the order asks for 0. It locks the budget.
func (t *tx) release(order bucket.ReleaseOrder, wanted func(*quarantineRow) bool) (int64, error) {
	b, err := t.lockBudget("release", order.Budget)
	if err != nil {
		return 0, err
	}
	var rows []quarantineRow
	if err := t.list(&rows, selectQuarantines+locked, order.Budget); err != nil {
		return 0, err
	}
	var released []coming
	left, moved := order.Quantity, int64(0)
	if left == 0 {
		left = budget.MaxAmount
	}
	for i := range rows {
		row := &rows[i]
		n := min(row.Quantity-row.Released, left)
		if n == 0 || !wanted(row) {
			continue
		}
		if err := t.hit(1, raiseReleased, n, row.Bucket, row.Epoch, row.Released); err != nil {
			return 0, err
		}
		err := t.hit(1, insertRelease, order.Budget, []byte(order.RequestID), row.Bucket, row.Epoch, n,
			order.Quantity, []byte(order.Reason), []byte(order.By), toMS(t.now))
		if err != nil {
			return 0, err
		}
		left, moved = left-n, moved+n
		released = append(released, coming{never: n, row: &epochRow{Bucket: row.Bucket, Number: row.Epoch,
			Period: row.Period}})
	}
	if moved == 0 {
		return 0, nil
	}
	if err := t.addQuarantined(order.Budget, -moved); err != nil {
		return 0, err
	}
	return moved, t.comeBack(b, released...)
}

const selectHeads = `SELECT id AS bucket_id, epoch FROM sharding_budget_management_bucket
	WHERE budget_id = ?`

// CancelKnown is Cancel as long as no epoch has begun. See bucket.Quarantines. Keeps I1, I4, I5.
func (db *DB) CancelKnown(ctx context.Context, budgetID int64, requestID string,
	known []bucket.Ref) (d ledger.Deduction, stale bool, err error) {
	err = db.write(ctx, "cancel", func(t *tx) error {
		stale = false
		if _, err := t.lockBudget("cancel", budgetID); err != nil {
			return err
		}
		found, err := t.lockDeduction(bucket.ID{Budget: budgetID, RequestID: requestID})
		if err != nil {
			return err
		}
		if found == nil && !safeguard.Off(safeguard.KnownEpochs) {
			if stale, err = t.begun(budgetID, known); err != nil || stale {
				return err
			}
		}
		if d, err = t.cancel(found, budgetID, requestID); err != nil || found != nil {
			return err
		}
		return t.noteVoid(budgetID, requestID)
	})
	if err != nil || stale {
		return ledger.Deduction{}, stale && err == nil, err
	}
	return d, false, nil
}

// begun reports whether a bucket of a budget, which is locked, has another newest epoch than known.
func (t *tx) begun(budgetID int64, known []bucket.Ref) (bool, error) {
	epochs := make(map[int64]int64, len(known))
	for _, ref := range known {
		epochs[ref.Bucket] = ref.Epoch
	}
	var rows []struct {
		Bucket int64 `db:"bucket_id"`
		Epoch  int64 `db:"epoch"`
	}
	if err := t.list(&rows, selectHeads, budgetID); err != nil {
		return false, err
	}
	for _, row := range rows {
		if epochs[row.Bucket] != row.Epoch {
			return true, nil
		}
	}
	return false, nil
}

const (
	selectLastVoid = `SELECT COALESCE(MAX(number), 0) FROM void_request WHERE budget_id = ?`
	insertVoid     = `INSERT INTO void_request (budget_id, number, request_id) VALUES (?, ?, ?)`
	selectVoids    = `SELECT request_id FROM void_request WHERE budget_id = ? AND number > ?
		ORDER BY number LIMIT ?`
)

// noteVoid lists a request id that has got its tombstone. The budget is locked, so the numbers are
// in the order of the commits and have no gap.
func (t *tx) noteVoid(budgetID int64, requestID string) error {
	var last int64
	if _, err := t.get(&last, selectLastVoid, budgetID); err != nil {
		return err
	}
	return t.hit(1, insertVoid, budgetID, last+1, []byte(requestID))
}

// Voids lists request ids with a tombstone. See bucket.Quarantines.
func (db *DB) Voids(ctx context.Context, budgetID, after int64, limit int) (ids []string, err error) {
	err = db.read(ctx, "voids", func(r *reader) error {
		var rows [][]byte
		if err := r.list(&rows, selectVoids, budgetID, after, limit); err != nil {
			return err
		}
		ids = make([]string, len(rows))
		for i, id := range rows {
			ids[i] = string(id)
		}
		return nil
	})
	return ids, err
}
