package httpapi_test

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/budgetd/budgetd/internal/httpapi"
)

// server is what tests need of one.
type server interface {
	Serve(net.Listener) error
	Close() error
}

// alone says that net/http answers every call, data calls too.
var alone bool

// TestMain runs every test against both servers: they must not differ in any answer.
func TestMain(m *testing.M) {
	flag.Parse()
	status := m.Run()
	if flag.Lookup("test.bench").Value.String() == "" && flag.Lookup("test.fuzz").Value.String() == "" {
		fmt.Println("the same tests with net/http alone:")
		alone = true
		status = max(status, m.Run())
	}
	os.Exit(status)
}

// running is a server that listens.
type running struct {
	URL  string
	stop func()
}

// Close stops the server at once.
func (r *running) Close() { r.stop() }

// serve serves an API until the test ends.
func serve(t *testing.T, api *httpapi.API, c httpapi.Config) *running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, api, c, listener)
}

// serveOn is serve on a listener.
func serveOn(t *testing.T, api *httpapi.API, c httpapi.Config, listener net.Listener) *running {
	t.Helper()
	var s server = httpapi.NewServer(api, c.Limits, c.Log)
	if alone {
		s = httpapi.NewWebServer(api, c.Limits, c.Log)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(listener) }()
	r := &running{URL: "http://" + listener.Addr().String(), stop: func() { s.Close() }}
	t.Cleanup(func() {
		r.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return r
}
