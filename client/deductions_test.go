package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
)

const (
	void       = `{"request_id":"o1","state":"void","amount":0,"rolled_back":0}`
	rolledBack = `{"request_id":"o1","state":"rolled_back","amount":5,"rolled_back":5}`
)

func TestDeductSettlesEveryOutcome(t *testing.T) {
	deduct, cancel := "deduct", "cancel"
	tests := []struct {
		name    string
		replies []reply
		calls   []string // last path segment of each request
		kind    budget.Kind
		code    budget.Code
		check   func(t *testing.T, a *client.DeductAnswer, err error)
	}{
		{name: "accepted at once", replies: []reply{accepted(false)}, calls: []string{deduct},
			check: attempts(1, false)},
		{name: "lost answer, then replayed", replies: []reply{lost, accepted(true)},
			calls: []string{deduct, deduct}, check: attempts(2, true)},
		{name: "answer cut short, then replayed", replies: []reply{cut, accepted(true)},
			calls: []string{deduct, deduct}, check: attempts(2, true)},
		{name: "answer not JSON, then replayed", replies: []reply{answer(200, "<html>"), accepted(true)},
			calls: []string{deduct, deduct}, check: attempts(2, true)},
		{name: "no answer in time, then replayed",
			replies: []reply{stuck(1200 * time.Millisecond), accepted(true)},
			calls:   []string{deduct, deduct}, check: attempts(2, true)},
		{name: "unavailable, then accepted",
			replies: []reply{problem(503, "unavailable"), accepted(false)},
			calls:   []string{deduct, deduct}, check: attempts(2, false)},
		{name: "bad gateway of a proxy, then replayed",
			replies: []reply{answer(502, "<html>"), accepted(true)},
			calls:   []string{deduct, deduct}, check: attempts(2, true)},
		{name: "internal error, then replayed",
			replies: []reply{problem(500, "internal"), accepted(true)},
			calls:   []string{deduct, deduct}, check: attempts(2, true)},
		{name: "refused at once: neither repeated nor cancelled",
			replies: []reply{problem(409, "budget_exhausted")}, calls: []string{deduct},
			kind: budget.Refused, code: budget.BudgetExhausted, check: cancelled(false)},
		{name: "period exhausted, with a later one soon: a refusal, not repeated",
			replies: []reply{answer(409, `{"status":409,"code":"period_exhausted","available":3,"retry_after":0.001}`,
				"Retry-After", "1")}, calls: []string{deduct},
			kind: budget.Refused, code: budget.PeriodExhausted, check: left(3, time.Second)},
		{name: "period exhausted for three months",
			replies: []reply{answer(409, `{"status":409,"code":"period_exhausted","available":0,"retry_after":7776000}`,
				"Retry-After", "7776000")}, calls: []string{deduct},
			kind: budget.Refused, code: budget.PeriodExhausted, check: left(0, 90*24*time.Hour)},
		{name: "period exhausted after a lost answer: cancelled, had happened",
			replies: []reply{lost, problem(409, "period_exhausted"), answer(200, rolledBack)},
			calls:   []string{deduct, deduct, cancel},
			kind:    budget.Refused, code: budget.PeriodExhausted, check: cancelled(true)},
		{name: "refused with a code this client does not know",
			replies: []reply{problem(429, "limit_exceeded")}, calls: []string{deduct},
			kind: budget.Refused, code: "limit_exceeded"},
		{name: "refused after unavailable: nothing was unanswered",
			replies: []reply{problem(503, "unavailable"), problem(409, "budget_exhausted")},
			calls:   []string{deduct, deduct},
			kind:    budget.Refused, code: budget.BudgetExhausted, check: cancelled(false)},
		{name: "refused after a lost answer: cancelled, was void",
			replies: []reply{lost, problem(409, "budget_exhausted"), answer(200, void)},
			calls:   []string{deduct, deduct, cancel},
			kind:    budget.Refused, code: budget.BudgetExhausted, check: cancelled(true)},
		{name: "refused after outcome_unknown: cancelled, had happened",
			replies: []reply{problem(504, "outcome_unknown"), problem(409, "budget_paused"), answer(200, rolledBack)},
			calls:   []string{deduct, deduct, cancel},
			kind:    budget.Refused, code: budget.BudgetPaused, check: cancelled(true)},
		{name: "refused after a lost answer, the cancel's answer is lost once too",
			replies: []reply{lost, problem(409, "budget_exhausted"), lost, answer(200, void)},
			calls:   []string{deduct, deduct, cancel, cancel},
			kind:    budget.Refused, code: budget.BudgetExhausted, check: cancelled(true)},
		{name: "refused after a lost answer, and cancel does not get through",
			replies: []reply{lost, problem(409, "budget_exhausted"), problem(503, "unavailable"),
				problem(503, "unavailable"), problem(503, "unavailable"), problem(503, "unavailable")},
			calls: []string{deduct, deduct, cancel, cancel, cancel, cancel},
			kind:  budget.MayBeDone, code: budget.OutcomeUnknown},
		{name: "conflict after a lost answer: the id is another request's, never cancelled",
			replies: []reply{lost, problem(409, "request_conflict")}, calls: []string{deduct, deduct},
			kind: budget.Conflict, code: budget.RequestConflict},
		{name: "void after a lost answer is final",
			replies: []reply{lost, problem(409, "request_void")}, calls: []string{deduct, deduct},
			kind: budget.Conflict, code: budget.RequestVoid},
		{name: "invalid after a lost answer: a server of another version may have accepted it",
			replies: []reply{lost, problem(422, "invalid"), answer(200, rolledBack)}, calls: []string{deduct, deduct, cancel},
			kind: budget.Faulty, code: budget.Invalid, check: cancelled(true)},
		{name: "invalid after a lost answer, and so is its cancel: no server accepts the id",
			replies: []reply{lost, problem(422, "invalid"), problem(422, "invalid")}, calls: []string{deduct, deduct, cancel},
			kind: budget.Faulty, code: budget.Invalid, check: cancelled(false)},
		{name: "an answer that is not budgetd's, then replayed",
			replies: []reply{answer(200, `{"status":"ok"}`), accepted(true)},
			calls:   []string{deduct, deduct}, check: attempts(2, true)},
		{name: "the answer to another request, then replayed",
			replies: []reply{answer(200, `{"request_id":"o2","outcome":"accepted","amount":5}`), accepted(true)},
			calls:   []string{deduct, deduct}, check: attempts(2, true)},
		{name: "refused after a lost answer, and the first answer to the cancel is not budgetd's",
			replies: []reply{lost, problem(409, "budget_exhausted"), answer(200, `{}`), answer(200, void)},
			calls:   []string{deduct, deduct, cancel, cancel},
			kind:    budget.Refused, code: budget.BudgetExhausted, check: cancelled(true)},
		{name: "forbidden after a lost answer leaves the outcome open",
			replies: []reply{lost, problem(403, "forbidden"), problem(403, "forbidden")},
			calls:   []string{deduct, deduct, cancel},
			kind:    budget.MayBeDone, code: budget.OutcomeUnknown},
		{name: "never answered", replies: []reply{lost, lost, lost, lost},
			calls: []string{deduct, deduct, deduct, deduct},
			kind:  budget.MayBeDone, code: budget.OutcomeUnknown},
		{name: "lost once, then unavailable to the end: still unknown",
			replies: []reply{lost, problem(503, "unavailable"), problem(503, "unavailable"), problem(503, "unavailable")},
			calls:   []string{deduct, deduct, deduct, deduct},
			kind:    budget.MayBeDone, code: budget.OutcomeUnknown},
		{name: "unavailable to the end is known not to be done",
			replies: []reply{problem(503, "unavailable"), problem(503, "unavailable"), problem(503, "unavailable"), problem(503, "unavailable")},
			calls:   []string{deduct, deduct, deduct, deduct},
			kind:    budget.NotDone, code: budget.Unavailable},
		{name: "a redirect is not followed",
			replies: []reply{answer(302, "", "Location", "http://elsewhere/")}, calls: []string{deduct},
			kind: budget.Faulty, check: mentions("redirects to http://elsewhere/")},
		{name: "another server's 404", replies: []reply{answer(404, "<html>")}, calls: []string{deduct},
			kind: budget.Faulty, check: mentions("is this the right address?")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := newScripted(t, test.replies...)
			c, _ := impatient(t, server.URL)
			a, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
			if (a == nil) == (err == nil) {
				t.Fatalf("answer %v with error %v: want exactly one", a, err)
			}
			if kind, code := client.KindOf(err), client.CodeOf(err); kind != test.kind || code != test.code {
				t.Errorf("kind %d, code %q; want %d, %q: %v", kind, code, test.kind, test.code, err)
			}
			var calls []string
			for _, request := range server.log() {
				calls = append(calls, request.uri[strings.LastIndex(request.uri, "/")+1:])
				if !strings.Contains(request.body, `"request_id":"o1"`) {
					t.Errorf("another request id was sent: %s", request.body)
				}
			}
			if diff := cmp.Diff(test.calls, calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if test.check != nil {
				test.check(t, a, err)
			}
		})
	}
}

