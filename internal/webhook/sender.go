package webhook

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/alert"
)

// Outbox holds messages that wait to be sent. It is safe for concurrent use. Its methods may return
// Unavailable, and those that write also OutcomeUnknown.
type Outbox interface {
	// Due lists, of at most `most` endpoints, the delivery that is longest overdue, the longest
	// overdue first.
	Due(ctx context.Context, most int) ([]alert.Due, error)
	// Next returns the delivery of an endpoint that is longest overdue. ok is false if none is due.
	Next(ctx context.Context, endpoint string) (due alert.Due, ok bool, err error)
	// Claim reserves a delivery for one attempt: no other node gets it until lease has passed. ok
	// is false if another node has it.
	Claim(ctx context.Context, due alert.Due, lease time.Duration) (d alert.Delivery,
		e alert.Endpoint, ok bool, err error)
	// Finish records an attempt and its consequence, and returns the state of the delivery and the
	// endpoint after that. The state is "" if one of them was deleted meanwhile.
	Finish(ctx context.Context, d alert.Delivery, a alert.Attempt, jitter float64) (
		alert.DeliveryState, alert.Endpoint, error)
	// Waiting counts the pending deliveries, up to most, and returns when the oldest message of
	// these was written; zero means that none is pending.
	Waiting(ctx context.Context, most int) (n int, oldest time.Time, err error)
}

// Observer receives counts for metrics. It is safe for concurrent use, and its methods return at
// once.
type Observer interface {
	// WebhookAttempt reports an attempt and the state of its delivery after it. Pending means that
	// another attempt follows.
	WebhookAttempt(alert.DeliveryState)
	// WebhooksWaiting reports how many deliveries are pending, up to a bound, and the age of the
	// oldest of them.
	WebhooksWaiting(n int, oldest time.Duration)
}

// Bounds of a run. RunEvery is the interval between runs. Each endpoint with a message due gets a
// worker, at most maxWorkers at once, which sends one message after another and at most perTurn of
// them. So an endpoint that is slow or has many messages leaves room for others: those of a tenant
// take at most alert.MaxEndpoints workers.
const (
	RunEvery   = time.Second
	maxWorkers = 1024
	perTurn    = 100
)

// Bounds of the record of an attempt.
const (
	recordTime = 5 * time.Second
	maxError   = 300
)

// CountEvery is the interval between counts of the outbox. A count stops at mostCounted.
const (
	CountEvery  = 10 * time.Second
	mostCounted = 100_000
)

// Config configures a Sender.
type Config struct {
	Outbox  Outbox
	Secrets Secrets
	// Allow lists networks to which messages may be sent although they are not public, or without
	// TLS.
	Allow []netip.Prefix
	// Timeout bounds an attempt, from the resolution of the name to the end of the answer's header.
	Timeout time.Duration
	// Agent is the User-Agent header.
	Agent string
	Now   func() time.Time
	// Clock is this node's estimate of SQL's time, by which messages are dated.
	Clock    func() time.Time
	Observer Observer
	Log      *slog.Logger
}

// Sender sends due messages. Only one goroutine may call RunOnce. Every node may have a sender.
type Sender struct {
	Config
	client  *http.Client
	workers sync.WaitGroup
	mu      sync.Mutex
	busy    map[string]bool // the endpoints that have a worker
	failed  error           // of a worker since the last run
}

// New returns a sender. It does not connect to anything.
func New(c Config) *Sender {
	return &Sender{Config: c, client: newClient(c.Allow, c.Timeout), busy: map[string]bool{}}
}

// RunOnce starts a worker for every endpoint that has a message due and no worker yet. It does not
// wait for them. It returns Unavailable if the outbox does, also to a worker since the last run;
// the next run sends the rest. A message whose attempt was interrupted is sent again after its
// lease, with the same webhook-id.
func (s *Sender) RunOnce(ctx context.Context) error {
	due, err := s.Outbox.Due(ctx, maxWorkers)
	s.mu.Lock()
	defer s.mu.Unlock()
	err = errors.Join(err, s.failed)
	s.failed = nil
	for _, one := range due {
		if s.busy[one.Endpoint] || len(s.busy) == maxWorkers {
			continue
		}
		s.busy[one.Endpoint] = true
		s.workers.Go(func() {
			err := s.work(ctx, one)
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.busy, one.Endpoint)
			if err != nil {
				s.failed = err
			}
		})
	}
	return err
}

