package sqlstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/internal/safeguard"
)

// Bounds of doing a transaction again.
const (
	writeAttempts = 8
	readAttempts  = 3
	firstPause    = 2 * time.Millisecond
	longestPause  = 100 * time.Millisecond
	// rollbackLimit bounds the ROLLBACK of a transaction whose caller's context may be over.
	rollbackLimit = time.Second
)

// reader is one connection during one read, or one transaction.
type reader struct {
	ctx  context.Context
	conn *conn
}

func (r *reader) list(dest any, query string, args ...any) error {
	return r.conn.list(r.ctx, dest, query, args...)
}

func (r *reader) get(dest any, query string, args ...any) (bool, error) {
	return r.conn.get(r.ctx, dest, query, args...)
}

// tx is one attempt of a writing transaction.
type tx struct {
	reader
	db *DB
	// now is SQL's clock, read once.
	now time.Time
	// unsure says that an earlier attempt of the same transaction may have been committed.
	unsure bool
	// direct: what it drains was deducted by itself, and nobody was told "accepted".
	direct bool
	// guess allows to take ids for new without a look-up, and guessed says that some were: the primary
	// key of deduction tells, and the transaction is done again without guess.
	guess, guessed bool
	// ahead allows to count what limits are likely to allow before they are asked (limitBook.ahead), unless
	// DB.judgeFirst does not.
	ahead bool
}

func (t *tx) exec(query string, args ...any) (int64, error) {
	return t.conn.exec(t.ctx, query, args...)
}

// hit runs a statement that must match exactly that many rows.
func (t *tx) hit(want int, query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n != int64(want) {
		err = defect("%d rows instead of %d: %s", n, want, query)
	}
	return err
}

// hitAll runs an UPDATE for rows that are named one by one, each of which must match. update ends
// with WHERE and has the parameters before; where is the condition of one row, keys their
// parameters, row by row.
func (t *tx) hitAll(update string, before []any, where string, keys []any) error {
	columns := strings.Count(where, "?")
	for chunk := range slices.Chunk(keys, columns*t.conn.dialect.updateRows) {
		n := len(chunk) / columns
		args := append(slices.Clone(before), chunk...)
		if err := t.hit(n, update+repeat(where, " OR ", n), args...); err != nil {
			return err
		}
	}
	return nil
}

// rowChange is what an UPDATE of several rows sets in one of them.
type rowChange struct {
	// key names the row, values are set in it, where is the condition under which it matches.
	key, values, where []any
}

// changeRows runs an UPDATE that sets other values in each row; every row must match. update ends
// with WHERE and has a $value for each of the values, in their order; key and where are the
// conditions of one row. Several rows go into one statement, by CASE or, from dialect.joinRows on, by a join.
func (t *tx) changeRows(update, key, where string, rows []rowChange) error {
	if least := t.conn.dialect.joinRows; least > 0 && len(rows) >= least {
		return t.joinRows(update, where, rows)
	}
	for chunk := range slices.Chunk(rows, t.conn.dialect.updateRows) {
		n, named := len(chunk), len(chunk[0].key)
		value := "CASE " + repeat("WHEN "+key+" THEN ?", " ", n) + " END"
		switch column, _, _ := strings.Cut(key, " = ?"); {
		case n == 1:
			value, named = "?", 0
		case differ(chunk):
			value, named = "CASE "+column+" "+repeat("WHEN ? THEN ?", " ", n)+" END", 1
		}
		var args []any
		for i := range chunk[0].values {
			for _, row := range chunk {
				args = append(args, row.key[:named]...)
				args = append(args, row.values[i])
			}
		}
		for _, row := range chunk {
			args = append(args, row.where...)
		}
		text := strings.ReplaceAll(update, "$value", value) + repeat("("+where+")", " OR ", n)
		if n == 1 {
			text = t.conn.dialect.constant(text)
		}
		if err := t.hit(n, text, args...); err != nil {
			return err
		}
	}
	return nil
}

