package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/contract"
	"github.com/budgetd/budgetd/internal/ratelimit"
)

// route is one call of the contract.
type route struct {
	pattern string
	// op names the call in errors and logs. access says who may make it. Both come from package
	// access.
	op     string
	access access.Call
	// changes means that an error without a code may have changed something.
	changes bool
	// probe means that the call is answered even if too many requests are in flight.
	probe bool
	// Exactly one of these is set: handle answers the call through net/http, data answers a data
	// call, whichever server has read it.
	handle func(*call) (answer, error)
	data   func(*data) (answer, error)
	// maxBody bounds the body; 0 means Limits.BodyBytes.
	maxBody int64
}

// unrouted is the route of a request whose route is not known yet.
var unrouted route

// own is the path of the overrides of a limit.
const own = "/v1/budgets/{budget}/limits/{name}/overrides"

// routes lists all calls.
func (a *API) routes() []route {
	const budgets, one, hook = "/v1/budgets", "/v1/budgets/{budget}", "/v1/webhooks/{id}"
	large := a.limits.BatchBytes
	return append(a.setRoutes(), []route{
		{pattern: "POST " + budgets, changes: true, handle: a.create},
		{pattern: "GET " + budgets, handle: a.list},
		{pattern: "GET /v1/remaining", handle: a.remaining},
		{pattern: "GET " + one, handle: a.view},
		{pattern: "PATCH " + one, changes: true, handle: a.change},
		{pattern: "DELETE " + one, changes: true, handle: a.deleteBudget},
		{pattern: "POST " + one + "/append", changes: true, handle: a.adjust},
		{pattern: "POST " + one + "/close", changes: true, handle: a.closeBudget},
		{pattern: "POST " + one + "/deduct", changes: true, data: a.deduct},
		{pattern: "POST " + one + "/rollback", changes: true, data: a.rollback},
		{pattern: "POST " + one + "/confirm", changes: true, data: a.confirm},
		{pattern: "POST " + one + "/extend", changes: true, data: a.extend},
		{pattern: "POST " + one + "/cancel", changes: true, data: a.cancel},
		{pattern: "GET " + one + "/deductions", handle: a.deduction},
		{pattern: "GET " + one + "/usage", handle: a.usage},
		{pattern: "GET " + one + "/limits/{name}/nearest", handle: a.nearest},
		{pattern: "GET " + own, handle: a.listOverrides},
		{pattern: "PUT " + own, changes: true, handle: a.setOverrides},
		{pattern: "DELETE " + own, changes: true, handle: a.removeOverride},
		{pattern: "GET " + one + "/holds", handle: a.openHolds},
		{pattern: "POST /v1/checks", data: a.checks, maxBody: large},
		{pattern: "POST /v1/deductions:batch", changes: true, data: a.batch, maxBody: large},

		{pattern: "GET " + one + "/buckets", handle: a.buckets},
		{pattern: "POST " + one + "/buckets/{key}/offline", changes: true, handle: a.offline},
		{pattern: "POST " + one + "/buckets/{key}/online", changes: true, handle: a.online},
		{pattern: "POST " + one + "/buckets/{key}/apply", changes: true, handle: a.apply},
		{pattern: "POST " + one + "/buckets/{key}/resume", changes: true, handle: a.resume},
		{pattern: "POST " + one + "/recycle", changes: true, handle: a.recycle},
		{pattern: "GET " + one + "/recycles", handle: a.recycles},

		{pattern: "GET " + one + "/audit", handle: a.audit},
		{pattern: "GET " + one + "/ledger", handle: a.ledger},
		{pattern: "GET " + one + "/series", handle: a.series},
		{pattern: "GET " + one + "/quarantine", handle: a.quarantine},
		{pattern: "POST " + one + "/quarantine/release", changes: true, handle: a.release},
		{pattern: "GET " + one + "/thresholds", handle: a.thresholds},
		{pattern: "PUT " + one + "/thresholds", changes: true, handle: a.setThresholds},
		{pattern: "GET /v1/alerts", handle: a.listAlerts},
		{pattern: "GET /v1/webhooks", handle: a.listWebhooks},
		{pattern: "POST /v1/webhooks", changes: true, handle: a.createWebhook},
		{pattern: "GET " + hook, handle: a.webhook},
		{pattern: "PATCH " + hook, changes: true, handle: a.changeWebhook},
		{pattern: "DELETE " + hook, changes: true, handle: a.deleteWebhook},
		{pattern: "POST " + hook + "/test", changes: true, handle: a.testWebhook},
		{pattern: "GET " + hook + "/deliveries", handle: a.deliveries},
		{pattern: "POST " + hook + "/deliveries/{message}/resend", changes: true, handle: a.resend},

		{pattern: "GET /v1/instances", handle: a.instances},
		{pattern: "GET /v1/nodes", handle: a.nodes},
		{pattern: "POST /v1/instances/{name}/drain", changes: true, handle: a.drain},
		{pattern: "POST /v1/instances/{name}/undrain", changes: true, handle: a.undrain},
		{pattern: "POST /v1/instances/{name}/recover", changes: true, handle: a.recover},
		{pattern: "POST /v1/instances/{name}/give-up", changes: true, handle: a.giveUp},
		{pattern: "POST /v1/instances:rebalance", changes: true, handle: a.rebalance},
		{pattern: "GET /v1/whoami", handle: a.whoami},
		{pattern: "GET /v1/keys", handle: a.listKeys},
		{pattern: "POST /v1/keys", changes: true, handle: a.createKey},
		{pattern: "POST /v1/keys/{id}/revoke", changes: true, handle: a.revokeKey},
		{pattern: "POST /v1/keys/{id}/rotate", changes: true, handle: a.rotateKey},
		{pattern: "GET /v1/audit-log", handle: a.auditLog},
		{pattern: "GET /v1/refusals", handle: a.refusals},
		{pattern: "GET /healthz", probe: true, handle: a.health},
		{pattern: "GET /readyz", probe: true, handle: a.ready},
	}...)
}

