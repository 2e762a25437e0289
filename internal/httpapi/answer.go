package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/ratelimit"
)

// answer is a success, or a problem without an error (not ready).
type answer struct {
	problem *api.Problem
	// status is the HTTP status; 0 means 200.
	status int
	body   any
	// version becomes the ETag, location the header of that name. Zero values are left out.
	version  int64
	location string
	// tag is an ETag of an answer that may be kept for a second. A caller that has it already gets
	// status 304 without the body.
	tag string
}

// write sends an answer.
func (c *call) write(a answer) {
	if a.problem != nil {
		c.sendProblem(a.problem)
		return
	}
	header := c.w.Header()
	if a.version != 0 {
		header.Set("ETag", `"`+strconv.FormatInt(a.version, 10)+`"`)
	}
	if a.tag != "" && c.keep(a.tag) {
		return
	}
	if a.location != "" {
		header.Set("Location", a.location)
	}
	if a.status == 0 {
		a.status = http.StatusOK
	}
	if err := c.send(a.status, jsonType, a.body); err != nil {
		c.reply(&budget.Error{Code: budget.Internal, Op: c.route.op, Err: err})
	}
}

// keep allows the answer to be kept for a second. It answers 304, and returns true, if the caller
// has what the tag stands for.
func (c *call) keep(tag string) bool {
	header := c.w.Header()
	header.Set("ETag", tag)
	c.kept = true
	if !slices.Contains(c.r.Header["If-None-Match"], tag) {
		return false
	}
	c.head(http.StatusNotModified)
	return true
}

// reply logs an error once and sends its problem document.
func (c *call) reply(e *budget.Error) { c.replyWith(e, ProblemOf(e)) }

// replyWith logs an error and sends document p.
func (c *call) replyWith(e *budget.Error, p *api.Problem) {
	c.api.logError(c.ctx, c.route.op, e)
	c.sendProblem(p)
}

func (c *call) sendProblem(p *api.Problem) {
	p.CorrelationID = c.work.marks.correlation
	if p.Code == budget.Unauthenticated {
		c.w.Header()["Www-Authenticate"] = bearer
	}
	if seconds := p.WholeRetryAfter(); seconds > 0 {
		c.w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	if err := c.send(p.Status, problemType, p); err != nil {
		panic(err) // a problem always has a JSON form
	}
}

// Header values that are the same in every answer. They must not be changed.
var (
	jsonType    = []string{"application/json"}
	problemType = []string{"application/problem+json"}
	bearer      = []string{"Bearer"}
	oneSecond   = []string{"max-age=1"}
)

var answers = sync.Pool{New: func() any { return new(document) }}

// send writes one document. An error means that it has no JSON form and that nothing was sent.
func (c *call) send(status int, contentType []string, body any) error {
	d := answers.Get().(*document)
	defer func() {
		if cap(d.Text) <= pooledBytes {
			d.Text, d.Err = d.Text[:0], nil
			answers.Put(d)
		}
	}()
	d.Value(body)
	if d.Err != nil {
		return d.Err
	}
	d.Raw("\n")
	header := c.w.Header()
	c.length[0] = strconv.Itoa(len(d.Text))
	header["Content-Type"] = contentType
	header["Content-Length"] = c.length[:]
	c.head(status)
	// An error means that the caller is gone. The caller will repeat the request.
	_, _ = c.w.Write(d.Text)
	return nil
}

// head sends the status and the headers.
func (c *call) head(status int) {
	header := c.w.Header()
	ratelimit.SecureAnswer(header, c.encrypted())
	if c.kept {
		header["Cache-Control"] = oneSecond
	}
	c.api.observer.Request(c.route.pattern, status, c.api.now().Sub(c.began), recorded(c.span))
	c.status = status
	c.w.WriteHeader(status)
}

// WriteProblem sends a problem document for a request that no API handles.
func WriteProblem(w http.ResponseWriter, p *api.Problem) {
	d := new(document)
	d.Value(p)
	ratelimit.SecureAnswer(w.Header(), false)
	w.Header()["Content-Type"] = problemType
	w.WriteHeader(p.Status)
	_, _ = w.Write(d.Text)
}

// logError logs an error that the caller sees only in brief: at level Error if a person must act,
// at level Warn if the call was not done or its outcome is unknown, and at level Debug if it was
// refused.
func (a *API) logError(ctx context.Context, op string, e *budget.Error) {
	level := slog.LevelDebug
	switch e.Code {
	case budget.Internal:
		level = slog.LevelError
	case budget.OutcomeUnknown, budget.Unavailable:
		level = slog.LevelWarn
	}
	if !a.log.Enabled(ctx, level) {
		return
	}
	most, every := linesPerSecond, time.Second
	if level == slog.LevelWarn {
		most, every = 1, quiet
	}
	suppressed, ok := a.gate.pass(kind{op, e.Code, e.Reason}, a.now(), most, every)
	if !ok {
		return
	}
	attrs := []slog.Attr{slog.String("op", op), slog.String("code", string(e.Code)),
		slog.Any("error", e)}
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	a.log.LogAttrs(ctx, level, "request failed", attrs...)
}