// joinRows is changeRows by a join with the list of the rows' values and parameters, in their order: what each row becomes and
// must fulfil is looked up by its key, and not compared with that of all the others. The list is sorted by key, so that rows
// which are not locked yet are locked in that order.
func (t *tx) joinRows(update, where string, rows []rowChange) error {
	for chunk := range slices.Chunk(byKey(rows), t.conn.dialect.insertRows) {
		n, err := t.execute(t.conn.dialect.joined(update, where, chunk))
		if err == nil && n != int64(len(chunk)) {
			err = defect("%d rows instead of %d: %s", n, len(chunk), update)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// byKey returns the rows in the order of their keys.
func byKey(rows []rowChange) []rowChange {
	return slices.SortedFunc(slices.Values(rows), func(a, b rowChange) int {
		return slices.CompareFunc(a.key, b.key, compareParts)
	})
}

// compareParts compares parts of keys: numbers, or texts byte by byte.
func compareParts(a, b any) int {
	switch a := a.(type) {
	case int64:
		if b, is := b.(int64); is {
			return cmp.Compare(a, b)
		}
	case []byte:
		if b, is := b.([]byte); is {
			return bytes.Compare(a, b)
		}
	}
	return 0 // of no order: no key has other parts
}

// joined writes the statement of joinRows.
func (d *dialect) joined(update, where string, rows []rowChange) *statement {
	s := &statement{dialect: d}
	values := len(rows[0].values)
	table, set, _ := strings.Cut(strings.TrimPrefix(update, "UPDATE "), " SET")
	set, _, _ = strings.Cut(set, "WHERE")
	s.sql("UPDATE (")
	for i, row := range rows {
		switch {
		case i > 0 && !d.valuesList:
			s.sql(" UNION ALL SELECT ")
		case i > 1:
			s.sql("),(")
		case i > 0:
			s.sql(" UNION ALL VALUES (")
		default:
			s.sql("SELECT ")
		}
		for j := range values + len(row.where) {
			if j > 0 {
				s.sql(",")
			}
			if j < values {
				s.value(row.values[j])
			} else {
				s.value(row.where[j-values])
			}
			if i == 0 {
				s.sql(" AS " + joinedColumn(j))
			}
		}
	}
	if d.valuesList && len(rows) > 1 {
		s.sql(")")
	}
	s.sql(") v /*in order*/ JOIN " + table + " SET" + joinedTo(set, "$value", 0) + "WHERE " + joinedTo(where, "?", values))
	return s
}

// joinedTo puts the columns of the list, from one on, in the places of a text.
func joinedTo(text, place string, column int) string {
	for strings.Contains(text, place) {
		text = strings.Replace(text, place, "v."+joinedColumn(column), 1)
		column++
	}
	return text
}

func joinedColumn(n int) string { return "v" + strconv.Itoa(n) }

// differ reports whether each row's key begins with another number.
func differ(rows []rowChange) bool {
	seen := make(map[int64]bool, len(rows))
	for _, row := range rows {
		n, is := row.key[0].(int64)
		if !is || seen[n] {
			return false
		}
		seen[n] = true
	}
	return true
}

// insert adds rows to a table: into names the table and its columns, args are their values row by
// row. It is cut to as many statements as the dialect wants.
func (t *tx) insert(into string, columns int, args []any) error {
	return t.insertOr(into, columns, "", args)
}

// insertOr is insert with what to do about rows that are there, which ends the statement.
func (t *tx) insertOr(into string, columns int, or string, args []any) error {
	return t.inserts(into, columns, or, args, func(text string, args []any) error {
		_, err := t.exec(text, args...)
		return err
	})
}

// inserts cuts an INSERT to as many statements as the dialect wants, and runs each.
func (t *tx) inserts(into string, columns int, or string, args []any, run func(string, []any) error) error {
	row := "(" + repeat("?", ",", columns) + ")"
	size := t.conn.dialect.insertRows * columns
	for len(args) > 0 {
		n := fitting(args[:min(size, len(args))], columns)
		if err := run(into+" VALUES "+repeat(row, ",", n/columns)+or, args[:n]); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}

// statementBytes bounds the parameters of one statement: servers accept at least 16 MiB.
const statementBytes = 4 << 20

// fitting returns how many of the arguments, in whole rows and at least one, fit one statement.
func fitting(args []any, columns int) int {
	bytes := 0
	for i, arg := range args {
		if text, ok := arg.([]byte); ok {
			bytes += 2 * len(text) // escaped
		}
		if bytes > statementBytes && i >= columns {
			return i / columns * columns
		}
	}
	return len(args)
}

// write runs a transaction: fn reads, decides and writes; when it returns nil the transaction is
// committed, otherwise rolled back. It is done again as a whole after errors that ask for it. op
// names the business step. Errors: what fn decided; Unavailable when certainly nothing was
// committed; OutcomeUnknown when it may have been; Internal.
func (db *DB) write(ctx context.Context, op string, fn func(*tx) error) error {
	unsure, guess, ahead, pause := false, next(&db.lookUps), true, firstPause
	for attempt := 1; ; attempt++ {
		t := &tx{db: db, unsure: unsure, guess: guess, ahead: ahead}
		atCommit, err := db.attempt(ctx, t, fn)
		if err == nil || atCommit && safeguard.Off(safeguard.LostCommit) {
			return nil
		}
		f := fateOf(err)
		if guess = guess && !t.guessed; t.guessed && f == taken {
			db.lookUps.Store(db.guessAgainAfter)
			continue // at once, and only once
		}
		if errors.Is(err, errCountedAhead) {
			db.judgeFirst.Store(db.guessAgainAfter)
			ahead = false
			continue // as above
		}
		if atCommit && !rolledBack(err) {
			unsure = true
		}
		if f == decided {
			return err
		}
		retried := f.retried() || atCommit && f == over
		if !retried || attempt >= writeAttempts || db.sleep(ctx, db.jitter(pause)) != nil {
			if unsure {
				return maybeDone(op, err)
			}
			return notDone(op, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// next reports whether the next transaction may guess, and takes it from those that may not.
func next(without *atomic.Int64) bool {
	return without.Load() <= 0 || without.Add(-1) < 0
}

// attempt runs a transaction once. atCommit says that the error came from COMMIT.
func (db *DB) attempt(ctx context.Context, t *tx, fn func(*tx) error) (atCommit bool, err error) {
	c, err := db.writers.acquire(ctx)
	if err != nil {
		return false, err
	}
	broken := true // also when fn panics
	defer func() { db.writers.release(c, broken) }()
	caller, ctx := ctx, db.writers.statementContext(ctx)
	if err := c.command(ctx, c.dialect.begin); err != nil {
		return false, err
	}
	t.reader, t.now = reader{ctx: ctx, conn: c}, db.Now()
	if err = fn(t); err == nil {
		err = caller.Err()
	}
	if err != nil {
		broken = rollBack(ctx, c) != nil
		return false, err
	}
	if err = c.command(ctx, "COMMIT"); err != nil {
		broken = !rolledBack(err) || rollBack(ctx, c) != nil
		return true, err
	}
	broken = false
	return false, nil
}

// rollBack ends a transaction whose context may be over already.
func rollBack(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	return c.command(ctx, safeguard.Swap(safeguard.RolledBack, "ROLLBACK", "ROLLBACK", "COMMIT"))
}

// read runs reads on one connection, each statement for itself, and does all of them again when the
// connection was lost. Errors: what fn decided, Unavailable, Internal.
func (db *DB) read(ctx context.Context, op string, fn func(*reader) error) error {
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := readOnce(ctx, db.readers, nil, fn)
		if err == nil {
			return nil
		}
		if !fateOf(err).retried() || attempt == readAttempts || db.sleep(ctx, db.jitter(pause)) != nil {
			return notDone(op, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// snapshot is read within one transaction that sees one moment.
func (db *DB) snapshot(ctx context.Context, op string, fn func(*reader) error) error {
	err := readOnce(ctx, db.auditors, db.dialect.snapshot, fn)
	if err != nil {
		return notDone(op, err)
	}
	return nil
}

func readOnce(ctx context.Context, from pool, begin []string, fn func(*reader) error) error {
	c, err := from.acquire(ctx)
	if err != nil {
		return err
	}
	broken := true
	defer func() { from.release(c, broken) }()
	for _, text := range begin {
		if err := c.command(ctx, text); err != nil {
			return err
		}
	}
	err = fn(&reader{ctx: ctx, conn: c})
	switch {
	case begin != nil:
		broken = rollBack(ctx, c) != nil
	case err == nil, fateOf(err) == decided:
		broken = false
	}
	return err
}
