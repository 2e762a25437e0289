package returns

import (
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const selectBacks = `SELECT g.budget_id, g.request_id, g.kind, g.rollback_id, g.amount, g.is_whole,
		g.created_at FROM give_back g /*by PRIMARY*/ WHERE `

func idOf(d *ledger.Deduction) bucket.ID {
	return bucket.ID{Budget: d.Budget, RequestID: d.RequestID}
}

// sorted returns the ids in the order in which deductions are locked, each once.
func sorted(ids []bucket.ID) []bucket.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, rows.CompareIDs)
	return slices.Compact(ids)
}

// lock locks deductions by id, in key order, and adds them to those that are known.
func (s *execution) lock(ids []bucket.ID) ([]*deduction, error) {
	ids = sorted(ids)
	if err := s.lockBudgets(ids); err != nil {
		return nil, err
	}
	found, err := rows.LockDeductions(s.tx, ids)
	if err != nil {
		return nil, err
	}
	var out []*deduction
	for _, id := range ids {
		if d, known := found[id]; known {
			s.known[id] = &deduction{Deduction: d, stored: d, rollbacks: map[string]*ledger.Rollback{}}
			out = append(out, s.known[id])
		}
	}
	return out, nil
}

// lockOrders locks the deductions of orders, and reads their give-backs under the ids of the
// orders. A missing deduction is known as absent.
func (s *execution) lockOrders(orders []hold.Order) error {
	ids := make([]bucket.ID, len(orders))
	for i, o := range orders {
		ids[i] = bucket.ID{Budget: o.Budget, RequestID: o.RequestID}
	}
	if _, err := s.lock(ids); err != nil {
		return err
	}
	var keys [][]any
	for i, o := range orders {
		d := s.known[ids[i]]
		if d == nil {
			s.known[ids[i]] = &deduction{absent: true, rollbacks: map[string]*ledger.Rollback{}}
			continue
		}
		switch {
		case o.Kind == hold.Rollback && d.RolledBack > 0:
			keys = append(keys, backKey(ids[i], ledger.FeedRollback, o.RollbackID))
		case o.Kind == hold.Confirm && d.State != ledger.StateHeld && !d.HoldUntil.IsZero():
			keys = append(keys, backKey(ids[i], ledger.FeedConfirm, ""),
				backKey(ids[i], ledger.FeedExpire, ""))
		}
	}
	return s.readBacks(keys)
}

func backKey(id bucket.ID, kind ledger.FeedKind, rollbackID string) []any {
	return []any{id.Budget, []byte(id.RequestID), string(kind), []byte(rollbackID)}
}

// readBacks reads rows of give_back by key into the known deductions.
func (s *execution) readBacks(keys [][]any) error {
	for chunk := range slices.Chunk(keys, engine.ListChunk) {
		var read []struct {
			Budget     int64  `db:"budget_id"`
			RequestID  string `db:"request_id"`
			Kind       string `db:"kind"`
			RollbackID string `db:"rollback_id"`
			Amount     int64  `db:"amount"`
			IsWhole    int64  `db:"is_whole"`
			CreatedAt  int64  `db:"created_at"`
		}
		q := s.tx.Statement()
		q.SQL(selectBacks)
		q.Tuples([]string{"g.budget_id", "g.request_id", "g.kind", "g.rollback_id"}, chunk)
		if err := s.tx.RowsOf(&read, q); err != nil {
			return err
		}
		for _, b := range read {
			d := s.known[bucket.ID{Budget: b.Budget, RequestID: b.RequestID}]
			if b.Kind == string(ledger.FeedRollback) {
				d.rollbacks[b.RollbackID] = &ledger.Rollback{RequestID: b.RequestID,
					RollbackID: b.RollbackID, Amount: b.Amount, Whole: b.IsWhole == 1}
				continue
			}
			d.end = &ledger.HoldEnd{RequestID: b.RequestID,
				Kind: ledger.FeedKind(b.Kind), Amount: b.Amount, Returned: b.Amount}
			if d.end.Kind == ledger.FeedConfirm {
				d.end.Amount = d.Confirmed
			}
		}
	}
	return nil
}

const (
	insertTombstone = `INSERT INTO deduction (budget_id, request_id, bucket_id, epoch, amount,
		fingerprint, nonce, counted_at, note) VALUES (?, ?, 0, 0, 0, ?, ?, ?, ?)`
	updateTombstone = `UPDATE deduction SET note = ?
		WHERE budget_id = ? AND request_id = ? AND bucket_id = 0`
)

// noteOf returns the column note of a tombstone: nil if it is for everybody.
func noteOf(d *deduction) any {
	if d.VoidFor == "" {
		return nil
	}
	return []byte(ledger.Note{VoidFor: d.VoidFor}.Pack())
}

// insertTombstone adds the row that keeps an id from ever taking effect for those that it is for.
func (s *execution) insertTombstone(d *deduction) error {
	_, err := s.tx.Exec(insertTombstone, d.Budget, []byte(d.RequestID), []byte{}, []byte{},
		engine.ToMS(d.CountedAt), noteOf(d))
	return err
}
