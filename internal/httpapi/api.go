// Package httpapi answers HTTP: strict requests in, JSON or problem documents (RFC 9457) out.
//
// A request goes through these steps, and whatever a step refuses never reaches the service:
//
//	front       who answers it: data calls in their usual form go to Answer, all others to net/http
//	Answer      (server.go) ids, requests in flight, panics
//	ServeHTTP   (api.go) the same, and number of headers, path, route
//	routes.go   which call it is; all of them on one screen
//	data, call  query, path and body of one request, read strictly (package strictjson); a call is a
//	            data that net/http has read
//	<noun>.go   the call itself: one method of the service
//	wire        what bodies and answers look like, and what an error is answered with
//
// Data calls (deduct, batch, check, confirm, extend, rollback, cancel) have handlers that take a
// *data. They do not know which server is in front of them. What data calls ask of the service is
// DataPath.
//
// Errors keep their kind on the way out: refused and conflict (4xx) and unavailable (503) say that
// nothing was changed; outcome_unknown (504) and internal (500) that it may have been. An error of
// the service that carries no code is therefore outcome_unknown for calls that change something.
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
	"github.com/budgetd/budgetd/internal/guard"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
)

// Service is what the API calls: *bucket.Service. Each part stands in the file of its noun.
type Service interface {
	DataPath
	Budgets
	Lookups
	Usages
	Buckets
	Recycles
	Audits
	Feeds
	Quarantines
	Series
	Stores
	Instances
}

// Observer is told what was answered, for metrics. Safe for concurrent use, returns at once.
type Observer interface {
	// Request: a request of a route (its pattern) was answered. trace is the id of its trace if that
	// is recorded, else "".
	Request(route string, status int, took time.Duration, trace string)
	// Deduction: a deduct, alone or in a batch, came out as accepted (code "") or with this code.
	Deduction(code budget.Code, replayed bool)
	// InFlight: so many requests are being answered.
	InFlight(requests int64)
}

// Config is what an API is made of.
type Config struct {
	Service Service
	// Drivers names the driver of each instance, for GET /v1/instances.
	Drivers map[string]string
	Limits  Limits
	Log     *slog.Logger
	// Observer may be nil.
	Observer Observer
	// Tracer starts the spans of requests. If it is nil, requests have no spans.
	Tracer trace.Tracer
	// Metrics answers /metrics; nil: no such route.
	Metrics http.Handler
	// Guard says who makes a call; nil admits everybody to everything.
	Guard *guard.Guard
	// Names is needed beside a guard that admits principals of single tenants or budgets.
	Names Names
	// Trail adds to the audit log, Records reads it, Keys are the API keys; nil: there are no such
	// routes.
	Trail   Trail
	Records Records
	Keys    Keys
	// Alerts and Webhooks show what needs attention and who is told; nil: there are no such routes.
	Alerts   Alerts
	Webhooks Webhooks
	// Console answers the operator's page, and Login logs persons in to it; nil: there are no such
	// routes.
	Console Console
	Login   Login
	// Overseer knows what the console shows of all budgets; nil: there are no such calls.
	Overseer Overseer
	// Part says which calls are answered here.
	Part Part
	// NewID makes correlation ids; nil: random ones.
	NewID func() string
	// Now is the clock of latencies; nil: the machine's.
	Now func() time.Time
}

// Part is the calls of one listener.
type Part uint8

// The parts, which may be added up; 0 is all of them. Health is answered by each.
const (
	// DataPart is what callers need who deduct: no call of it needs more than the role rollback.
	DataPart Part = 1 << iota
	// AdminPart is the administrative calls and the console.
	AdminPart
	// MetricsPart is the metrics.
	MetricsPart
)

// has reports whether a call belongs to a part.
func (p Part) has(call *access.Call, probe bool) bool {
	of := AdminPart
	switch {
	case call.Op == "metrics":
		of = MetricsPart
	case call.Over != access.Nobody && call.Over != access.Installation &&
		access.Rollback.Includes(call.Least):
		of = DataPart
	}
	return p == 0 || probe || p&of != 0
}

