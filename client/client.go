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
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of the conversation with one server.
const (
	// maxAnswerBytes bounds one answer; a page of 1,000 budgets is about 1 MiB.
	maxAnswerBytes = 32 << 20
	// maxIdleConns keeps as many connections open as a busy caller has calls in flight; net/http's
	// own 2 per host would make most calls dial again.
	maxIdleConns = 256
	dialTimeout  = 3 * time.Second
	// maxAnswerAhead is the most that is allocated for an answer before it is read.
	maxAnswerAhead = 1 << 20
	// targetAhead is allocated for a URL.
	targetAhead = 128
	idleTimeout = 60 * time.Second
)

// Header values that are the same in every request. They must not be changed.
var (
	acceptHeader    = []string{"application/json, application/problem+json"}
	userAgentHeader = []string{"budgetd-client"}
	jsonHeader      = []string{"application/json"}
)

// Client calls one budgetd server. Create it with New; it is safe for concurrent use.
type Client struct {
	// addresses are the base URLs of equal servers. current counts the failed attempts and selects
	// the present one.
	addresses []string
	current   atomic.Uint32
	http      *http.Client
	tenant    string
	retry     Retry
	// cancelWithin bounds the cancel of a request whose outcome is unknown; 0 disables it.
	cancelWithin time.Duration
	// trace returns the trace of a context; nil means that only those of ContextWithTrace are used.
	trace func(context.Context) Trace
	// token returns the key of each attempt; nil means that calls carry no key.
	token TokenSource
	// coalescer sends deductions together. If it is nil, each is sent alone.
	coalescer *coalescer
	// traced means that the transport is known to report when it got a connection, so that its
	// silence proves that nothing was sent.
	traced bool
}

// Option changes how a Client works.
type Option func(*Client)

// WithTenant sets the tenant of budget names. The default is the server's, "default".
func WithTenant(tenant string) Option { return func(c *Client) { c.tenant = tenant } }

// WithRetry replaces the bounds of retries and waits.
func WithRetry(r Retry) Option { return func(c *Client) { c.retry = r.withDefaults() } }

// WithCancelUnknown makes Deduct and DeductBatch avoid unknown outcomes: if the attempts or the
// context end with one unanswered, they cancel the request id. The error is then request_void with
// Problem.Cancelled: it had no effect and never will; another try needs another id. It remains an
// *UnknownOutcome if the cancel gets no answer either.
//
// The cancel has its own time limit, within, even after the context ended, so the call may last
// that much longer. By default the caller decides, and a cancel after a refusal ends with the
// context.
func WithCancelUnknown(within time.Duration) Option {
	return func(c *Client) { c.cancelWithin = max(within, 0) }
}

// WithTransport replaces the transport, for TLS or tracing. With anything but an *http.Transport
// every failure counts as sent, except a failure to dial without an earlier connection.
func WithTransport(t http.RoundTripper) Option {
	return func(c *Client) {
		c.http.Transport = t
		_, c.traced = t.(*http.Transport)
	}
}