// left checks Available and RetryAfter of a refusal.
func left(units int64, after time.Duration) func(*testing.T, *client.DeductAnswer, error) {
	return func(t *testing.T, _ *client.DeductAnswer, err error) {
		t.Helper()
		var p *client.Problem
		if !errors.As(err, &p) || p.Available == nil || *p.Available != units || p.RetryAfter != after || p.Cancelled {
			t.Errorf("problem %#v", p)
		}
	}
}

func attempts(n int, replayed bool) func(*testing.T, *client.DeductAnswer, error) {
	return func(t *testing.T, a *client.DeductAnswer, err error) {
		t.Helper()
		inBucket, inBudget := int64(95), int64(195)
		want := &client.DeductAnswer{RequestID: "o1", Outcome: "accepted", Amount: 5, State: "used",
			Bucket: "b:bucket-0", BucketRemaining: &inBucket, BudgetRemaining: &inBudget, Replayed: replayed, Attempts: n}
		if diff := cmp.Diff(want, a); diff != "" {
			t.Errorf("answer (-want +got):\n%s", diff)
		}
	}
}

func cancelled(want bool) func(*testing.T, *client.DeductAnswer, error) {
	return func(t *testing.T, _ *client.DeductAnswer, err error) {
		t.Helper()
		var p *client.Problem
		if !errors.As(err, &p) || p.Cancelled != want {
			t.Errorf("error %#v, want a problem with Cancelled %t", err, want)
		}
		if strings.Contains(err.Error(), "cancelled") != want {
			t.Errorf("message %q; says that the id was cancelled? want %t", err, want)
		}
	}
}

