package redisstore

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/safeguard"
)

// session is a set of connections that each met one and the same identity when it was opened.
type session struct {
	server   server
	identity string
	connect  func() *redis.Client
	// lost: a new connection met another identity. It stays so: what was there before may come
	// back, but somebody may have been given the lane meanwhile.
	lost atomic.Bool

	mu   sync.RWMutex
	pool *pool // nil once ended
}

// pool is one client and its present users.
type pool struct {
	client *redis.Client
	users  sync.WaitGroup
}

// newSession makes a session with a server, bound to an identity; it connects when it is used.
func (s *Store) newSession(at server, identity string) *session {
	n := &session{server: at, identity: identity}
	verify := func(ctx context.Context, conn *redis.Conn) error {
		met, err := s.identify(ctx, "connect", at, conn, "")
		if err != nil {
			return refused{err}
		}
		if met != identity && !safeguard.Off(safeguard.ConnectionIdentity) {
			n.lost.Store(true)
			return refused{bucket.ErrMemoryLost}
		}
		return nil
	}
	n.connect = func() *redis.Client { return redis.NewClient(s.options(at.addr, verify)) }
	n.pool = &pool{client: n.connect()}
	return n
}

// enter returns the client to use until leave is called; nil when the session has ended.
func (n *session) enter() (p *pool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if n.pool != nil {
		n.pool.users.Add(1)
	}
	return n.pool
}

func (p *pool) leave() { p.users.Done() }

// renew lets every later call use new connections, if p is still what they use: something said
// that its connections no longer lead to where they did.
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

// close waits for the users, each of which is bound by the time-outs of a call.
func (p *pool) close() {
	p.users.Wait()
	_ = p.client.Close() // nobody is left who could do anything about it
}
