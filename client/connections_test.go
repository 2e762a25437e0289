//go:build go1.25

package client_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/budgetd/budgetd/client"
)

// counting starts a server that counts the connections that it accepts. Its answers take turns:
// accepted, refused, unavailable, a proxy's page, and a body longer than net/http reads ahead.
func counting(t *testing.T) (address string, accepted *atomic.Int64) {
	t.Helper()
	accepted = new(atomic.Int64)
	var calls atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, ":batch") {
			answer(503, `{"status":503,"code":"unavailable"}`)(w)
			return
		}
		replies := []reply{answer(200, `{"outcome":"accepted"}`), problem(409, "budget_exhausted"), problem(503, "unavailable"),
			answer(404, "<html>"), answer(200, `{"outcome":"accepted","receipt":"`+strings.Repeat("x", 20_000)+`"}`)}
		replies[int(calls.Add(1))%len(replies)](w)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			accepted.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	return server.URL, accepted
}

func TestOneCallerUsesOneConnection(t *testing.T) {
	for name, options := range map[string][]client.Option{"not coalescing": nil,
		"coalescing": {client.WithCoalescing(client.Coalescing{})}} {
		t.Run(name, func(t *testing.T) {
			address, accepted := counting(t)
			c, err := client.New(address, append(options, client.WithRetry(client.Retry{Attempts: 1}))...)
			if err != nil {
				t.Fatal(err)
			}
			for n := range 1000 {
				ask(t.Context(), c, fmt.Sprint(n))
			}
			// net/http drops a connection if its writer has not finished 50 ms after the answer, which
			// happens on an overloaded machine.
			if n := accepted.Load(); n > 10 {
				t.Errorf("%d connections for 1,000 calls one after the other", n)
			}
		})
	}
}

// TestConnectionsAreReused checks the number of connections of concurrent callers. net/http dials
// ahead while connections are busy, so a few more than the callers are normal.
func TestConnectionsAreReused(t *testing.T) {
	const callers, calls = 64, 20
	for name, test := range map[string]struct {
		options []client.Option
		most    int64
	}{
		"not coalescing": {nil, 2 * callers},
		"coalescing":     {[]client.Option{client.WithCoalescing(client.Coalescing{Calls: 4})}, 2 * 4},
	} {
		t.Run(name, func(t *testing.T) {
			address, accepted := counting(t)
			c, err := client.New(address, append(test.options, client.WithRetry(client.Retry{Attempts: 1}))...)
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for g := range callers {
				all.Go(func() {
					for n := range calls {
						ask(t.Context(), c, fmt.Sprint(g, "-", n))
					}
				})
			}
			all.Wait()
			if n := accepted.Load(); n > test.most {
				t.Errorf("%d connections for %d callers, want %d at most", n, callers, test.most)
			}
		})
	}
}
