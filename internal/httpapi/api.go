// Package httpapi answers HTTP: strict requests in, JSON or problem documents (RFC 9457) out.
//
// A request passes the following steps. A request that one step refuses never reaches the service.
//
//	front       selects the server: Answer for data calls in their usual form, net/http otherwise
//	Answer      (server.go) ids, requests in flight, panics
//	ServeHTTP   (api.go) the same, and number of headers, path, route
//	routes.go   which call it is; all routes are on one screen
//	data, call  query, path and body of one request, read strictly (package strictjson); a call is a
//	            data that net/http has read
//	<noun>.go   the call itself: one method of the service, and its answer as package api has it
//	document.go the answers that are written most, problem.go the refusals
//
// Data calls (deduct, batch, check, confirm, extend, rollback, cancel) have handlers that take a
// *data and do not depend on the server that read the request. DataPath is the part of the service
// that they use.
//
// Errors keep their kind. Refused and conflict (4xx) and unavailable (503) mean that nothing was
// changed; outcome_unknown (504) and internal (500) mean that something may have been. So for a
// call that changes something, an error without a code becomes outcome_unknown.
package httpapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"runtime/debug"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/auth"
	"github.com/budgetd/budgetd/internal/ratelimit"
)

// Service is what the API calls. Each of its parts is declared in the file of its noun.
type Service interface {
	DataPath
	Budgets
	Families
	OverrideList
	Lookups
	Usages
	Movements
	Audits
	Feeds
	Releases
	Samples
	Stores
	Instances
}

// Parts is a Service with an implementation for each noun.
type Parts struct {
	Deductions
	Lookups
	Checks
	Holds
	Budgets
	Families
	OverrideList
	Usages
	Movements
	Audits
	Feeds
	Releases
	Samples
	Stores
	Instances
}

// Observer counts answers for metrics. Its methods are safe for concurrent use and return at once.
type Observer interface {
	// Request records the answer to a request of a route (its pattern). trace is the id of its
	// trace if the trace is recorded, else "".
	Request(route string, status int, took time.Duration, trace string)
	// Deduction records the outcome of a deduct, alone or in a batch. code is "" if it was
	// accepted. trace is as for Request.
	Deduction(code budget.Code, replayed bool, trace string)
	// InFlight sets the number of requests in progress.
	InFlight(requests int64)
}

// Config configures an API.
type Config struct {
	Service Service
	// Drivers holds the driver of each instance, for GET /v1/instances.
	Drivers map[string]string
	Limits  Limits
	Log     *slog.Logger
	// Observer may be nil.
	Observer Observer
	// Tracer starts the spans of requests. If it is nil, requests have no spans.
	Tracer trace.Tracer
	// Metrics answers /metrics. If it is nil, the route does not exist.
	Metrics http.Handler
	// Auth admits callers. If it is nil, every caller may make every call.
	Auth *auth.Service
	// Names is required with an auth.Service that admits principals of single tenants or budgets.
	Names Names
	// AuditLog writes and reads the audit log, Keys manages API keys. Without them their routes do
	// not exist.
	AuditLog AuditLog
	Keys     Keys
	// Alerts and Webhooks serve the calls about alerts and endpoints. Without them their routes do
	// not exist.
	Alerts   Alerts
	Webhooks Webhooks
	// Gauges serves GET /v1/remaining. Without it the route does not exist.
	Gauges Gauges
	// Console serves the operator's page, Login its log-ins. Without them their routes do not
	// exist.
	Console Console
	Login   Login
	// Dashboard supplies the console's figures over all budgets. If it is nil, their routes do not
	// exist.
	Dashboard Dashboard
	// Calls selects the calls that this API answers.
	Calls CallSet
	// NewID returns a new correlation id. The default returns random ids.
	NewID func() string
	// Now is the clock of latencies. The default is time.Now.
	Now func() time.Time
	// SQLNow is the database's clock, by which holds end. The default is Now.
	SQLNow func() time.Time
}

// CallSet is a set of calls for one listener.
type CallSet uint8

// The sets, which can be combined with |; 0 means all. Every set includes the health checks.
const (
	// DataCalls contains the calls of those who deduct. None of them needs more than the role
	// rollback.
	DataCalls CallSet = 1 << iota
	// AdminCalls contains the administrative calls and the console.
	AdminCalls
	// MetricsCalls contains the metrics.
	MetricsCalls
)

// has reports whether a call belongs to a set.
func (s CallSet) has(call *access.Call, probe bool) bool {
	of := AdminCalls
	switch {
	case call.Op == "metrics":
		of = MetricsCalls
	case call.Over != access.Nobody && call.Over != access.Installation &&
		access.Rollback.Includes(call.Least):
		of = DataCalls
	}
	return s == 0 || probe || s&of != 0
}

