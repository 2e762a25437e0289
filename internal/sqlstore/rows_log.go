package sqlstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

const (
	selectLives = `SELECT e.bucket_id, e.epoch, e.activation, e.closed, e.balance, e.seq, e.grant_seq,
		e.granted, e.deducted, e.chain FROM store_balance e /*by PRIMARY*/ WHERE `
	selectNewest = `SELECT bucket_id, MAX(epoch) AS epoch FROM store_log WHERE bucket_id IN (`
	insertLife   = `INSERT INTO store_balance (bucket_id, epoch, activation, closed, balance, seq,
		grant_seq, granted, deducted, chain)`
	updateLives = `UPDATE store_balance /*by PRIMARY*/ SET closed = $value, balance = $value,
		seq = $value, grant_seq = $value, granted = $value, deducted = $value, chain = $value WHERE `
	insertLine = `INSERT INTO store_log (bucket_id, epoch, seq, entry)`

	lifeWidth, lineWidth = 10, 4
)

// readLives reads rows of store_balance, in key order, with a suffix to the statement (a lock).
func (r *reader) readLives(positions []position, suffix string) (map[position]*life, error) {
	positions = slices.Clone(positions)
	slices.SortFunc(positions, comparePositions)
	positions = slices.Compact(positions)
	out := make(map[position]*life, len(positions))
	for chunk := range slices.Chunk(positions, listChunk) {
		rows := make([]life, 0, len(chunk))
		if err := r.rowsOf(&rows, r.ofPositions(selectLives, chunk, inKeyOrder+suffix)); err != nil {
			return nil, err
		}
		for i := range rows {
			out[position{rows[i].Bucket, rows[i].Epoch}] = &rows[i]
		}
	}
	return out, nil
}

// lockLives locks the balances of epochs and reads which epoch their logs have come to.
func (t *tx) lockLives(positions []position, serves int64) (*lives, error) {
	rows, err := t.readLives(positions, locked)
	if err != nil {
		return nil, err
	}
	l := &lives{t: t, serves: serves, rows: rows, newest: map[int64]int64{}}
	ids := make([]int64, len(positions))
	for i, p := range positions {
		ids[i] = p.bucket
	}
	slices.Sort(ids)
	for chunk := range slices.Chunk(slices.Compact(ids), listChunk) {
		args := t.numbersOf(chunk)
		var newest []struct {
			Bucket int64 `db:"bucket_id"`
			Epoch  int64 `db:"epoch"`
		}
		query := selectNewest + repeat("?", ",", len(args)) + ") GROUP BY bucket_id"
		if err := t.list(&newest, query, args...); err != nil {
			return nil, err
		}
		for _, row := range newest {
			l.newest[row.Bucket] = row.Epoch
		}
	}
	return l, nil
}

// write writes what the operations changed. It returns one of the changed epochs, nil if nothing
// did.
func (l *lives) write() (*life, error) {
	slices.SortFunc(l.changed, func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.Epoch, b.Epoch))
	})
	if len(l.changed) == 0 {
		return nil, nil //nolint:nilnil // nothing was changed
	}
	if err := l.t.writeLives(l.changed); err != nil {
		return nil, err
	}
	var lines []any
	for _, e := range l.changed {
		for _, entry := range e.entries {
			lines = append(lines, e.Bucket, e.Epoch, entry.Seq, []byte(entry.Chain+entry.Line))
		}
	}
	return l.changed[0], l.t.insert(insertLine, lineWidth, lines)
}

// writeLives writes rows of store_balance: new ones, and those that were changed since their last
// entry before.
func (t *tx) writeLives(changed []*life) error {
	var made []any
	var rows []rowChange
	for _, e := range changed {
		if e.made {
			made = append(made, e.Bucket, e.Epoch, e.Activation, e.Closed, e.Balance, e.Seq, e.GrantSeq,
				e.Granted, e.Deducted, []byte(e.Chain))
			continue
		}
		rows = append(rows, rowChange{
			key: []any{e.Bucket, e.Epoch},
			values: []any{e.Closed, e.Balance, e.Seq, e.GrantSeq, e.Granted, e.Deducted,
				[]byte(e.Chain)},
			where: []any{e.Bucket, e.Epoch, e.Seq - int64(len(e.entries))},
		})
	}
	if err := t.insert(insertLife, lifeWidth, made); err != nil {
		return err
	}
	return t.changeRows(updateLives, ofEpoch, ofEpoch+` AND seq = ?`, rows)
}

const selectLine = `SELECT entry FROM store_log WHERE bucket_id = ? AND epoch = ? AND seq = ?`

// wrote reports whether an earlier attempt, whose commit stayed unknown, was committed: its last
// entry is in the log then, and its chain value is nobody else's. The epoch is locked, so that
// attempt is over.
func (t *tx) wrote(tried *life) (bool, error) {
	var entry []byte
	found, err := t.get(&entry, selectLine, tried.Bucket, tried.Epoch, tried.Seq)
	if err != nil || !found {
		return false, err
	}
	return string(entry[:min(len(entry), ledger.ChainBytes)]) == tried.Chain, nil
}

const selectLines = `SELECT seq, entry FROM store_log WHERE bucket_id = ? AND epoch = ? AND seq >= ?
	ORDER BY seq LIMIT ?`

