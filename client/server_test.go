package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
)

// seen is one request as the scripted server got it.
type seen struct{ method, uri, body, contentType, ifMatch string }

// reply answers one request.
type reply func(w http.ResponseWriter)

// scripted is a server that answers request n with reply n, and further ones with 500.
type scripted struct {
	*httptest.Server
	mu       sync.Mutex
	replies  []reply
	requests []seen
}

func newScripted(t *testing.T, replies ...reply) *scripted {
	t.Helper()
	s := &scripted{replies: replies}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, seen{r.Method, r.RequestURI, string(body),
		r.Header.Get("Content-Type"), r.Header.Get("If-Match")})
	next := answer(500, `{"code":"internal","detail":"the script is over"}`)
	if len(s.replies) > 0 {
		next, s.replies = s.replies[0], s.replies[1:]
	}
	s.mu.Unlock()
	next(w)
}

func (s *scripted) log() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.requests...)
}

// answer sends a body. headers lists names and values in turn.
func answer(status int, body string, headers ...string) reply {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		if status >= 400 {
			w.Header().Set("Content-Type", "application/problem+json")
		}
		w.Header().Set("X-Correlation-Id", "corr-1")
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// lost breaks the connection without an answer.
func lost(w http.ResponseWriter) {
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	connection.Close()
}

// stuck answers after d, which is longer than the client waits.
func stuck(d time.Duration) reply {
	return func(http.ResponseWriter) { time.Sleep(d) }
}

func problem(status int, code string) reply {
	return answer(status, fmt.Sprintf(`{"status":%d,"code":%q,"title":"T","detail":"D"}`, status, code))
}

// waits records what the client slept instead of sleeping.
type waits struct {
	mu    sync.Mutex
	slept []time.Duration
}

func (w *waits) sleep(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slept = append(w.slept, d)
	return ctx.Err()
}

// impatient returns a client that records its waits, draws 0.5 and gives an attempt 600 ms.
func impatient(t *testing.T, server string, options ...client.Option) (*client.Client, *waits) {
	t.Helper()
	w := new(waits)
	retry := client.WithRetry(client.Retry{
		Attempts: 4, Base: 100 * time.Millisecond, Max: 300 * time.Millisecond,
		AttemptTimeout: 600 * time.Millisecond,
		Rand:           func() float64 { return 0.5 },
		Sleep:          w.sleep,
	})
	c, err := client.New(server, append([]client.Option{retry}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}
