package front_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/httpapi/front"
)

// limits are small, so that tests of them are quick.
var limits = front.Limits{HeaderTimeout: 700 * time.Millisecond, ReadTimeout: 700 * time.Millisecond,
	IdleTimeout: 700 * time.Millisecond, WriteTimeout: 700 * time.Millisecond}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// handler answers data calls to /data, and through net/http everything. An answer says who made it, and
// repeats the body.
type handler struct {
	// gate is called before each answer.
	gate func(by, path string)
	size int
}

func (h *handler) pass(by, path string) {
	if h.gate != nil {
		h.gate(by, path)
	}
}

func (h *handler) Find(path []byte) (call, maxBody int, ok bool) {
	return 7, 1 << 20, strings.HasPrefix(string(path), "/data")
}

// Admits admits everybody but a caller with the key "no".
func (h *handler) Admits(_ int, r *front.Request) bool {
	return string(r.Authorization) != "no"
}

func (h *handler) Answer(call int, r *front.Request, a *front.Answer) {
	h.pass("front", string(r.Path))
	if path := string(r.Path); path != "/data" && path != "/data-hold" {
		panic("the path is " + path)
	}
	a.Status, a.ContentType, a.Correlation = 200, "application/json", "x"
	a.Body = fmt.Appendf(a.Body, "front %d %s%s tls=%t", call, r.Body, strings.Repeat(".", h.size), r.TLS != nil)
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.pass("web", r.URL.Path)
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "web HTTP/%d %s %v tls=%t", r.ProtoMajor, body, err, r.Context().Value(tlsKey{}) != nil || r.TLS != nil)
}

type tlsKey struct{}

// start serves h until the test ends.
func start(t *testing.T, h *handler) (*front.Server, string) {
	t.Helper()
	s := newServer(t, h)
	listener := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Error("Serve returned", err)
		}
	})
	return s, listener.Addr().String()
}

func newServer(t *testing.T, h *handler) *front.Server {
	return front.New(h, &http.Server{Handler: h, ReadHeaderTimeout: limits.HeaderTimeout, ReadTimeout: limits.ReadTimeout,
		IdleTimeout: limits.IdleTimeout, ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if state := front.ConnectionState(c); state != nil {
				ctx = context.WithValue(ctx, tlsKey{}, state)
			}
			return ctx
		}}, limits)
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// caller is one connection of a caller's.
type caller struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, addr string) *caller {
	t.Helper()
	connection, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	_ = connection.SetDeadline(time.Now().Add(patience))
	return &caller{t, connection, bufio.NewReader(connection)}
}

func (c *caller) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.t.Error(err)
	}
}

