package hold

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const selectHoldsOf = `SELECT h.request_id, h.hold_group, h.hold_until_ms, d.counted_at,
		d.amount - h.used
			+ (SELECT COALESCE(SUM(x.amount), 0) FROM extra x /*by PRIMARY*/
				WHERE x.budget_id = h.budget_id AND x.request_id = h.request_id)
			- (SELECT COALESCE(SUM(g.amount), 0) FROM give_back g /*by PRIMARY*/
				WHERE g.budget_id = h.budget_id AND g.request_id = h.request_id) AS amount,
		b.sharding_bucket_key
	FROM hold h /*by hold_due*/
	JOIN deduction d ON d.budget_id = h.budget_id AND d.request_id = h.request_id
	JOIN sharding_budget_management_bucket b ON b.id = h.bucket_id
	WHERE h.due_ms > 0 AND h.budget_id = ? ORDER BY h.due_ms LIMIT ?`

// HoldsOf returns the open holds of a budget, at most limit, by expiry, with what each still holds.
// It passes over the open holds of all budgets, by when they expire, until it has found enough.
func (l *Ledger) HoldsOf(ctx context.Context, budgetID int64, limit int) (
	out []bucket.OpenHold, err error) {
	var found []struct {
		RequestID string `db:"request_id"`
		Group     []byte `db:"hold_group"`
		UntilMS   int64  `db:"hold_until_ms"`
		Amount    int64  `db:"amount"`
		CountedAt int64  `db:"counted_at"`
		Key       string `db:"sharding_bucket_key"`
	}
	err = l.db.Read(ctx, "holds", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, selectHoldsOf, budgetID, limit)
	})
	for _, h := range found {
		out = append(out, bucket.OpenHold{RequestID: h.RequestID, Group: string(h.Group),
			Amount: h.Amount, BucketKey: h.Key, At: engine.FromMS(h.CountedAt),
			Until: engine.FromMS(h.UntilMS)})
	}
	return out, err
}
