package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// route is one call of the contract.
type route struct {
	pattern string
	// op names the call in errors and logs.
	op string
	// changes: an error without a code may have changed something.
	changes bool
	// probe: answered even when too many requests are in flight.
	probe bool
	// handle answers the call through net/http, data a data call, whichever server reads it. One of
	// the two is set.
	handle func(*call) (answer, error)
	data   func(*data) (answer, error)
	// maxBody bounds the body; 0: Limits.BodyBytes.
	maxBody int64
}

// unrouted is the route of a request before it has one.
var unrouted route

// routes are all calls, on one screen.
func (a *API) routes() []route {
	const budgets, one = "/v1/budgets", "/v1/budgets/{budget}"
	large := a.limits.BatchBytes
	return []route{
		{pattern: "POST " + budgets, op: "create", changes: true, handle: a.create},
		{pattern: "GET " + budgets, op: "list", handle: a.list},
		{pattern: "GET " + one, op: "view", handle: a.view},
		{pattern: "PATCH " + one, op: "change", changes: true, handle: a.change},
		{pattern: "POST " + one + "/append", op: "append", changes: true, handle: a.adjust},

		{pattern: "POST " + one + "/deduct", op: "deduct", changes: true, data: a.deduct},
		{pattern: "POST " + one + "/rollback", op: "rollback", changes: true, data: a.rollback},
		{pattern: "POST " + one + "/confirm", op: "confirm", changes: true, data: a.confirm},
		{pattern: "POST " + one + "/extend", op: "extend", changes: true, data: a.extend},
		{pattern: "POST " + one + "/cancel", op: "cancel", changes: true, data: a.cancel},
		{pattern: "GET " + one + "/deductions", op: "deduction", handle: a.deduction},
		{pattern: "GET " + one + "/usage", op: "usage", handle: a.usage},
		{pattern: "POST /v1/checks", op: "check", data: a.checks, maxBody: large},
		{pattern: "POST /v1/deductions:batch", op: "batch", changes: true, data: a.batch, maxBody: large},

		{pattern: "GET " + one + "/buckets", op: "buckets", handle: a.buckets},
		{pattern: "POST " + one + "/buckets/{key}/offline", op: "offline", changes: true,
			handle: a.offline},
		{pattern: "POST " + one + "/buckets/{key}/online", op: "online", changes: true, handle: a.online},
		{pattern: "POST " + one + "/buckets/{key}/apply", op: "apply", changes: true, handle: a.apply},
		{pattern: "POST " + one + "/recycle", op: "recycle", changes: true, handle: a.recycle},
		{pattern: "GET " + one + "/recycles", op: "recycles", handle: a.recycles},

		{pattern: "GET " + one + "/audit", op: "audit", handle: a.audit},
		{pattern: "GET " + one + "/ledger", op: "ledger", handle: a.ledger},
		{pattern: "GET " + one + "/series", op: "series", handle: a.series},
		{pattern: "GET " + one + "/quarantine", op: "quarantine", handle: a.quarantine},
		{pattern: "POST " + one + "/quarantine/release", op: "release", changes: true, handle: a.release},
		{pattern: "GET /v1/instances", op: "instances", handle: a.instances},
		{pattern: "POST /v1/instances/{name}/drain", op: "drain", changes: true, handle: a.drain},
		{pattern: "POST /v1/instances/{name}/undrain", op: "undrain", changes: true, handle: a.undrain},
		{pattern: "POST /v1/instances/{name}/recover", op: "recover", changes: true, handle: a.recover},
		{pattern: "GET /healthz", op: "health", probe: true, handle: a.health},
		{pattern: "GET /readyz", op: "readiness", probe: true, handle: a.ready},
	}
}

// register makes the routes known. "/" takes whatever is left.
func (a *API) register(metrics http.Handler) {
	for _, route := range a.routes() {
		route.maxBody = cmp.Or(route.maxBody, a.limits.BodyBytes)
		if route.data != nil {
			a.dataRoutes = append(a.dataRoutes, dataRouteOf(&route))
		}
		a.mux.HandleFunc(route.pattern, func(w http.ResponseWriter, _ *http.Request) {
			c := w.(*dispatched).call
			c.route = &route
			c.serve()
		})
		method, _, _ := strings.Cut(route.pattern, " ")
		if !slices.Contains(a.methods, method) {
			a.methods = append(a.methods, method)
		}
	}
	if metrics != nil {
		a.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			metrics.ServeHTTP(w.(*dispatched).ResponseWriter, r)
		})
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		a.noRoute(w.(*dispatched).call)
	})
}

// noRoute answers 405 with Allow where another method would have a route, else 404.
func (a *API) noRoute(c *call) {
	var allowed []string
	for _, method := range a.methods {
		_, pattern := a.mux.Handler(&http.Request{Method: method, URL: c.r.URL, Host: c.r.Host})
		if pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		c.fail(routeNotFound(c.r))
		return
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	c.fail(budget.Refuse(budget.MethodNotAllowed, "route",
		"%.50q is not a method of this call; allowed: %s", c.r.Method, strings.Join(allowed, ", ")))
}
