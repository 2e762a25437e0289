// Package engine runs statements and transactions on SQLite, MySQL and MariaDB: connections,
// dialects, retries after a deadlock or a lost connection, the database's clock, and the tables of
// schema.sql. A COMMIT whose reply was lost is an error with code outcome_unknown; every other
// failure means that nothing was changed. The packages beside it are the parts of the database, one
// for each noun.
package engine

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket/span"
)

// Bounds of retries.
const (
	writeAttempts = 8
	readAttempts  = 3
	firstPause    = 2 * time.Millisecond
	longestPause  = 100 * time.Millisecond
	// rollbackLimit bounds the ROLLBACK of a transaction whose context may have ended.
	rollbackLimit = time.Second
)

// Reader is one connection during one read or one transaction.
type Reader struct {
	ctx  context.Context
	conn *conn
}

// List reads all rows into dest, a pointer to a slice.
func (r *Reader) List(dest any, query string, args ...any) error {
	return r.conn.list(r.ctx, dest, query, args...)
}

// Get reads one row into dest and reports whether there is one.
func (r *Reader) Get(dest any, query string, args ...any) (bool, error) {
	return r.conn.get(r.ctx, dest, query, args...)
}

// Plain returns the connection for parts that write their own SQL.
func (r *Reader) Plain() *sql.Conn { return r.conn.raw.Conn }

// Tx is one attempt of a writing transaction.
type Tx struct {
	Reader
	DB *DB
	// Now is SQL's clock, read once.
	Now time.Time
	// Unsure means that an earlier attempt of the same transaction may have been committed.
	Unsure bool
}

// Plain returns the connection for parts that write their own SQL. It marks the transaction as
// writing.
func (t *Tx) Plain() *sql.Conn {
	t.conn.changed++
	return t.Reader.Plain()
}

// Attest appends a row to the audit log. It takes the last lock of the transaction.
func (t *Tx) Attest(row auditlog.Row) error {
	return auditlog.Append(t.ctx, t.Plain(), t.conn.dialect.links, row)
}

// PruneAuditLog removes the oldest rows of the audit log: see auditlog.Prune.
func (t *Tx) PruneAuditLog(beforeMS int64, by auditlog.Row) error {
	_, err := auditlog.Prune(t.ctx, t.Plain(), t.conn.dialect.links, beforeMS, by)
	return err
}

// Exec runs one statement and returns how many rows it changed.
func (t *Tx) Exec(query string, args ...any) (int64, error) {
	return t.conn.exec(t.ctx, query, args...)
}

// Hit runs a statement that must match exactly want rows.
func (t *Tx) Hit(want int, query string, args ...any) error {
	n, err := t.Exec(query, args...)
	if err == nil && n != int64(want) {
		err = Defect("%d rows instead of %d: %s", n, want, query)
	}
	return err
}

// HitAll runs an UPDATE of rows listed by key, each of which must match. update ends with WHERE and
// has the parameters before; where is the condition of one row, keys holds its parameters row by
// row.
func (t *Tx) HitAll(update string, before []any, where string, keys []any) error {
	columns := strings.Count(where, "?")
	for chunk := range slices.Chunk(keys, columns*t.conn.dialect.updateRows) {
		n := len(chunk) / columns
		args := append(slices.Clone(before), chunk...)
		if err := t.Hit(n, update+Repeat(where, " OR ", n), args...); err != nil {
			return err
		}
	}
	return nil
}

// RowChange is the change of one row in an UPDATE of several.
type RowChange struct {
	// Key identifies the row, Values are set in it, Where is the condition under which it matches.
	Key, Values, Where []any
}

