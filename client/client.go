package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json"
)

// Bounds of the conversation with one server.
const (
	// maxAnswerBytes bounds what is read of one answer; a page of 1,000 budgets is about 1 MiB.
	maxAnswerBytes = 32 << 20
	// maxIdleConns keeps as many connections open as a busy caller has calls in flight; net/http's
	// own 2 per host would make most calls dial anew.
	maxIdleConns = 256
	dialTimeout  = 3 * time.Second
	idleTimeout  = 60 * time.Second
)

// Client calls one budgetd server. Make it with New; it is safe for concurrent use.
type Client struct {
	base   *url.URL
	http   *http.Client
	tenant string
	retry  Retry
	// traced: the transport is known to report when it got a connection, so its silence proves that
	// nothing was sent.
	traced bool
}

// Option changes how a Client works.
type Option func(*Client)

// WithTenant names the tenant whose budgets are meant by name. Default: the server's, "default".
func WithTenant(tenant string) Option { return func(c *Client) { c.tenant = tenant } }

// WithRetry replaces the bounds of repeats and waiting.
func WithRetry(r Retry) Option { return func(c *Client) { c.retry = r.withDefaults() } }

// WithTransport replaces the transport, for TLS or tracing. With anything but an *http.Transport
// every failure except that of dialling counts as sent.
func WithTransport(t http.RoundTripper) Option {
	return func(c *Client) {
		c.http.Transport = t
		_, c.traced = t.(*http.Transport)
	}
}

// New returns a client for the server at a base URL such as "http://127.0.0.1:8080"; without a
// scheme http is meant. It sends nothing. It fails when the URL has no host, another scheme than
// http and https, or a query.
func New(server string, options ...Option) (*Client, error) {
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	base, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("server address: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" ||
		base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("server address %q: must look like http://host:port", server)
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = ""
	c := &Client{
		base: base,
		http: &http.Client{
			Transport: &http.Transport{
				Proxy:                 http.ProxyFromEnvironment,
				DialContext:           (&net.Dialer{Timeout: dialTimeout}).DialContext,
				ForceAttemptHTTP2:     true,
				MaxIdleConns:          maxIdleConns,
				MaxIdleConnsPerHost:   maxIdleConns,
				IdleConnTimeout:       idleTimeout,
				TLSHandshakeTimeout:   dialTimeout,
				ExpectContinueTimeout: time.Second,
			},
			// A redirected POST would arrive as a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		retry:  Retry{}.withDefaults(),
		traced: true,
	}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// Server returns the base URL that is called.
func (c *Client) Server() string { return c.base.String() }

// call is one request, ready to be sent any number of times.
type call struct {
	op     string // for errors
	method string
	path   []string // segments below the base, escaped when sent
	query  url.Values
	header http.Header
	body   any // nil: none
	// requestID is what an unknown outcome is reported with.
	requestID string
	// longer is how much longer than other calls it may take: it waits for news.
	longer time.Duration
	// repeatable: sending it again has no second effect. Reads are.
	repeatable bool
	// harmless: it is no read by its method and changes nothing all the same.
	harmless bool
	// settle makes a refusal certain that follows an unanswered attempt: it returns nil when the call
	// then certainly has no effect. nil: it cannot be made certain.
	settle func(context.Context) error
}

func (c call) read() bool { return c.method == http.MethodGet || c.harmless }

// do sends a call, again where that is safe and can help, and decodes the answer into out. It
// returns the number of attempts made.
func (c *Client) do(ctx context.Context, what call, out any) (attempts int, err error) {
	unanswered := false
	for n := 1; ; n++ {
		err := c.send(ctx, what, out)
		if err == nil {
			return n, nil
		}
		if !undecided(err) {
			return n, what.certain(ctx, n, unanswered, err)
		}
		unanswered = unanswered || KindOf(err) == budget.MayBeDone
		if !what.repeatable || !c.retry.pause(ctx, n, err) {
			if unanswered {
				err = &UnknownOutcome{what.op, what.requestID, n, err}
			}
			return n, err
		}
	}
}

// certain returns what a final answer means for the call as a whole. Alone it is the answer. After
// an unanswered attempt it still is when it would have met that one too (a faulty request) or
// shuts it out for good (a conflict with what is recorded); any other refusal has to be settled.
func (c call) certain(ctx context.Context, attempts int, unanswered bool, final error) error {
	if !unanswered || sameForAll(final) {
		return final
	}
	if c.settle == nil {
		return &UnknownOutcome{c.op, c.requestID, attempts, final}
	}
	if err := c.settle(ctx); err != nil {
		return &UnknownOutcome{c.op, c.requestID, attempts, errors.Join(final, err)}
	}
	var p *Problem
	if errors.As(final, &p) {
		settled := *p
		settled.Cancelled = true
		return &settled
	}
	return final
}

// sameForAll reports whether a final answer holds for the earlier attempts of the same request as
// well. 401, 403 and 404 do not: they can change between two attempts.
func sameForAll(final error) bool {
	if KindOf(final) == budget.Conflict {
		return true
	}
	switch CodeOf(final) {
	case budget.Malformed, budget.Invalid, budget.TooLarge, budget.UnsupportedMediaType:
		return true
	}
	return false
}

// send makes one attempt and decodes the answer into out, unless that is nil. Its errors are
// *Problem and *TransportError; plain ones mean that the request could not be written and nothing
// was sent.
func (c *Client) send(ctx context.Context, what call, out any) error {
	request, err := c.request(ctx, what)
	if err != nil {
		return err
	}
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	ctx, cancel := context.WithTimeout(httptrace.WithClientTrace(ctx, trace), c.retry.AttemptTimeout+what.longer)
	defer cancel()
	transportError := func(sent bool, err error) error {
		return &TransportError{Op: what.op, Server: c.Server(), Sent: sent, Err: err, read: what.read()}
	}
	if err := ctx.Err(); err != nil {
		return transportError(false, err)
	}
	response, err := c.http.Do(request.WithContext(ctx))
	if err != nil {
		var urlError *url.Error
		if errors.As(err, &urlError) {
			err = urlError.Err // the operation and the URL are in TransportError
		}
		notSent := dialFailed(err) || c.traced && !connected.Load()
		return transportError(!notSent, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswerBytes+1))
	if err != nil {
		return transportError(true, fmt.Errorf("answer broke off: %w", err))
	}
	if len(body) > maxAnswerBytes {
		return transportError(true, fmt.Errorf("answer is longer than %d bytes", maxAnswerBytes))
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return problemFrom(what, response, body)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return transportError(true, fmt.Errorf("answer cannot be read: %w", err))
	}
	return nil
}

func (c *Client) request(ctx context.Context, what call) (*http.Request, error) {
	var body io.Reader
	if what.body != nil {
		text, err := json.Marshal(what.body)
		if err != nil {
			return nil, fmt.Errorf("%s: request cannot be written: %w", what.op, err)
		}
		body = bytes.NewReader(text)
	}
	target, err := c.target(what)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what.op, err)
	}
	request, err := http.NewRequestWithContext(ctx, what.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what.op, err)
	}
	for name, values := range what.header {
		request.Header[name] = values
	}
	request.Header.Set("Accept", "application/json, application/problem+json")
	request.Header.Set("User-Agent", "budgetd-client")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return request, nil
}

