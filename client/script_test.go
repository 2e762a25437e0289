//go:build go1.25

package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// exchange is one attempt of a vector: the request that must come, and the reply. Each is the name
// of one in the file, or the thing itself; a reply is also one of lost, cut, time_out and no_server.
type exchange struct {
	Request jsontext.Value `json:"request"`
	Node    int            `json:"node"`
	WaitMS  []int64        `json:"wait_ms"`
	EndsMS  []int64        `json:"ends_ms"`
	Reply   jsontext.Value `json:"reply"`
}

// expected is a request. The body is any JSON that is equal, the same bytes in every attempt.
type expected struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Query   map[string]string `json:"query"`
	Headers map[string]string `json:"headers"`
	Body    any               `json:"body"`
}

// replied is an answer: a JSON body or a text.
type replied struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    jsontext.Value    `json:"body"`
	Text    string            `json:"text"`
	AfterMS int64             `json:"after_ms"`
}

// script is a server that plays the exchanges of a vector. Its connections are pipes, so that it
// runs on the time of a test.
type script struct {
	t         *testing.T
	file      *vectorFile
	exchanges []exchange
	transport *http.Transport
	server    *http.Server
	accepted  chan net.Conn

	mu    sync.Mutex
	next  int
	ended time.Time         // the last exchange
	sent  map[string]string // bodies by the request's name
}

func newScript(t *testing.T, file *vectorFile, exchanges []exchange) *script {
	s := &script{t: t, file: file, exchanges: exchanges, accepted: make(chan net.Conn),
		sent: map[string]string{}}
	s.transport = &http.Transport{DialContext: s.dial}
	s.server = &http.Server{Handler: s}
	s.server.SetKeepAlivesEnabled(false)
	go func() {
		if err := s.server.Serve(s); !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	}()
	return s
}

// end checks that every exchange took place.
func (s *script) end() {
	time.Sleep(time.Minute) // until the replies are over that nobody waits for
	s.transport.CloseIdleConnections()
	_ = s.server.Close()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next < len(s.exchanges) {
		s.t.Errorf("%d requests came, want %d", s.next, len(s.exchanges))
	}
}

// Accept, Close and Addr make the script a net.Listener.
func (s *script) Accept() (net.Conn, error) {
	connection, ok := <-s.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return connection, nil
}

func (s *script) Close() error {
	close(s.accepted)
	return nil
}

func (s *script) Addr() net.Addr { return &net.UnixAddr{Name: "script"} }

// dial connects, unless no server is there.
func (s *script) dial(_ context.Context, _, address string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next < len(s.exchanges) && s.what(s.exchanges[s.next].Reply) == "no_server" {
		e := s.exchanges[s.next]
		s.begins(e, address)
		s.next++
		s.ended = time.Now()
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	near, far := net.Pipe()
	s.accepted <- far
	return near, nil
}

// what returns a text, "" for anything else.
func (s *script) what(value jsontext.Value) (text string) {
	if value.Kind() == '"' {
		if err := json.Unmarshal(value, &text); err != nil {
			s.t.Error(err)
		}
	}
	return text
}

// begins checks the node that is called, and when.
func (s *script) begins(e exchange, address string) {
	if node := fmt.Sprintf("node-%d", e.Node); !strings.HasPrefix(address, node) {
		s.t.Errorf("request %d goes to %s, want %s", s.next, address, node)
	}
	waited := time.Duration(0) // also if the exchange before has not ended for this server
	if !s.ended.IsZero() {
		waited = time.Since(s.ended)
	}
	s.ended = time.Time{}
	if len(e.WaitMS) == 2 && !within(e.WaitMS, waited) {
		s.t.Errorf("request %d comes after %s, want %d ms", s.next, waited, e.WaitMS)
	}
}

func within(ms []int64, took time.Duration) bool {
	return took >= time.Duration(ms[0])*time.Millisecond && took <= time.Duration(ms[1])*time.Millisecond
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	s.mu.Lock()
	if s.next >= len(s.exchanges) {
		s.t.Errorf("a request too many: %s %s %s", r.Method, r.URL, body)
		s.mu.Unlock()
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e := s.exchanges[s.next]
	s.begins(e, r.Host)
	s.check(e, r, string(body))
	s.next++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = time.Now()
	}()
	switch what := s.what(e.Reply); what {
	case "lost":
		lost(w)
	case "cut":
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"request_id":"o1","outcome":"accepted","state":"used"}`)
	case "time_out":
		began := time.Now()
		<-r.Context().Done()
		if took := time.Since(began); len(e.EndsMS) == 2 && !within(e.EndsMS, took) {
			s.t.Errorf("the attempt ends after %s, want %d ms", took, e.EndsMS)
		}
	default:
		s.reply(w, s.named(s.file.Replies, what, e.Reply))
	}
}

// named returns a part of the file by its name, or the thing itself.
func (s *script) named(parts map[string]jsontext.Value, name string, itself jsontext.Value) jsontext.Value {
	if name == "" {
		return itself
	}
	part, ok := parts[name]
	if !ok {
		s.t.Errorf("nothing is called %q", name)
	}
	return part
}

func (s *script) reply(w http.ResponseWriter, text jsontext.Value) {
	var a replied
	if err := json.Unmarshal(text, &a); err != nil {
		s.t.Error(err)
	}
	time.Sleep(time.Duration(a.AfterMS) * time.Millisecond)
	w.Header().Set("Content-Type", "application/json")
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Text+string(a.Body))
}

// check compares a request with the expected one.
func (s *script) check(e exchange, r *http.Request, body string) {
	var want expected
	if err := json.Unmarshal(s.named(s.file.Requests, s.what(e.Request), e.Request), &want); err != nil {
		s.t.Error(err)
	}
	query := map[string]string{}
	for name, values := range r.URL.Query() {
		query[name] = strings.Join(values, "|")
	}
	if r.Method != want.Method || r.URL.EscapedPath() != want.Path || len(query)+len(want.Query) > 0 &&
		!reflect.DeepEqual(query, want.Query) {
		s.t.Errorf("request %d is %s %s, want %s %s %v", s.next, r.Method, r.RequestURI, want.Method,
			want.Path, want.Query)
	}
	for name, value := range want.Headers {
		if r.Header.Get(name) != value {
			s.t.Errorf("request %d has %s %q, want %q", s.next, name, r.Header.Get(name), value)
		}
	}
	var got any
	if body != "" {
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			s.t.Error(err)
		}
	}
	if !reflect.DeepEqual(got, want.Body) {
		s.t.Errorf("request %d has the body %s, want %v", s.next, body, want.Body)
	}
	if before, known := s.sent[string(e.Request)]; known && before != body {
		s.t.Errorf("request %d has the body %s, and had %s before", s.next, body, before)
	}
	s.sent[string(e.Request)] = body
}
