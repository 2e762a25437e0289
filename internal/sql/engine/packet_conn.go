package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"

	"github.com/budgetd/budgetd/bucket/span"
)

// committingSession is servingSession without autocommit: a packet begins with ROLLBACK and ends
// with COMMIT. The locks of a movement whose node has stopped fall after 1 s: the setting in the
// comment is MariaDB's, and on MySQL the packet that takes locks says so (waitsBriefly).
const committingSession = `SET SESSION /*M!100300 idle_transaction_timeout = 1, */ autocommit = 0`

// MySQL closes a session that is idle for longer than this, in a movement and otherwise.
const (
	waitsBriefly = `SET SESSION wait_timeout = 1;`
	waitsUsually = `SET SESSION wait_timeout = 10;`
)

// MostPacket is the largest packet in bytes: servers accept at least leastPacket.
const MostPacket = leastPacket / 2

// TakesPackets reports whether a transaction can be sent as one packet, which a server accepts and
// a file does not.
func (db *DB) TakesPackets() bool { return db.committers != nil }

// newCommitters returns the pool whose connections accept packets: several statements at once,
// without autocommit. They bind no parameters, and count only matched rows that change.
func (db *DB) newCommitters(parsed *mysql.Config, size int) (*sqlx.DB, error) {
	own := parsed.Clone()
	own.MultiStatements, own.ClientFoundRows, own.InterpolateParams = true, false, false
	inner, err := mysql.NewConnector(own)
	if err != nil {
		return nil, fmt.Errorf("database.dsn: %w", err)
	}
	settings := []string{isolation, servingSession, committingSession}
	pool := sql.OpenDB(&connector{Connector: inner, settings: settings, named: true})
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	pool.SetConnMaxIdleTime(idleLimit)
	pool.SetConnMaxLifetime(connLifetime)
	return sqlx.NewDb(pool, mysqlName), nil
}

// PacketConn is one connection that accepts packets. One goroutine uses it at a time.
type PacketConn struct {
	db     *DB
	raw    *sqlx.Conn
	thread thread
	broken bool
}

// thread is the server's id of a connection.
type thread struct {
	id   int64
	host string
}

// PacketConn waits until the context ends for a connection that accepts packets. It returns
// Unavailable if the context ends first.
func (db *DB) PacketConn(ctx context.Context) (*PacketConn, error) {
	c, err := db.connect(ctx)
	if err != nil {
		return nil, notDone("commit", err)
	}
	return c, nil
}

