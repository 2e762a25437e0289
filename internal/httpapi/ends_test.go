package httpapi_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/httpapi"
)

// longest is how long a test waits for the end of a connection, which has its own time.
const longest = time.Minute

// brief sets short time limits.
func brief(c *httpapi.Config) {
	l, short := &c.Limits, 300*time.Millisecond
	l.HeaderTimeout, l.ReadTimeout, l.RequestTimeout, l.WriteTimeout, l.IdleTimeout = short, short, short, short, short
}

// oneOfEach is a request that each server answers.
func oneOfEach() map[string]string {
	return map[string]string{
		"a data call": fmt.Sprintf("POST /v1/budgets/sale/deduct HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s", len(bodies["deduct"]), bodies["deduct"]),
		"another call": "GET /v1/budgets/sale HTTP/1.1\r\nHost: x\r\n\r\n",
	}
}

// timedOut reports whether an operation reached the test's deadline.
func timedOut(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// TestIdleConnectionsEnd checks that a connection is closed if no further request begins on it.
func TestIdleConnectionsEnd(t *testing.T) {
	_, server, _ := start(t, brief)
	for name, request := range oneOfEach() {
		conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(longest))
		_, _ = io.WriteString(conn, request)
		in := bufio.NewReader(conn)
		answer, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.Close {
			t.Errorf("%s: %v; the answer closes the connection: %v", name, err, answer.Close)
		}
		if rest, err := in.ReadByte(); timedOut(err) || err == nil {
			t.Errorf("after %s: %q, %v; want the connection closed", name, rest, err)
		}
	}
}

// watched is a listener that reports when the server closes a connection. A caller that reads
// nothing does not notice that.
type watched struct {
	net.Listener
	closed chan struct{}
}

func (w *watched) Accept() (net.Conn, error) {
	conn, err := w.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{conn.(*net.TCPConn), sync.OnceFunc(func() { w.closed <- struct{}{} })}, nil
}

type watchedConn struct {
	*net.TCPConn
	tell func()
}

func (c *watchedConn) Close() error {
	defer c.tell()
	return c.TCPConn.Close()
}

// TestUnreadAnswersEndConnections checks that a caller that sends requests and reads no answer
// loses its connection. Otherwise each such caller would keep a goroutine that writes.
func TestUnreadAnswersEndConnections(t *testing.T) {
	for name, request := range oneOfEach() {
		t.Run(name, func(t *testing.T) {
			var c httpapi.Config
			_, _, api := start(t, brief, func(made *httpapi.Config) {
				made.Limits.HeaderTimeout, made.Limits.IdleTimeout = longest, longest
				c = *made
			})
			inner, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			listener := &watched{inner, make(chan struct{}, 1)}
			serveOn(t, api, c, listener)
			conn, err := net.Dial("tcp", inner.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			written := make(chan error, 1)
			go func() {
				many, err := []byte(strings.Repeat(request, 100)), error(nil)
				for err == nil {
					_, err = conn.Write(many)
				}
				written <- err
			}()
			select {
			case <-listener.closed:
			case <-time.After(longest):
				t.Error("the answers are still being written")
			}
			conn.Close()
			if err := <-written; err == nil {
				t.Error("the connection is still open")
			}
		})
	}
}

// TestHandshakesEnd checks that a connection is closed if it does not complete its TLS handshake.
func TestHandshakesEnd(t *testing.T) {
	var c httpapi.Config
	_, _, api := start(t, brief, func(made *httpapi.Config) { c = *made })
	addr := serveTLS(t, api, c)
	for _, begin := range []string{"", "\x16\x03\x01\x02\x00\x01\x00"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(longest))
		_, _ = io.WriteString(conn, begin)
		if _, err := io.ReadAll(conn); timedOut(err) {
			t.Errorf("after %q the connection stays open", begin)
		}
	}
}
