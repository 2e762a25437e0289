package sqlstore

import (
	"github.com/budgetd/budgetd/ledger"
)

// Most deductions are no holds, and an index of deduction has an entry of each of its rows: what finds
// holds are tables of their own. Their rows are written by whoever has locked, or makes, the deduction.
const (
	insertOpenHold = `INSERT INTO open_hold (budget_id, request_id, due_ms, bucket_id, epoch)`
	openHoldWidth  = 5
	insertMember   = `INSERT INTO group_member (budget_id, hold_group, request_id)`
	memberWidth    = 3
	extendOpenHold = `UPDATE open_hold SET due_ms = ? WHERE budget_id = ? AND request_id = ?`
	endOpenHolds   = `DELETE /*of e*/ FROM open_hold AS e /*by PRIMARY*/ WHERE `
	ofOpenHold     = `(e.budget_id = ? AND e.request_id = ?)`
)

// insertHolds writes by what the holds among new deductions, which are sorted by key, are found.
func (t *tx) insertHolds(made []*ledger.Deduction) error {
	var holds, members []any
	for _, d := range made {
		if d.State == ledger.StateHeld {
			holds = append(holds, d.Budget, []byte(d.RequestID), toMS(d.HoldUntil), d.Position.Bucket,
				d.Position.Epoch)
		}
		if d.Group != "" {
			members = append(members, d.Budget, []byte(d.Group), []byte(d.RequestID))
		}
	}
	if err := t.insert(insertOpenHold, openHoldWidth, holds); err != nil {
		return err
	}
	return t.insert(insertMember, memberWidth, members)
}

// extendHold gives a locked hold another end.
func (t *tx) extendHold(d ledger.Deduction) error {
	until, id := toMS(d.HoldUntil), []byte(d.RequestID)
	if err := t.hit(1, updateHoldUntil, until, d.Budget, id); err != nil {
		return err
	}
	return t.hit(1, extendOpenHold, until, d.Budget, id)
}

// endOpenHolds forgets locked holds that have ended: keys are their budgets and ids, in turn.
func (t *tx) endOpenHolds(keys ...any) error {
	return t.hitAll(endOpenHolds, nil, ofOpenHold, keys)
}
