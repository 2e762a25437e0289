package access

import "strings"

// Reach is what a call acts on. It determines how scopes apply.
type Reach uint8

// The reaches.
const (
	// Nobody means that the call is open to all, without authentication.
	Nobody Reach = iota
	// Self means that the call concerns only the caller, so any scope suffices.
	Self
	// Budget is one budget. It does not exist for callers without it in scope.
	Budget
	// Tenant is the budgets or keys of a tenant. The answer is limited to the scope; a tenant
	// outside the scope is forbidden.
	Tenant
	// Installation is all tenants. The scope must cover everything.
	Installation
)

// Call is a call of the API and what it requires.
type Call struct {
	// Method and Pattern are those of net/http's ServeMux.
	Method, Pattern string
	// Op names the call in errors, logs and the audit log.
	Op string
	// Least is the lowest role; 0 if Over is Nobody.
	Least Role
	Over  Reach
	// More is the lowest role in the case that When describes; 0 for a call without such a case.
	More Role
	When string
	// Delegates says on which budgets a Delegate may make the call.
	Delegates Delegation
}

// Delegation is the part of its subtree on which a Delegate may make a call.
type Delegation uint8

// The delegations.
const (
	// NoDelegate refuses the call to a delegate. It is the zero value, so that a new call is refused.
	NoDelegate Delegation = iota
	// Subtree is the top of its subtree and all budgets below.
	Subtree
	// Below is the budgets below the top: the call moves units of the parent.
	Below
)

// Administrative reports whether the audit log records every such call.
func (c Call) Administrative() bool {
	return c.Method != "GET" && (c.Least.Includes(Operator) || c.Over == Installation)
}

const (
	others = "the deduction was made by another principal"
	ofSet  = "the set was made by another principal"
	beyond = "more than the status is changed"
	one    = "/v1/budgets/{budget}"
)