// Wait waits until every worker has ended. They end soon after the context of their run does.
func (s *Sender) Wait() { s.workers.Wait() }

// work sends what is due to an endpoint, beginning with one delivery.
func (s *Sender) work(ctx context.Context, due alert.Due) error {
	for range perTurn {
		d, e, ok, err := s.Outbox.Claim(ctx, due, s.Timeout+4*recordTime)
		if err != nil {
			return err
		}
		if ok { // otherwise another node has it
			s.deliver(ctx, d, e)
		}
		if due, ok, err = s.Outbox.Next(ctx, due.Endpoint); err != nil || !ok {
			return err
		}
	}
	return nil
}

// CountOnce reports to the observer how many deliveries wait in the outbox, and since when. It
// returns Unavailable if the outbox does.
func (s *Sender) CountOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	n, oldest, err := s.Outbox.Waiting(ctx, mostCounted)
	if err != nil {
		return err
	}
	var age time.Duration
	if n > 0 {
		age = max(s.Clock().Sub(oldest), 0)
	}
	s.Observer.WebhooksWaiting(n, age)
	return nil
}

// deliver makes one attempt and records it, even if the node is stopping.
func (s *Sender) deliver(ctx context.Context, d alert.Delivery, e alert.Endpoint) {
	a := alert.Attempt{At: s.Now()}
	var err error
	switch {
	case e.Disabled != "" && d.Message.Type != alert.TypeTest:
		text := "the endpoint is disabled: " + string(e.Disabled)
		err = problem{text, text}
	default:
		a.Status, err = s.Send(ctx, e, d.Message, a.At)
	}
	if ctx.Err() != nil && err != nil {
		return // interrupted: the message is sent again after its lease
	}
	a.Took = max(s.Now().Sub(a.At), 0)
	full := ""
	if err != nil {
		a.Error = Told(err)
		full = strings.ToValidUTF8(err.Error()[:min(len(err.Error()), maxError)], "")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordTime)
	defer cancel()
	state, after, err := s.Outbox.Finish(ctx, d, a, rand.Float64()) //nolint:gosec // spreads load
	if err == nil && state != "" {
		s.Observer.WebhookAttempt(state)
	}
	switch {
	case err != nil:
		s.Log.Warn("webhook attempt is not recorded: it is made again", "endpoint", e.ID,
			"message", d.Message.ID, "error", err)
	case after.Disabled != e.Disabled:
		s.Log.Error("webhook endpoint is disabled", "endpoint", e.ID, "url", e.URL,
			"reason", string(after.Disabled), "failing_since", after.FailingSince)
	case a.Error != "":
		s.Log.Warn("webhook attempt failed", "endpoint", e.ID, "message", d.Message.ID,
			"status", a.Status, "problem", full)
	}
}

// Send sends a message to an endpoint once and returns the status of the answer, or 0 without an
// answer. It does not read the answer's body. An error says, without secrets, why the message was
// not accepted; Told has the text of it for the tenant.
func (s *Sender) Send(ctx context.Context, e alert.Endpoint, m alert.Message, at time.Time) (
	status int, err error) {
	keys, err := s.Secrets.keys(e.Tenant, e.Secret)
	if err != nil {
		return 0, problem{"its secret is not usable", err.Error()}
	}
	target, err := url.Parse(e.URL)
	if err != nil {
		return 0, err
	}
	ctx = context.WithValue(ctx, plainKey{}, target.Scheme != "https")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL, bytes.NewReader(m.Body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", s.Agent)
	r.Header.Set("webhook-id", m.ID)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	r.Header.Set("webhook-signature", signatures(keys, m.ID, at, m.Body))
	answer, err := s.client.Do(r)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) { // its text would repeat the URL
			err = failed.Err
		}
		return 0, err
	}
	_ = answer.Body.Close() // ends the connection; the body is not needed
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		text := "it answered " + strconv.Itoa(answer.StatusCode)
		return answer.StatusCode, problem{text, text}
	}
	return answer.StatusCode, nil
}
