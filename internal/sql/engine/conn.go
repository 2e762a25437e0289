package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"

	"github.com/jmoiron/sqlx"
)

// maxPrepared bounds the prepared statements of one connection; further texts are prepared for one
// use.
const maxPrepared = 512

// conn is one connection, with its prepared statements if the dialect keeps them. One goroutine
// uses it at a time.
type conn struct {
	raw      *sqlx.Conn
	dialect  *dialect
	prepared map[string]*sqlx.Stmt
	spare    []*sqlx.Stmt // to be closed when the transaction is over
	// changed is the number of rows that writing statements of the transaction have matched.
	changed int64
}

func newConn(raw *sqlx.Conn, d *dialect) *conn {
	c := &conn{raw: raw, dialect: d}
	if d.prepare {
		c.prepared = map[string]*sqlx.Stmt{}
	}
	return c
}

// statement returns the prepared statement of a text.
func (c *conn) statement(ctx context.Context, text string) (*sqlx.Stmt, error) {
	if s := c.prepared[text]; s != nil {
		return s, nil
	}
	s, err := c.raw.PreparexContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if len(c.prepared) < maxPrepared {
		c.prepared[text] = s
	} else {
		c.spare = append(c.spare, s)
	}
	return s, nil
}

// tidy closes the statements that were not kept.
func (c *conn) tidy() {
	for _, s := range c.spare {
		_ = s.Close()
	}
	c.spare = nil
}

// discard closes the connection instead of returning it to the pool. It closes the statements
// first: database/sql does not track those of a Conn, and SQLite keeps a connection, with its
// transaction and lock, as long as it has statements.
func (c *conn) discard() {
	c.tidy()
	for _, s := range c.prepared {
		_ = s.Close()
	}
	c.prepared = nil
	_ = c.raw.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.raw.Close()
}

// command runs a statement without parameters that is not worth preparing.
func (c *conn) command(ctx context.Context, text string) error {
	_, err := c.raw.ExecContext(ctx, text)
	return err
}

// exec runs a statement and returns how many rows it matched.
func (c *conn) exec(ctx context.Context, query string, args ...any) (int64, error) {
	return c.execText(ctx, c.dialect.text(query), args...)
}

// execText is exec for a text in the engine's syntax.
func (c *conn) execText(ctx context.Context, text string, args ...any) (int64, error) {
	var result sql.Result
	var err error
	if c.dialect.prepare {
		var s *sqlx.Stmt
		if s, err = c.statement(ctx, text); err != nil {
			return 0, err
		}
		result, err = s.ExecContext(ctx, args...)
	} else {
		result, err = c.raw.ExecContext(ctx, text, args...)
	}
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	c.changed += n
	return n, err
}

// list reads all rows into dest, a pointer to a slice.
func (c *conn) list(ctx context.Context, dest any, query string, args ...any) error {
	return c.listText(ctx, dest, c.dialect.text(query), args...)
}

// listText is list for a text in the engine's syntax.
func (c *conn) listText(ctx context.Context, dest any, text string, args ...any) error {
	if !c.dialect.prepare {
		return c.raw.SelectContext(ctx, dest, text, args...)
	}
	s, err := c.statement(ctx, text)
	if err != nil {
		return err
	}
	return s.SelectContext(ctx, dest, args...)
}

// get reads one row into dest. found is false if the result is empty.
func (c *conn) get(ctx context.Context, dest any, query string, args ...any) (
	found bool, err error) {
	text := c.dialect.text(query)
	if c.dialect.prepare {
		var s *sqlx.Stmt
		if s, err = c.statement(ctx, text); err == nil {
			err = s.GetContext(ctx, dest, args...)
		}
	} else {
		err = c.raw.GetContext(ctx, dest, text, args...)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// pool hands out connections.
type pool interface {
	// acquire waits for a connection until the context ends.
	acquire(ctx context.Context) (*conn, error)
	// release takes a connection back and closes it if it is broken.
	release(c *conn, broken bool)
	// statementContext returns the context of the statements of a transaction.
	statementContext(ctx context.Context) context.Context
	close() error
}

// serverPool is a pool of connections to a server, managed by database/sql.
type serverPool struct {
	db      *sqlx.DB
	dialect *dialect
}

func (p *serverPool) acquire(ctx context.Context) (*conn, error) {
	raw, err := p.db.Connx(ctx)
	if err != nil {
		return nil, err
	}
	return newConn(raw, p.dialect), nil
}

func (p *serverPool) release(c *conn, broken bool) {
	if broken {
		c.discard()
		return
	}
	_ = c.raw.Close() // back to the pool
}

func (p *serverPool) statementContext(ctx context.Context) context.Context { return ctx }

func (p *serverPool) close() error { return p.db.Close() }

// filePool keeps a fixed number of connections to a file open, with their prepared statements.
type filePool struct {
	db      *sqlx.DB
	dialect *dialect
	// idle holds the unused connections; nil stands for one that is not open yet.
	idle chan *conn
	// closed is closed before the connections are.
	closed chan struct{}
}

func newFilePool(db *sqlx.DB, d *dialect, size int) *filePool {
	p := &filePool{db: db, dialect: d, idle: make(chan *conn, size), closed: make(chan struct{})}
	db.SetMaxOpenConns(size)
	for range size {
		p.idle <- nil
	}
	return p
}

func (p *filePool) acquire(ctx context.Context) (*conn, error) {
	var c *conn
	select {
	case c = <-p.idle:
	default:
		select {
		case c = <-p.idle:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.closed:
			return nil, net.ErrClosed
		}
	}
	if c != nil {
		return c, nil
	}
	raw, err := p.db.Connx(ctx)
	if err != nil {
		p.idle <- nil
		return nil, err
	}
	return newConn(raw, p.dialect), nil
}

func (p *filePool) release(c *conn, broken bool) {
	c.tidy()
	if broken {
		c.discard()
		c = nil
	}
	p.idle <- c
}

// statementContext drops the cancellation. A statement on a local file is short, watching a context
// costs more than most statements, and an interrupted one leaves a broken transaction. attempt
// checks the caller's context before COMMIT.
func (p *filePool) statementContext(ctx context.Context) context.Context {
	return context.WithoutCancel(ctx)
}

func (p *filePool) close() error {
	close(p.closed)
	for range cap(p.idle) {
		if c := <-p.idle; c != nil {
			c.discard()
		}
	}
	return p.db.Close()
}