// Read reads logs. See bucket.Log.
func (s *Rows) Read(ctx context.Context, lane bucket.Lane, cursors []bucket.Cursor, limit int) (
	[]bucket.Extract, error) {
	if err := checkAll(cursors, checkCursor); err != nil || len(cursors) == 0 {
		return nil, err
	}
	if _, err := s.activation("read", lane); err != nil {
		return nil, err
	}
	out := make([]bucket.Extract, len(cursors))
	err := s.db.read(ctx, "read", func(r *reader) error {
		for i, c := range cursors {
			lines, err := r.lines(c, limit)
			if err != nil {
				return err
			}
			out[i] = parse(lines)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func checkCursor(c bucket.Cursor) error { return c.Check() }

type lineRow struct {
	Seq   int64  `db:"seq"`
	Entry []byte `db:"entry"`
}

func (r *reader) lines(c bucket.Cursor, limit int) ([]lineRow, error) {
	var lines []lineRow
	err := r.list(&lines, selectLines, c.Ref.Bucket, c.Ref.Epoch, c.From, max(limit, 0))
	return lines, err
}

// parse reads entries; one that is not an entry makes the log unreadable.
func parse(lines []lineRow) (out bucket.Extract) {
	for _, line := range lines {
		entry, err := ledger.ParseEntry(line.Seq, string(line.Entry))
		if err != nil {
			out.Err = &ledger.Mismatch{Why: err.Error()}
			return out
		}
		out.Entries = append(out.Entries, entry)
	}
	return out
}

// Balances reads balances. See bucket.Log.
func (s *Rows) Balances(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) (
	[]bucket.Balance, error) {
	if err := checkAll(refs, bucket.Ref.Check); err != nil || len(refs) == 0 {
		return nil, err
	}
	if _, err := s.activation("balances", lane); err != nil {
		return nil, err
	}
	positions := make([]position, len(refs))
	for i, ref := range refs {
		positions[i] = at(ref)
	}
	out := make([]bucket.Balance, len(refs))
	err := s.db.read(ctx, "balances", func(r *reader) error {
		rows, err := r.readLives(positions, "")
		for i, p := range positions {
			out[i] = rows[p].state()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (e *life) state() bucket.Balance {
	if e == nil {
		return bucket.Balance{Verdict: bucket.EpochGone}
	}
	if why := e.broken(); why != "" {
		return bucket.Balance{Verdict: bucket.Broken, Why: why}
	}
	return bucket.Balance{Verdict: bucket.OK, Closed: e.Closed != 0, Seq: e.Seq, GrantSeq: e.GrantSeq,
		Balance: e.Balance, Granted: e.Granted, Deducted: e.Deducted}
}

const (
	selectLastLine = `SELECT epoch, seq FROM store_log WHERE bucket_id = ?
		ORDER BY epoch DESC, seq DESC LIMIT 1`
	trimLines  = `DELETE /*of e*/ FROM store_log AS e /*by PRIMARY*/ WHERE `
	trimWhere  = `(e.bucket_id = ? AND (e.epoch < ? OR e.epoch = ? AND e.seq < ?))`
	leaveLines = `DELETE FROM store_log WHERE bucket_id = ? AND epoch <= ?`
	forgetLife = `DELETE FROM store_balance WHERE bucket_id = ? AND epoch = ?`
)

// Trim forgets entries below positions. See bucket.Log.
func (s *Rows) Trim(ctx context.Context, lane bucket.Lane, cursors []bucket.Cursor) error {
	if err := checkAll(cursors, checkCursor); err != nil || len(cursors) == 0 {
		return err
	}
	if _, err := s.activation("trim", lane); err != nil {
		return err
	}
	return s.db.write(ctx, "trim", func(t *tx) error {
		for _, c := range cursors {
			var last struct {
				Epoch int64 `db:"epoch"`
				Seq   int64 `db:"seq"`
			}
			found, err := t.get(&last, selectLastLine, c.Ref.Bucket)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			epoch, from := c.Ref.Epoch, c.From
			if epoch > last.Epoch || epoch == last.Epoch && from > last.Seq {
				epoch, from = last.Epoch, last.Seq // the last entry stays
			}
			if _, err := t.exec(trimLines+trimWhere, c.Ref.Bucket, epoch, epoch, from); err != nil {
				return err
			}
		}
		return nil
	})
}

// Discard deletes nothing: nobody writes into these logs but budgetd, and Open never says that one ends
// beyond its epoch. See bucket.Log.
func (s *Rows) Discard(ctx context.Context, lane bucket.Lane, ends []bucket.LogEnd) ([]bool, error) {
	err := checkAll(ends, func(e bucket.LogEnd) error { return e.Ref.Check() })
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	if _, err := s.activation("discard", lane); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, notDone("discard", err)
	}
	return make([]bool, len(ends)), nil
}

// Leave deletes what logs hold of epochs up to those named: the bucket may be back, in this very table.
// See bucket.Log.
func (s *Rows) Leave(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) error {
	if err := checkAll(refs, bucket.Ref.Check); err != nil || len(refs) == 0 {
		return err
	}
	if _, err := s.activation("leave", lane); err != nil {
		return err
	}
	return s.db.write(ctx, "leave", func(t *tx) error {
		for _, ref := range refs {
			if _, err := t.exec(leaveLines, ref.Bucket, ref.Epoch); err != nil {
				return err
			}
		}
		return nil
	})
}

// Forget removes balances. See bucket.Log.
func (s *Rows) Forget(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) error {
	if err := checkAll(refs, bucket.Ref.Check); err != nil || len(refs) == 0 {
		return err
	}
	if _, err := s.activation("forget", lane); err != nil {
		return err
	}
	return s.db.write(ctx, "forget", func(t *tx) error {
		for _, ref := range refs {
			if _, err := t.exec(forgetLife, ref.Bucket, ref.Epoch); err != nil {
				return err
			}
		}
		return nil
	})
}