func mentions(text string) func(*testing.T, *client.DeductAnswer, error) {
	return func(t *testing.T, _ *client.DeductAnswer, err error) {
		t.Helper()
		if !strings.Contains(err.Error(), text) {
			t.Errorf("message %q, want it to mention %q", err, text)
		}
	}
}

func TestDeductOfAServerThatIsNotThere(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	c, w := impatient(t, address)
	_, err = c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if client.KindOf(err) != budget.NotDone || !client.Unreachable(err) {
		t.Errorf("kind %d, unreachable %t; want NotDone, true: %v",
			client.KindOf(err), client.Unreachable(err), err)
	}
	if len(w.slept) != 3 {
		t.Errorf("%d waits, want 3 (4 attempts)", len(w.slept))
	}
}

func TestDeductThatTimesOutIsNotUnreachable(t *testing.T) {
	slow := stuck(900 * time.Millisecond)
	server := newScripted(t, slow, slow, slow, slow)
	c, _ := impatient(t, server.URL)
	_, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	var unknown *client.UnknownOutcome
	if !errors.As(err, &unknown) || unknown.RequestID != "o1" || unknown.Attempts != 4 {
		t.Errorf("error %#v, want UnknownOutcome of o1 after 4 attempts", err)
	}
	if client.Unreachable(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("unreachable %t, want false and a time-out: %v", client.Unreachable(err), err)
	}
}