// API is the HTTP interface of one node. It is safe for concurrent use.
type API struct {
	service   Service
	keys      Keys
	alerts    Alerts
	webhooks  Webhooks
	drivers   map[string]string
	limits    Limits
	admission admission
	log       *slog.Logger
	gate      logSampler
	observer  Observer
	tracer    trace.Tracer // may be nil
	newID     func() string
	now       func() time.Time
	sqlNow    func() time.Time
	mux       *http.ServeMux
	methods   []string
	// dataRoutes lists the routes with a data handler.
	dataRoutes []dataRoute

	dashboard Dashboard
	gauges    Gauges
	// streams counts event streams.
	streams ratelimit.Share
	// bodies counts the bytes of bodies in progress.
	bodies ratelimit.Share

	leaving  atomic.Bool
	left     chan struct{} // closed by Leave
	inFlight atomic.Int64
}

// New returns an API. It does not call the service.
func New(c Config) *API {
	a := &API{service: c.Service, drivers: c.Drivers, limits: c.Limits, log: c.Log,
		observer: c.Observer, tracer: c.Tracer, newID: c.NewID, now: c.Now, sqlNow: c.SQLNow,
		mux: http.NewServeMux(), left: make(chan struct{}), keys: c.Keys,
		alerts: c.Alerts, webhooks: c.Webhooks,
		admission: newAdmission(c), dashboard: c.Dashboard, gauges: c.Gauges}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.observer == nil {
		a.observer = noObserver{}
	}
	if a.newID == nil {
		a.newID = randomID
	}
	if a.now == nil {
		a.now = time.Now
	}
	if a.sqlNow == nil {
		a.sqlNow = a.now
	}
	a.register(c)
	return a
}

// Leave makes /readyz fail from now on, so that load balancers send no new requests. Other requests
// are still answered; those that wait for news are answered at once.
func (a *API) Leave() {
	if a.leaving.CompareAndSwap(false, true) {
		close(a.left)
	}
}

// enter counts a request in flight, and refuses it if there are too many. In both cases leave must
// follow.
func (a *API) enter(d *data) *budget.Error {
	n := a.inFlight.Add(1)
	a.observer.InFlight(n)
	if n <= int64(a.limits.InFlight) {
		return nil
	}
	err := budget.Refuse(budget.Unavailable, d.route.op,
		"%d requests are being answered, more are not taken in; try again", a.limits.InFlight)
	err.Reason = budget.ReasonOverloaded
	if d.route.op == "deduct" { // the number of deductions in a batch is not known yet
		a.observeDeduction(d.work, nil, nil, err)
	}
	return err
}

func (a *API) leave() { a.observer.InFlight(a.inFlight.Add(-1)) }

// ServeHTTP answers one request. After a request with chunks it ends the connection: net/http does
// not say whether the request also had a Content-Length, which a proxy may have believed (RFC 9112,
// 6.1).
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r}
	c.work = &requestContext{parent: r.Context(), marks: a.mark(r)}
	c.data = data{api: a, route: &unrouted, ctx: c.work, work: c.work, began: a.now(), unread: c}
	c.mark(w.Header())
	if len(r.TransferEncoding) > 0 {
		w.Header()["Connection"] = closing
	}
	defer c.recover()
	switch {
	case headerCount(r.Header) > a.limits.Headers:
		e := budget.Refuse(budget.TooLarge, "read", "the request has more than %d headers",
			a.limits.Headers)
		p := ProblemOf(e)
		p.Status = http.StatusRequestHeaderFieldsTooLarge
		c.replyWith(e, p)
	case !clean(r):
		c.reply(routeNotFound(r))
	default:
		c.carrier = dispatched{w, c}
		a.mux.ServeHTTP(&c.carrier, r)
	}
}

// closing is the Connection header that ends a connection after the answer. It must not be changed.
var closing = []string{"close"}

func headerCount(h http.Header) int {
	n := 0
	for _, values := range h {
		n += len(values)
	}
	return n
}

// clean reports whether a path is in the form that routes have. ServeMux would redirect any other
// path, and a redirected POST arrives as a GET.
func clean(r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	return escaped != "" && escaped[0] == '/' && path.Clean(escaped) == escaped
}

func routeNotFound(r *http.Request) *budget.Error {
	return budget.Refuse(budget.RouteNotFound, "route", "there is no call %s %.200q", r.Method,
		r.URL.Path)
}

// dispatched carries a call through ServeMux to its route. Passing it in the context would take a
// copy of the request.
type dispatched struct {
	http.ResponseWriter
	call *call
}

// recover turns a panic into an answer. It logs the panic with its stack and does not show it to
// the caller.
func (c *call) recover() {
	why := recover()
	if why == nil {
		return
	}
	if why == http.ErrAbortHandler {
		panic(why)
	}
	failed := panicked(c.route.op, why)
	if c.entry != nil {
		c.appendEntry(failed)
	}
	c.reply(failed)
}

// panicked returns the error of a call that panicked, with the stack.
func panicked(op string, why any) *budget.Error {
	return &budget.Error{Code: budget.Internal, Op: op,
		Err: fmt.Errorf("panic: %v\n%s", why, debug.Stack())}
}

type noObserver struct{}

func (noObserver) Request(string, int, time.Duration, string) {}

func (noObserver) Deduction(budget.Code, bool, string) {}

func (noObserver) InFlight(int64) {}
