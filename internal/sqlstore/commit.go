package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// Commit drains logs into the ledger in one transaction. See bucket.Ledger. When an earlier attempt
// turns out to have been committed, the report has no outcomes for it: their rows are found by At.
// Keeps I1, I4, I7.
func (db *DB) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	var report bucket.CommitReport
	if len(logs) == 0 {
		return report, nil
	}
	err := db.write(ctx, "commit", func(t *tx) error {
		d, err := t.drain(logs)
		if err != nil {
			return err
		}
		report = bucket.CommitReport{Epochs: d.reports}
		return t.writeDrained(d)
	})
	if err != nil {
		return bucket.CommitReport{}, err
	}
	return report, nil
}

// drains is what draining some logs decided.
type drains struct {
	// reports has one element per log, in the order given.
	reports []bucket.EpochReport
	// changed is what has to be written, in the order of (bucket, epoch).
	changed []*ledger.Drained
	// recorded are the ledger's rows of the ids, with those that are made.
	recorded recordedIDs
	limits   *limitBook
	closed   closedGroups
}

// drain locks the epochs of the logs, then the deductions whose ids they hold (recorded), and decides.
func (t *tx) drain(logs []ledger.Log) (drains, error) {
	positions := make([]position, len(logs))
	for i := range logs {
		positions[i] = position{logs[i].Bucket, logs[i].Epoch}
	}
	rows, err := t.lockEpochs(positions...)
	if err != nil {
		return drains{}, err
	}
	return t.drainLocked(logs, rows)
}

// drainLocked is drain for epochs that are locked.
func (t *tx) drainLocked(logs []ledger.Log, rows map[position]*epochRow) (drains, error) {
	logs = slices.Clone(logs)
	recorded, guessed, err := t.recorded(logs, rows)
	if err != nil {
		return drains{}, err
	}
	if err := t.readGranted(logs, rows); err != nil {
		return drains{}, err
	}
	closed, err := t.closedGroups(logs, rows, recorded)
	if err != nil {
		return drains{}, err
	}
	limits, err := t.limitBook(logs, rows, recorded, guessed)
	if err != nil {
		return drains{}, err
	}
	d := drains{reports: make([]bucket.EpochReport, len(logs)), recorded: recorded, limits: limits,
		closed: closed}
	for _, i := range inLockOrder(logs) {
		row := rows[position{logs[i].Bucket, logs[i].Epoch}]
		if row == nil {
			d.reports[i].Err = ledger.ErrEnded
			continue
		}
		d.reports[i] = t.drainLog(&d, row, i, logs[i])
	}
	if limits.ahead && !limits.asCounted() {
		return drains{}, errCountedAhead
	}
	return d, nil
}

// recorded locks and reads the ledger's rows of the ids that logs hold after the drained positions. Most
// are new, so it takes all of them for new where t.guess allows it and each becomes a deduction, whose
// INSERT fails if it is not: no period is over, no group may refuse, and what limits may refuse is counted before
// it is judged (addTallies). No group is locked then before the deductions, which come before it in the lock order.
// Counters are, of ids that turn out to be recorded: if that is a deadlock, it is ended as any.
func (t *tx) recorded(logs []ledger.Log, rows map[position]*epochRow) (_ recordedIDs, guessed bool, _ error) {
	most := 0
	for i := range logs {
		most += len(logs[i].Entries)
	}
	ids := make([]bucket.ID, 0, most)
	guess, ahead := t.guess, false
	for i := range logs {
		row := rows[position{logs[i].Bucket, logs[i].Epoch}]
		if row == nil || !row.live() || row.Fenced != "" {
			continue
		}
		guess = guess && (row.PeriodEndMS == 0 || toMS(t.now) < row.PeriodEndMS)
		if guess {
			set, err := t.limitSet(row.Budget, row.LimitsVersion)
			if err != nil {
				return nil, false, err
			}
			if t.judges(set) {
				ahead = true
				guess = t.ahead && !set.InStores && set.Additive(toMS(t.now)) && !safeguard.Off(safeguard.CounterLock)
			}
		}
		for j := range logs[i].Entries {
			if e := &logs[i].Entries[j]; e.Kind == ledger.KindDeduct && e.Seq > row.DrainedSeq {
				guess = guess && e.Request.Group == ""
				ids = append(ids, bucket.ID{Budget: row.Budget, RequestID: e.Request.ID})
			}
		}
	}
	if guess && (!ahead || len(ids) == 0 || next(&t.db.judgeFirst)) {
		t.guessed = t.guessed || len(ids) > 0
		return make(recordedIDs, len(ids)), true, nil
	}
	found, err := t.deductions(ids, locked)
	return found, false, err
}

const (
	selectGranted = `SELECT e.bucket_id, e.epoch, e.number, e.amount FROM grant_log e /*by PRIMARY*/ WHERE `
	oneGrant      = `(e.bucket_id = ? AND e.epoch = ? AND e.number = ?)`
)