// New returns a client for the server at a base URL such as "http://127.0.0.1:8080"; the scheme
// defaults to http. Several URLs of equal nodes are separated by commas: after an attempt without
// an answer the client calls the next one, with the same request id. New sends nothing. It returns
// an error if a URL has no host, a scheme other than http and https, or a query.
func New(server string, options ...Option) (*Client, error) {
	c := &Client{
		http: &http.Client{
			Transport: newTransport(),
			// A redirected POST would arrive as a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		retry:  Retry{}.withDefaults(),
		traced: true,
	}
	for one := range strings.SplitSeq(server, ",") {
		address, err := baseOf(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		c.addresses = append(c.addresses, address)
	}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// baseOf returns the base URL of a server's address. It refuses an address with a user or password
// without repeating it, because errors are logged.
func baseOf(server string) (string, error) {
	if strings.Contains(server, "@") {
		return "", errors.New("server address: must not have a user or password; the key is given by " +
			"WithToken or WithTokenFile")
	}
	if !strings.Contains(server, "://") {
		server = "http://" + server
	}
	base, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("server address: %w", err)
	}
	bare := strings.Count(base.Host, ":") > 1 && base.Host[0] != '[' // old versions of Go accept it
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" || bare ||
		base.RawQuery != "" || base.Fragment != "" {
		return "", fmt.Errorf("server address %q: must look like http://host:port", server)
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = ""
	return base.String(), nil
}

// Server returns the base URL to which the next attempt goes.
func (c *Client) Server() string {
	return c.addresses[int(c.current.Load())%len(c.addresses)]
}

// call is one request, ready to be sent any number of times.
type call struct {
	op     string // for errors
	method string
	path   []string // segments below the base, escaped when sent
	query  url.Values
	header http.Header
	body   any // nil means no body
	// trace is the trace of the call; zero means one of its own.
	trace Trace
	// item is the deduction as a part of a batch. It is nil for a call that is always sent alone.
	item *BatchItem
	// requestID is the id that an unknown outcome reports.
	requestID string
	// longer is added to the time limit of a call that waits for news.
	longer time.Duration
	// repeatable means that sending it again has no second effect, as for reads.
	repeatable bool
	// harmless means that it changes nothing although its method is not a read.
	harmless bool
	// settle settles a refusal after an unanswered attempt: it returns nil if the call then
	// certainly has no effect. It is nil if that is impossible.
	settle func(context.Context) error
	// settleIn is the context of settle; nil means that of settling.
	settleIn context.Context
}

func (c call) read() bool { return c.method == http.MethodGet || c.harmless }

// send makes one attempt and decodes the answer into out, unless that is nil. Its errors are
// *Problem and *TransportError; any other means that the request could not be encoded and nothing
// was sent.
func (c *Client) send(ctx context.Context, what call, out any) error {
	_, err := c.exchange(ctx, what, out)
	return err
}

// exchange is send that also returns the answer's correlation id.
func (c *Client) exchange(ctx context.Context, what call, out any) (correlation string, err error) {
	if what.trace.Parent == "" {
		what.trace = c.traceOf(ctx)
	}
	var connected atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}
	ctx, cancel := context.WithTimeout(httptrace.WithClientTrace(ctx, trace), c.retry.AttemptTimeout+
		what.longer)
	defer cancel()
	at, server := c.current.Load(), c.Server()
	request, err := c.request(ctx, what)
	if err != nil {
		return "", err
	}
	transportError := func(sent bool, err error) (string, error) {
		c.current.CompareAndSwap(at, at+1) // another attempt goes to the next address
		return "", &TransportError{Op: what.op, Server: server, Sent: sent, Err: err, read: what.read()}
	}
	if err := ctx.Err(); err != nil {
		return transportError(false, err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		var urlError *url.Error
		if errors.As(err, &urlError) {
			err = urlError.Err // the operation and the URL are in TransportError
		}
		// Another transport may have sent it before it failed to dial again.
		notSent := dialFailed(err) && (c.traced || !connected.Load()) || c.traced && !connected.Load()
		return transportError(!notSent, err)
	}
	defer response.Body.Close()
	body, err := readAnswer(response)
	if err != nil {
		return transportError(true, fmt.Errorf("answer broke off: %w", err))
	}
	if len(body) > maxAnswerBytes {
		return transportError(true, fmt.Errorf("answer is longer than %d bytes", maxAnswerBytes))
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return "", problemFrom(what, response, body)
	}
	correlation = response.Header.Get(correlationHeader)
	if out == nil {
		return correlation, nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		reflect.ValueOf(out).Elem().SetZero() // the next attempt's answer must not mix with this one
		return transportError(true, fmt.Errorf("answer cannot be read: %w", err))
	}
	if err := about(what.requestID, out); err != nil {
		reflect.ValueOf(out).Elem().SetZero()
		return transportError(true, err)
	}
	return correlation, nil
}

// readAnswer reads an answer to its end, so that its connection can be reused, or until it is
// longer than maxAnswerBytes.
func readAnswer(response *http.Response) ([]byte, error) {
	var body bytes.Buffer
	if n := response.ContentLength; n > 0 {
		body.Grow(int(min(n, maxAnswerAhead)) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(response.Body, maxAnswerBytes+1))
	return body.Bytes(), err
}

func (c *Client) request(ctx context.Context, what call) (*http.Request, error) {
	var body io.Reader
	if what.body != nil {
		text, err := what.text(what.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	target, err := c.target(what)
	if err != nil {
		return nil, what.unwritten(err)
	}
	request, err := http.NewRequestWithContext(ctx, what.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what.op, err)
	}
	for name, values := range what.header {
		request.Header[name] = values
	}
	request.Header["Accept"] = acceptHeader
	request.Header["User-Agent"] = userAgentHeader
	if body != nil {
		request.Header["Content-Type"] = jsonHeader
	}
	what.trace.write(request.Header)
	if err := c.authorize(ctx, request.Header); err != nil {
		return nil, what.unwritten(err)
	}
	return request, nil
}

// text encodes a body as JSON; a JSON text is used verbatim.
func (c call) text(body any) (jsontext.Value, error) {
	if text, ok := body.(jsontext.Value); ok {
		return text, nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, c.unwritten(fmt.Errorf("request cannot be written: %w", err))
	}
	return text, nil
}

// unwritten returns the error of a call that cannot be sent at all.
func (c call) unwritten(err error) error { return fmt.Errorf("%s: %w", c.op, err) }

// target returns the URL. It refuses segments that a server or proxy would treat as a directory:
// "/v1/budgets/../x" is another call.
func (c *Client) target(what call) (string, error) {
	var target strings.Builder
	target.Grow(targetAhead)
	target.WriteString(c.Server())
	for _, segment := range what.path {
		if segment == "" || segment == "." || segment == ".." {
			return "", fmt.Errorf("%q names no budget, bucket or instance", segment)
		}
		target.WriteByte('/')
		target.WriteString(url.PathEscape(segment))
	}
	if len(what.query) > 0 {
		target.WriteByte('?')
		target.WriteString(what.query.Encode())
	}
	return target.String(), nil
}

// inTenant returns the query that names the tenant.
func (c *Client) inTenant() url.Values {
	query := url.Values{}
	if c.tenant != "" {
		query.Set("tenant", c.tenant)
	}
	return query
}

// dialFailed reports whether err means that no connection was made.
func dialFailed(err error) bool {
	var operation *net.OpError
	return errors.As(err, &operation) && operation.Op == "dial"
}