// connect is PacketConn with the database's own error.
func (db *DB) connect(ctx context.Context) (*PacketConn, error) {
	raw, err := db.committers.Connx(ctx)
	if err != nil {
		return nil, err
	}
	c := &PacketConn{db: db, raw: raw, broken: true}
	err = raw.Raw(func(inner any) error {
		s, ok := inner.(*serverConn)
		if !ok {
			return Defect("a connection of another type: %T", inner)
		}
		c.thread = s.thread
		return nil
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	c.broken = false
	return c, nil
}

// Close returns the connection to the pool. After any failure it closes the connection, which rolls
// back what an interrupted packet left open.
func (c *PacketConn) Close() {
	if c.broken {
		_ = c.raw.Raw(func(any) error { return driver.ErrBadConn })
	}
	_ = c.raw.Close()
}

// Statement begins a statement or a packet of statements separated by semicolons.
func (c *PacketConn) Statement() *Statement { return &Statement{dialect: c.db.dialect} }

// Inserting begins rows of a table that are added to a packet.
func (c *PacketConn) Inserting(packet *Statement, into, or string, rows int) *Inserting {
	return &Inserting{Statement: Statement{dialect: c.db.dialect}, into: into, or: or, left: rows,
		run: func(s *Statement, _ int) error {
			packet.text.WriteString(s.text.String())
			packet.text.WriteByte(';')
			return nil
		}}
}

// Len returns the length of the statement's text so far, in bytes.
func (s *Statement) Len() int { return s.text.Len() }

// ListsValues reports whether a list of constants is written as UNION ALL VALUES (…), (…).
func (s *Statement) ListsValues() bool { return s.dialect.valuesList }

// Read runs reads on the connection, without locks, before a packet is sent.
func (c *PacketConn) Read(ctx context.Context, fn func(*Reader) error) error {
	err := fn(&Reader{ctx: ctx, conn: newConn(c.raw, c.db.dialect)})
	c.broken = c.broken || err != nil
	return err
}

// Look runs SELECTs before a packet is sent, without locks, in one round trip.
func (c *PacketConn) Look(ctx context.Context, queries []*Statement, into []any) error {
	packet := c.Statement()
	for _, q := range queries {
		packet.append(q)
	}
	packet.SQL("COMMIT") // ends the snapshot of a connection without autocommit
	return c.load(ctx, packet, into)
}

// Sent is the outcome of a packet.
type Sent uint8

// The outcomes of a packet.
const (
	// Committed means that the server has acknowledged its COMMIT.
	Committed Sent = iota + 1
	// Failed means that the server refused a statement before COMMIT. Nothing was committed.
	Failed
	// Unsent means that not a byte was sent.
	Unsent
	// NoReply means that the packet may have been committed.
	NoReply
)

// Send sends a packet: a ROLLBACK, statements without results, one SELECT whose rows go to row, and
// a COMMIT. After a statement that fails the server skips the rest of the packet, so nothing is
// committed. The error says why the packet was not Committed.
func (c *PacketConn) Send(ctx context.Context, packet *Statement,
	row func(*sql.Rows) error) (Sent, error) {
	return c.send(ctx, packet, row, nil)
}

// send is Send of a packet that may go on after its COMMIT: with a SELECT of one row, and one for
// each element of after, to which their rows go. If these fail, the packet is Committed, and the
// connection is broken.
func (c *PacketConn) send(ctx context.Context, packet *Statement, row func(*sql.Rows) error,
	after []any) (_ Sent, err error) {
	ctx, end := span.Begin(ctx, "sql", "packet")
	defer func() { end(err) }()
	if len(packet.args) > 0 {
		return Unsent, Defect("a packet with parameters")
	}
	c.broken = true
	rows, err := c.raw.QueryContext(ctx, packet.text.String())
	if err != nil {
		return sentBefore(err), err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return NoReply, err
		}
	}
	if err := rows.Err(); err != nil {
		return NoReply, err
	}
	more := rows.NextResultSet()
	switch err := rows.Err(); { // the answer to COMMIT
	case err != nil && rolledBack(err):
		return Failed, err
	case err != nil:
		return NoReply, err
	case more != (after != nil):
		return NoReply, Defect("a packet with more or fewer results than SELECTs")
	}
	c.db.accepted()
	for i := range after {
		if !rows.NextResultSet() || sqlx.StructScan(rows, after[i]) != nil {
			return Committed, nil
		}
	}
	c.broken = rows.Close() != nil
	return Committed, nil
}

// sentBefore returns the outcome of a packet whose SELECT was not answered.
func sentBefore(err error) Sent {
	var my *mysql.MySQLError
	switch {
	case errors.As(err, &my):
		return Failed
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone):
		return Unsent
	}
	return NoReply
}

const (
	selectThread = `SELECT CONNECTION_ID(), (SELECT HOST FROM information_schema.PROCESSLIST
		WHERE ID = CONNECTION_ID())`
	countThread = `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ? AND HOST = ?`
)

// readThread reads the server's id of the connection.
func (c *serverConn) readThread(ctx context.Context) error {
	values, err := c.pair(ctx, selectThread)
	if err != nil {
		return err
	}
	if _, err := fmt.Sscan(values[0], &c.thread.id); err != nil {
		return Defect("a connection id that is no number: %q", values[0])
	}
	c.thread.host = values[1]
	return nil
}

// pair returns the two columns of the first row that a query finds.
func (c *serverConn) pair(ctx context.Context, query string) (found [2]string, err error) {
	rows, err := c.QueryContext(ctx, query, nil)
	if err != nil {
		return found, err
	}
	defer rows.Close()
	values := make([]driver.Value, len(found))
	if err := rows.Next(values); err != nil {
		return found, err
	}
	return [2]string{plain(values[0]), plain(values[1])}, nil
}

// Kill kills the connection on the server and waits until the server no longer knows it. The effect
// of a packet without a reply is then final, and later reads show all of it. It returns Unavailable
// if that fails.
func (c *PacketConn) Kill(ctx context.Context) error {
	c.broken = true
	return c.db.Read(ctx, "end a connection", func(r *Reader) error {
		for pause := firstPause; ; pause = min(2*pause, longestPause) {
			var left int
			if _, err := r.Get(&left, countThread, c.thread.id, c.thread.host); err != nil || left == 0 {
				return err
			}
			// An error may mean that the connection is gone, which the next query shows.
			_, _ = r.conn.raw.ExecContext(ctx, fmt.Sprintf("KILL CONNECTION %d", c.thread.id))
			if err := c.db.sleep(ctx, pause); err != nil {
				return err
			}
		}
	})
}

// Pause waits before the n-th attempt of a retried transaction, counted from 1.
func (db *DB) Pause(ctx context.Context, n int) error {
	return db.sleep(ctx, db.jitter(min(firstPause<<min(n, 10), longestPause)))
}

// MaybeDone returns the error of a transaction that may have been committed: OutcomeUnknown.
func MaybeDone(op string, err error) error { return maybeDone(op, err) }
