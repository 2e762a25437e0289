package returns

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectDeductions = `SELECT d.budget_id, d.request_id, d.bucket_id, d.epoch, d.amount,
		d.fingerprint, d.nonce, d.counted_at, d.note, h.state, h.hold_group, h.hold_until_ms, h.confirmed
		FROM deduction d /*by PRIMARY*/
		LEFT JOIN hold h /*by PRIMARY*/ ON h.budget_id = d.budget_id AND h.request_id = d.request_id
		WHERE `
	inDeductionOrder = ` ORDER BY d.budget_id, d.request_id`
	selectGivenBack  = `SELECT g.budget_id, g.request_id, SUM(g.amount) AS units
		FROM give_back g /*by PRIMARY*/ WHERE `
	perDeduction = ` GROUP BY g.budget_id, g.request_id`
	selectBacks  = `SELECT g.budget_id, g.request_id, g.kind, g.rollback_id, g.amount, g.is_whole,
		g.created_at FROM give_back g /*by PRIMARY*/ WHERE `
)

// row is a deduction with its hold, as read.
type row struct {
	Budget      int64   `db:"budget_id"`
	RequestID   string  `db:"request_id"`
	Bucket      int64   `db:"bucket_id"`
	Epoch       int64   `db:"epoch"`
	Amount      int64   `db:"amount"`
	Fingerprint string  `db:"fingerprint"`
	Nonce       string  `db:"nonce"`
	CountedAt   int64   `db:"counted_at"`
	Note        []byte  `db:"note"`
	State       *string `db:"state"`
	Group       []byte  `db:"hold_group"`
	HoldUntil   *int64  `db:"hold_until_ms"`
	Confirmed   *int64  `db:"confirmed"`
}

// deduction returns the row as package ledger has it, with the units that came back.
func (r *row) deduction(back int64) (*ledger.Deduction, error) {
	d := &ledger.Deduction{Budget: r.Budget, RequestID: r.RequestID, Amount: r.Amount,
		RolledBack: back,
		State:      ledger.StateUsed, Fingerprint: r.Fingerprint, Nonce: r.Nonce, Bucket: r.Bucket,
		Epoch: r.Epoch, CountedAt: engine.FromMS(r.CountedAt)}
	note, ok := ledger.ReadNote(string(r.Note))
	if !ok {
		return nil, engine.Defect("the note of request %q of budget %d cannot be read", r.RequestID,
			r.Budget)
	}
	d.Reference, d.Dimensions, d.Counts = note.Reference, note.Dimensions, note.Counts
	d.By = note.By
	switch {
	case r.Bucket == 0:
		d.State = ledger.StateVoid
	case r.State != nil:
		d.State, d.Confirmed = ledger.State(*r.State), *r.Confirmed
		d.HoldUntil, d.Group = engine.FromMS(*r.HoldUntil), string(r.Group)
	case back == r.Amount:
		d.State = ledger.StateRolledBack
	}
	return d, nil
}

func idOf(d *ledger.Deduction) bucket.ID {
	return bucket.ID{Budget: d.Budget, RequestID: d.RequestID}
}

func compareIDs(a, b bucket.ID) int {
	return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.RequestID, b.RequestID))
}

// sorted returns the ids in the order in which deductions are locked, each once.
func sorted(ids []bucket.ID) []bucket.ID {
	ids = slices.Clone(ids)
	slices.SortFunc(ids, compareIDs)
	return slices.Compact(ids)
}

