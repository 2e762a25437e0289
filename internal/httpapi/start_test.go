package httpapi_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi"
)

// limits are small, so that tests of them are quick, and leave a busy machine time for bodies of 4 MiB.
var limits = httpapi.Limits{
	BodyBytes: 1 << 20, BatchBytes: 4 << 20, BodiesBytes: 64 << 20, HeaderBytes: 64 << 10, Headers: 100,
	InFlight: 100, RequestTimeout: 5 * time.Second, HeaderTimeout: 3 * time.Second, ReadTimeout: 3 * time.Second,
	WriteTimeout: 3 * time.Second, IdleTimeout: 3 * time.Second,
}

// observed notes what an API tells its observer.
type observed struct {
	mu    sync.Mutex
	lines []string
}

func (o *observed) note(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, fmt.Sprintf(format, args...))
}

func (o *observed) Request(route string, status int, _ time.Duration, _ string) {
	o.note("%s %d", route, status)
}
func (o *observed) Deduction(code budget.Code, replayed bool, _ string) {
	o.note("deduction %q %t", code, replayed)
}
func (o *observed) InFlight(int64) {}

// start serves an API over a fake.
func start(t *testing.T, change ...func(*httpapi.Config)) (*fake, *running, *httpapi.API) {
	t.Helper()
	f := new(fake)
	c := httpapi.Config{Service: f, Gauges: shown{}, Alerts: f, Webhooks: f, Limits: limits, Drivers: map[string]string{"redis-a": "redis", "redis-b": "redis"},
		NewID: func() string { return "corr-1" }, SQLNow: func() time.Time { return at }, Log: slog.New(slog.DiscardHandler),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "budgetd_up 1") })}
	for _, change := range change {
		change(&c)
	}
	api := httpapi.New(c)
	return f, serve(t, api, c), api
}

// ask sends a request with a JSON body, if any.
func ask(t *testing.T, server *running, method, path, body string, header ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}