// readGranted notes in the logs what SQL granted by the numbers that they show after the drained
// positions. The epochs are locked, so nobody makes another grant meanwhile.
func (t *tx) readGranted(logs []ledger.Log, rows map[position]*epochRow) error {
	type grantKey struct {
		position
		number int64
	}
	var keys []grantKey
	granted := map[position]map[int64]int64{}
	for i := range logs {
		p := position{logs[i].Bucket, logs[i].Epoch}
		row := rows[p]
		if row == nil {
			continue
		}
		logs[i].Granted = nil
		if numbers := logs[i].UndrainedGrants(row.DrainedSeq); len(numbers) > 0 {
			for _, number := range numbers {
				keys = append(keys, grantKey{p, number})
			}
			if granted[p] == nil {
				granted[p] = map[int64]int64{}
			}
			logs[i].Granted = granted[p]
		}
	}
	for chunk := range slices.Chunk(keys, listChunk) {
		chunk = padded(t.conn.dialect, chunk)
		args := make([]any, 0, 3*len(chunk))
		for _, k := range chunk {
			args = append(args, k.bucket, k.epoch, k.number)
		}
		var found []struct {
			Bucket int64 `db:"bucket_id"`
			Epoch  int64 `db:"epoch"`
			Number int64 `db:"number"`
			Amount int64 `db:"amount"`
		}
		if err := t.list(&found, selectGranted+repeat(oneGrant, " OR ", len(chunk)), args...); err != nil {
			return err
		}
		for _, f := range found {
			granted[position{f.Bucket, f.Epoch}][f.Number] = f.Amount
		}
	}
	return nil
}

// inLockOrder returns the indices of the logs in the order of (bucket, epoch).
func inLockOrder(logs []ledger.Log) []int {
	order := make([]int, len(logs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(logs[i].Bucket, logs[j].Bucket),
			cmp.Compare(logs[i].Epoch, logs[j].Epoch))
	})
	return order
}

// drainLog decides the i-th log. What it makes and counts is known to later logs only if all of it is committed.
func (t *tx) drainLog(d *drains, row *epochRow, i int, log ledger.Log) bucket.EpochReport {
	before, counts := row.epoch(), d.limits.page(i, row.Budget)
	known := func(id string) *ledger.Deduction {
		return d.recorded[bucket.ID{Budget: row.Budget, RequestID: id}]
	}
	remember := func(made *ledger.Deduction) {
		d.recorded[bucket.ID{Budget: row.Budget, RequestID: made.RequestID}] = made
	}
	drained, err := ledger.Drain(before, t.now, log, known, remember, d.closed.judge(row.Budget, counts.judge()))
	if err != nil {
		for j := range drained.Deductions {
			delete(d.recorded, bucket.ID{Budget: row.Budget, RequestID: drained.Deductions[j].RequestID})
		}
		counts.undo()
		return bucket.EpochReport{Row: before, Err: err}
	}
	if drained.Changed() {
		d.changed = append(d.changed, &drained)
	}
	return bucket.EpochReport{Row: drained.After, Outcomes: drained.Outcomes, Close: drained.Close}
}

const (
	insertDuplicate = `INSERT INTO duplicate (bucket_id, epoch, seq, budget_id, request_id, nonce,
		amount, reason, figures, created_at)`
	duplicateWidth = 10
)

// writeDrained writes what draining decided: deductions by key, duplicates, grants, epoch rows.
func (t *tx) writeDrained(d drains) error {
	changed := d.changed
	made := make([]*ledger.Deduction, 0, len(d.recorded))
	var duplicates []any
	now := toMS(t.now)
	for _, d := range changed {
		for i := range d.Deductions {
			made = append(made, &d.Deductions[i])
		}
		for _, dup := range d.Duplicates {
			duplicates = append(duplicates, dup.Position.Bucket, dup.Position.Epoch, dup.Position.Seq,
				dup.Budget, []byte(dup.RequestID), []byte(dup.Nonce), dup.Amount, string(dup.Reason),
				orNull(dup.Figures), now)
		}
	}
	slices.SortFunc(made, func(a, b *ledger.Deduction) int {
		return cmp.Or(cmp.Compare(a.Budget, b.Budget), cmp.Compare(a.RequestID, b.RequestID))
	})
	if err := t.insertDeductions(made); err != nil {
		return err
	}
	if err := t.insertHolds(made); err != nil {
		return err
	}
	if err := t.insertValues(made); err != nil {
		return err
	}
	if !d.limits.ahead {
		if err := t.writeCounters(d.limits.changed()); err != nil {
			return err
		}
	}
	if err := t.insert(insertDuplicate, duplicateWidth, duplicates); err != nil {
		return err
	}
	if err := t.markArrived(changed); err != nil {
		return err
	}
	return t.advance(changed)
}

