package front

import (
	"net"
	"sync/atomic"
	"time"
)

// conn is a connection on which data calls are answered here. net/http uses it as a net.Conn for
// all other requests. Read must not be called concurrently, which net/http does not do.
type conn struct {
	net.Conn
	server *Server

	// buffer[from:to] has arrived and was not passed on yet. moved reports that these bytes were
	// moved within the buffer since the head was read. failure is the error after which nothing
	// follows them.
	buffer   []byte
	from, to int
	moved    bool
	failure  error

	// owed is the number of bytes of its request that net/http has not read yet, or unbounded if
	// the end of the request is not known. returned reports that net/http waits for the next
	// request.
	owed     int
	returned bool

	// readBy and writeBy are the deadlines of the connection; zero means unknown.
	readBy, writeBy time.Time

	// skip is how many bytes of line ends may precede the next request, skipped how many did. used
	// means that something has arrived.
	skip, skipped int
	used          atomic.Bool

	state atomic.Int32
	// idleSince is when the connection began to wait for a request, in nanoseconds since 1970, or 0
	// while it does not wait.
	idleSince atomic.Int64
	// lent reports that net/http has the connection, kept that a data call was answered on it.
	lent atomic.Bool
	kept bool
	// readUntil is the deadline that net/http has set, in nanoseconds since 1970; 0 means no
	// deadline. told receives each change.
	readUntil atomic.Int64
	told      chan struct{}

	call    int
	request Request
	head    head
	answer  Answer
	out     []byte
}

// maxEmpty is how many bytes of line ends may follow a body.
const maxEmpty = 4

// leastBytes is how much of a further request net/http awaits before it looks at it. It closes
// without an answer if less comes.
const leastBytes = 4

// unbounded is the value of owed if the rest of the connection is net/http's.
const unbounded = -1

// The states of a connection. It is busy from the first byte of a request to the last byte of its
// answer. If it is closed meanwhile, it closes itself after the answer. It is away while net/http
// answers a request.
const (
	waiting int32 = iota
	busy
	away
	closing
	closed
)

// bufferSize is the initial size of a connection's buffers, maxRequest that of the largest request
// that is read here: a connection of any caller holds no more. Buffers of answers larger
// than keptSize are dropped.
const bufferSize, maxRequest, keptSize = 4 << 10, 16 << 10, 64 << 10

// run serves a connection until it ends or is handed to net/http.
func (c *conn) run() {
	err := c.answerCalls()
	if err != nil || c.failure != nil && c.tooLittle() {
		c.Close()
		return
	}
	c.handOver()
}

// tooLittle reports whether net/http would not look at a request yet, because it awaits more bytes
// after an earlier request.
func (c *conn) tooLittle() bool { return c.kept && c.skipped+c.to-c.from < leastBytes }

// handOver gives the connection to net/http, whose time limits begin now.
func (c *conn) handOver() {
	c.lent.Store(true)
	if c.Conn.SetDeadline(time.Time{}) != nil || !c.server.handed.give(c) {
		c.Close()
	}
}

// answerCalls answers data calls until another request arrives, which begins at from. An error
// means that the connection has ended.
func (c *conn) answerCalls() error {
	c.readBy, c.writeBy = time.Time{}, time.Time{}
	c.state.CompareAndSwap(away, waiting)
	c.skipped = 0
	for {
		for c.skipEmpty(); c.from == c.to; c.skipEmpty() {
			if err := c.await(); err != nil {
				return err
			}
		}
		if !c.state.CompareAndSwap(waiting, busy) {
			return net.ErrClosed
		}
		ours := c.receive()
		var err error
		if ours {
			err = c.serve()
			c.kept, c.skip, c.skipped = true, maxEmpty, 0
		}
		next := waiting
		if !ours {
			next = away
		}
		if !c.state.CompareAndSwap(busy, next) {
			_ = c.finish() // the connection ends in any case
			return net.ErrClosed
		}
		if err != nil || !ours {
			return err
		}
	}
}

// await reads the first bytes of a request.
func (c *conn) await() error {
	if c.from, c.to = 0, 0; c.buffer == nil {
		c.buffer = make([]byte, bufferSize)
	}
	idle := c.server.limits.IdleTimeout
	if !c.used.Load() { // who has not sent anything yet gets the time of a head
		idle = c.server.limits.HeaderTimeout
	}
	now := time.Now()
	// Moving a deadline costs as much as parsing a head, so it moves once in a quarter of the time.
	if c.readBy.Sub(now) < idle-idle/4 {
		c.readBy = now.Add(idle)
		if err := c.Conn.SetReadDeadline(c.readBy); err != nil {
			return err
		}
	}
	c.idleSince.Store(now.UnixNano())
	n, err := c.Conn.Read(c.buffer)
	c.idleSince.Store(0)
	if n > 0 {
		c.to, c.failure = n, err
		c.used.Store(true)
		return nil
	}
	return err
}

