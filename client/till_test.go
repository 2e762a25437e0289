package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
)

// till is a transport that stands in for budgetd. It executes deductions, batches and cancels, and
// loses, delays and refuses calls as wire and item say.
type till struct {
	mu      sync.Mutex
	records map[string]*record
	calls   []string // "deduct a", "batch a b c", "cancel a", in the order of arrival
	traces  []string
	// underWay and most count calls at once; largest is the longest batch.
	underWay, most, largest int
	failure                 string

	// wire decides what happens to a call. item returns the code for a deduction that is not recorded
	// yet; "" accepts it.
	wire func(ids []string) luck
	item func(id string) string
}

// record is the till's record of an id.
type record struct {
	amount   int64
	executed int // times that units were taken
	arrived  bool
	gone     bool // void or rolled back
}

// luck is what happens to one call.
type luck struct {
	delay time.Duration
	// before loses the request, after loses the reply. late loses the reply and executes the request
	// after twice the delay. A status other than 0 is the answer, with code, and nothing is executed.
	before, after, late bool
	status              int
	code                string
}

func newTill() *till {
	return &till{records: map[string]*record{}, wire: func([]string) luck { return luck{} },
		item: func(string) string { return "" }}
}

type order struct {
	RequestID string `json:"request_id"`
	Amount    int64  `json:"amount"`
}

func (s *till) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	verb := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	orders, ids := ordersOf(body, verb)
	s.mu.Lock()
	s.calls = append(s.calls, strings.Replace(verb, "deductions:batch", "batch", 1)+" "+strings.Join(ids, " "))
	s.traces = append(s.traces, r.Header.Get("Traceparent")+" "+r.Header.Get("Tracestate"))
	if verb != "cancel" {
		s.underWay++
		defer func() { s.mu.Lock(); s.underWay--; s.mu.Unlock() }()
		s.most, s.largest = max(s.most, s.underWay), max(s.largest, len(orders))
	}
	f := s.wire(ids)
	s.mu.Unlock()
	if f.before {
		return nil, errors.New("request lost")
	}
	if f.late {
		go func() { time.Sleep(2 * f.delay); s.serve(verb, orders) }()
	}
	timer := time.NewTimer(f.delay)
	defer timer.Stop()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-timer.C:
	}
	if f.late {
		return nil, errors.New("reply lost")
	}
	if f.status != 0 {
		return answerOf(r, f.status, fmt.Sprintf(`{"status":%d,"code":%q}`, f.status, f.code)), nil
	}
	status, text := s.serve(verb, orders)
	if f.after {
		return nil, errors.New("reply lost")
	}
	return answerOf(r, status, text), nil
}

func ordersOf(body []byte, verb string) (orders []order, ids []string) {
	if verb == "deductions:batch" {
		var all struct{ Deductions []order }
		if err := json.Unmarshal(body, &all); err != nil {
			panic(err)
		}
		orders = all.Deductions
	} else {
		var one order
		if err := json.Unmarshal(body, &one); err != nil {
			panic(err)
		}
		orders = []order{one}
	}
	for _, o := range orders {
		ids = append(ids, o.RequestID)
	}
	return orders, ids
}

