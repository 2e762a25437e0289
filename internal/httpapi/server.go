package httpapi

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/guard"
	"github.com/budgetd/budgetd/internal/httpapi/front"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
)

// Limits bound what callers can make the service hold. All must be positive.
type Limits struct {
	// BodyBytes bounds a body, BatchBytes that of a batch, BatchItems its deductions.
	BodyBytes, BatchBytes int64
	BatchItems            int
	// HeaderBytes bounds request line and headers together, Headers their number.
	HeaderBytes, Headers int
	// InFlight is how many requests are answered at once; more are told to come back.
	InFlight int
	// RequestTimeout bounds the work on one request, after it was read.
	RequestTimeout time.Duration
	// HeaderTimeout and ReadTimeout bound how long headers, and a request as a whole, may take to
	// arrive; WriteTimeout how long its answer may take to leave; IdleTimeout how long a connection
	// stays open between two requests.
	HeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
}

// NewServer returns a server for a listener of the caller's: what is too large or too slow ends by
// itself. Package front answers data calls in their usual form, net/http everything else.
func NewServer(api *API, limits Limits, log *slog.Logger) *front.Server {
	return front.New(api, NewWebServer(api, limits, log), front.Limits{
		HeaderTimeout: limits.HeaderTimeout, ReadTimeout: limits.ReadTimeout,
		IdleTimeout: limits.IdleTimeout, WriteTimeout: limits.WriteTimeout})
}

// tlsKey finds in the context of a request what its connection has negotiated, where the request
// itself does not say it.
type tlsKey struct{}

// NewWebServer returns net/http's server alone, which answers all calls. It answers headers beyond
// HeaderBytes with a plain 431 before the API sees them.
func NewWebServer(api *API, limits Limits, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:                      api,
		ReadHeaderTimeout:            limits.HeaderTimeout,
		ReadTimeout:                  limits.ReadTimeout,
		WriteTimeout:                 limits.ReadTimeout + limits.RequestTimeout + limits.WriteTimeout,
		IdleTimeout:                  limits.IdleTimeout,
		MaxHeaderBytes:               limits.HeaderBytes,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if state := front.ConnectionState(c); state != nil {
				ctx = context.WithValue(ctx, tlsKey{}, state)
			}
			return ctx
		},
	}
}

// dataRoute is a route with a data handler as package front asks for it: before and after are the
// parts of its path around {budget}, after is "" where the path has no budget.
type dataRoute struct {
	route
	before, after string
}

// dataRouteOf cuts the pattern of a route, which is a POST.
func dataRouteOf(r *route) dataRoute {
	path, _ := strings.CutPrefix(r.pattern, "POST ")
	before, after, _ := strings.Cut(path, "{budget}")
	return dataRoute{*r, before, after}
}

// named returns the text in place of {budget}, "" where there is none; false: the path is another.
func (r *dataRoute) named(path []byte) (text []byte, ok bool) {
	if r.after == "" {
		return nil, string(path) == r.before
	}
	if len(path) <= len(r.before)+len(r.after) || string(path[:len(r.before)]) != r.before {
		return nil, false
	}
	text, ok = bytes.CutSuffix(path[len(r.before):], []byte(r.after))
	return text, ok && bytes.IndexByte(text, '/') < 0
}

// Find returns which data call a POST to a path is, for package front.
func (a *API) Find(path []byte) (call, maxBody int, ok bool) {
	for i := range a.dataRoutes {
		if _, ok := a.dataRoutes[i].named(path); ok {
			return i, int(a.dataRoutes[i].maxBody), true
		}
	}
	return 0, 0, false
}

var datas = sync.Pool{New: func() any { return new(data) }}

// Answer answers a data call that package front has read. The caller's connection does not end the
// work on it: RequestTimeout does.
func (a *API) Answer(call int, r *front.Request, out *front.Answer) {
	route := &a.dataRoutes[call]
	d := datas.Get().(*data)
	name, _ := route.named(r.Path)
	named := d.named // often that of the call before
	if named != string(name) {
		named = string(name)
	}
	w := &work{parent: context.Background()}
	traceparent := string(r.Traceparent)
	w.marks = a.marksOf(string(r.Correlation), traceparent)
	span := a.begin(w, &route.route, traceparent)
	*d = data{api: a, route: &route.route, ctx: w, work: w, began: a.now(), body: r.Body,
		named: named, rawQuery: string(r.Query)}
	w.until = r.Began.Add(a.limits.RequestTimeout)
	out.Correlation, out.Traceparent = w.marks.correlation, w.marks.traceparent()
	d.serve(r, out)
	w.end()
	a.observer.Request(route.pattern, out.Status, a.now().Sub(d.began), recorded(span))
	end(span, out.Status)
	*d = data{named: named}
	datas.Put(d)
}

// serve runs the route's handler and appends what it returns.
func (d *data) serve(r *front.Request, out *front.Answer) {
	a := d.api
	defer func() {
		if why := recover(); why != nil {
			d.refuse(out, panicked(d.route.op, why))
		}
	}()
	defer a.leave()
	if err := a.enter(d.route); err != nil {
		d.refuse(out, err)
		return
	}
	// The texts are those of the connection's buffer: nothing keeps them.
	caller := guard.Caller{Authorization: borrowed(r.Authorization), Host: borrowed(r.Host),
		Authorized: r.Authorization != nil, TLS: r.TLS, Remote: r.Remote}
	if err := d.admit(&caller); err != nil {
		d.refuse(out, err)
		return
	}
	answer, err := d.route.data(d)
	if err != nil {
		d.refuse(out, wire.Settle(err, d.route.op, d.route.changes))
		return
	}
	if err := d.append(out, 200, "application/json", answer.body); err != nil {
		d.refuse(out, &budget.Error{Code: budget.Internal, Op: d.route.op, Err: err})
	}
}

// borrowed is a text without a copy of it: it is valid for as long as the bytes are.
func borrowed(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// refuse logs an error, once, and appends its problem document.
func (d *data) refuse(out *front.Answer, e *budget.Error) {
	d.api.logError(d.ctx, d.route.op, e)
	p := wire.ProblemOf(e)
	p.CorrelationID = d.work.marks.correlation
	out.RetryAfter, out.Authenticate = p.WholeRetryAfter(), e.Code == budget.Unauthenticated
	if err := d.append(out, p.Status, "application/problem+json", p); err != nil {
		panic(err) // a problem always has a JSON form
	}
}

// append appends one document; an error means that it has no JSON form.
func (d *data) append(out *front.Answer, status int, contentType string, body any) error {
	text := &d.text
	text.Text, text.Err = out.Body[:0], nil
	text.Value(body)
	if text.Err != nil {
		return text.Err
	}
	text.Raw("\n")
	out.Status, out.ContentType, out.Body = status, contentType, text.Text
	return nil
}