// target writes the URL. Segments that a server or proxy would take for a directory are refused
// here: "/v1/budgets/../x" is another call.
func (c *Client) target(what call) (string, error) {
	var target strings.Builder
	target.WriteString(c.base.String())
	for _, segment := range what.path {
		if segment == "" || segment == "." || segment == ".." {
			return "", fmt.Errorf("%q names no budget, bucket or instance", segment)
		}
		target.WriteString("/" + url.PathEscape(segment))
	}
	if len(what.query) > 0 {
		target.WriteString("?" + what.query.Encode())
	}
	return target.String(), nil
}

// inTenant returns the query that says whose budgets are meant.
func (c *Client) inTenant() url.Values {
	query := url.Values{}
	if c.tenant != "" {
		query.Set("tenant", c.tenant)
	}
	return query
}

// dialFailed reports whether err says that no connection was made.
func dialFailed(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "dial"
}

// problemBody is application/problem+json as budgetd writes it. The status is that of the answer;
// only the items of a batch have no other than their own.
type problemBody struct {
	Code       budget.Code  `json:"code"`
	Title      string       `json:"title"`
	Detail     string       `json:"detail"`
	Errors     []FieldError `json:"errors"`
	Available  *int64       `json:"available"`
	Reasons    []string     `json:"reasons"`
	RetryAfter float64      `json:"retry_after"` // seconds

	Limit     string    `json:"limit"`
	Dimension string    `json:"dimension"`
	Value     string    `json:"value"`
	Used      int64     `json:"used"`
	Max       *int64    `json:"max"`
	ResetAt   time.Time `json:"reset_at"`
}

func (b problemBody) problem(what call, status int) *Problem {
	p := &Problem{
		Op: what.op, Status: status, Code: b.Code, Title: b.Title, Detail: b.Detail,
		Errors: b.Errors, Available: b.Available, Reasons: b.Reasons,
		RetryAfter: seconds(b.RetryAfter), read: what.read(),
	}
	if b.Limit != "" {
		p.Limit = &LimitState{Name: b.Limit, Dimension: b.Dimension, Value: b.Value, Used: b.Used, Max: b.Max,
			ResetAt: b.ResetAt}
	}
	return p
}

// problemFrom reads a refusal. A body that is not budgetd's leaves the code empty.
func problemFrom(what call, response *http.Response, body []byte) *Problem {
	var wire problemBody
	if err := json.Unmarshal(body, &wire); err != nil {
		wire = problemBody{}
	}
	p := wire.problem(what, response.StatusCode)
	p.CorrelationID = response.Header.Get("X-Correlation-Id")
	if header, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 32); err == nil {
		p.RetryAfter = max(p.RetryAfter, seconds(float64(header)))
	}
	if p.Code == "" && len(p.Reasons) == 0 {
		p.Title = response.Status
		p.Detail = "not an answer of budgetd; is this the right address?"
		if to := response.Header.Get("Location"); to != "" {
			p.Detail = "the server redirects to " + to + "; use that address"
		}
	}
	return p
}

// seconds returns a duration of n seconds, at most a century, so that nothing overflows.
func seconds(n float64) time.Duration {
	const century = 100 * 365 * 24 * 60 * 60
	return time.Duration(min(max(n, 0), century) * float64(time.Second))
}
