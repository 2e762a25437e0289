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
	"github.com/budgetd/budgetd/internal/auth"
	"github.com/budgetd/budgetd/internal/httpapi/front"
)

// Limits bounds what callers can make the service hold. All fields but Connections must be
// positive.
type Limits struct {
	// BodyBytes bounds a body, BatchBytes the body of a batch.
	BodyBytes, BatchBytes int64
	// BodiesBytes bounds the bytes of all bodies in progress together, without the first 16 KiB of
	// each.
	BodiesBytes int64
	// HeaderBytes bounds the request line and headers together, Headers their number.
	HeaderBytes, Headers int
	// Connections bounds the open connections; 0 means no bound.
	Connections int
	// InFlight bounds the requests in progress. Further ones are refused and may be repeated.
	InFlight int
	// RequestTimeout bounds the work on a request after it was read.
	RequestTimeout time.Duration
	// HeaderTimeout and ReadTimeout bound the time in which headers, and a whole request, must
	// arrive. WriteTimeout bounds the time in which an answer must leave. IdleTimeout is how long a
	// connection stays open between requests.
	HeaderTimeout, ReadTimeout, WriteTimeout, IdleTimeout time.Duration
}

// NewServer returns a server for the caller's listeners. It ends requests that are too large or too
// slow. Package front answers data calls in their usual form, net/http everything else.
func NewServer(api *API, limits Limits, log *slog.Logger) *front.Server {
	return front.New(api, NewWebServer(api, limits, log), front.Limits{
		HeaderTimeout: limits.HeaderTimeout, ReadTimeout: limits.ReadTimeout,
		IdleTimeout: limits.IdleTimeout, WriteTimeout: limits.WriteTimeout,
		Connections: limits.Connections})
}

// tlsKey is the context key of a connection's TLS state, for requests that do not carry it.
type tlsKey struct{}

// NewWebServer returns net/http's server alone, which answers all calls. It answers headers beyond
// HeaderBytes with a plain 431; the API does not see them.
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

// dataRoute is a route with a data handler in the form that Find uses. before and after are the
// parts of its path around {budget}. after is "" if the path has no budget.
type dataRoute struct {
	route
	before, after string
}

// dataRouteOf splits the pattern of a route, which is a POST.
func dataRouteOf(r *route) dataRoute {
	path, _ := strings.CutPrefix(r.pattern, "POST ")
	before, after, _ := strings.Cut(path, "{budget}")
	return dataRoute{*r, before, after}
}

// named returns the text in place of {budget}, or "" for a path without a budget. ok is false if
// the path does not match.
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

// Find implements front.Handler. It returns the data call of a POST to a path.
func (a *API) Find(path []byte) (call, maxBody int, ok bool) {
	for i := range a.dataRoutes {
		if _, ok := a.dataRoutes[i].named(path); ok {
			return i, int(a.dataRoutes[i].maxBody), true
		}
	}
	return 0, 0, false
}

var datas = sync.Pool{New: func() any { return new(data) }}

// Answer implements front.Handler. The work on the call ends with RequestTimeout, not with the
// caller's connection.
func (a *API) Answer(call int, r *front.Request, out *front.Answer) {
	route := &a.dataRoutes[call]
	d := datas.Get().(*data)
	name, _ := route.named(r.Path)
	named := d.named // often the one of the previous call
	if named != string(name) {
		named = string(name)
	}
	w := &requestContext{parent: context.Background()}
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

// Admits implements front.Handler. It does not count the request against the caller's rate.
func (a *API) Admits(call int, r *front.Request) bool {
	caller := callerOf(r)
	return a.admission.auth.Admits(&caller, &a.dataRoutes[call].access)
}

// callerOf returns the sender of a request. The texts share the connection's buffer. auth
// keeps copies only.
func callerOf(r *front.Request) auth.Caller {
	return auth.Caller{Authorization: borrowed(r.Authorization), Host: borrowed(r.Host),
		Authorized: r.Authorization != nil, TLS: r.TLS, Remote: r.Remote}
}

// serve runs the route's handler and appends its answer.
func (d *data) serve(r *front.Request, out *front.Answer) {
	a := d.api
	defer func() {
		if why := recover(); why != nil {
			d.reply(out, panicked(d.route.op, why))
		}
	}()
	defer a.leave()
	if err := a.enter(d); err != nil {
		d.reply(out, err)
		return
	}
	caller := callerOf(r)
	if err := d.admit(&caller); err != nil {
		d.reply(out, err)
		return
	}
	answer, err := d.route.data(d)
	if err != nil {
		d.reply(out, errorOf(err, d.route.op, d.route.changes))
		return
	}
	if err := d.append(out, 200, "application/json", answer.body); err != nil {
		d.reply(out, &budget.Error{Code: budget.Internal, Op: d.route.op, Err: err})
	}
}

// borrowed returns a text that shares its bytes. It is valid as long as they are.
func borrowed(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

// reply logs an error once and appends its problem document.
func (d *data) reply(out *front.Answer, e *budget.Error) {
	d.api.logError(d.ctx, d.route.op, e)
	p := ProblemOf(e)
	p.CorrelationID = d.work.marks.correlation
	out.RetryAfter, out.Authenticate = p.WholeRetryAfter(), e.Code == budget.Unauthenticated
	if err := d.append(out, p.Status, "application/problem+json", p); err != nil {
		panic(err) // a problem always has a JSON form
	}
}

// append appends one document. An error means that it has no JSON form.
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
