package httpapi

import (
	"bytes"
	"context"
	"strings"
	"sync"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/front"
)

// dataRoute is a route with a data handler as package front asks for it: before and after are the
// parts of its path around {budget}, after is "" where the path has no budget.
type dataRoute struct {
	route
	before, after string
}

// dataRouteOf cuts the pattern of a route, which is a POST.
func dataRouteOf(r *route) dataRoute {
	path, _ := strings.CutPrefix(r.pattern, "POST ")
	before, after, _ := strings.Cut(path, "{budget}")
	return dataRoute{*r, before, after}
}

// named returns the text in place of {budget}, "" where there is none; false: the path is another.
func (r *dataRoute) named(path []byte) (text []byte, ok bool) {
	if r.after == "" {
		return nil, string(path) == r.before
	}
	if len(path) <= len(r.before)+len(r.after) || string(path[:len(r.before)]) != r.before {
		return nil, false
	}
	text, ok = bytes.CutSuffix(path[len(r.before):], []byte(r.after))
	return text, ok && bytes.IndexByte(text, '/') < 0
}

// Find returns which data call a POST to a path is, for package front.
func (a *API) Find(path []byte) (call, maxBody int, ok bool) {
	for i := range a.dataRoutes {
		if _, ok := a.dataRoutes[i].named(path); ok {
			return i, int(a.dataRoutes[i].maxBody), true
		}
	}
	return 0, 0, false
}

var datas = sync.Pool{New: func() any { return new(data) }}

// Answer answers a data call that package front has read. The caller's connection does not end the
// work on it: RequestTimeout does.
func (a *API) Answer(call int, r *front.Request, out *front.Answer) {
	route := &a.dataRoutes[call]
	d := datas.Get().(*data)
	name, _ := route.named(r.Path)
	named := d.named // often that of the call before
	if named != string(name) {
		named = string(name)
	}
	w := &work{parent: context.Background()}
	w.marks = a.marksOf(string(r.Correlation), string(r.Traceparent))
	*d = data{api: a, route: &route.route, ctx: w, work: w, began: a.now(), body: r.Body,
		named: named, rawQuery: string(r.Query),
		authorization: string(r.Authorization), tls: r.TLS}
	w.until = r.Began.Add(a.limits.RequestTimeout)
	out.Correlation, out.Traceparent = w.marks.correlation, w.marks.traceparent()
	d.serve(out)
	w.end()
	a.observer.Request(route.pattern, out.Status, a.now().Sub(d.began))
	*d = data{named: named}
	datas.Put(d)
}

// serve runs the route's handler and appends what it returns.
func (d *data) serve(out *front.Answer) {
	a := d.api
	defer func() {
		if why := recover(); why != nil {
			d.refuse(out, panicked(d.route.op, why))
		}
	}()
	defer a.leave()
	if err := a.enter(d.route); err != nil {
		d.refuse(out, err)
		return
	}
	answer, err := d.route.data(d)
	if err != nil {
		d.refuse(out, settle(err, d.route.op, d.route.changes))
		return
	}
	if err := d.append(out, 200, "application/json", answer.body); err != nil {
		d.refuse(out, &budget.Error{Code: budget.Internal, Op: d.route.op, Err: err})
	}
}

// refuse logs an error, once, and appends its problem document.
func (d *data) refuse(out *front.Answer, e *budget.Error) {
	d.api.logError(d.ctx, d.route.op, e)
	p := problemOf(e)
	p.CorrelationID = d.work.marks.correlation
	out.RetryAfter = p.wholeRetryAfter()
	if err := d.append(out, p.Status, "application/problem+json", p); err != nil {
		panic(err) // a problem always has a JSON form
	}
}

// append appends one document; an error means that it has no JSON form.
func (d *data) append(out *front.Answer, status int, contentType string, body any) error {
	text := &d.text
	text.text, text.err = out.Body[:0], nil
	text.value(body)
	if text.err != nil {
		return text.err
	}
	text.raw("\n")
	out.Status, out.ContentType, out.Body = status, contentType, text.text
	return nil
}