// API is the HTTP interface of one node. Safe for concurrent use.
type API struct {
	service   Service
	keys      Keys
	records   Records
	alerts    Alerts
	webhooks  Webhooks
	drivers   map[string]string
	limits    Limits
	admission admission
	log       *slog.Logger
	gate      gate
	observer  Observer
	tracer    trace.Tracer // nil: none
	newID     func() string
	now       func() time.Time
	mux       *http.ServeMux
	methods   []string
	// dataRoutes are the routes with a data handler.
	dataRoutes []dataRoute

	overseer Overseer
	streams  atomic.Int32

	leaving  atomic.Bool
	left     chan struct{} // closed once leaving
	inFlight atomic.Int64
}

// New makes an API. It calls nothing.
func New(c Config) *API {
	a := &API{service: c.Service, drivers: c.Drivers, limits: c.Limits, log: c.Log,
		observer: c.Observer, tracer: c.Tracer, newID: c.NewID, now: c.Now, mux: http.NewServeMux(),
		left: make(chan struct{}), keys: c.Keys, records: c.Records,
		alerts: c.Alerts, webhooks: c.Webhooks,
		admission: newAdmission(c), overseer: c.Overseer}
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
	a.register(c)
	return a
}

// Leave makes /readyz fail from now on, so that balancers send nothing new; everything else is
// still answered, what waits for news at once.
func (a *API) Leave() {
	if a.leaving.CompareAndSwap(false, true) {
		close(a.left)
	}
}

// enter counts a request that is being answered, and refuses one too many. leave must follow.
func (a *API) enter(r *route) *budget.Error {
	n := a.inFlight.Add(1)
	a.observer.InFlight(n)
	if n <= int64(a.limits.InFlight) {
		return nil
	}
	err := budget.Refuse(budget.Unavailable, r.op,
		"%d requests are being answered, more are not taken in; try again", a.limits.InFlight)
	err.Reason = budget.ReasonOverloaded
	if r.op == "deduct" { // of a batch nobody knows how many
		a.observeDeduction(nil, nil, err)
	}
	return err
}

func (a *API) leave() { a.observer.InFlight(a.inFlight.Add(-1)) }

// ServeHTTP answers one request. It ends the connection after one with chunks: net/http does not
// say whether it also had a Content-Length, which a proxy may have believed (RFC 9112, 6.1).
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: w, r: r}
	c.work = &work{parent: r.Context(), marks: a.mark(r)}
	c.data = data{api: a, route: &unrouted, ctx: c.work, work: c.work, began: a.now(), arriving: c}
	c.mark(w.Header())
	if len(r.TransferEncoding) > 0 {
		w.Header()["Connection"] = closing
	}
	defer c.recover()
	switch {
	case headerCount(r.Header) > a.limits.Headers:
		e := budget.Refuse(budget.TooLarge, "read", "the request has more than %d headers",
			a.limits.Headers)
		p := wire.ProblemOf(e)
		p.Status = http.StatusRequestHeaderFieldsTooLarge
		c.refuse(e, p)
	case !clean(r):
		c.fail(routeNotFound(r))
	default:
		c.carrier = dispatched{w, c}
		a.mux.ServeHTTP(&c.carrier, r)
	}
}

// closing ends a connection after the answer. It must not be changed.
var closing = []string{"close"}

func headerCount(h http.Header) int {
	n := 0
	for _, values := range h {
		n += len(values)
	}
	return n
}

// clean reports whether a path is written in the one form that routes know. ServeMux would redirect
// any other, and a redirected POST arrives as a GET.
func clean(r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	return escaped != "" && escaped[0] == '/' && path.Clean(escaped) == escaped
}

func routeNotFound(r *http.Request) *budget.Error {
	return budget.Refuse(budget.RouteNotFound, "route", "there is no call %s %.200q", r.Method,
		r.URL.Path)
}

// dispatched carries a call through ServeMux to its route. In the context it would need a copy of
// the request.
type dispatched struct {
	http.ResponseWriter
	call *call
}

// recover answers a panic: logged with its stack, never shown.
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
		c.settle(failed)
	}
	c.fail(failed)
}

// panicked is the error of a call that panicked, with the stack.
func panicked(op string, why any) *budget.Error {
	return &budget.Error{Code: budget.Internal, Op: op,
		Err: fmt.Errorf("panic: %v\n%s", why, debug.Stack())}
}

type noObserver struct{}

func (noObserver) Request(string, int, time.Duration, string) {}

func (noObserver) Deduction(budget.Code, bool) {}

func (noObserver) InFlight(int64) {}
