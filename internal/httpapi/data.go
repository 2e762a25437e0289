package httpapi

import (
	"bytes"
	"context"
	"github.com/budgetd/budgetd/api"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// data is a call, whichever server has read it. Data calls need nothing else.
type data struct {
	api *API
	// ctx bounds the work on the request. work is its origin and holds the ids of the request.
	ctx   context.Context
	work  *requestContext
	began time.Time
	// route is the route of the request. Before it is known, and for a request without one, it is
	// the zero route.
	route *route
	// named is the text in place of {budget} in the path, rawQuery the query as it was sent.
	named, rawQuery string
	// principal is the caller, nil for a call that is open to all. entry is the audit-log row of an
	// administrative call, nil for all others.
	principal *access.Principal
	// known has the budgets that were looked up for a delegate; 0 is one outside its subtree.
	known map[bucket.BudgetRef]int64
	entry *auditlog.Entry
	// body is the body. While unread is set, the body has still to be read from it.
	body   []byte
	unread *call
	// faults collects the faults of the request until its body is read.
	faults api.Faults
	deduct deductWork
	// text holds the answer that package front sends.
	text document
}

// budget returns the budget in the path, within the tenant of the query and the caller's scope.
// Errors: BudgetNotFound, Unavailable. It adds a faulty tenant to the faults.
func (d *data) budget(query url.Values) (bucket.BudgetRef, error) {
	ref, err := refOf(d.route.op, d.tenant(query), d.named)
	if err == nil {
		d.target(ref.Tenant, d.named, "")
		ref, err = d.within(d.route.op, ref)
	}
	return ref, err
}

// refOf parses a budget's id or name. It returns BudgetNotFound for a text that is neither.
func refOf(op, tenant, text string) (bucket.BudgetRef, error) {
	ref := bucket.BudgetRef{Tenant: tenant}
	if id, ok := budget.ParseAmount(text); ok {
		ref.ID = id
		return ref, nil
	}
	if budget.CheckName(text) != "" {
		return ref, budget.Refuse(budget.BudgetNotFound, op,
			"%.80q is neither the name nor the id of a budget", text)
	}
	ref.Name = text
	return ref, nil
}

// tenant returns the tenant in a query, else the caller's, else the default tenant.
func (d *data) tenant(query url.Values) string {
	if !query.Has("tenant") {
		if d.principal != nil && d.principal.Scope.Tenant != "" {
			return d.principal.Scope.Tenant
		}
		return budget.DefaultTenant
	}
	tenant := query.Get("tenant")
	if why := budget.CheckName(tenant); why != "" {
		d.faults.Invalid("tenant", "%s", why)
	}
	return tenant
}

// query parses the query. It accepts only the given parameters, each at most once.
func (d *data) query(names ...string) url.Values {
	if d.rawQuery == "" {
		return nil
	}
	name, value, _ := strings.Cut(d.rawQuery, "=")
	if slices.Contains(names, name) && budget.CheckName(value) == "" {
		return url.Values{name: {value}} // the usual ?tenant=name
	}
	return d.lists("", names...)
}

// lists is query for a call with a parameter that may appear several times.
func (d *data) lists(list string, names ...string) url.Values {
	values, err := url.ParseQuery(d.rawQuery)
	if err != nil {
		d.faults.Malformed("", "the query is not well formed")
	}
	for name := range values {
		switch {
		case name == list:
		case !slices.Contains(names, name):
			d.faults.Malformed(name, "is not a parameter of this call")
		case len(values[name]) > 1:
			d.faults.Malformed(name, "appears %d times", len(values[name]))
		}
	}
	return values
}

// read reads the body into an object. Its error lists all faults of the request.
func (d *data) read(into any) error {
	if d.unread == nil {
		strictjson.Read(d.body, into, &d.faults)
		return d.faults.Err(d.route.op)
	}
	buffer := bodies.Get().(*bytes.Buffer)
	defer func() {
		if buffer.Cap() <= pooledBytes {
			buffer.Reset()
			bodies.Put(buffer)
		}
	}()
	if err := d.unread.arrive(d.route.maxBody, buffer); err != nil {
		return err
	}
	strictjson.Read(buffer.Bytes(), into, &d.faults)
	return d.faults.Err(d.route.op)
}

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// pooledBytes is the size of the largest buffer that is kept for another request.
const pooledBytes = 1 << 20
