package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// model is one budget behind a network that loses, delays and refuses calls, as rapid draws. It keeps
// the contract of the API: an id takes effect at most once, and never after it was cancelled.
type model struct {
	t       *rapid.T
	balance int64
	state   map[string]string // request id -> used, rolled_back, void
	late    []client.DeductRequest
}

// fate is what the network does with one request.
type fate string

const (
	delivered   fate = "delivered"
	lostRequest fate = "request lost"
	lostAnswer  fate = "answer lost"
	delayed     fate = "executed later" // a call stuck in a stopped store
	refused     fate = "503 before it happened"
	unknown     fate = "504 after it happened"
	exhausted   fate = "409 whatever is left" // the units came back a moment later
)

// RoundTrip carries one request to the model.
func (m *model) RoundTrip(r *http.Request) (*http.Response, error) {
	text, _ := io.ReadAll(r.Body)
	var body struct {
		client.DeductRequest `json:",inline"`
		Deductions           []client.BatchItem `json:"deductions"`
	}
	if err := json.Unmarshal(text, &body); err != nil {
		m.t.Fatal(err)
	}
	request, respond := body.DeductRequest, m.respond
	if len(body.Deductions) == 1 {
		request, respond = body.Deductions[0].DeductRequest, m.respondToItem
	}
	cancel := strings.HasSuffix(r.URL.Path, "/cancel")
	fates := []fate{delivered, lostRequest, lostAnswer, refused, unknown}
	if !cancel {
		fates = append(fates, delayed, exhausted)
	}
	what := rapid.SampledFrom(fates).Draw(m.t, "fate")
	execute := func() (int, string) {
		if cancel {
			return m.cancel(request.RequestID)
		}
		return m.deduct(request)
	}
	switch what {
	case lostRequest:
		return nil, errors.New("connection reset by peer")
	case delayed:
		m.late = append(m.late, request)
		return nil, context.DeadlineExceeded
	case refused:
		return respond(503, `{"code":"unavailable"}`)
	case exhausted:
		if m.state[request.RequestID] == "" {
			return respond(409, `{"code":"budget_exhausted"}`)
		}
	case lostAnswer:
		execute()
		return nil, io.ErrUnexpectedEOF
	case unknown:
		execute()
		return respond(504, `{"code":"outcome_unknown"}`)
	}
	return respond(execute())
}

func (m *model) deduct(request client.DeductRequest) (int, string) {
	state := m.state[request.RequestID]
	switch {
	case state == "void":
		return 409, `{"code":"request_void"}`
	case state != "":
		return 200, fmt.Sprintf(`{"outcome":"accepted","state":%q,"replayed":true}`, state)
	case m.balance < request.Amount:
		return 409, `{"code":"budget_exhausted"}`
	}
	m.state[request.RequestID] = "used"
	m.balance -= request.Amount
	return 200, `{"outcome":"accepted","state":"used"}`
}

func (m *model) cancel(id string) (int, string) {
	switch m.state[id] {
	case "":
		m.state[id] = "void"
	case "used":
		m.state[id] = "rolled_back"
		m.balance++
	}
	return 200, fmt.Sprintf(`{"state":%q}`, m.state[id])
}

func (m *model) respond(status int, body string) (*http.Response, error) {
	return &http.Response{StatusCode: status, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body))}, nil
}

// respondToItem answers a batch of one: the item's problem as its result, or as the whole answer.
func (m *model) respondToItem(status int, body string) (*http.Response, error) {
	if status >= 500 && rapid.Bool().Draw(m.t, "whole") {
		return m.respond(status, body)
	}
	item := strings.Replace(body, "{", fmt.Sprintf(`{"status":%d,`, status), 1)
	if status == 200 {
		item = body
	}
	return m.respond(200, `{"results":[`+item+`]}`)
}

// TestDeductTellsTheTruth checks that an accepted deduction has its effect and that one reported as
// not done has none, whatever the network does, even if a request is executed after the call has
// returned.
func TestDeductTellsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, balance: rapid.Int64Range(0, 2).Draw(t, "balance"), state: map[string]string{}}
		c, err := client.New("http://model", client.WithTransport(m), client.WithRetry(client.Retry{
			Attempts: rapid.IntRange(1, 4).Draw(t, "attempts"),
			Sleep:    func(context.Context, time.Duration) error { return nil },
		}))
		if err != nil {
			t.Fatal(err)
		}
		batch := rapid.Bool().Draw(t, "batch")
		_, err = deductEitherWay(c, batch)
		for _, request := range m.late {
			m.deduct(request)
		}
		state := m.state["o1"]
		switch kind := client.KindOf(err); {
		case err == nil && state != "used":
			t.Fatalf("reported as accepted, state %q", state)
		case err != nil && kind != budget.MayBeDone && state == "used":
			t.Fatalf("reported as not done, state %q: %v", state, err)
		}
	})
}

// deductEitherWay makes one deduction, alone or as a batch of one.
func deductEitherWay(c *client.Client, batch bool) (*client.DeductAnswer, error) {
	request := client.DeductRequest{RequestID: "o1", Amount: 1}
	if !batch {
		return c.Deduct(context.Background(), "b", request)
	}
	results, err := c.DeductBatch(context.Background(), []client.BatchItem{{Budget: "b", DeductRequest: request}})
	if err != nil {
		return nil, err
	}
	return results[0].Answer, results[0].Err
}