// wants reads an answer that begins like that.
func (c *caller) wants(begin string) *http.Response {
	c.t.Helper()
	answer, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatalf("want %q: %v", begin, err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || !strings.HasPrefix(string(body), begin) {
		c.t.Fatalf("want %q, got %v, %.200q", begin, err, body)
	}
	return answer
}

// ends waits for the end of the connection.
func (c *caller) ends() {
	c.t.Helper()
	if rest, err := io.ReadAll(c.in); len(rest) > 0 || isTimeout(err) {
		c.t.Fatalf("got %q, %v; want the end", rest, err)
	}
}

func isTimeout(err error) bool {
	known, ok := err.(net.Error)
	return ok && known.Timeout()
}

// data is a data call in its usual form.
func data(body string) string {
	return fmt.Sprintf("POST /data HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

const view = "GET /view HTTP/1.1\r\nHost: x\r\n\r\n"

// TestEachRequestIsJudgedByItself checks that a connection may mix requests of both kinds. A
// request in chunks leaves the connection to net/http.
func TestEachRequestIsJudgedByItself(t *testing.T) {
	_, addr := start(t, new(handler))
	c := dial(t, addr)
	for range 3 {
		c.send(data("a"))
		c.wants("front 7 a")
		c.send(view)
		c.wants("web HTTP/1 ")
		c.send(strings.Replace(data("ab"), "POST", "PUT", 1))
		c.wants("web HTTP/1 ab <nil>")
		c.send(data("b"))
		c.wants("front 7 b")
	}
	c.send("POST /data HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n")
	c.wants("web HTTP/1 a <nil>")
	c.send(data("c")) // only net/http knows where a request in chunks ended
	c.wants("web HTTP/1 c <nil>")
}

// TestPipelined checks that requests that arrive together are answered in their order.
func TestPipelined(t *testing.T) {
	_, addr := start(t, new(handler))
	c := dial(t, addr)
	c.send(data("a") + data("b") + data("c") + view + data("d") + view)
	for _, want := range []string{"front 7 a", "front 7 b", "front 7 c", "web HTTP/1 ", "", "web "} {
		c.wants(want)
	}
	var all strings.Builder
	for size := range 40 {
		all.WriteString(data(strings.Repeat("x", 100*size)))
	}
	go c.send(all.String())
	for size := range 40 {
		c.wants("front 7 " + strings.Repeat("x", 100*size) + " ")
	}
}

// TestLargeBodies checks that a body may be larger than a buffer. A request above 16 KiB, or above
// the limit of its call, is left to net/http.
func TestLargeBodies(t *testing.T) {
	_, addr := start(t, new(handler))
	c := dial(t, addr)
	for size, by := range map[int]string{0: "front 7 ", 1: "front 7 ", 4000: "front 7 ", 5000: "front 7 ", 16_000: "front 7 ",
		16_385: "web HTTP/1 ", 70_000: "web HTTP/1 ", 1<<20 + 1: "web HTTP/1 "} {
		body := strings.Repeat("x", size)
		c.send(data(body))
		c.wants(by + body)
	}
}

// TestBodiesOfOthers checks that the body of a caller who is not admitted is left to
// net/http, unless it has arrived with the head.
func TestBodiesOfOthers(t *testing.T) {
	_, addr := start(t, new(handler))
	for key, want := range map[string]string{"yes": "front 7 abc", "no": "web HTTP/1 abc"} {
		c := dial(t, addr)
		text := strings.Replace(data("abc"), "Host", "Authorization: "+key+"\r\nHost", 1)
		c.send(text[:len(text)-1])
		time.Sleep(20 * time.Millisecond)
		c.send(text[len(text)-1:])
		c.wants(want)
	}
}

// TestLineEnds checks that line ends that net/http accepts are accepted at once: a bare line feed,
// and empty lines behind the body of a POST.
func TestLineEnds(t *testing.T) {
	_, addr := start(t, new(handler))
	for _, before := range []string{data("z"), strings.Replace(data("z"), "/data", "/view", 1)} {
		for _, ends := range []string{"\r\n", "\n", "\r\n\r\n"} {
			c := dial(t, addr)
			for range 2 {
				c.send(before + ends)
				c.wants("")
				time.Sleep(10 * time.Millisecond)
			}
			c.send(data("a") + ends + data("b") + ends)
			c.wants("")
			c.wants("")
		}
	}
	one := dial(t, addr)
	for range 2 {
		one.send(data("a") + "\r\n" + data("b") + "\r\n")
		one.wants("front 7 a")
		one.wants("front 7 b")
	}
	for _, text := range []string{"GET /view HTTP/1.1\nHost: x\n\n", "GET /view HTTP/1.1\r\nHost: x\n\r\n", "GET /view HTTP/1.1\nHost: x\r\n\r\n"} {
		c := dial(t, addr)
		_ = c.SetDeadline(time.Now().Add(limits.HeaderTimeout / 2))
		c.send(text)
		c.wants("web HTTP/1 ")
	}
	c := dial(t, addr)
	c.send("GET /view HTTP/1.1\r\nHost: x\r\n\r\n\r\n" + view) // no POST precedes the empty line
	c.wants("web HTTP/1 ")
	if answer, err := http.ReadResponse(c.in, nil); err != nil || answer.StatusCode != 400 {
		t.Errorf("an empty line after a GET: %v, %v; want 400, as from net/http", answer, err)
	}
}

// TestWhatBreaksOff checks that a request whose body is cut off or stops arriving is left to
// net/http with every byte that came. A connection without a complete head is closed.
func TestWhatBreaksOff(t *testing.T) {
	_, addr := start(t, new(handler))
	half, _ := strings.CutSuffix(data("abcdef"), "def")
	for name, c := range map[string]struct {
		text string
		end  bool
		want string
	}{
		"a body that ends":  {half, true, "web HTTP/1 abc unexpected EOF"},
		"a body that stops": {half, false, "web HTTP/1 abc read tcp"},
		"a head that stops": {"POST /data HTTP/1.1\r\nHost:", false, ""},
		"nothing":           {"", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, before := range []string{"", data("z"), data("z") + view} {
				connection := dial(t, addr)
				connection.send(before)
				for range strings.Count(before, "HTTP/1.1") {
					connection.wants("")
				}
				connection.send(c.text)
				if c.end {
					_ = connection.Conn.(*net.TCPConn).CloseWrite()
				}
				if c.want != "" {
					connection.wants(c.want)
				} else {
					connection.ends()
				}
			}
		})
	}
}

// TestTrickle checks that a request that arrives in small pieces is answered if it meets its time
// limits.
func TestTrickle(t *testing.T) {
	_, addr := start(t, new(handler))
	c := dial(t, addr)
	for range 3 {
		for part := range slices.Chunk([]byte(data("abc")), 9) {
			c.send(string(part))
			time.Sleep(time.Millisecond)
		}
		c.wants("front 7 abc")
	}
}

// TestConnectionsOutliveTheirLimits checks that requests keep a connection open beyond each of its
// time limits, and that it is closed once it is idle.
func TestConnectionsOutliveTheirLimits(t *testing.T) {
	_, addr := start(t, &handler{gate: func(_, path string) {
		if path == "/slow" {
			time.Sleep(5 * limits.WriteTimeout / 2)
		}
	}})
	slow := strings.Replace(view, "/view", "/slow", 1)
	c := dial(t, addr)
	for began := time.Now(); time.Since(began) < 3*limits.IdleTimeout; time.Sleep(limits.IdleTimeout / 3) {
		c.send(data("a"))
		c.wants("front 7 a")
	}
	for range 2 {
		c.send(slow) // its limits begin now
		c.wants("web")
		c.send(data("a"))
		c.wants("front 7 a")
	}
	time.Sleep(limits.IdleTimeout / 3)
	c.send(data("a"))
	c.wants("front 7 a")
	c.ends() // idle
}

// TestAnswersThatAreNotRead checks that a caller that does not read its answer loses the
// connection, so that Shutdown ends.
func TestAnswersThatAreNotRead(t *testing.T) {
	ended := make(chan struct{}, 1)
	h := &handler{size: 16 << 20}
	s, addr := start(t, h)
	c := dial(t, addr)
	c.send(data("a"))
	time.Sleep(limits.WriteTimeout / 2) // it is being written
	go func() {
		_ = s.Shutdown(context.Background())
		ended <- struct{}{}
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("Shutdown still waits for the answer to be written")
	}
}
