package httpapi

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/http"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/ratelimit"
)

const (
	// maxStreams bounds the event streams of a node. A tenant may have half of them, a principal
	// ownStreams.
	maxStreams, ownStreams = 200, 20
	// lookEvery is how often a stream checks its caller's rights and looks for news. beatEvery is
	// how often it sends a sign of life.
	lookEvery, beatEvery = time.Second, 10 * time.Second
	// tail is the number of feed entries with which a stream begins.
	tail = 50
)

// look returns the events after the one with id last. "" asks for all events to begin with.
type look func(ctx context.Context, last string) ([]event, error)

// event is a server-sent event.
type event struct {
	kind, id string
	body     any
}

// registerStreams registers the streams.
func (a *API) registerStreams() {
	for pattern, begin := range map[string]func(*call) (look, error){
		"GET /v1/events":                  a.overviewEvents,
		"GET /v1/budgets/{budget}/events": a.budgetEvents,
	} {
		r := route{pattern: pattern}
		r.find()
		a.handle(r, func(c *call) { c.stream(begin) })
	}
}

// overviewEvents sends the state of the installation when it has changed.
func (a *API) overviewEvents(c *call) (look, error) {
	c.query()
	return func(ctx context.Context, last string) ([]event, error) {
		v, err := a.overview(ctx)
		if err != nil {
			return nil, err
		}
		return changed("overview", v, last)
	}, c.nothing()
}

// changed returns an event with a body, or nothing if the last event had the same body.
func changed(kind string, body any, last string) ([]event, error) {
	d := new(document)
	d.Value(body)
	h := fnv.New64a()
	_, _ = h.Write(d.Text)
	id := fmt.Sprintf("%016x", h.Sum64())
	if id == last {
		return nil, d.Err
	}
	return []event{{kind, id, body}}, d.Err
}

// budgetEvents sends the figures of a budget when they have changed, and its feed entries. An
// event's id holds the digest of the figures and the cursor.
func (a *API) budgetEvents(c *call) (look, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return nil, err
	}
	if err := c.nothing(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, last string) ([]event, error) {
		digest, cursor, _ := strings.Cut(last, "~")
		view, err := a.service.View(ctx, ref)
		if err != nil {
			return nil, err
		}
		events, err := changed("budget", c.shown(a.called(&view)), digest)
		if err != nil {
			return nil, err
		}
		for i := range events {
			digest = events[i].id
			events[i].id += "~" + cursor
		}
		if view.Definition.Durability == budget.Store {
			return events, nil
		}
		request := bucket.FeedRequest{Budget: ref, After: cursor, Limit: bucket.MaxFeedLimit}
		if cursor == "" {
			request.Tail = tail
		}
		page, err := a.service.Feed(ctx, request)
		if err != nil {
			return nil, err
		}
		if len(page.Entries) > 0 || cursor == "" {
			events = append(events, event{"entries", digest + "~" + page.Next, feedOf(&page)})
		}
		return events, nil
	}, nil
}

// stream sends server-sent events until the caller goes or the node stops. A caller that returns
// with Last-Event-ID gets what it missed.
func (c *call) stream(begin func(*call) (look, error)) {
	a := c.api
	c.named, c.rawQuery = c.r.PathValue("budget"), c.r.URL.RawQuery
	if err := c.admit(c.caller()); err != nil {
		c.reply(err)
		return
	}
	bounds := a.boundsOf(c.principal, maxStreams)
	if len(bounds) > 1 {
		bounds = append(bounds,
			ratelimit.Bound{Holder: "streams of " + c.principal.Name, Most: ownStreams})
	}
	if !a.streams.Take(1, bounds...) {
		err := budget.Refuse(budget.Unavailable, c.route.op, "a node has at most %d streams, half of "+
			"them for a tenant and %d for a principal; try again", maxStreams, ownStreams)
		err.Reason = budget.ReasonOverloaded
		c.reply(err)
		return
	}
	defer a.streams.Return(1, bounds...)
	var news []event
	last := c.r.Header.Get("Last-Event-ID")
	look, err := begin(c)
	if err == nil {
		news, err = c.once(look, last)
	}
	if err != nil {
		c.reply(errorOf(err, c.route.op, false))
		return
	}
	header := c.w.Header()
	header["Content-Type"] = []string{"text/event-stream; charset=utf-8"}
	header["X-Accel-Buffering"] = []string{"no"} // makes proxies pass each event on at once
	ratelimit.SecureAnswer(header, c.encrypted())
	c.w.WriteHeader(http.StatusOK)
	c.follow(look, last, news)
}

// once looks for news.
func (c *call) once(look look, last string) ([]event, error) {
	ctx, cancel := context.WithTimeout(c.work, c.api.limits.RequestTimeout)
	defer cancel()
	c.ctx = ctx
	return look(ctx, last)
}

// follow sends the first events, then new ones as they come.
func (c *call) follow(look look, last string, news []event) {
	a := c.api
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Time{})
	ticks := time.NewTicker(lookEvery)
	defer ticks.Stop()
	beat := c.began
	for {
		if quiet := a.now().Sub(beat) >= beatEvery; len(news) > 0 || quiet {
			if quiet {
				beat = a.now()
			}
			_ = control.SetWriteDeadline(time.Now().Add(a.limits.WriteTimeout))
			if c.sendEvents(news) != nil || control.Flush() != nil {
				return
			}
		}
		if len(news) > 0 {
			last = news[len(news)-1].id
		}
		select {
		case <-ticks.C:
		case <-a.left:
			return
		case <-c.r.Context().Done():
			return
		}
		if !a.admission.auth.Admits(c.caller(), &c.route.access) {
			return
		}
		var err error
		if news, err = c.once(look, last); err != nil {
			return // the caller reconnects after the last event and gets the error then
		}
	}
}

// sendEvents writes events. Without any it writes a comment as a sign of life.
func (c *call) sendEvents(news []event) error {
	d := new(document)
	if len(news) == 0 {
		d.Raw(": still here\n\n")
	}
	for _, e := range news {
		d.Raw("event: " + e.kind + "\nid: " + e.id + "\ndata: ")
		d.Value(e.body)
		d.Raw("\n\n")
	}
	if d.Err != nil {
		return d.Err
	}
	_, err := c.w.Write(d.Text)
	return err
}
