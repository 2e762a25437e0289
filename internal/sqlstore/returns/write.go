package returns

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectPlaces = `SELECT b.id, b.budget_id, b.epoch, u.version, u.limits_version, u.unlimited
		FROM sharding_budget_management_bucket b /*by PRIMARY*/
		JOIN budget_management_bucket u ON u.id = b.budget_id WHERE `
	insertBacks = `INSERT INTO give_back (budget_id, request_id, kind, rollback_id, amount, is_whole,
		is_direct, bucket_id, epoch, created_at)`
	updateHolds = `UPDATE hold /*by PRIMARY*/ SET state = $value, confirmed = $value,
		hold_until_ms = $value, due_ms = $value WHERE `
	ofHold       = `budget_id = ? AND request_id = ?`
	stillOfState = ofHold + ` AND state = ?`
	moveUnits    = `UPDATE bucket_epoch /*by PRIMARY*/ SET
		outstanding_quantity = outstanding_quantity + $value, held_quantity = held_quantity + $value,
		used_quantity = used_quantity + $value, returning_quantity = returning_quantity + $value,
		late_quantity = late_quantity + $value, next_entry = next_entry + $value
		WHERE `
	ofEpoch    = `bucket_id = ? AND epoch = ?`
	whileThere = ofEpoch + ` AND held_quantity + ? >= 0 AND used_quantity + ? >= 0 AND next_entry = ?`
	insertFeed = `INSERT INTO feed (bucket_id, first_entry, entries, units, body, created_at)`
	selectEnds = `SELECT p.budget_id, p.number, p.end_ms FROM budget_period p /*by PRIMARY*/ WHERE `
)

// place is a bucket's state, with the limits that apply to its deductions.
type place struct {
	Bucket        int64 `db:"id"`
	Budget        int64 `db:"budget_id"`
	Epoch         int64 `db:"epoch"`
	Version       int64 `db:"version"`
	LimitsVersion int64 `db:"limits_version"`
	Unlimited     int64 `db:"unlimited"`
}

// newest returns the bucket's newest epoch.
func (p *place) newest() rows.Position { return rows.Position{Bucket: p.Bucket, Epoch: p.Epoch} }

// move is the change of one epoch, and what is added to its bucket's feed.
type move struct {
	row                                *rows.Epoch
	outstanding, held, used, returning int64 // changes of O, H, S and R
	late, entries                      int64
}

// write writes the changes of the orders: limits first, then under the locks of the epochs the
// give-backs, holds, epochs and feed rows.
func (s *execution) write() error {
	if len(s.changed) == 0 {
		return nil
	}
	if len(s.backs) == 0 {
		return s.writeHolds() // extensions move nothing
	}
	places, err := s.places()
	if err != nil {
		return err
	}
	if err := s.lowerLimits(places); err != nil {
		return err
	}
	epochs, err := s.lockEpochs(places)
	if err != nil {
		return err
	}
	now := s.tx.DB.Now() // under the locks
	moves := map[rows.Position]*move{}
	for position, row := range epochs {
		moves[position] = &move{row: row}
	}
	if err := s.writeBacks(places, moves, now); err != nil {
		return err
	}
	if err := s.writeHolds(); err != nil {
		return err
	}
	bodies := s.bodies(places, moves)
	saturate(places, moves)
	if err := s.writeMoves(moves); err != nil {
		return err
	}
	return s.writeFeed(bodies, now)
}

// places reads the state of the changed deductions' buckets.
func (s *execution) places() (map[int64]*place, error) {
	ids := map[int64]bool{}
	for _, d := range s.changed {
		ids[d.Bucket] = true
	}
	out := make(map[int64]*place, len(ids))
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(ids)), engine.ListChunk) {
		keys := make([][]any, len(chunk))
		for i, id := range chunk {
			keys[i] = []any{id}
		}
		q := s.tx.Statement()
		q.SQL(selectPlaces)
		q.Tuples([]string{"b.id"}, keys)
		var found []place
		if err := s.tx.RowsOf(&found, q); err != nil {
			return nil, err
		}
		for i := range found {
			out[found[i].Bucket] = &found[i]
		}
	}
	for _, d := range s.changed {
		if out[d.Bucket] == nil {
			return nil, engine.Defect("bucket %d of request %q is gone", d.Bucket, d.RequestID)
		}
	}
	return out, nil
}

