package front

import (
	"net"
	"os"
	"time"
)

// Read returns bytes of the request that net/http is reading. When net/http waits for the next
// request, data calls are answered first.
func (c *conn) Read(into []byte) (n int, err error) {
	switch {
	case c.returned:
		c.returned = false
		if err := c.answerCalls(); err != nil {
			return 0, err
		}
		// net/http sets its own deadline, but only if it has a limit.
		if err := c.Conn.SetWriteDeadline(time.Time{}); err != nil {
			return 0, err
		}
	case c.owed == 0:
		return 0, c.watch()
	}
	if c.owed > 0 {
		into = into[:min(len(into), c.owed)]
	}
	switch {
	case c.from < c.to:
		n = copy(into, c.buffer[c.from:c.to])
		c.from += n
	case c.failure != nil:
		return 0, c.failure
	default:
		n, err = c.Conn.Read(into)
	}
	if c.owed > 0 {
		c.owed -= n
	}
	return n, err
}

// watch waits for the end of the connection while net/http answers a request that it has read
// completely. Bytes that arrive meanwhile belong to the next request. They are kept until net/http
// stops reading, so that the next request is judged separately. watch returns the error that ends
// the reading.
func (c *conn) watch() error {
	if c.from == c.to {
		if c.failure != nil {
			return c.failure
		}
		c.from = 0
		c.to, c.failure = c.Conn.Read(c.buffer)
		if c.to == 0 {
			err := c.failure
			c.failure = nil
			return err
		}
	}
	const never = 1 << 62
	for {
		left := time.Duration(never)
		if until := c.readUntil.Load(); until != 0 {
			left = time.Until(time.Unix(0, until))
		}
		switch {
		case c.state.Load() != away:
			return net.ErrClosed
		case left <= 0:
			return os.ErrDeadlineExceeded
		}
		timer := time.NewTimer(left)
		select {
		case <-c.told:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// SetReadDeadline sets the deadline of net/http's reads. One in the past ends a read at once.
func (c *conn) SetReadDeadline(t time.Time) error {
	var until int64
	if !t.IsZero() {
		until = t.UnixNano()
	}
	c.readUntil.Store(until)
	c.tell()
	return c.Conn.SetReadDeadline(t)
}

// tell wakes watch.
func (c *conn) tell() {
	select {
	case c.told <- struct{}{}:
	default:
	}
}

// idle records that net/http has answered a request and waits for the next one.
func (c *conn) idle() { c.returned = c.owed == 0 }