// TestAServerThatDiesAfterALostAnswer checks that the outcome of a lost answer stays unknown when the
// server cannot be reached afterwards.
func TestAServerThatDiesAfterALostAnswer(t *testing.T) {
	var server *scripted
	server = newScripted(t, func(w http.ResponseWriter) {
		server.Listener.Close()
		lost(w)
	})
	c, _ := impatient(t, server.URL)
	_, err := c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if client.KindOf(err) != budget.MayBeDone || client.Unreachable(err) {
		t.Errorf("kind %d, unreachable %t; want MayBeDone, false: %v",
			client.KindOf(err), client.Unreachable(err), err)
	}
}

func TestBackoff(t *testing.T) {
	unavailable := problem(503, "unavailable")
	tests := []struct {
		name    string
		replies []reply
		want    []time.Duration
	}{
		{"doubles up to Max, half of it drawn", []reply{unavailable, unavailable, unavailable, unavailable},
			[]time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 150 * time.Millisecond}},
		{"Retry-After comes on top",
			[]reply{answer(503, `{"code":"unavailable"}`, "Retry-After", "2"), accepted(false)},
			[]time.Duration{2050 * time.Millisecond}},
		{"retry_after in the body counts as well",
			[]reply{answer(503, `{"code":"unavailable","retry_after":0.5}`), accepted(false)},
			[]time.Duration{550 * time.Millisecond}},
		{"more than 30 s is not waited for",
			[]reply{answer(503, `{"code":"unavailable"}`, "Retry-After", "31")}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newScripted(t, test.replies...)
			c, w := impatient(t, server.URL)
			c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
			if diff := cmp.Diff(test.want, w.slept); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
			if got, want := len(server.log()), min(len(test.want)+1, 4); got != want {
				t.Errorf("%d attempts, want %d", got, want)
			}
		})
	}
}

// TestMaxBoundsTheFirstWaitToo checks that a Base above Max is reduced to Max.
func TestMaxBoundsTheFirstWaitToo(t *testing.T) {
	server := newScripted(t, problem(503, "unavailable"), accepted(false))
	w := new(waits)
	c, err := client.New(server.URL, client.WithRetry(client.Retry{Base: time.Minute,
		Max: time.Second, Rand: func() float64 { return 0.5 }, Sleep: w.sleep}))
	if err != nil {
		t.Fatal(err)
	}
	c.Deduct(t.Context(), "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if diff := cmp.Diff([]time.Duration{500 * time.Millisecond}, w.slept); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

func TestNoAttemptFollowsTheDeadline(t *testing.T) {
	server := newScripted(t, answer(503, `{"code":"unavailable"}`, "Retry-After", "20"))
	c, w := impatient(t, server.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := c.Deduct(ctx, "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if client.CodeOf(err) != budget.Unavailable || len(w.slept) != 0 {
		t.Errorf("waited %v and got %v; want unavailable at once", w.slept, err)
	}
}

func TestNothingIsSentAfterTheContextEnded(t *testing.T) {
	server := newScripted(t)
	c, _ := impatient(t, server.URL)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := c.Deduct(ctx, "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if client.KindOf(err) != budget.NotDone || !errors.Is(err, context.Canceled) {
		t.Errorf("kind %d, want NotDone: %v", client.KindOf(err), err)
	}
	if n := len(server.log()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestTheDefaultSleepObeysTheContext(t *testing.T) {
	server := newScripted(t, answer(503, `{"code":"unavailable"}`, "Retry-After", "25"))
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	begin := time.Now()
	_, err = c.Deduct(ctx, "b", client.DeductRequest{RequestID: "o1", Amount: 5})
	if took := time.Since(begin); took > 10*time.Second || client.CodeOf(err) != budget.Unavailable {
		t.Errorf("took %s: %v", took, err)
	}
}
