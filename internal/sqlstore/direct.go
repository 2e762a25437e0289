package sqlstore

import (
	"context"
	"errors"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

var _ bucket.Direct = (*Rows)(nil)

// DeductAndCommit deducts and commits in one transaction: see bucket.Direct. Nothing is left to
// drain, so of the new log entries only the last of each epoch is kept. An epoch that is not open
// in the ledger answers EpochClosed, one that is fenced or whose log does not match answers Broken,
// for each of its operations; nothing of them is written. Keeps I1, I2, I4, I7.
func (s *Rows) DeductAndCommit(ctx context.Context, lane bucket.Lane,
	operations []bucket.Operation) ([]bucket.Reply, []*ledger.Outcome, error) {
	if err := checkAll(operations, checkOperation); err != nil || len(operations) == 0 {
		return nil, nil, err
	}
	serves, err := s.activation("deduct", lane)
	if err != nil {
		return nil, nil, err
	}
	var d *direct
	err = s.db.write(ctx, "deduct", func(t *tx) error {
		again := &direct{t: t, operations: operations}
		if err := again.lock(serves); err != nil {
			return err
		}
		if t.unsure && d != nil && d.last != nil {
			if done, err := t.recordedAt(d.last); err != nil || done {
				return err
			}
		}
		d = again
		return d.run()
	})
	if err != nil {
		return nil, nil, err
	}
	return d.replies, d.outcomes, nil
}

// direct is one attempt of DeductAndCommit.
type direct struct {
	t          *tx
	operations []bucket.Operation
	replies    []bucket.Reply
	outcomes   []*ledger.Outcome
	// rows are the epochs in the ledger, lives those in the store: all locked.
	rows  map[position]*epochRow
	lives *lives
	// last is an operation that is in the ledger if the transaction is.
	last *recordedOperation
}

// recordedOperation is a log position with the nonce of the call that made it.
type recordedOperation struct {
	at    ledger.Position
	nonce string
}

const selectNonceAt = `SELECT nonce FROM deduction WHERE bucket_id = ? AND epoch = ? AND seq = ?
	UNION ALL SELECT nonce FROM duplicate WHERE bucket_id = ? AND epoch = ? AND seq = ?`

// recordedAt reports whether an earlier attempt, whose commit stayed unknown, was committed. The
// epoch is locked, so that attempt is over.
func (t *tx) recordedAt(r *recordedOperation) (bool, error) {
	var nonce string
	key := []any{r.at.Bucket, r.at.Epoch, r.at.Seq}
	found, err := t.get(&nonce, selectNonceAt, append(key, key...)...)
	return found && nonce == r.nonce, err
}

// lock locks the epochs in the ledger, then in the store.
func (d *direct) lock(serves int64) error {
	positions := make([]position, len(d.operations))
	for i := range d.operations {
		positions[i] = at(d.operations[i].Ref)
	}
	var err error
	if d.rows, err = d.t.lockEpochs(positions...); err != nil {
		return err
	}
	rows, err := d.t.readLives(positions, locked)
	if err != nil {
		return err
	}
	d.lives = &lives{t: d.t, serves: serves, rows: rows}
	return nil
}

func (d *direct) run() error {
	d.deduct()
	if len(d.lives.changed) == 0 {
		return nil
	}
	logs, err := d.logs()
	if err != nil {
		return err
	}
	d.t.direct = true
	drained, err := d.t.drainLocked(logs, d.rows)
	if err != nil {
		return err
	}
	d.settle(drained.reports)
	if err := d.t.writeDrained(drained); err != nil {
		return err
	}
	return d.writeLives(drained.reports)
}

// deduct asks the store's rows, of epochs that are open in the ledger: such a one is its bucket's
// newest.
func (d *direct) deduct() {
	d.replies = make([]bucket.Reply, len(d.operations))
	for i, o := range d.operations {
		row := d.rows[at(o.Ref)]
		switch {
		case row == nil:
			d.replies[i] = bucket.Reply{Verdict: bucket.EpochGone}
		case row.Fenced != "":
			d.replies[i] = bucket.Reply{Verdict: bucket.Broken, Why: "fenced: " + row.Fenced}
		case row.Status != string(ledger.Open):
			d.replies[i] = bucket.Reply{Verdict: bucket.EpochClosed}
		default:
			d.replies[i] = d.lives.deduct(o)
		}
	}
}

const (
	selectKept = `SELECT e.bucket_id, e.epoch, e.seq, e.entry FROM store_log e /*by PRIMARY*/ WHERE `
	keptWhere  = `(e.bucket_id = ? AND e.epoch = ? AND e.seq >= ?)`
)

// logs returns what is to be drained of the changed epochs: what the log holds from the drained
// position, and the new entries.
func (d *direct) logs() ([]ledger.Log, error) {
	kept := map[position][]lineRow{}
	for chunk := range slices.Chunk(d.lives.changed, listChunk) {
		chunk = padded(d.t.conn.dialect, chunk)
		var args []any
		for _, e := range chunk {
			row := d.rows[position{e.Bucket, e.Epoch}]
			args = append(args, e.Bucket, e.Epoch, row.DrainedSeq)
		}
		var lines []struct {
			Bucket int64 `db:"bucket_id"`
			Epoch  int64 `db:"epoch"`
			lineRow
		}
		query := selectKept + repeat(keptWhere, " OR ", len(chunk)) + inKeyOrder + `, e.seq`
		if err := d.t.list(&lines, query, args...); err != nil {
			return nil, err
		}
		for _, line := range lines {
			p := position{line.Bucket, line.Epoch}
			kept[p] = append(kept[p], line.lineRow)
		}
	}
	logs := make([]ledger.Log, len(d.lives.changed))
	for i, e := range d.lives.changed {
		p := position{e.Bucket, e.Epoch}
		logs[i] = ledger.Log{Bucket: e.Bucket, Epoch: e.Epoch, From: d.rows[p].DrainedSeq,
			Entries: append(parse(kept[p]).Entries, e.entries...)} // an unreadable one is missing
	}
	return logs, nil
}

// settle gives each operation its outcome, or the verdict of an epoch that could not be drained.
func (d *direct) settle(reports []bucket.EpochReport) {
	d.outcomes = make([]*ledger.Outcome, len(d.operations))
	outcomes := map[ledger.Position]*ledger.Outcome{}
	failed := map[position]bucket.Reply{}
	for i, e := range d.lives.changed {
		r := &reports[i]
		for j := range r.Outcomes {
			outcomes[r.Outcomes[j].Position] = &r.Outcomes[j]
		}
		if r.Err != nil {
			failed[position{e.Bucket, e.Epoch}] = verdictOf(r.Err)
		}
	}
	for i, o := range d.operations {
		if d.replies[i].Verdict != bucket.OK {
			continue
		}
		if reply, bad := failed[at(o.Ref)]; bad {
			d.replies[i] = reply
			continue
		}
		p := ledger.Position{Bucket: o.Ref.Bucket, Epoch: o.Ref.Epoch, Seq: d.replies[i].Seq}
		d.outcomes[i] = outcomes[p]
		d.last = &recordedOperation{at: p, nonce: o.Request.Nonce}
	}
}

// verdictOf is what a store answers for an epoch that cannot be drained.
func verdictOf(err error) bucket.Reply {
	if errors.Is(err, ledger.ErrEnded) {
		return bucket.Reply{Verdict: bucket.EpochClosed}
	}
	return bucket.Reply{Verdict: bucket.Broken, Why: err.Error()}
}

// writeLives writes the store's rows of the epochs that were drained, and of their new log entries
// only the last, which replaces all before it.
func (d *direct) writeLives(reports []bucket.EpochReport) error {
	var written []*life
	var trims, lines []any
	for i, e := range d.lives.changed {
		if reports[i].Err != nil {
			continue
		}
		written = append(written, e)
		trims = append(trims, e.Bucket, e.Epoch, e.Epoch, e.Seq)
		last := e.entries[len(e.entries)-1]
		lines = append(lines, e.Bucket, e.Epoch, last.Seq, []byte(last.Chain+last.Line))
	}
	if err := d.t.writeLives(written); err != nil {
		return err
	}
	const columns = 4
	for chunk := range slices.Chunk(trims, columns*d.t.conn.dialect.updateRows) {
		list := repeat(trimWhere, " OR ", len(chunk)/columns)
		if _, err := d.t.exec(trimLines+list, chunk...); err != nil {
			return err
		}
	}
	return d.t.insert(insertLine, lineWidth, lines)
}