// lockEpochs locks the epochs of the changed deductions and the newest one of each bucket, which
// numbers the feed. If a newest epoch ended before it was locked, a newer one may exist, so the
// transaction is retried.
func (s *execution) lockEpochs(places map[int64]*place) (map[rows.Position]*rows.Epoch, error) {
	var positions []rows.Position
	for _, d := range s.changed {
		positions = append(positions, rows.Position{Bucket: d.Bucket, Epoch: d.Epoch})
	}
	for _, p := range places {
		positions = append(positions, p.newest())
	}
	epochs, err := rows.LockEpochs(s.tx, positions)
	if err != nil {
		return nil, err
	}
	for _, p := range positions {
		if epochs[p] == nil {
			return nil, engine.Defect("epoch %d of bucket %d is gone", p.Epoch, p.Bucket)
		}
	}
	ended := false
	for _, p := range places {
		ended = ended || !epochs[p.newest()].Live()
	}
	if ended {
		again, err := s.places()
		if err != nil {
			return nil, err
		}
		for id, p := range places {
			if again[id].Epoch != p.Epoch {
				return nil, engine.ErrAgain
			}
		}
	}
	return epochs, s.limitsHold(places, epochs)
}

// writeBacks adds the rows of give_back and records what they move. Units go into O of their epoch
// if it is open and its period has not ended, else into R. Those of an unlimited budget are only
// subtracted.
func (s *execution) writeBacks(places map[int64]*place, moves map[rows.Position]*move,
	now time.Time) error {
	ends, err := s.periodEnds(moves, now)
	if err != nil {
		return err
	}
	to := s.tx.Inserting(insertBacks, "", len(s.backs), s.run)
	for i := range s.backs {
		b := &s.backs[i]
		m := moves[rows.Position{Bucket: b.of.Bucket, Epoch: b.of.Epoch}]
		if b.held {
			m.held -= b.amount + b.used
			m.used += b.used
		} else {
			m.used -= b.amount
		}
		direct := m.takesBack(now) || places[b.of.Bucket].Unlimited == 1
		switch {
		case places[b.of.Bucket].Unlimited == 1:
		case direct:
			m.outstanding += b.amount
		default:
			m.returning += b.amount
			if end := ends[period{b.of.Budget, m.row.Period}]; end != 0 && engine.ToMS(now) >= end {
				m.late += b.amount
			}
		}
		to.Row()
		to.Number(b.of.Budget)
		to.RequestID(b.of.RequestID)
		to.Word(string(b.kind))
		to.Bytes(b.rollbackID)
		to.Number(b.amount)
		to.Number(number(b.isWhole))
		to.Number(number(direct))
		to.Number(b.of.Bucket)
		to.Number(b.of.Epoch)
		to.Number(engine.ToMS(now))
	}
	return to.End()
}

// run runs a statement of Inserting.
func (s *execution) run(q *engine.Statement, _ int) error {
	_, err := s.tx.Execute(q)
	return err
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

// takesBack reports whether units given back go directly into O.
func (m *move) takesBack(now time.Time) bool {
	return m.row.MayGrow() && (m.row.PeriodEndMS == 0 || engine.ToMS(now) < m.row.PeriodEndMS)
}

// period identifies a period of a budget.
type period struct{ budget, number int64 }

// periodEnds reads the end of the periods whose epochs take nothing back into O.
func (s *execution) periodEnds(moves map[rows.Position]*move, now time.Time) (
	map[period]int64, error) {
	periods := map[period]bool{}
	for _, m := range moves {
		if !m.takesBack(now) {
			periods[period{m.row.Budget, m.row.Period}] = true
		}
	}
	out := make(map[period]int64, len(periods))
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(periods)), engine.ListChunk) {
		keys := make([][]any, len(chunk))
		for i, p := range chunk {
			keys[i] = []any{p.budget, p.number}
		}
		q := s.tx.Statement()
		q.SQL(selectEnds)
		q.Tuples([]string{"p.budget_id", "p.number"}, keys)
		var found []struct {
			Budget int64 `db:"budget_id"`
			Number int64 `db:"number"`
			EndMS  int64 `db:"end_ms"`
		}
		if err := s.tx.RowsOf(&found, q); err != nil {
			return nil, err
		}
		for _, p := range found {
			out[period{p.Budget, p.Number}] = p.EndMS
		}
	}
	return out, nil
}