// readDeductions reads deductions by id, in key order, with a suffix to the statement. ids are
// sorted. One that does not exist is missing. What came back is read by a later statement: with
// locks it is complete, because only the holder of a deduction's lock writes it.
func readDeductions(r *engine.Reader, ids []bucket.ID, suffix string) ([]*ledger.Deduction, error) {
	var found []row
	if err := byID(r, &found, selectDeductions, "d", ids, inDeductionOrder+suffix); err != nil {
		return nil, err
	}
	ids = ids[:0:0]
	for i := range found {
		if found[i].Bucket != 0 {
			ids = append(ids, bucket.ID{Budget: found[i].Budget, RequestID: found[i].RequestID})
		}
	}
	var backs []struct {
		Budget    int64  `db:"budget_id"`
		RequestID string `db:"request_id"`
		Units     int64  `db:"units"`
	}
	if err := byID(r, &backs, selectGivenBack, "g", ids, perDeduction); err != nil {
		return nil, err
	}
	units := make(map[bucket.ID]int64, len(backs))
	for _, b := range backs {
		units[bucket.ID{Budget: b.Budget, RequestID: b.RequestID}] = b.Units
	}
	out := make([]*ledger.Deduction, len(found))
	for i := range found {
		var err error
		id := bucket.ID{Budget: found[i].Budget, RequestID: found[i].RequestID}
		if out[i], err = found[i].deduction(units[id]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// byID appends the rows of ids, which are sorted, to dest, a pointer to a slice.
func byID[T any](r *engine.Reader, dest *[]T, query, table string, ids []bucket.ID,
	end string) error {
	for chunk := range slices.Chunk(ids, engine.ListChunk) {
		keys := make([][]any, len(chunk))
		for i, id := range chunk {
			keys[i] = []any{id.Budget, []byte(id.RequestID)}
		}
		s := r.Statement()
		s.SQL(query)
		s.Tuples([]string{table + ".budget_id", table + ".request_id"}, keys)
		s.SQL(end)
		var part []T
		if err := r.RowsOf(&part, s); err != nil {
			return err
		}
		*dest = append(*dest, part...)
	}
	return nil
}

// lock locks deductions by id, in key order, and adds them to those that are known.
func (s *settling) lock(ids []bucket.ID) ([]*deduction, error) {
	ids = sorted(ids)
	if err := s.lockBudgets(ids); err != nil {
		return nil, err
	}
	found, err := readDeductions(&s.tx.Reader, ids, rows.Locked)
	if err != nil {
		return nil, err
	}
	out := make([]*deduction, len(found))
	for i, d := range found {
		out[i] = &deduction{Deduction: *d, stored: *d, rollbacks: map[string]*ledger.Rollback{}}
		s.known[idOf(d)] = out[i]
	}
	return out, nil
}

// lockOrders locks the deductions that orders are about, and reads what was done to them under
// the ids of the orders. One that does not exist is known as absent.
func (s *settling) lockOrders(orders []hold.Order) error {
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

// readBacks reads rows of give_back by key into the deductions that are known.
func (s *settling) readBacks(keys [][]any) error {
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
				d.rollbacks[b.RollbackID] = &ledger.Rollback{Budget: b.Budget, RequestID: b.RequestID,
					RollbackID: b.RollbackID, Amount: b.Amount, Whole: b.IsWhole == 1,
					At: engine.FromMS(b.CreatedAt)}
				continue
			}
			d.end = &ledger.HoldEnd{Budget: b.Budget, RequestID: b.RequestID,
				Kind: ledger.FeedKind(b.Kind), Amount: b.Amount, Returned: b.Amount,
				At: engine.FromMS(b.CreatedAt)}
			if d.end.Kind == ledger.FeedConfirm {
				d.end.Amount = d.Confirmed
			}
		}
	}
	return nil
}

const insertTombstone = `INSERT INTO deduction (budget_id, request_id, bucket_id, epoch, amount,
	fingerprint, nonce, counted_at) VALUES (?, ?, 0, 0, 0, ?, ?, ?)`

// insertTombstone adds the row that keeps an id from ever taking effect.
func (s *settling) insertTombstone(d *deduction) error {
	_, err := s.tx.Exec(insertTombstone, d.Budget, []byte(d.RequestID), []byte{}, []byte{},
		engine.ToMS(d.CountedAt))
	return err
}
