package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/auth"
)

// call is a request that net/http has read.
type call struct {
	data
	w http.ResponseWriter
	r *http.Request
	// length and correlation are the values of two headers of the answer.
	length, correlation [1]string
	carrier             dispatched
	counted             countedBody
	span                trace.Span // nil without tracing
	status              int        // of the answer; 0 before it is written
	kept                bool       // the answer may be kept for a second
}

// serve runs the route's handler and writes its answer.
func (c *call) serve() {
	a := c.api
	if !c.route.probe {
		defer a.leave()
		if err := a.enter(&c.data); err != nil {
			c.reply(err)
			return
		}
	}
	if c.span = a.begin(c.work, c.route, single(c.r.Header["Traceparent"])); c.span != nil {
		c.mark(c.w.Header())
		defer func() { end(c.span, c.status) }()
	}
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithTimeout(c.work, a.limits.RequestTimeout)
	defer cancel()
	c.named, c.rawQuery = c.r.PathValue("budget"), c.r.URL.RawQuery
	caller := c.caller()
	if err := c.admit(caller); err != nil {
		c.abandonBody()
		c.reply(err)
		return
	}
	defer c.counted.release()
	if c.route.access.Administrative() {
		c.record(auth.SourceOf(caller.Remote))
	}
	answer, err := c.answer()
	var failed *budget.Error
	if err != nil {
		failed = errorOf(err, c.route.op, c.route.changes)
	}
	if c.entry != nil {
		c.appendEntry(failed)
	}
	if failed != nil {
		c.reply(failed)
		return
	}
	c.write(answer)
}

// answer runs the route's handler.
func (c *call) answer() (answer, error) {
	if c.route.data != nil {
		return c.route.data(&c.data)
	}
	return c.route.handle(c)
}

// caller returns what the request reveals about its sender.
func (c *call) caller() *auth.Caller {
	out := c.api.admission.auth.CallerOf(c.w, c.r)
	if out.TLS == nil {
		out.TLS, _ = c.r.Context().Value(tlsKey{}).(*tls.ConnectionState)
	}
	return out
}

// encrypted reports whether the request came over TLS.
func (c *call) encrypted() bool {
	return c.r.TLS != nil || c.r.Context().Value(tlsKey{}) != nil
}

// pageSize reads the number of elements in a page.
func (c *call) pageSize(query url.Values) int {
	if !query.Has("page_size") {
		return defaultPageSize
	}
	size, ok := budget.ParseAmount(query.Get("page_size"))
	if !ok || size > maxPageSize {
		c.faults.Invalid("page_size", "must be 1 to %d", maxPageSize)
	}
	return int(size)
}

// nothing refuses a body for a call that takes none, and returns the faults found so far.
func (c *call) nothing() error {
	if c.r.ContentLength != 0 { // -1 for chunks
		c.faults.Malformed("", "this call takes no body")
	}
	return c.faults.Err(c.route.op)
}

// readOptional is read for a call whose body may be absent.
func (c *call) readOptional(into any) error {
	if c.r.ContentLength == 0 {
		return c.faults.Err(c.route.op)
	}
	return c.read(into)
}

// arrive reads the body if its media type is JSON.
func (c *call) arrive(limit int64, into *bytes.Buffer) error {
	if err := c.checkMediaType(); err != nil {
		return err
	}
	return c.receive(limit, into)
}

// abandonBody makes net/http answer without waiting for the rest of a large body, and then end the
// connection.
func (c *call) abandonBody() {
	if n := c.r.ContentLength; n < 0 || n > freeBytes {
		c.w.Header()["Connection"] = closing
	}
}

// receive reads the body as it arrives. Errors: TooLarge, Unavailable, Malformed.
func (c *call) receive(limit int64, into *bytes.Buffer) error {
	tooLarge := func() error {
		return budget.Refuse(budget.TooLarge, c.route.op, "the body is larger than %d bytes", limit)
	}
	if c.r.ContentLength > limit {
		c.w.Header().Set("Connection", "close")
		return tooLarge()
	}
	body := c.r.Body
	if c.r.ContentLength < 0 { // net/http ends other bodies at their announced length
		body = http.MaxBytesReader(c.w, body, limit)
	}
	c.counted = countedBody{Reader: body, share: &c.api.bodies,
		bounds: c.api.boundsOf(c.principal, c.api.limits.BodiesBytes)}
	_, err := into.ReadFrom(&c.counted)
	if err == nil {
		return nil
	}
	c.w.Header().Set("Connection", "close")
	var big *http.MaxBytesError
	why := "the body broke off"
	switch {
	case errors.Is(err, errCrowded):
		e := budget.Refuse(budget.Unavailable, c.route.op,
			"the bodies of requests in progress have too many bytes; try again")
		e.Reason = budget.ReasonOverloaded
		return e
	case errors.As(err, &big):
		return tooLarge()
	case errors.Is(err, os.ErrDeadlineExceeded):
		why = "the body did not arrive in time"
	case errors.Is(err, io.ErrUnexpectedEOF):
		why = "the body is shorter than announced"
	}
	return &budget.Error{Code: budget.Malformed, Op: c.route.op, Message: why, Err: err}
}

// checkMediaType refuses a body that is not declared as JSON in UTF-8, or is compressed.
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
	charset, given := params["charset"] // others mean nothing for JSON (RFC 8259, section 11)
	return !given || strings.EqualFold(charset, "utf-8")
}