// calls is the only table of permissions. The routes, docs/SECURITY.md and openapi.yaml follow it.
var calls = []Call{
	{"GET", "/v1/whoami", "whoami", Read, Self, 0, "", Subtree},

	{"GET", "/v1/budgets", "list", Read, Tenant, 0, "", Subtree},
	{"GET", one, "view", Read, Budget, 0, "", Subtree},
	{"GET", one + "/deductions", "deduction", Read, Budget, 0, "", Subtree},
	{"GET", "/v1/deductions", "set", Read, Tenant, 0, "", Subtree},
	{"GET", one + "/usage", "usage", Read, Budget, 0, "", Subtree},
	{"GET", one + "/limits/{name}/nearest", "nearest", Read, Budget, 0, "", Subtree},
	{"GET", one + "/limits/{name}/overrides", "overrides", Read, Budget, 0, "", Subtree},
	{"GET", one + "/holds", "holds", Read, Budget, 0, "", Subtree},
	{"GET", one + "/buckets", "buckets", Read, Budget, 0, "", Subtree},
	{"GET", one + "/recycles", "recycles", Read, Budget, 0, "", Subtree},
	{"GET", one + "/audit", "audit", Read, Budget, 0, "", Subtree},
	{"GET", one + "/ledger", "ledger", Read, Budget, 0, "", Subtree},
	{"GET", one + "/series", "series", Read, Budget, 0, "", Subtree},
	{"GET", one + "/quarantine", "quarantine", Read, Budget, 0, "", 0},
	{"GET", one + "/events", "budget events", Read, Budget, 0, "", Subtree},
	{"GET", one + "/thresholds", "thresholds", Read, Budget, 0, "", Subtree},
	{"GET", "/v1/alerts", "alerts", Read, Tenant, 0, "", 0},
	{"GET", "/v1/remaining", "remaining", Read, Tenant, 0, "", Subtree},
	{"GET", "/v1/refusals", "refusals", Read, Tenant, 0, "", 0},
	{"GET", "/v1/events", "events", Read, Installation, 0, "", 0},
	{"POST", "/v1/checks", "check", Read, Tenant, 0, "", Subtree},
	{"GET", "/v1/instances", "instances", Read, Installation, 0, "", 0},
	{"GET", "/v1/nodes", "nodes", Read, Installation, 0, "", 0},
	{"GET", "/metrics", "metrics", Read, Installation, 0, "", 0},

	{"POST", one + "/deduct", "deduct", Deduct, Budget, 0, "", Subtree},
	{"POST", "/v1/deductions:batch", "batch", Deduct, Tenant, 0, "", Subtree},
	{"POST", "/v1/deductions", "deduct set", Deduct, Tenant, 0, "", Subtree},
	{"POST", "/v1/deductions/confirm", "confirm set", Deduct, Tenant, Rollback, ofSet, Subtree},
	{"POST", "/v1/deductions/extend", "extend set", Deduct, Tenant, Rollback, ofSet, Subtree},
	{"POST", "/v1/deductions/cancel", "cancel set", Deduct, Tenant, Rollback, ofSet, Subtree},
	{"POST", "/v1/deductions/rollback", "rollback set", Deduct, Tenant, Rollback, ofSet, Subtree},
	{"POST", one + "/confirm", "confirm", Deduct, Budget, Rollback, others, Subtree},
	{"POST", one + "/extend", "extend", Deduct, Budget, Rollback, others, Subtree},
	{"POST", one + "/renew", "renew", Deduct, Budget, Rollback, others, Subtree},
	{"POST", one + "/cancel", "cancel", Deduct, Budget, Rollback, others, Subtree},
	{"POST", one + "/rollback", "rollback", Deduct, Budget, Rollback, others, Subtree},

	{"POST", one + "/append", "append", Operator, Budget, 0, "", Below},
	{"POST", one + "/close", "close", Operator, Budget, 0, "", Below},
	{"POST", "/v1/budgets:bulk", "bulk", Operator, Tenant, 0, "", 0},
	{"PATCH", one, "change", Operator, Budget, Admin, beyond, 0},
	{"POST", one + "/buckets/{key}/offline", "offline", Operator, Budget, 0, "", 0},
	{"POST", one + "/buckets/{key}/online", "online", Operator, Budget, 0, "", 0},
	{"POST", one + "/buckets/{key}/apply", "apply", Operator, Budget, 0, "", 0},
	{"POST", one + "/buckets/{key}/resume", "resume", Operator, Budget, 0, "", 0},
	{"POST", one + "/recycle", "recycle", Operator, Budget, 0, "", 0},
	{"POST", one + "/quarantine/release", "release", Operator, Budget, 0, "", 0},
	{"PUT", one + "/limits/{name}/overrides", "set overrides", Operator, Budget, 0, "", 0},
	{"DELETE", one + "/limits/{name}/overrides", "remove override", Operator, Budget, 0, "", 0},
	{"PUT", one + "/thresholds", "set thresholds", Operator, Budget, 0, "", 0},
	{"GET", "/v1/webhooks", "webhooks", Operator, Tenant, 0, "", 0},
	{"GET", "/v1/webhooks/{id}", "webhook", Operator, Tenant, 0, "", 0},
	{"POST", "/v1/webhooks/{id}/test", "test webhook", Operator, Tenant, 0, "", 0},
	{"GET", "/v1/webhooks/{id}/deliveries", "deliveries", Operator, Tenant, 0, "", 0},
	{"POST", "/v1/webhooks/{id}/deliveries/{message}/resend", "resend", Operator, Tenant, 0, "", 0},
	{"POST", "/v1/instances/{name}/drain", "drain", Operator, Installation, 0, "", 0},
	{"POST", "/v1/instances/{name}/undrain", "undrain", Operator, Installation, 0, "", 0},
	{"POST", "/v1/instances/{name}/recover", "recover", Operator, Installation, 0, "", 0},
	{"POST", "/v1/instances/{name}/give-up", "give up", Operator, Installation, 0, "", 0},
	{"POST", "/v1/instances:rebalance", "rebalance", Operator, Installation, 0, "", 0},

	{"POST", "/v1/budgets", "create", Admin, Tenant, 0, "", Subtree},
	{"DELETE", one, "delete", Admin, Budget, 0, "", 0},
	{"GET", "/v1/keys", "keys", Admin, Tenant, 0, "", 0},
	{"POST", "/v1/keys", "create key", Admin, Tenant, 0, "", 0},
	{"POST", "/v1/keys/{id}/revoke", "revoke key", Admin, Tenant, 0, "", 0},
	{"POST", "/v1/keys/{id}/rotate", "rotate key", Admin, Tenant, 0, "", 0},
	{"POST", "/v1/webhooks", "create webhook", Admin, Tenant, 0, "", 0},
	{"PATCH", "/v1/webhooks/{id}", "change webhook", Admin, Tenant, 0, "", 0},
	{"DELETE", "/v1/webhooks/{id}", "delete webhook", Admin, Tenant, 0, "", 0},
	{"GET", "/v1/audit-log", "audit log", Admin, Installation, 0, "", 0},

	{"GET", "/healthz", "health", 0, Nobody, 0, "", 0},
	{"GET", "/readyz", "readiness", 0, Nobody, 0, "", 0},
	{"GET", "/openapi.json", "openapi", 0, Nobody, 0, "", 0},
	{"GET", "/{$}", "page", 0, Nobody, 0, "", 0},
	{"GET", "/assets/{file}", "page file", 0, Nobody, 0, "", 0},
	{"GET", "/docs", "docs", 0, Nobody, 0, "", 0},
	{"GET", "/docs/style.css", "docs style", 0, Nobody, 0, "", 0},
	{"GET", "/docs/errors/{code}", "docs error", 0, Nobody, 0, "", 0},
	{"GET", "/console/login", "login", 0, Nobody, 0, "", 0},
	{"GET", "/console/callback", "callback", 0, Nobody, 0, "", 0},
	{"POST", "/console/logout", "logout", 0, Nobody, 0, "", 0},
}

// byRoute finds a call by its method and pattern.
var byRoute = func() map[[2]string]Call {
	table := make(map[[2]string]Call, len(calls))
	for _, call := range calls {
		table[[2]string{call.Method, call.Pattern}] = call
	}
	return table
}()

// Calls returns every call with its requirements, the lowest role first.
func Calls() []Call { return append([]Call(nil), calls...) }

// CallOf returns the call of a registered route, such as "POST /v1/budgets". ok is false for a
// route that is not in the table and must not be served.
func CallOf(route string) (Call, bool) {
	method, pattern, _ := strings.Cut(route, " ")
	call, ok := byRoute[[2]string{method, pattern}]
	return call, ok
}

var reachNames = map[Reach]string{Nobody: "open", Self: "itself", Budget: "budget",
	Tenant: "tenant", Installation: "installation"}

// String returns the reach's name, as in docs/SECURITY.md.
func (r Reach) String() string { return reachNames[r] }
