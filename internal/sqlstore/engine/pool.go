package engine

import (
	"context"
	"net"

	"github.com/jmoiron/sqlx"
)

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
