package workload

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// maxAnswerBytes bounds one answer.
const maxAnswerBytes = 64 << 20

// conn is an HTTP/1.1 connection that is dialled when it is needed. It carries one call at a time.
type conn struct {
	address string
	tls     *tls.Config // nil for plain TCP
	timeout time.Duration
	net     net.Conn
	in      []byte // in[at:] was received and not yet parsed
	at      int
	chunks  []byte // a chunked body, joined
	until   time.Time
}

// call sends a request and returns the answer, whose body is valid until the next call. sent is
// false if no connection could be made. After an error the next call dials again.
func (c *conn) call(request []byte) (status int, body []byte, sent bool, err error) {
	if c.net == nil {
		if err = c.dial(); err != nil {
			return 0, nil, false, err
		}
		c.until = time.Time{}
		c.in, c.at = c.in[:0], 0
	}
	// Setting a deadline for every call is expensive, so it is moved once a second.
	if now := time.Now(); c.until.Sub(now) < c.timeout {
		c.until = now.Add(c.timeout + time.Second)
		if err := c.net.SetDeadline(c.until); err != nil {
			c.close()
			return 0, nil, false, err
		}
	}
	if _, err = c.net.Write(request); err == nil {
		status, body, err = c.read()
	}
	if err != nil {
		c.close()
	}
	return status, body, true, err
}

func (c *conn) dial() error {
	dialled, err := net.DialTimeout("tcp", c.address, c.timeout)
	if err != nil {
		return err
	}
	c.net = dialled
	if c.tls != nil {
		c.net = tls.Client(dialled, c.tls) // the first write shakes hands
	}
	return nil
}

func (c *conn) close() {
	if c.net != nil {
		_ = c.net.Close() // the answer was read
		c.net = nil
	}
}

var (
	errAnswer   = errors.New("the answer is not HTTP/1.1")
	errTooLarge = errors.New("the answer is too large")
)

func (c *conn) read() (status int, body []byte, err error) {
	if c.at == len(c.in) {
		c.in, c.at = c.in[:0], 0
	}
	var end int
	for from := c.at; ; {
		if i := bytes.Index(c.in[from:], []byte("\r\n\r\n")); i >= 0 {
			end = from + i + 4
			break
		}
		from = max(c.at, len(c.in)-3)
		if err := c.more(1); err != nil {
			return 0, nil, err
		}
	}
	h, err := parseHead(c.in[c.at:end])
	if err != nil {
		return 0, nil, err
	}
	c.at = end
	if h.chunked {
		body, err = c.readChunks()
	} else {
		body, err = c.take(h.length)
	}
	if h.close && err == nil {
		c.close()
	}
	return h.status, body, err
}

// more reads at least n more bytes.
func (c *conn) more(n int) error {
	const atLeast = 4096
	if len(c.in)+n > maxAnswerBytes {
		return errTooLarge
	}
	for n > 0 {
		if cap(c.in)-len(c.in) < max(n, atLeast) {
			grown := make([]byte, len(c.in), 2*cap(c.in)+max(n, atLeast))
			copy(grown, c.in)
			c.in = grown
		}
		got, err := c.net.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+got]
		n -= got
		if err != nil && n > 0 {
			return err
		}
	}
	return nil
}

// take returns the next n bytes.
func (c *conn) take(n int) ([]byte, error) {
	if missing := c.at + n - len(c.in); missing > 0 {
		if err := c.more(missing); err != nil {
			return nil, err
		}
	}
	c.at += n
	return c.in[c.at-n : c.at], nil
}

// readChunks joins a chunked body. It skips trailers.
func (c *conn) readChunks() ([]byte, error) {
	c.chunks = c.chunks[:0]
	for {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		size, ok := hex(line)
		if !ok || len(c.chunks)+size > maxAnswerBytes {
			return nil, errAnswer
		}
		if size == 0 {
			break
		}
		chunk, err := c.take(size + 2)
		if err != nil {
			return nil, err
		}
		c.chunks = append(c.chunks, chunk[:size]...)
	}
	for {
		line, err := c.line()
		if err != nil || len(line) == 0 {
			return c.chunks, err
		}
	}
}

// line returns the next line, without its end.
func (c *conn) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(c.in[c.at:], '\n'); i >= 0 {
			line, err := c.take(i + 1)
			return bytes.TrimSuffix(line[:i], []byte("\r")), err
		}
		if err := c.more(1); err != nil {
			return nil, err
		}
	}
}

// hex reads the size of a chunk, which an extension may follow.
func hex(line []byte) (n int, ok bool) {
	for i, b := range line {
		switch {
		case b >= '0' && b <= '9':
			n = n<<4 | int(b-'0')
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			n = n<<4 | int(b|0x20-'a'+10)
		case (b == ';' || b == ' ') && i > 0:
			return n, true
		default:
			return 0, false
		}
		if n > maxAnswerBytes {
			return 0, false
		}
	}
	return n, len(line) > 0
}
