package front_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// held is a gate that holds the calls to paths that end with "hold" until it is opened.
type held struct{ arrived, open chan struct{} }

func newHeld() *held { return &held{make(chan struct{}, 9), make(chan struct{})} }

func (h *held) gate(_, path string) {
	if strings.HasSuffix(path, "hold") {
		h.arrived <- struct{}{}
		<-h.open
	}
}

func hold(text string) string {
	return strings.Replace(strings.Replace(text, "/data", "/data-hold", 1), "/view", "/hold", 1)
}

// TestShutdown checks that Shutdown closes idle connections, lets running requests finish on every
// path, and accepts no new connections.
func TestShutdown(t *testing.T) {
	h := newHeld()
	s, addr := start(t, &handler{gate: h.gate})
	fresh, idle, idleWeb := dial(t, addr), dial(t, addr), dial(t, addr)
	idle.send(data("a"))
	idle.wants("front")
	idleWeb.send(view)
	idleWeb.wants("web")
	var busy []*caller
	for _, before := range []string{"", data("a"), view, view + data("a")} { // the last one pipelined
		for _, text := range []string{hold(data("b")), hold(view)} {
			c := dial(t, addr)
			c.send(before)
			for range strings.Count(before, "HTTP/1.1") {
				c.wants("")
			}
			c.send(text)
			<-h.arrived
			busy = append(busy, c)
		}
	}
	half := dial(t, addr)
	half.send(data("abc")[:60])
	time.Sleep(20 * time.Millisecond)
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	fresh.ends()
	idle.ends()
	idleWeb.ends()
	half.send(data("abc")[60:])
	half.wants("front 7 abc")
	half.ends()
	select {
	case err := <-ended:
		t.Fatal("Shutdown returned before the running requests ended:", err)
	case <-time.After(50 * time.Millisecond):
	}
	if c, err := tls.Dial("tcp", addr, nil); err == nil {
		c.Close()
		t.Error("the server still accepts connections")
	}
	close(h.open)
	for i, c := range busy {
		answer := c.wants([]string{"front", "web"}[i%2])
		if !answer.Close && i%2 == 0 {
			t.Errorf("answer %d does not close the connection", i)
		}
		c.ends()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestShutdownIsBounded checks that Shutdown waits no longer than its context allows, and that
// Close does not wait.
func TestShutdownIsBounded(t *testing.T) {
	for _, text := range []string{hold(data("a")), hold(view), view + hold(data("a"))} {
		h := newHeld()
		s, addr := start(t, &handler{gate: h.gate})
		c := dial(t, addr)
		if rest, ok := strings.CutPrefix(text, view); ok {
			c.send(view)
			c.wants("web")
			text = rest
		}
		c.send(text)
		<-h.arrived
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q: %v", text, err)
		}
		cancel()
		s.Close()
		c.ends()
		close(h.open)
	}
}

// TestTLS checks that net/http serves HTTP/2 over TLS, and that HTTP/1.1 is served as without TLS.
func TestTLS(t *testing.T) {
	pattern := httptest.NewTLSServer(nil) // for its certificate
	pattern.Close()
	s := newServer(t, new(handler))
	listener := listen(t)
	addr := listener.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(listener, &tls.Config{Certificates: pattern.TLS.Certificates}) }()
	ask := func(client *http.Client, method, path, want string) {
		t.Helper()
		r, _ := http.NewRequest(method, "https://"+addr+path, strings.NewReader("a"))
		r.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		if body, err := io.ReadAll(answer.Body); err != nil || string(body) != want {
			t.Errorf("%s %s: %v, %s; want %s", method, path, err, body, want)
		}
	}
	one, two := client(pattern, "http/1.1"), client(pattern, "h2")
	for range 2 {
		ask(one, "POST", "/data", "front 7 a tls=true")
		ask(one, "POST", "/view", "web HTTP/1 a <nil> tls=true")
		ask(two, "POST", "/data", "web HTTP/2 a <nil> tls=true")
	}
	c := dial(t, addr)
	c.send(view)
	if text, _ := io.ReadAll(c.in); !strings.HasPrefix(string(text), "HTTP/1.0 400") {
		t.Errorf("without TLS: %q", text)
	}
	one.CloseIdleConnections()
	if err := s.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != http.ErrServerClosed {
		t.Error(err)
	}
}

// client trusts the pattern's certificate and speaks one protocol.
func client(pattern *httptest.Server, protocol string) *http.Client {
	transport := pattern.Client().Transport.(*http.Transport).Clone()
	transport.TLSClientConfig.NextProtos = []string{protocol}
	transport.ForceAttemptHTTP2 = protocol == "h2"
	transport.TLSClientConfig.ServerName = "example.com"
	return &http.Client{Transport: transport}
}