const (
	insertDeduction = `INSERT INTO deduction (budget_id, request_id, state, amount, fingerprint, nonce,
		bucket_id, epoch, seq, entry, counted_at`
	deductionWidth = 11
)

// rareColumns are those of deduction that most rows have their default in.
var rareColumns = []struct {
	name string
	text func(*ledger.Deduction) string // "": the default
}{
	{"reference", func(d *ledger.Deduction) string { return d.Reference }},
	{"dimensions", func(d *ledger.Deduction) string { return d.Dimensions }},
	{"counts", func(d *ledger.Deduction) string { return d.Counts }},
	{"hold_group", func(d *ledger.Deduction) string { return d.Group }},
}

// insertDeductions writes new deductions, which are sorted by key. Columns in which all of them have the
// default are left out: reading the statement is a third of what the insert costs a server.
func (t *tx) insertDeductions(made []*ledger.Deduction) error {
	into := insertDeduction
	var with []func(*ledger.Deduction) string
	for _, c := range rareColumns {
		if slices.ContainsFunc(made, func(d *ledger.Deduction) bool { return c.text(d) != "" }) {
			into, with = into+", "+c.name, append(with, c.text)
		}
	}
	holds := slices.ContainsFunc(made, func(d *ledger.Deduction) bool { return !d.HoldUntil.IsZero() })
	if holds {
		into += ", hold_until_ms"
	}
	to := t.inserting(into+")", "", len(made), t.inserted)
	for _, d := range made {
		to.row()
		to.number(d.Budget)
		to.requestID(d.RequestID)
		to.word(string(d.State))
		to.number(d.Amount)
		to.bytes(d.Fingerprint)
		to.bytes(d.Nonce)
		to.number(d.Position.Bucket)
		to.number(d.Position.Epoch)
		to.number(d.Position.Seq)
		to.number(d.Entry)
		to.number(toMS(d.CountedAt))
		for _, text := range with {
			to.orNull(text(d))
		}
		if holds {
			to.number(toMS(d.HoldUntil))
		}
	}
	return to.end()
}

const (
	ofGrant    = `bucket_id = ? AND epoch = ? AND number = ?`
	markGrants = `UPDATE grant_log /*by PRIMARY*/ SET status = 'applied' WHERE `
)

// markArrived notes the grants that the logs showed.
func (t *tx) markArrived(changed []*ledger.Drained) error {
	var args []any
	for _, d := range changed {
		for _, number := range d.Arrived {
			args = append(args, d.After.Bucket, d.After.Number, number)
		}
	}
	return t.hitAll(markGrants, nil, `(`+ofGrant+`)`, args)
}

const (
	advanceEpochs = `UPDATE bucket_epoch /*by PRIMARY*/ SET outstanding_quantity = $value, used_quantity = $value,
		next_entry = $value, drained_seq = $value, drained_chain = $value`
	advanceWhere = `bucket_id = ? AND epoch = ? AND drained_seq = ? AND outstanding_quantity >= ?
		AND status IN ('open', 'closing') AND LENGTH(fenced) = 0`
)

// rarelyAdvanced are columns that advance sets only where an epoch of the transaction gets another value in them: each is one
// value more per row that a server reads, and looks up where there are several rows.
var rarelyAdvanced = []struct {
	name  string
	value func(*ledger.Epoch) int64
}{
	{"held_quantity", func(e *ledger.Epoch) int64 { return e.Held }},
	{"returning_quantity", func(e *ledger.Epoch) int64 { return e.Returning }},
}

// advance moves epochs from one drained position to the next: the compare-and-set that lets each
// log entry through once.
func (t *tx) advance(changed []*ledger.Drained) error {
	update := advanceEpochs
	var with []func(*ledger.Epoch) int64
	for _, c := range rarelyAdvanced {
		if slices.ContainsFunc(changed, func(d *ledger.Drained) bool { return c.value(&d.Before) != c.value(&d.After) }) {
			update, with = update+", "+c.name+" = $value", append(with, c.value)
		}
	}
	rows := make([]rowChange, len(changed))
	for i, d := range changed {
		a, b := &d.After, &d.Before
		rows[i] = rowChange{
			key:    []any{a.Bucket, a.Number},
			values: []any{a.Outstanding, a.Used, a.NextEntry, a.DrainedSeq, []byte(a.DrainedChain)},
			where:  []any{a.Bucket, a.Number, b.DrainedSeq, b.Outstanding - a.Outstanding},
		}
		for _, value := range with {
			rows[i].values = append(rows[i].values, value(a))
		}
	}
	where := safeguard.Swap(safeguard.DrainedSeq, advanceWhere, "drained_seq = ?", "drained_seq >= 0 * ?")
	return t.changeRows(update+" WHERE ", ofEpoch, where, rows)
}
