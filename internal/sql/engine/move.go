package engine

import (
	"context"
	"database/sql"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket/span"
	"github.com/budgetd/budgetd/budget"
)

// Move is one attempt of a movement: a transaction that loads rows under their locks, and saves
// what was decided together with its COMMIT. On a server each is one round trip. One goroutine uses
// it.
type Move struct {
	// Now is SQL's clock, read after the last Load, and so under its locks.
	Now time.Time
	// Unsure means that an earlier attempt of the same movement may have been committed.
	Unsure bool

	db    *DB
	ctx   context.Context
	tx    *Tx         // of a file
	conn  *PacketConn // of a server
	begun bool
	saves []*Statement
	look  *lookAfter
}

// Looks returns SELECTs, and the slices for their rows. It may be called several times.
type Looks func(begin func() *Statement) (texts []*Statement, into []any)

// lookAfter is what is read after the COMMIT of a movement.
type lookAfter struct {
	queries Looks
	done    bool
}

// bucketRows is the most rows of one INSERT in a packet: those of the largest budget.
const bucketRows = 1024

// Statement begins a statement.
func (m *Move) Statement() *Statement { return &Statement{dialect: m.db.dialect} }

// Joins reports whether rows with different values are changed by one UPDATE that joins their list.
func (m *Move) Joins() bool { return m.tx == nil }

// InsertRows is the most rows of one INSERT.
func (m *Move) InsertRows() int {
	if m.tx != nil {
		return m.db.dialect.insertRows
	}
	return bucketRows
}

// Load runs SELECTs. The rows of each go to the slice to which its element of into points.
func (m *Move) Load(queries []*Statement, into []any) error {
	defer func() { m.Now = m.db.Now() }()
	if m.tx != nil {
		for i, q := range queries {
			if err := m.tx.RowsOf(into[i], q); err != nil {
				return err
			}
		}
		return nil
	}
	packet := m.Statement()
	if !m.begun { // START TRANSACTION would commit what a failed packet left open
		packet.SQL("ROLLBACK;")
		if !m.db.dialect.valuesList {
			packet.SQL(waitsBriefly)
		}
	}
	m.begun = true
	for _, q := range queries {
		packet.append(q)
	}
	return m.conn.load(m.ctx, packet, into)
}

// Read runs further reads within the transaction, each a round trip on a server. Load comes first.
func (m *Move) Read(fn func(*Reader) error) error {
	if m.tx != nil {
		return fn(&m.tx.Reader)
	}
	return m.conn.Read(m.ctx, fn)
}

// Save adds a statement to those that are run with the COMMIT, in the order of the calls.
func (m *Move) Save(s *Statement) { m.saves = append(m.saves, s) }

// Inserting begins rows of a table that are saved.
func (m *Move) Inserting(into, or string, rows int) *Inserting {
	return &Inserting{Statement: *m.Statement(), into: into, or: or, left: rows,
		run: func(s *Statement, _ int) error {
			one := m.Statement()
			one.text.WriteString(s.text.String())
			one.args = s.args
			m.Save(one)
			return nil
		}}
}

// append appends a statement to a packet.
func (s *Statement) append(other *Statement) {
	s.text.WriteString(other.text.String())
	s.text.WriteByte(';')
	s.args = append(s.args, other.args...)
}

