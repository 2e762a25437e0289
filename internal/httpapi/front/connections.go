package front

import (
	"net"
	"sync"
	"time"
)

// evictEvery is how often a connection beyond the bound looks for another one that is idle.
const evictEvery = 100 * time.Millisecond

// limitedListener bounds its open connections. One beyond the bound is accepted and waits until
// another is closed. Meanwhile evict is asked to close a connection that is idle.
type limitedListener struct {
	net.Listener
	open   chan struct{}
	evict  func()
	once   sync.Once
	closed chan struct{}
}

// limited limits the open connections of a listener to most; 0 means no limit.
func limited(inner net.Listener, most int, evict func()) net.Listener {
	if most <= 0 {
		return inner
	}
	return &limitedListener{Listener: inner, open: make(chan struct{}, most), evict: evict,
		closed: make(chan struct{})}
}

// Accept waits for a connection, then until one may be open.
func (l *limitedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		select {
		case l.open <- struct{}{}:
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.open })}, nil
		default:
		}
		l.evict()
		again := time.NewTimer(evictEvery)
		select {
		case l.open <- struct{}{}:
			again.Stop()
			return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-l.open })}, nil
		case <-again.C:
		case <-l.closed:
			conn.Close()
			return nil, net.ErrClosed
		}
	}
}

// Close ends Accept, even while that waits.
func (l *limitedListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// limitedConn makes room for another when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

// CloseWrite shuts down the writing side if the connection supports it.
func (c *limitedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}

// evict closes one connection that waits for a request, if there is one: rather one that has never
// sent anything, then the one that waits longest. So callers that hold connections without using
// them do not keep others out.
func (s *Server) evict() {
	s.mu.Lock()
	var idlest *conn
	var rank int64
	for c := range s.conns {
		since := c.idleSince.Load()
		if since != 0 && !c.used.Load() {
			since -= unusedFirst
		}
		if since != 0 && c.state.Load() == waiting && (idlest == nil || since < rank) {
			idlest, rank = c, since
		}
	}
	web, since := s.idlestWeb()
	s.mu.Unlock()
	switch {
	case web != nil && (idlest == nil || since < rank):
		web.Close()
	case idlest != nil && idlest.state.CompareAndSwap(waiting, closed):
		idlest.tell()
		_ = idlest.finish() // the connection ends in any case
	}
}

// unusedFirst ranks connections that have never sent anything before all others.
const unusedFirst = 1 << 60

// idlestWeb returns the connection that has waited longest for a request among those that stay with
// net/http, and since when, or nil. The caller holds mu.
func (s *Server) idlestWeb() (idlest net.Conn, since int64) {
	for c, at := range s.idleWeb {
		if idlest == nil || at < since {
			idlest, since = c, at
		}
	}
	return idlest, since
}