// skipEmpty skips line ends behind the body of a call that was answered here, which some callers
// send. It skips as many as net/http does after its own (RFC 9112, 2.2).
func (c *conn) skipEmpty() {
	for ; c.skipped < c.skip && c.from < c.to; c.from++ {
		if b := c.buffer[c.from]; b != '\r' && b != '\n' {
			c.skip = c.skipped
			return
		}
		c.skipped++
	}
}

// receive completes the request that begins at from and reports whether it is a data call. If it is
// not, net/http is owed all of its bytes.
func (c *conn) receive() bool {
	c.owed, c.skip = unbounded, 0
	c.request.Began = time.Now()
	limits := &c.server.limits
	for {
		c.head.read(c.buffer[c.from:c.to])
		if c.head.form != partial && !c.tooLittle() {
			break
		}
		if !c.more(limits.HeaderTimeout) {
			return false
		}
	}
	h := &c.head
	if h.form == strange {
		return false
	}
	if c.owed = h.end(); h.form != plain || h.end() > maxRequest {
		return false
	}
	call, most, ok := c.server.handler.Find(h.path)
	if !ok || h.length > most {
		return false
	}
	c.call, c.moved = call, false
	if c.to-c.from < h.end() {
		if c.fill(); !c.server.handler.Admits(call, &c.request) {
			return false
		}
	}
	for c.to-c.from < h.end() {
		if !c.more(limits.ReadTimeout) {
			return false
		}
	}
	if c.moved { // the texts of the head have moved too
		h.read(c.buffer[c.from:c.to])
	}
	return true
}

// more reads more of a request that may take atMost in total since it began.
func (c *conn) more(atMost time.Duration) bool {
	if c.failure != nil {
		return false
	}
	if c.to == len(c.buffer) {
		c.grow()
	}
	if by := c.request.Began.Add(atMost); !by.Equal(c.readBy) {
		c.readBy = by
		if c.failure = c.Conn.SetReadDeadline(by); c.failure != nil {
			return false
		}
	}
	var n int
	n, c.failure = c.Conn.Read(c.buffer[c.to:])
	c.to += n
	return n > 0
}

// grow makes room. A buffer grows with what arrives, not with what is announced.
func (c *conn) grow() {
	into := c.buffer
	if c.to-c.from > len(c.buffer)/2 {
		into = make([]byte, 2*len(c.buffer))
	}
	c.to = copy(into, c.buffer[c.from:c.to])
	c.from, c.buffer, c.moved = 0, into, true
}

// fill sets what the head says of the request.
func (c *conn) fill() {
	h, r := &c.head, &c.request
	r.Path, r.Query, r.Body = h.path, h.query, nil
	r.Host, r.Correlation, r.Traceparent = h.host, h.correlation, h.traceparent
	r.Authorization, r.Remote = h.authorization, c.Conn.RemoteAddr()
}

// serve answers the data call that begins at from.
func (c *conn) serve() error {
	h, r, a := &c.head, &c.request, &c.answer
	c.fill()
	r.Body = c.buffer[c.from+h.size : c.from+h.end()]
	*a = Answer{Body: a.Body[:0], Encrypted: r.TLS != nil}
	c.server.handler.Answer(c.call, r, a)
	c.from += h.end()
	last := c.server.leaving.Load()
	c.out = a.appendTo(c.out[:0], c.server.dates.of(r.Began), last)
	err := c.send()
	if cap(a.Body) > keptSize || cap(c.out) > keptSize {
		a.Body, c.out = nil, nil
	}
	if err == nil && last {
		err = net.ErrClosed
	}
	return err
}

// send writes the answer. It may take as long as a whole request.
func (c *conn) send() error {
	limits := &c.server.limits
	if now := time.Now(); c.writeBy.Sub(now) < limits.WriteTimeout {
		c.writeBy = now.Add(2 * limits.WriteTimeout)
		if err := c.Conn.SetWriteDeadline(c.writeBy); err != nil {
			return err
		}
	}
	_, err := c.Conn.Write(c.out)
	return err
}

// CloseWrite shuts down the writing side, as net/http does before it closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection. If a data call has begun to arrive, it is answered first.
func (c *conn) Close() error {
	defer c.tell()
	for {
		switch state := c.state.Load(); state {
		case waiting, away:
			if c.state.CompareAndSwap(state, closed) {
				return c.finish()
			}
		case busy:
			if c.state.CompareAndSwap(busy, closing) {
				return nil
			}
		default:
			return nil
		}
	}
}

// finish closes the connection now.
func (c *conn) finish() error {
	c.server.forget(c)
	return c.Conn.Close()
}