// setRoutes lists the steps of streams, and the calls on sets of deductions or of budgets.
func (a *API) setRoutes() []route {
	return []route{
		{pattern: "POST /v1/budgets/{budget}/renew", changes: true, data: a.renew},
		{pattern: "POST /v1/deductions", changes: true, data: a.deductSet},
		{pattern: "POST /v1/deductions/rollback", changes: true, data: a.rollbackSet},
		{pattern: "POST /v1/deductions/confirm", changes: true, data: a.confirmSet},
		{pattern: "POST /v1/deductions/extend", changes: true, data: a.extendSet},
		{pattern: "POST /v1/deductions/cancel", changes: true, data: a.cancelSet},
		{pattern: "GET /v1/deductions", handle: a.findSet},
		{pattern: "POST /v1/budgets:bulk", changes: true, handle: a.bulk, maxBody: a.limits.BatchBytes},
	}
}

// register registers the routes of a set of calls. "/" takes all other paths. It panics for a
// route that the table of package access lacks, which the first test finds.
func (a *API) register(config Config) {
	for _, route := range a.routes() {
		if route.find(); !config.Calls.has(&route.access, route.probe) || !config.serves(&route) {
			continue
		}
		route.maxBody = cmp.Or(route.maxBody, a.limits.BodyBytes)
		if route.data != nil {
			a.dataRoutes = append(a.dataRoutes, dataRouteOf(&route))
		}
		a.handle(route, (*call).serve)
	}
	metrics := route{pattern: "GET /metrics"}
	if metrics.find(); config.Metrics != nil && config.Calls.has(&metrics.access, false) {
		a.handle(metrics, func(c *call) { c.pass(config.Metrics.ServeHTTP, ratelimit.SecureAnswer) })
	}
	if config.Calls == 0 || config.Calls&AdminCalls != 0 {
		a.registerPage(config)
	}
	for _, pattern := range contract.Patterns {
		page := route{pattern: pattern, probe: true}
		page.find()
		a.handle(page, (*call).page)
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		a.noRoute(w.(*dispatched).call)
	})
}

// serves reports whether the configuration has what a route needs.
func (c *Config) serves(r *route) bool {
	switch {
	case r.op == "refusals", r.op == "bulk":
		return c.Dashboard != nil
	case r.op == "remaining":
		return c.Gauges != nil
	case r.op == "audit log":
		return c.AuditLog != nil
	case r.op == "alerts", strings.HasSuffix(r.op, "thresholds"):
		return c.Alerts != nil
	case strings.Contains(r.pattern, " /v1/webhooks"):
		return c.Webhooks != nil
	case strings.HasPrefix(r.pattern, "GET /v1/keys"), strings.HasPrefix(r.pattern, "POST /v1/keys"):
		return c.Keys != nil
	}
	return true
}

// find looks up the route in the table of package access.
func (r *route) find() {
	known, ok := access.CallOf(r.pattern)
	if !ok {
		panic("httpapi: " + r.pattern + " is not in the table of package access")
	}
	r.access, r.op = known, known.Op
}

// handle registers a route.
func (a *API) handle(route route, serve func(*call)) {
	a.mux.HandleFunc(route.pattern, func(w http.ResponseWriter, _ *http.Request) {
		c := w.(*dispatched).call
		c.route = &route
		serve(c)
	})
	method, _, _ := strings.Cut(route.pattern, " ")
	if !slices.Contains(a.methods, method) {
		a.methods = append(a.methods, method)
	}
}

// page sends a page of the contract. Every listener has these pages, because refusals link to them.
func (c *call) page() {
	page, ok := contract.Find(c.r.URL.Path)
	if !ok {
		c.reply(routeNotFound(c.r))
		return
	}
	header := c.w.Header()
	header.Set("Content-Type", page.Type)
	ratelimit.SecurePage(header, c.encrypted())
	c.api.observer.Request(c.route.pattern, http.StatusOK, c.api.now().Sub(c.began), "")
	_, _ = c.w.Write(page.Text) // an error means that the caller is gone
}

// pass admits a call and passes it to a handler of its own.
func (c *call) pass(serve http.HandlerFunc, secure func(http.Header, bool)) {
	if err := c.admit(c.caller()); err != nil {
		c.reply(err)
		return
	}
	secure(c.w.Header(), c.encrypted())
	serve(c.w, c.r)
}

// noRoute answers 405 with Allow if the path has a route for another method, else 404.
func (a *API) noRoute(c *call) {
	var allowed []string
	for _, method := range a.methods {
		_, pattern := a.mux.Handler(&http.Request{Method: method, URL: c.r.URL, Host: c.r.Host})
		if pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		c.reply(routeNotFound(c.r))
		return
	}
	c.w.Header().Set("Allow", strings.Join(allowed, ", "))
	c.reply(budget.Refuse(budget.MethodNotAllowed, "route",
		"%.50q is not a method of this call; allowed: %s", c.r.Method, strings.Join(allowed, ", ")))
}