func answerOf(r *http.Request, status int, text string) *http.Response {
	return &http.Response{Status: http.StatusText(status), StatusCode: status, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"X-Correlation-Id": {"corr-1"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}
}

func (s *till) serve(verb string, orders []order) (int, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch verb {
	case "cancel":
		return s.cancel(orders[0].RequestID)
	case "deduct":
		return s.deduct(orders[0])
	}
	results := make([]string, len(orders))
	for i, o := range orders {
		_, results[i] = s.deduct(o)
	}
	return 200, `{"results":[` + strings.Join(results, ",") + `]}`
}

func (s *till) record(id string) *record {
	r := s.records[id]
	if r == nil {
		r = new(record)
		s.records[id] = r
	}
	return r
}

func (s *till) cancel(id string) (int, string) {
	r := s.record(id)
	r.gone = true
	return 200, fmt.Sprintf(`{"request_id":%q,"state":"void"}`, id)
}

func (s *till) deduct(o order) (int, string) {
	r := s.record(o.RequestID)
	replayed := r.executed > 0
	r.arrived = true
	if r.gone && !replayed {
		return 409, `{"status":409,"code":"request_void"}`
	}
	if replayed && r.amount != o.Amount {
		s.failure = fmt.Sprintf("%s came with %d and %d", o.RequestID, r.amount, o.Amount)
	}
	unknown := false
	if !replayed {
		switch code := s.item(o.RequestID); code {
		case "":
		case "outcome_unknown":
			unknown = true
		case "unavailable":
			return 503, `{"status":503,"code":"unavailable","retry_after":0.001}`
		case "limit_exceeded":
			return 429, `{"status":429,"code":"limit_exceeded","limit":"per-user","dimension":"user","value":"u1",` +
				`"used":5,"max":5,"retry_after":0.25}`
		default:
			return 409, fmt.Sprintf(`{"status":409,"code":%q,"detail":"D","available":3}`, code)
		}
		r.executed++
		r.amount = o.Amount
	}
	if unknown {
		return 504, `{"status":504,"code":"outcome_unknown"}`
	}
	return 200, fmt.Sprintf(`{"request_id":%q,"outcome":"accepted","amount":%d,"state":"used","bucket":"b",`+
		`"replayed":%t}`, o.RequestID, o.Amount, replayed)
}

// log returns the calls so far.
func (s *till) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

// customer returns a client of the till with attempts of 100 ms and pauses of up to 8 ms.
func (s *till) customer(t *testing.T, attempts int, options ...client.Option) *client.Client {
	t.Helper()
	retry := client.WithRetry(client.Retry{Attempts: attempts, Base: time.Millisecond, Max: 8 * time.Millisecond,
		AttemptTimeout: 100 * time.Millisecond})
	c, err := client.New("http://till", append([]client.Option{client.WithTransport(s), retry}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// ask deducts one unit.
func ask(ctx context.Context, c *client.Client, id string) (*client.DeductAnswer, error) {
	return c.Deduct(ctx, "b", client.DeductRequest{RequestID: id, Amount: 1})
}

// chaotic makes a till lose, delay and refuse calls at random, from a seed.
func (s *till) chaotic(seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 1))
	s.wire = func(ids []string) luck {
		f := luck{delay: time.Duration(chance.IntN(20)) * time.Millisecond}
		switch n := chance.IntN(100); {
		case n < 5:
			f.before = true
		case n < 10:
			f.after = true
		case n < 13:
			f.late = true
		case n < 16:
			f.status, f.code = 503, "unavailable"
		case n < 18:
			f.delay = 150 * time.Millisecond
		case n < 22 && len(ids) > 8:
			f.status, f.code = 413, "too_large"
		case n < 24 && len(ids) > 1:
			f.status, f.code = 400, "malformed"
		}
		return f
	}
	codes := []string{"unavailable", "outcome_unknown", "budget_exhausted", "limit_exceeded"}
	s.item = func(string) string {
		if n := chance.IntN(50); n < len(codes) {
			return codes[n]
		}
		return ""
	}
}

// withRetryAfter returns a client of the till whose single calls get Retry-After, as from budgetd.
func (s *till) withRetryAfter(t *testing.T) *client.Client {
	t.Helper()
	c, err := client.New("http://till", client.WithTransport(headed{s}), client.WithRetry(client.Retry{Attempts: 1}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type headed struct{ till *till }

func (h headed) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.till.RoundTrip(r)
	if err == nil && (response.StatusCode == 503 || response.StatusCode == 429) {
		response.Header.Set("Retry-After", "1")
	}
	return response, err
}
