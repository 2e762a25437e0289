package moves

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

// Kind is the origin of the units of a grant, as in grant_log.kind.
type Kind string

// The kinds of grants.
const (
	// Apply brings units that no bucket had before; it counts as an apply (adjust_cnt).
	Apply Kind = "apply"
	// Again brings units that came back.
	Again Kind = "again"
	// Collect brings units of other buckets.
	Collect Kind = "collect"
)

// The values of grant_log.status.
const grantDone, grantPending = "done", "pending"

// Portion is units for, or of, a bucket with its locked epoch; at least 1.
type Portion struct {
	Row   *rows.Bucket
	Units int64
}

const (
	insertGrants = `INSERT INTO grant_log (bucket_id, epoch, number, budget_id, kind, amount, status,
		created_at)`
	grantWidth   = 8
	giveToEpochs = `UPDATE bucket_epoch /*by PRIMARY*/ SET
		outstanding_quantity = outstanding_quantity + $value,
		next_grant = next_grant + 1 WHERE `
	giveWhere = `bucket_id = ? AND epoch = ? AND next_grant = ? AND status IN ('opening', 'open')
		AND LENGTH(halted) = 0`
	giveToBuckets = `UPDATE sharding_budget_management_bucket /*by PRIMARY*/ SET
		out_quantity = out_quantity + $value, sharding_quantity = $value, out_cnt = out_cnt + $value,
		collect_cnt = collect_cnt + $value, updated_at = $value WHERE `
	ofEpoch = `bucket_id = ? AND epoch = ?`
)

// Give moves units into locked epochs, at most one portion each. It raises O, writes a numbered
// grant, and raises the bucket's totals and, with Apply and Collect, its count of those. In store
// mode the grant is pending until the store has it, and its number is the row's NextGrant less 1.
// The caller takes the units from their source: Units, Draw, End. The totals of an unlimited
// budget's buckets stay 0: nothing is handed out of a total.
func Give(t *engine.Tx, b *rows.Budget, kind Kind, portions ...Portion) error {
	if len(portions) == 0 {
		return nil
	}
	status, now := grantDone, engine.ToMS(t.Now)
	applications, collects := int(OneIf(kind == Apply)), int(OneIf(kind == Collect))
	if b.Durability == string(budget.Store) {
		status = grantPending
	}
	var grants []any
	epochs := make([]engine.RowChange, len(portions))
	buckets := make([]engine.RowChange, len(portions))
	for i, p := range portions {
		id, epoch, number := p.Row.Epoch.Bucket, p.Row.Number, p.Row.NextGrant
		grants = append(grants, id, epoch, number, b.ID, string(kind), p.Units, status, now)
		epochs[i] = engine.RowChange{Key: []any{id, epoch}, Values: []any{p.Units},
			Where: []any{id, epoch, number}}
		buckets[i] = engine.RowChange{Key: []any{id},
			Values: []any{counted(b, p.Units), p.Units, applications, collects, now}, Where: []any{id}}
	}
	if err := t.Insert(insertGrants, grantWidth, grants); err != nil {
		return err
	}
	if err := t.ChangeRows(giveToEpochs, ofEpoch, giveWhere, epochs); err != nil {
		return err
	}
	if err := t.ChangeRows(giveToBuckets, `id = ?`, `id = ?`, buckets); err != nil {
		return err
	}
	for _, p := range portions {
		p.Row.Outstanding += p.Units
		p.Row.OutQuantity += counted(b, p.Units)
		p.Row.OutCnt += applications
		p.Row.CollectCnt += collects
		p.Row.NextGrant++
	}
	return nil
}

// counted returns what a grant adds to the units that its bucket got out of the budget's total.
func counted(b *rows.Budget, units int64) int64 {
	if b.Unlimited == 1 {
		return 0
	}
	return units
}
