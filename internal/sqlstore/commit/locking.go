package commit

import (
	"errors"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/counters"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

const (
	selectNewest = `SELECT b.id, b.epoch FROM sharding_budget_management_bucket b /*by PRIMARY*/
		WHERE `
	selectGroups = `SELECT d.budget_id, d.hold_group, d.state FROM group_of_holds d /*by PRIMARY*/
		WHERE `
	inGroupOrder = ` ORDER BY d.budget_id, d.hold_group`
	takeUnits    = `UPDATE bucket_epoch /*by PRIMARY*/ SET outstanding_quantity = $value,
		used_quantity = $value, held_quantity = $value, next_entry = $value WHERE `
	ofEpoch    = `bucket_id = ? AND epoch = ?`
	takeWhere  = ofEpoch + ` AND next_entry = ? AND outstanding_quantity = ? AND status = 'open'`
	writePages = `UPDATE limit_counter /*by PRIMARY*/ SET version = $value, counts = $value,
		expires_ms = $value WHERE `
	ofPage = `budget_id = ? AND dimension = ? AND value = ?`
	// deleteTombstone frees an id for a deduction of a principal for which it is not void.
	deleteTombstone = `DELETE FROM deduction
		WHERE budget_id = ? AND request_id = ? AND bucket_id = 0`
	insertFeed = `INSERT INTO feed (bucket_id, first_entry, entries, units, body, created_at)`
)

// lockingForm judges a flight under all of its locks and writes the accepted operations. If guess
// is set, it first assumes that every id is new, which only works on a database with one writer: a
// row that exists fails the insert.
func lockingForm(t *engine.Tx, f *flight, guess bool) error {
	tr := &trial{flight: f, nowMS: engine.ToMS(t.Now)}
	newest, err := newestEpochs(t, f.buckets())
	if err != nil {
		return err
	}
	if !guess {
		if tr.known, err = rows.LockDeductions(t, f.ids(all)); err != nil {
			return err
		}
	}
	if err := tr.lock(t); err != nil {
		return err
	}
	if err := tr.lockEpochs(t, newest); err != nil {
		return err
	}
	tr.judgeAll()
	if guess && tr.accepted < len(f.ops) {
		return errGuessed
	}
	tr.remaining()
	return tr.write(t)
}

// errGuessed means that not every operation of a flight was accepted, so their ids must be read.
var errGuessed = errors.New("an id that may be recorded")

// newestEpochs reads the numbers of the newest epochs of buckets, which are sorted.
func newestEpochs(t *engine.Tx, buckets []int64) (map[int64]int64, error) {
	out := make(map[int64]int64, len(buckets))
	var found []struct {
		ID    int64 `db:"id"`
		Epoch int64 `db:"epoch"`
	}
	s := t.Statement()
	s.SQL(selectNewest)
	s.Numbers("b.id", buckets)
	if err := t.RowsOf(&found, s); err != nil {
		return nil, err
	}
	for _, row := range found {
		out[row.ID] = row.Epoch
	}
	return out, nil
}

// lock locks and reads groups, then limit rows.
func (t *trial) lock(tx *engine.Tx) error {
	if err := t.lockGroups(tx); err != nil {
		return err
	}
	if t.limits.open(t.flight); t.limits.empty() {
		return nil
	}
	found, err := counters.Lock(tx, t.limits.keys())
	if err != nil {
		return err
	}
	for _, row := range found {
		t.limits.put(row)
	}
	t.nowMS = t.limits.now(t.nowMS)
	for _, m := range t.limits.tally(t.flight, t.nowMS) {
		if err := counters.Load(&tx.Reader, m.row.Key.Budget, &m.tally.Tally); err != nil {
			return err
		}
	}
	return nil
}

// lockGroups locks the groups of the operations. A group without a row is open.
func (t *trial) lockGroups(tx *engine.Tx) error {
	t.groups = groupsOf(t.flight)
	if len(t.groups) == 0 {
		return nil
	}
	ids := make([]bucket.ID, 0, len(t.groups))
	for key := range t.groups {
		ids = append(ids, bucket.ID{Budget: key.budget, RequestID: key.name})
	}
	slices.SortFunc(ids, rows.CompareIDs)
	return rows.EachChunk(&tx.Reader, ids, func(s *engine.Statement, chunk []bucket.ID) error {
		var found []struct {
			Budget int64  `db:"budget_id"`
			Name   string `db:"hold_group"`
			State  string `db:"state"`
		}
		s.SQL(selectGroups)
		s.IDs("d.budget_id, d.hold_group", chunk)
		s.SQL(inGroupOrder + rows.Locked)
		err := tx.RowsOf(&found, s)
		for _, row := range found {
			g := t.groups[groupKey{row.Budget, row.Name}]
			g.exists, g.open = true, row.State == string(ledger.GroupOpen)
		}
		return err
	})
}

// groupsOf returns the groups of a flight's operations as if none had a row.
func groupsOf(f *flight) map[groupKey]*group {
	var out map[groupKey]*group
	for i := range f.ops {
		name := f.ops[i].Request.Group
		if name == "" {
			continue
		}
		if out == nil {
			out = map[groupKey]*group{}
		}
		out[groupKey{f.ops[i].Budget.ID, name}] = &group{open: true}
	}
	return out
}

// lockEpochs locks the present epochs of the buckets. It returns engine.ErrAgain if a bucket has
// just begun another epoch.
func (t *trial) lockEpochs(tx *engine.Tx, newest map[int64]int64) error {
	positions := make([]rows.Position, 0, len(newest))
	for id, epoch := range newest {
		positions = append(positions, rows.Position{Bucket: id, Epoch: epoch})
	}
	locked, err := rows.LockEpochs(tx, positions)
	if err != nil {
		return err
	}
	nowMS, err := clockUnder(tx, locked)
	if err != nil {
		return err
	}
	t.epochs = make(map[int64]*bucketState, len(locked))
	var closed []int64
	for _, row := range locked {
		t.epochs[row.Bucket] = &bucketState{epoch: *row, left: row.Outstanding, nowMS: nowMS}
		if !row.Live() {
			closed = append(closed, row.Bucket)
		}
	}
	for i := range t.ops {
		if s := t.epochs[t.ops[i].Bucket]; s != nil {
			s.unlimited = t.ops[i].Budget.Unlimited
		}
	}
	if len(closed) == 0 {
		return nil
	}
	slices.Sort(closed)
	now, err := newestEpochs(tx, closed)
	if err != nil {
		return err
	}
	for id, epoch := range now {
		if epoch != newest[id] {
			return engine.ErrAgain
		}
	}
	return nil
}

// clockUnder returns SQL's clock, read after the epochs were locked, or 0 if none of them ends.
func clockUnder(tx *engine.Tx, locked map[rows.Position]*rows.Epoch) (int64, error) {
	for _, row := range locked {
		if row.PeriodEndMS != 0 {
			return tx.ClockMS()
		}
	}
	return 0, nil
}

// write writes the accepted operations. All locks are held.
func (t *trial) write(tx *engine.Tx) error {
	if t.accepted == 0 {
		return nil
	}
	begin := func(into, or string, rows int) *engine.Inserting {
		return tx.Inserting(into, or, rows, func(s *engine.Statement, _ int) error {
			_, err := tx.Execute(s)
			return err
		})
	}
	for _, id := range t.freed {
		if err := tx.Hit(1, deleteTombstone, id.Budget, []byte(id.RequestID)); err != nil {
			return err
		}
	}
	if err := t.insertRows(begin); err != nil {
		return err
	}
	var added []groupKey
	for _, key := range t.joinedGroups() {
		if !t.groups[key].exists {
			added = append(added, key)
		}
	}
	if err := t.insertGroups(begin, added, ""); err != nil {
		return err
	}
	if err := t.writePages(tx, begin); err != nil {
		return err
	}
	return t.writeEpochs(tx, begin)
}

// writePages writes the limit rows in which something was counted.
func (t *trial) writePages(tx *engine.Tx, begin inserter) error {
	existing, added := t.limits.close()
	changes := make([]engine.RowChange, len(existing))
	for i, p := range existing {
		key := []any{p.Key.Budget, []byte(p.Key.Dimension), []byte(p.Key.Value)}
		changes[i] = engine.RowChange{Key: key,
			Values: []any{t.nextVersion(p), []byte(p.Counts.Pack()), p.Counts.ExpiresMS()},
			Where:  append(slices.Clone(key), p.Version)}
	}
	if err := tx.ChangeRows(writePages, ofPage, ofPage+` AND version = ?`, changes); err != nil {
		return err
	}
	return t.insertLimitRows(begin, added, "")
}

// writeEpochs takes the units out of the epochs and writes the feed.
func (t *trial) writeEpochs(tx *engine.Tx, begin inserter) error {
	states := t.touched()
	changes := make([]engine.RowChange, len(states))
	for i, s := range states {
		e := &s.epoch
		changes[i] = engine.RowChange{Key: []any{e.Bucket, e.Number},
			Values: []any{s.left, saturated(e.Used, s.used), saturated(e.Held, s.held),
				e.NextEntry + s.entries},
			Where: []any{e.Bucket, e.Number, e.NextEntry, e.Outstanding}}
	}
	if err := tx.ChangeRows(takeUnits, ofEpoch, takeWhere, changes); err != nil {
		return err
	}
	to := begin(insertFeed, "", len(states))
	for _, s := range states {
		to.Row()
		to.Number(s.epoch.Bucket)
		to.Number(s.epoch.NextEntry)
		to.Number(s.entries)
		to.Number(s.used + s.held)
		to.Bytes(string(s.body))
		to.Number(t.nowMS)
	}
	return to.End()
}

// saturated adds to S or H. For an unlimited budget both stop at budget.MaxAmount; each term is at
// most what one flight takes.
func saturated(before, more int64) int64 {
	return min(limit.Plus(before, more), budget.MaxAmount)
}