// writeHolds writes the holds that have changed.
func (s *execution) writeHolds() error {
	var changes []engine.RowChange
	for _, d := range s.changed {
		was, is := &d.stored, &d.Deduction
		if was.HoldUntil.IsZero() || was.State == is.State && was.Confirmed == is.Confirmed &&
			was.HoldUntil.Equal(is.HoldUntil) {
			continue
		}
		until, due := engine.ToMS(is.HoldUntil), any(nil)
		if is.State == ledger.StateHeld {
			due = until
		}
		key := []any{is.Budget, []byte(is.RequestID)}
		changes = append(changes, engine.RowChange{Key: key,
			Values: []any{string(is.State), is.Confirmed, until, due},
			Where:  []any{is.Budget, []byte(is.RequestID), string(was.State)}})
	}
	return s.tx.ChangeRows(updateHolds, ofHold, stillOfState, changes)
}

// body is a feed row.
type body struct {
	bucket, first int64
	packed        []byte
	entries       int64
	units         int64
}

// maxEntries bounds the entries of one feed row: a reader reads whole rows.
const maxEntries = 512

// bodies numbers the entries of each bucket, starting at its newest epoch's next entry. They are
// sorted by key.
func (s *execution) bodies(places map[int64]*place, moves map[rows.Position]*move) []*body {
	last := map[int64]*body{}
	var out []*body
	for i := range s.entries {
		e := &s.entries[i]
		newest := moves[places[e.bucket].newest()]
		b := last[e.bucket]
		if b == nil || b.entries == maxEntries {
			b = &body{bucket: e.bucket, first: newest.row.NextEntry + newest.entries,
				packed: ledger.BeginFeed(nil)}
			last[e.bucket] = b
			out = append(out, b)
		}
		b.packed = ledger.AppendFeed(b.packed, e.FeedEntry)
		b.units -= s.backs[i].amount // each entry has its give-back
		b.entries++
		newest.entries++
	}
	slices.SortFunc(out, func(a, b *body) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.first, b.first))
	})
	return out
}

// saturate keeps H and S of unlimited budgets within 0 … budget.MaxAmount: flights saturate them
// there.
func saturate(places map[int64]*place, moves map[rows.Position]*move) {
	for p, m := range moves {
		if places[p.Bucket].Unlimited == 1 {
			m.held = max(min(m.held, budget.MaxAmount-m.row.Held), -m.row.Held)
			m.used = max(min(m.used, budget.MaxAmount-m.row.Used), -m.row.Used)
		}
	}
}

// writeMoves moves the units and takes the numbers of the entries, on locked epochs in key order.
func (s *execution) writeMoves(moves map[rows.Position]*move) error {
	var changes []engine.RowChange
	for _, p := range slices.SortedFunc(maps.Keys(moves), rows.Position.Compare) {
		m := moves[p]
		if *m == (move{row: m.row}) {
			continue
		}
		changes = append(changes, engine.RowChange{Key: []any{p.Bucket, p.Epoch},
			Values: []any{m.outstanding, m.held, m.used, m.returning, m.late, m.entries},
			Where:  []any{p.Bucket, p.Epoch, m.held, m.used, m.row.NextEntry}})
	}
	return s.tx.ChangeRows(moveUnits, ofEpoch, whileThere, changes)
}

// writeFeed adds the feed rows.
func (s *execution) writeFeed(bodies []*body, now time.Time) error {
	to := s.tx.Inserting(insertFeed, "", len(bodies), s.run)
	for _, b := range bodies {
		to.Row()
		to.Number(b.bucket)
		to.Number(b.first)
		to.Number(b.entries)
		to.Number(b.units)
		to.Bytes(string(b.packed))
		to.Number(engine.ToMS(now))
	}
	return to.End()
}
