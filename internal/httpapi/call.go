package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// call is one request under way.
type call struct {
	api *API
	w   http.ResponseWriter
	r   *http.Request
	// ctx bounds the work on the request, whole ends with the caller's connection alone.
	ctx, whole context.Context
	// route is that of the request; the zero one before it is known, and where there is none.
	route *route
	began time.Time
	marks marks
	// length and correlation are the values of two headers of the answer.
	length, correlation [1]string
	carrier             dispatched
	// faults collects what is wrong with the request until its body is read.
	faults strictjson.Faults
}

// serve runs the route's handler and writes what it returns.
func (c *call) serve() {
	a := c.api
	if !c.route.probe {
		n := a.inFlight.Add(1)
		a.observer.InFlight(n)
		defer func() { a.observer.InFlight(a.inFlight.Add(-1)) }()
		if n > int64(a.limits.InFlight) {
			err := budget.Refuse(budget.Unavailable, c.route.op,
				"%d requests are being answered, more are not taken in; try again", a.limits.InFlight)
			if c.route.op == "deduct" { // of a batch nobody knows how many
				a.observeDeduction(nil, err)
			}
			c.fail(err)
			return
		}
	}
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(c.whole, a.limits.RequestTimeout)
	defer cancel()
	answer, err := c.route.handle(c)
	if err != nil {
		c.fail(settle(err, c.route.op, c.route.changes))
		return
	}
	c.write(answer)
}

// budget reads which budget the path names, within the tenant of the query. The only error is
// BudgetNotFound; a faulty tenant is noted.
func (c *call) budget(query url.Values) (bucket.BudgetRef, error) {
	return refOf(c.route.op, c.tenant(query), c.r.PathValue("budget"))
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

// tenant reads the tenant of a query; the default tenant when there is none.
func (c *call) tenant(query url.Values) string {
	if !query.Has("tenant") {
		return budget.DefaultTenant
	}
	tenant := query.Get("tenant")
	if why := budget.CheckName(tenant); why != "" {
		c.faults.Invalid("tenant", "%s", why)
	}
	return tenant
}

// query reads the query: each parameter at most once, and no others than these.
func (c *call) query(names ...string) url.Values {
	if c.r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		c.faults.Malformed("", "the query is not well formed")
	}
	for name := range values {
		switch {
		case !slices.Contains(names, name):
			c.faults.Malformed(name, "is not a parameter of this call")
		case len(values[name]) > 1:
			c.faults.Malformed(name, "appears %d times", len(values[name]))
		}
	}
	return values
}

// nothing refuses a body where none is read, and returns the faults found so far.
func (c *call) nothing() error {
	if c.r.ContentLength != 0 { // -1: one in chunks
		c.faults.Malformed("", "this call takes no body")
	}
	return c.faults.Err(c.route.op)
}

// read reads the body into an object. The error has all faults of the request.
func (c *call) read(into strictjson.Body) error {
	return c.readAtMost(c.api.limits.BodyBytes, into)
}

// readOptional is read for a call whose body may be absent.
func (c *call) readOptional(into strictjson.Body) error {
	if c.r.ContentLength == 0 {
		return c.faults.Err(c.route.op)
	}
	return c.read(into)
}

var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// pooledBytes is the largest buffer that is kept for the next request.
const pooledBytes = 1 << 20

func (c *call) readAtMost(limit int64, into strictjson.Body) error {
	if err := c.checkMediaType(); err != nil {
		return err
	}
	buffer := bodies.Get().(*bytes.Buffer)
	defer func() {
		if buffer.Cap() <= pooledBytes {
			buffer.Reset()
			bodies.Put(buffer)
		}
	}()
	if err := c.receive(limit, buffer); err != nil {
		return err
	}
	strictjson.Read(buffer.Bytes(), into, &c.faults)
	return c.faults.Err(c.route.op)
}

// receive reads the body as it arrives. Errors: TooLarge, Malformed.
func (c *call) receive(limit int64, into *bytes.Buffer) error {
	tooLarge := func() error {
		return budget.Refuse(budget.TooLarge, c.route.op, "the body is larger than %d bytes", limit)
	}
	if c.r.ContentLength > limit {
		c.w.Header().Set("Connection", "close")
		return tooLarge()
	}
	body := c.r.Body
	if c.r.ContentLength < 0 { // else net/http ends it where it was announced to end
		body = http.MaxBytesReader(c.w, body, limit)
	}
	_, err := into.ReadFrom(body)
	if err == nil {
		return nil
	}
	c.w.Header().Set("Connection", "close")
	var big *http.MaxBytesError
	why := "the body broke off"
	switch {
	case errors.As(err, &big):
		return tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = "the body did not arrive in time"
	case errors.Is(err, io.ErrUnexpectedEOF):
		why = "the body is shorter than announced"
	}
	return &budget.Error{Code: budget.Malformed, Op: c.route.op, Message: why, Err: err}
}

// checkMediaType refuses what does not call itself JSON in UTF-8, or is compressed.
func (c *call) checkMediaType() error {
	types, encodings := c.r.Header["Content-Type"], c.r.Header["Content-Encoding"]
	if len(encodings) > 0 && !(len(encodings) == 1 && strings.EqualFold(encodings[0], "identity")) {
		return budget.Refuse(budget.UnsupportedMediaType, c.route.op,
			"the body must not be compressed: Content-Encoding is %.80q", encodings[0])
	}
	if len(types) == 1 && isJSON(types[0]) {
		return nil
	}
	got := "missing"
	if len(types) > 0 {
		got = strings.Join(types, ", ")
	}
	return budget.Refuse(budget.UnsupportedMediaType, c.route.op,
		"Content-Type must be application/json, it is %.80q", got)
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" {
		return false
	}
	for name, value := range params {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return false
		}
	}
	return true
}
