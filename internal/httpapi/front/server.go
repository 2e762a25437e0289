package front

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Limits bounds the times of a connection, and their number. The times must be positive.
type Limits struct {
	// HeaderTimeout and ReadTimeout bound the time in which the head of a request, and the whole
	// request, must arrive. IdleTimeout is how long a connection stays open between requests.
	HeaderTimeout, ReadTimeout, IdleTimeout time.Duration
	// WriteTimeout is the least time that an answer may take to leave. The most is twice that.
	WriteTimeout time.Duration
	// Connections bounds the open connections of each listener; 0 means no bound. One beyond it
	// waits. It takes the place of a connection that is idle.
	Connections int
}

// Server serves connections: data calls by a Handler, everything else by net/http. It is safe for
// concurrent use.
type Server struct {
	handler Handler
	limits  Limits
	web     *http.Server
	handed  handed
	dates   dates
	leaving atomic.Bool
	running sync.Once

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	// idleWeb holds the connections that stay with net/http and wait for a request, with the time,
	// in nanoseconds since 1970, at which they began to.
	idleWeb map[net.Conn]int64
	// empty is closed once no connection is left. It is nil until somebody waits for that.
	empty chan struct{}
}

// New returns a server. It takes over web, which must not be used otherwise afterwards.
func New(handler Handler, web *http.Server, limits Limits) *Server {
	s := &Server{handler: handler, limits: limits, web: web,
		handed:    handed{conns: make(chan net.Conn), closed: make(chan struct{})},
		listeners: make(map[net.Listener]struct{}), conns: make(map[*conn]struct{}),
		idleWeb: make(map[net.Conn]int64)}
	told := web.ConnState
	web.ConnState = func(connection net.Conn, state http.ConnState) {
		c, ok := connection.(*conn)
		if ok && state == http.StateIdle {
			c.idle()
		}
		if !ok || c.owed == unbounded {
			s.note(connection, state == http.StateIdle)
		}
		if told != nil {
			told(connection, state)
		}
	}
	return s
}

// note records whether a connection that stays with net/http waits for a request.
func (s *Server) note(connection net.Conn, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle {
		s.idleWeb[connection] = time.Now().UnixNano()
		return
	}
	delete(s.idleWeb, connection)
}

// Serve accepts connections until the listener fails. After Shutdown or Close it returns
// http.ErrServerClosed. It closes the listener.
func (s *Server) Serve(listener net.Listener) error {
	return s.accept(listener, func(connection net.Conn) {
		if c := s.adopt(connection); c != nil {
			c.run()
		}
	})
}

// accept starts serve for each connection.
func (s *Server) accept(listener net.Listener, serve func(net.Conn)) error {
	listener = limited(listener, s.limits.Connections, s.evict)
	defer listener.Close()
	if !s.listen(listener) {
		return http.ErrServerClosed
	}
	s.running.Do(func() { go func() { _ = s.web.Serve(&s.handed) }() })
	var pause time.Duration
	for {
		connection, err := listener.Accept()
		switch {
		case err == nil:
			pause = 0
			go serve(connection)
		case s.leaving.Load():
			return http.ErrServerClosed
		case isTemporary(err): // for example too many open files
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			time.Sleep(pause)
		default:
			return err
		}
	}
}

func isTemporary(err error) bool {
	var known interface{ Temporary() bool }
	return errors.As(err, &known) && known.Temporary()
}

// listen adds a listener. It returns false if the server is closing.
func (s *Server) listen(listener net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.Load() {
		return false
	}
	s.listeners[listener] = struct{}{}
	return true
}

// adopt wraps a connection. If the server is closing, it closes the connection and returns nil.
func (s *Server) adopt(connection net.Conn) *conn {
	c := &conn{Conn: connection, server: s, told: make(chan struct{}, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving.Load() {
		connection.Close()
		return nil
	}
	s.conns[c] = struct{}{}
	return c
}

// forget removes a connection that has ended.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if len(s.conns) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// Shutdown stops accepting and closes every connection after its current answer. It returns when
// all are closed, or with ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	empty := make(chan struct{})
	err := s.leave(empty)
	// net/http closes idle connections, and forgets those whose requests are being answered here;
	// they end by themselves.
	if stopped := s.web.Shutdown(ctx); stopped != nil {
		return stopped
	}
	s.handed.Close()
	select {
	case <-empty:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// leave closes the listeners and the connections that net/http does not have. It closes empty if
// there are no connections.
func (s *Server) leave(empty chan struct{}) error {
	s.mu.Lock()
	s.leaving.Store(true)
	var err error
	for listener := range s.listeners {
		if closed := listener.Close(); closed != nil && !errors.Is(closed, net.ErrClosed) {
			err = closed
		}
	}
	var ours []*conn
	for c := range s.conns {
		if !c.lent.Load() {
			ours = append(ours, c)
		}
	}
	if s.empty = empty; len(s.conns) == 0 {
		close(empty)
		s.empty = nil
	}
	s.mu.Unlock()
	for _, c := range ours {
		c.Close()
	}
	return err
}

// Close closes everything at once, including connections with a request in progress.
func (s *Server) Close() error {
	err := s.leave(make(chan struct{}))
	if closed := s.web.Close(); err == nil {
		err = closed
	}
	s.handed.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Conn.Close()
	}
	return err
}

// handed is the listener from which net/http accepts the connections handed to it.
type handed struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// give hands a connection over. It returns false if net/http accepts no more.
func (h *handed) give(connection net.Conn) bool {
	select {
	case h.conns <- connection:
		return true
	case <-h.closed:
		return false
	}
}

func (h *handed) Accept() (net.Conn, error) {
	select {
	case connection := <-h.conns:
		return connection, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handed) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handed) Addr() net.Addr { return handedAddr{} }

// handedAddr is the address of handed, for messages.
type handedAddr struct{}

func (handedAddr) Network() string { return "front" }
func (handedAddr) String() string  { return "front" }
