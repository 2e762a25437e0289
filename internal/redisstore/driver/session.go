package driver

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
)

// sessionKey identifies a session: the server, and the identity that its connections must meet; ""
// for any.
type sessionKey struct{ addr, identity string }

// session is a set of connections, each of which met the session's identity when it was opened.
type session struct {
	connect func() *redis.Client
	// lost means that a new connection met another identity. It is final for the session: the former
	// identity may come back, but the partition may have been given to another memory meanwhile. A
	// call that verifies the memory again begins another session.
	lost atomic.Bool

	mu   sync.RWMutex
	pool *pool // nil once ended
}

// pool is one client and its present users.
type pool struct {
	client *redis.Client
	users  sync.WaitGroup
}

// session returns the session of a call. It connects on first use. It returns Unavailable after
// Disconnect.
func (i *Instance) session(at server, c *Call) (*session, error) {
	key := sessionKey{at.addr, c.Identity}
	usable := func() (n *session, known bool) {
		n, known = i.sessions[key]
		return n, known && !(c.Verifies && n.lost.Load())
	}
	i.mu.RLock()
	n, known := usable()
	closed := i.sessions == nil
	i.mu.RUnlock()
	switch {
	case closed:
		return nil, at.unavailable(c.Op, redis.ErrClosed, "it was disconnected")
	case known:
		return n, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.sessions == nil {
		return nil, at.unavailable(c.Op, redis.ErrClosed, "it was disconnected")
	}
	if n, known := usable(); known {
		return n, nil
	}
	for other, old := range i.sessions { // of identities that are gone
		if old.lost.Load() {
			delete(i.sessions, other)
			go old.end()
		}
	}
	n = i.newSession(at, c.Identity)
	i.sessions[key] = n
	return n, nil
}

// newSession returns a session with a server, bound to an identity unless that is "".
func (i *Instance) newSession(at server, identity string) *session {
	n := &session{}
	verify := func(ctx context.Context, conn *redis.Conn) error {
		met, err := i.identify(ctx, "connect", at, conn, "")
		if err != nil {
			return refused{err}
		}
		if met != identity {
			n.lost.Store(true)
			return refused{bucket.ErrOtherMemory}
		}
		return nil
	}
	if identity == "" {
		verify = nil
	}
	n.connect = func() *redis.Client { return redis.NewClient(i.options(at.addr, verify)) }
	n.pool = &pool{client: n.connect()}
	return n
}

// enter returns the client to use until leave is called; nil if the session has ended.
func (n *session) enter() (p *pool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.pool != nil {
		n.pool.users.Add(1)
	}
	return n.pool
}

func (p *pool) leave() { p.users.Done() }

// renew makes later calls use new connections, if p is still in use: an answer showed that its
// connections no longer lead to the same memory.
func (n *session) renew(p *pool) {
	n.mu.Lock()
	current := n.pool == p
	if current {
		n.pool = &pool{client: n.connect()}
	}
	n.mu.Unlock()
	if current {
		go p.close()
	}
}

// end closes the session's connections once nobody uses them.
func (n *session) end() {
	n.mu.Lock()
	p := n.pool
	n.pool = nil
	n.mu.Unlock()
	if p != nil {
		p.close()
	}
}

// close waits for the users, each of which is bounded by the timeouts of a call.
func (p *pool) close() {
	p.users.Wait()
	_ = p.client.Close() // nothing can be done about an error here
}