// load sends a packet of SELECTs.
func (c *PacketConn) load(ctx context.Context, packet *Statement, into []any) error {
	if len(packet.args) > 0 {
		return Defect("a packet with parameters")
	}
	c.broken = true
	rows, err := c.raw.QueryContext(ctx, packet.text.String())
	if err != nil {
		return err
	}
	defer rows.Close()
	for i := range into {
		if i > 0 && !rows.NextResultSet() {
			return missing(rows, i)
		}
		if err := sqlx.StructScan(rows, into[i]); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	c.broken = false
	return rows.Close()
}

// missing returns why a packet has no further result.
func missing(rows *sql.Rows, i int) error {
	if err := rows.Err(); err != nil {
		return err
	}
	return Defect("a packet without its result %d", i)
}

func (db *DB) begin() *Statement { return &Statement{dialect: db.dialect} }

// Look runs SELECTs on one connection, each with a snapshot of its own, and repeats all of them if
// the connection is lost. On a server they are one round trip. Errors: Unavailable, Internal.
func (db *DB) Look(ctx context.Context, op string, queries Looks) error {
	if db.committers == nil {
		return db.Read(ctx, op, func(r *Reader) error {
			texts, into := queries(db.begin)
			for i, s := range texts {
				if err := r.RowsOf(into[i], s); err != nil {
					return err
				}
			}
			return nil
		})
	}
	ctx, end := span.Begin(ctx, "sql", op)
	pause := firstPause
	for attempt := 1; ; attempt++ {
		texts, into := queries(db.begin)
		err := db.lookOnce(ctx, texts, into)
		if err == nil || !fateOf(err).retried() || attempt == readAttempts ||
			db.sleep(ctx, db.jitter(pause)) != nil {
			if err != nil {
				err = notDone(op, err)
			}
			end(err)
			return err
		}
		pause = min(2*pause, longestPause)
	}
}

func (db *DB) lookOnce(ctx context.Context, texts []*Statement, into []any) error {
	select {
	case db.lookers <- struct{}{}:
		defer func() { <-db.lookers }()
	case <-ctx.Done():
		return ctx.Err()
	}
	conn, err := db.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Look(ctx, texts, into)
}

// Move runs a movement: fn loads, decides and saves. If fn returns nil and has saved something,
// that is committed, with the row of the audit log that the context carries (package auditlog);
// otherwise nothing is. The whole movement is repeated after errors that allow it, so fn must set
// all its results each time. After a lost COMMIT the next attempt begins once the server no longer
// knows the connection of the earlier one. Errors: that of fn; Unavailable if certainly nothing was
// committed; OutcomeUnknown if it may have been; Internal.
func (db *DB) Move(ctx context.Context, op string, fn func(*Move) error) (err error) {
	if db.committers == nil {
		return db.Write(ctx, op, func(t *Tx) error { return db.moveInFile(t, fn) })
	}
	ctx, end := span.Begin(ctx, "sql", op)
	defer func() { end(err) }()
	unsure, pause := false, firstPause
	for attempt := 1; ; attempt++ {
		sent, err := db.attemptMove(ctx, &Move{Now: db.Now(), Unsure: unsure, db: db, ctx: ctx}, fn)
		if err == nil || fateOf(err) == decided {
			return err
		}
		unsure = unsure || sent == NoReply
		if !fateOf(err).retried() || attempt >= writeAttempts ||
			db.sleep(ctx, db.jitter(pause)) != nil {
			db.refused(err)
			if unsure {
				return maybeDone(op, err)
			}
			return notDone(op, err)
		}
		pause = min(2*pause, longestPause)
	}
}

func (db *DB) moveInFile(t *Tx, fn func(*Move) error) error {
	m := &Move{Now: t.Now, Unsure: t.Unsure, db: db, ctx: t.ctx, tx: t}
	if err := fn(m); err != nil {
		return err
	}
	for _, s := range m.saves {
		if _, err := t.Execute(s); err != nil {
			return err
		}
	}
	return nil
}

// MoveAndLook is Move, and then reads what the movement has left. On a server the SELECTs go with
// the COMMIT, after it: no lock is held, and the same round trip brings their rows. Each has a
// snapshot of its own. If nothing was saved, or their rows were lost, they are run again; if that
// fails, the outcome is unknown.
func (db *DB) MoveAndLook(ctx context.Context, op string, fn func(*Move) error,
	queries Looks) error {
	after := &lookAfter{queries: queries}
	err := db.Move(ctx, op, func(m *Move) error {
		m.look = after
		return fn(m)
	})
	if err != nil || after.done {
		return err
	}
	if err := db.Look(ctx, op, queries); err != nil {
		return &budget.Error{Code: budget.OutcomeUnknown, Op: op, Err: err,
			Message: "the change may have been made, but could not be read back; repeat the call"}
	}
	return nil
}

// Attest appends a row to the audit log, in a transaction of its own, which on a server is one
// round trip. A row whose COMMIT lost its reply may be there twice. Errors: those of Move.
func (db *DB) Attest(ctx context.Context, row auditlog.Row) error {
	ctx = auditlog.NewContext(ctx, nil)
	if db.committers == nil {
		return db.Write(ctx, "audit log", func(t *Tx) error { return t.Attest(row) })
	}
	return db.Move(ctx, "audit log", func(m *Move) error {
		m.attest(row)
		return nil
	})
}

// attest saves the statements that link a row of the audit log, after all others.
func (m *Move) attest(row auditlog.Row) {
	for _, linking := range auditlog.Linking(row) {
		s := m.Statement()
		s.Fill(linking.Text, func(at int) {
			if text, is := linking.Values[at].([]byte); is && text == nil {
				s.Null()
				return
			}
			s.Value(linking.Values[at])
		})
		m.Save(s)
	}
}

// attemptMove runs a movement once, on a server.
func (db *DB) attemptMove(ctx context.Context, m *Move, fn func(*Move) error) (Sent, error) {
	conn, err := db.connect(ctx)
	if err != nil {
		return Unsent, err
	}
	defer conn.Close()
	m.conn = conn
	if err = fn(m); err == nil && len(m.saves) > 0 {
		return db.save(ctx, m)
	}
	if !conn.broken {
		conn.broken = conn.rollBack(ctx) != nil
	}
	return Failed, err
}

// rollBack ends a transaction whose context may have ended already.
func (c *PacketConn) rollBack(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackLimit)
	defer cancel()
	text := "ROLLBACK"
	if !c.db.dialect.valuesList {
		text = waitsUsually + text
	}
	_, err := c.raw.ExecContext(ctx, text)
	return err
}

// save sends what a movement saves, and its COMMIT. The SELECT tells a refused statement from a
// refused COMMIT.
func (db *DB) save(ctx context.Context, m *Move) (Sent, error) {
	if entry := auditlog.FromContext(ctx); entry != nil {
		m.attest(entry.Succeed())
	}
	packet := m.Statement()
	if !m.begun {
		packet.SQL("ROLLBACK;")
	}
	for _, s := range m.saves {
		packet.append(s)
	}
	if !db.dialect.valuesList {
		packet.SQL(waitsUsually)
	}
	packet.SQL("SELECT 1;COMMIT")
	var into []any
	if m.look != nil { // a SELECT that cannot fail tells a refused COMMIT from a refused look
		packet.SQL(";SELECT 1;")
		var texts []*Statement
		texts, into = m.look.queries(db.begin)
		for _, s := range texts {
			packet.append(s)
		}
		packet.SQL("COMMIT") // ends the snapshot
	}
	if packet.Len() > MostPacket {
		m.conn.broken = true
		return Unsent, Defect("a packet of %d bytes", packet.Len())
	}
	sent, err := m.conn.send(ctx, packet, func(*sql.Rows) error { return nil }, into)
	if m.look != nil {
		m.look.done = sent == Committed && !m.conn.broken
	}
	if sent == NoReply {
		if e := m.conn.Kill(ctx); e != nil {
			return sent, maybeDone("save", err)
		}
	}
	return sent, err
}
