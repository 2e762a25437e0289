package front_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/httpapi/front"
)

// long lets nothing end by a time limit.
var long = front.Limits{HeaderTimeout: time.Hour, ReadTimeout: time.Hour, IdleTimeout: time.Hour, WriteTimeout: time.Hour,
	Connections: 4}

// TestSilentConnections checks that a connection that sends nothing is closed after the time of a
// head, not after that of an idle connection.
func TestSilentConnections(t *testing.T) {
	short := long
	short.HeaderTimeout = 100 * time.Millisecond
	_, addr := serveWith(t, new(handler), short)
	used := dial(t, addr)
	used.send(data("a"))
	used.wants("front 7 a")
	dial(t, addr).ends()
	time.Sleep(2 * short.HeaderTimeout)
	used.send(data("b"))
	used.wants("front 7 b")
}

// TestIdleConnectionsMakeRoom checks that connections that wait for a request do not keep others
// out: one that has never sent anything goes first, then the one that is idle for longest. Those
// with a request in progress stay.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	h := newHeld()
	_, addr := serveWith(t, &handler{gate: h.gate}, long)
	busy, busyWeb, idle, silent := dial(t, addr), dial(t, addr), dial(t, addr), dial(t, addr)
	idle.send(data("a"))
	idle.wants("front 7 a")
	busyWeb.send(hold(view))
	busy.send(hold(data("a")))
	<-h.arrived
	<-h.arrived
	time.Sleep(20 * time.Millisecond)
	next := dial(t, addr)
	next.send(view)
	next.wants("web")
	silent.ends()
	last := dial(t, addr)
	last.send(data("b"))
	last.wants("front 7 b")
	idle.ends()
	close(h.open)
	busy.wants("front 7 a")
	busyWeb.wants("web")
	next.send(data("c"))
	next.wants("front 7 c")
}

// TestIdleConnectionsOfWebMakeRoom checks the same for connections that stay with net/http: those
// that sent chunks, and those of HTTP/2.
func TestIdleConnectionsOfWebMakeRoom(t *testing.T) {
	_, addr := serveWith(t, new(handler), long)
	var all []*caller
	for range long.Connections {
		c := dial(t, addr)
		c.send("POST /view HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
		c.wants("web")
		time.Sleep(100 * time.Millisecond) // the server may note later than the answer that it is idle
		all = append(all, c)
	}
	next := dial(t, addr)
	next.send(view)
	next.wants("web")
	all[0].ends()

	pattern := httptest.NewTLSServer(nil) // for its certificate
	pattern.Close()
	s := front.New(new(handler), &http.Server{Handler: new(handler)}, long)
	listener := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(listener, &tls.Config{Certificates: pattern.TLS.Certificates}) }()
	for range long.Connections + 1 {
		answer, err := client(pattern, "h2").Get("https://" + listener.Addr().String() + "/view")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != http.ErrServerClosed {
		t.Errorf("the server ended with %v", err)
	}
}

// serveWith serves h with limits until the test ends.
func serveWith(t *testing.T, h *handler, limits front.Limits) (*front.Server, string) {
	t.Helper()
	s, listener := front.New(h, &http.Server{Handler: h}, limits), listen(t)
	ended := make(chan error, 1)
	go func(l net.Listener) { ended <- s.Serve(l) }(listener)
	t.Cleanup(func() {
		s.Close()
		if err := <-ended; err != http.ErrServerClosed {
			t.Error("Serve returned", err)
		}
	})
	return s, listener.Addr().String()
}
