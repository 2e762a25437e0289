package httpapi

import (
	"bytes"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
	"github.com/budgetd/budgetd/trail"
)

// data is what a call consists of, whichever server has read it. Data calls need nothing else.
type data struct {
	api *API
	// ctx bounds the work on the request; work, where it comes from, has its ids.
	ctx   context.Context
	work  *work
	began time.Time
	// route is that of the request; the zero one before it is known, and where there is none.
	route *route
	// named is what the path says in place of {budget}, rawQuery the query as it was sent.
	named, rawQuery string
	// principal is who makes the call; nil for a call that is open to everybody. entry is the row of
	// an administrative call; nil for all others.
	principal *access.Principal
	entry     *trail.Entry
	// body is the body; if it has yet to arrive, arriving reads it.
	body     []byte
	arriving arriving
	// faults collects what is wrong with the request until its body is read.
	faults strictjson.Faults
	deduct deductWork
	// text is what package front's answer is written with.
	text wire.Document
}

// arriving is a body that has yet to be read.
type arriving interface {
	// arrive reads the body. Errors: UnsupportedMediaType, TooLarge, Malformed.
	arrive(limit int64, into *bytes.Buffer) error
}

// budget reads which budget the path names, within the tenant of the query and the caller's scope.
// Errors: BudgetNotFound, Unavailable; a faulty tenant is noted.
func (d *data) budget(query url.Values) (bucket.BudgetRef, error) {
	ref, err := refOf(d.route.op, d.tenant(query), d.named)
	if err == nil {
		d.target(ref.Tenant, d.named, "")
		err = d.within(d.route.op, ref)
	}
	return ref, err
}

// refOf reads a budget's id or name. A text that can be neither names no budget.
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

// tenant reads the tenant of a query; the caller's, else the default one when there is none.
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

// query reads the query: each parameter at most once, and no others than these.
func (d *data) query(names ...string) url.Values {
	if d.rawQuery == "" {
		return nil
	}
	name, value, _ := strings.Cut(d.rawQuery, "=")
	if slices.Contains(names, name) && budget.CheckName(value) == "" {
		return url.Values{name: {value}} // nearly always ?tenant=name
	}
	values, err := url.ParseQuery(d.rawQuery)
	if err != nil {
		d.faults.Malformed("", "the query is not well formed")
	}
	for name := range values {
		switch {
		case !slices.Contains(names, name):
			d.faults.Malformed(name, "is not a parameter of this call")
		case len(values[name]) > 1:
			d.faults.Malformed(name, "appears %d times", len(values[name]))
		}
	}
	return values
}

// read reads the body into an object. The error has all faults of the request.
func (d *data) read(into strictjson.Body) error {
	if d.arriving == nil {
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
	if err := d.arriving.arrive(d.route.maxBody, buffer); err != nil {
		return err
	}
	strictjson.Read(buffer.Bytes(), into, &d.faults)
	return d.faults.Err(d.route.op)
}

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// pooledBytes is the largest buffer that is kept for the next request.
const pooledBytes = 1 << 20