// ChangeRows runs an UPDATE with different values per row; every row must match. update ends with
// WHERE and has a $value for each of the values, in order; key and where are the conditions of one
// row. Several rows go into one statement, by CASE or, from dialect.joinRows on, by a join.
func (t *Tx) ChangeRows(update, key, where string, rows []RowChange) error {
	if least := t.conn.dialect.joinRows; least > 0 && len(rows) >= least {
		return t.joinRows(update, where, rows)
	}
	for chunk := range slices.Chunk(rows, t.conn.dialect.updateRows) {
		n, named := len(chunk), len(chunk[0].Key)
		value := "CASE " + Repeat("WHEN "+key+" THEN ?", " ", n) + " END"
		switch column, _, _ := strings.Cut(key, " = ?"); {
		case n == 1:
			value, named = "?", 0
		case differ(chunk):
			value, named = "CASE "+column+" "+Repeat("WHEN ? THEN ?", " ", n)+" END", 1
		}
		var args []any
		for i := range chunk[0].Values {
			for _, row := range chunk {
				args = append(args, row.Key[:named]...)
				args = append(args, row.Values[i])
			}
		}
		for _, row := range chunk {
			args = append(args, row.Where...)
		}
		text := strings.ReplaceAll(update, "$value", value) + Repeat("("+where+")", " OR ", n)
		if n == 1 {
			text = t.conn.dialect.constant(text)
		}
		if err := t.Hit(n, text, args...); err != nil {
			return err
		}
	}
	return nil
}

// joinRows is ChangeRows by a join with the list of the rows' values and parameters, in their
// order. The engine looks up each row by key instead of comparing it with all others. The list is
// sorted by key, so that rows not yet locked are locked in that order.
func (t *Tx) joinRows(update, where string, rows []RowChange) error {
	for chunk := range slices.Chunk(byKey(rows), t.conn.dialect.insertRows) {
		n, err := t.Execute(t.conn.dialect.joined(update, where, chunk))
		if err == nil && n != int64(len(chunk)) {
			err = Defect("%d rows instead of %d: %s", n, len(chunk), update)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// byKey returns the rows sorted by key.
func byKey(rows []RowChange) []RowChange {
	return slices.SortedFunc(slices.Values(rows), func(a, b RowChange) int {
		return slices.CompareFunc(a.Key, b.Key, compareParts)
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

// joined returns the statement of joinRows.
func (d *dialect) joined(update, where string, rows []RowChange) *Statement {
	s := &Statement{dialect: d}
	values := len(rows[0].Values)
	table, set, _ := strings.Cut(strings.TrimPrefix(update, "UPDATE "), " SET")
	set, _, _ = strings.Cut(set, "WHERE")
	s.SQL("UPDATE (")
	for i, row := range rows {
		switch {
		case i > 0 && !d.valuesList:
			s.SQL(" UNION ALL SELECT ")
		case i > 1:
			s.SQL("),(")
		case i > 0:
			s.SQL(" UNION ALL VALUES (")
		default:
			s.SQL("SELECT ")
		}
		for j := range values + len(row.Where) {
			if j > 0 {
				s.SQL(",")
			}
			if j < values {
				s.Value(row.Values[j])
			} else {
				s.Value(row.Where[j-values])
			}
			if i == 0 {
				s.SQL(" AS " + joinedColumn(j))
			}
		}
	}
	if d.valuesList && len(rows) > 1 {
		s.SQL(")")
	}
	s.SQL(
		") v /*in order*/ JOIN " + table + " SET" + joinedTo(set, "$value", 0) + "WHERE " + joinedTo(
			where,
			"?",
			values,
		),
	)
	return s
}

// Insert adds rows to a table: into names the table and its columns, args are their values row by
// row. It runs as many statements as the dialect wants.
func (t *Tx) Insert(into string, columns int, args []any) error {
	return t.InsertOr(into, columns, "", args)
}

// InsertOr is Insert with a clause at the end of the statement for existing rows.
func (t *Tx) InsertOr(into string, columns int, or string, args []any) error {
	return t.inserts(into, columns, or, args, func(text string, args []any) error {
		_, err := t.Exec(text, args...)
		return err
	})
}

// inserts cuts an INSERT into as many statements as the dialect wants, and runs each.
func (t *Tx) inserts(into string, columns int, or string, args []any,
	run func(string, []any) error) error {
	row := "(" + Repeat("?", ",", columns) + ")"
	size := t.conn.dialect.insertRows * columns
	for len(args) > 0 {
		n := fitting(args[:min(size, len(args))], columns)
		if err := run(into+" VALUES "+Repeat(row, ",", n/columns)+or, args[:n]); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}

// Write runs a transaction: fn reads, decides and writes. If fn returns nil the transaction is
// committed, otherwise rolled back. The whole transaction is retried after errors that allow it. op
// names the operation. A writing transaction also appends the row of the audit log that its context
// carries (package auditlog). Errors: that of fn; Unavailable if certainly nothing was committed;
// OutcomeUnknown if it may have been; Internal.
func (db *DB) Write(ctx context.Context, op string, fn func(*Tx) error) (err error) {
	ctx, end := span.Begin(ctx, "sql", op)
	defer func() { end(err) }()
	unsure, pause := false, firstPause
	for attempt := 1; ; attempt++ {
		t := &Tx{DB: db, Unsure: unsure}
		atCommit, err := db.attempt(ctx, t, fn)
		if err == nil {
			return nil
		}
		f := fateOf(err)
		if atCommit && !rolledBack(err) {
			unsure = true
		}
		if f == decided {
			return err
		}
		retried := f.retried() || atCommit && f == over
		if !retried || attempt >= writeAttempts || db.sleep(ctx, db.jitter(pause)) != nil {
			db.refused(err)
			if unsure {
				return maybeDone(op, err)
			}
			return notDone(op, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// attempt runs a transaction once. atCommit is true if the error came from COMMIT.
func (db *DB) attempt(ctx context.Context, t *Tx, fn func(*Tx) error) (atCommit bool, err error) {
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
	t.Reader, t.Now, c.changed = Reader{ctx: ctx, conn: c}, db.Now(), 0
	if err = fn(t); err == nil {
		err = caller.Err()
	}
	if err == nil && c.changed > 0 {
		err = auditlog.AppendOf(ctx, c.raw, c.dialect.links) // the last lock
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
	if c.changed > 0 {
		db.accepted()
	}
	return false, nil
}

// rollBack ends a transaction whose context may have ended already.
func rollBack(ctx context.Context, c *conn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	return c.command(ctx, "ROLLBACK")
}

// Read runs reads on one connection, each statement by itself, and repeats all of them if the
// connection is lost. Errors: that of fn, Unavailable, Internal.
func (db *DB) Read(ctx context.Context, op string, fn func(*Reader) error) (err error) {
	ctx, end := span.Begin(ctx, "sql", op)
	defer func() { end(err) }()
	pause := firstPause
	for attempt := 1; ; attempt++ {
		err := readOnce(ctx, db.readers, nil, fn)
		if err == nil {
			return nil
		}
		if !fateOf(err).retried() || attempt == readAttempts ||
			db.sleep(ctx, db.jitter(pause)) != nil {
			return notDone(op, err)
		}
		pause = min(2*pause, longestPause)
	}
}

// List reads all rows of a SELECT in a Read of its own.
func List[T any](ctx context.Context, db *DB, op, query string, args ...any) (out []T, err error) {
	err = db.Read(ctx, op, func(r *Reader) error {
		out = nil
		return r.List(&out, query, args...)
	})
	return out, err
}

// Snapshot is Read within one transaction and one snapshot.
func (db *DB) Snapshot(ctx context.Context, op string, fn func(*Reader) error) (err error) {
	ctx, end := span.Begin(ctx, "sql", op)
	defer func() { end(err) }()
	err = readOnce(ctx, db.auditors, db.dialect.snapshot, fn)
	if err != nil {
		return notDone(op, err)
	}
	return nil
}

func readOnce(ctx context.Context, from pool, begin []string, fn func(*Reader) error) error {
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
	err = fn(&Reader{ctx: ctx, conn: c})
	switch {
	case begin != nil:
		broken = rollBack(ctx, c) != nil
	case err == nil, fateOf(err) == decided:
		broken = false
	}
	return err
}
