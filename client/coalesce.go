package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"

	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json/jsontext"
)

// The default bounds of coalescing.
const (
	defaultCoalescedCalls = 4
	defaultCoalescedItems = 100
	defaultCoalescedQueue = 10_000
)

// ErrQueueFull is in the error of a coalesced Deduct without room in the queue (errors.Is). Nothing
// was sent: its kind is budget.NotDone, and it is retried like "unavailable".
var ErrQueueFull = errors.New("as many deductions as the queue holds are waiting to be sent")

// Coalescing bounds how concurrent deductions share calls. Zero fields take the defaults.
type Coalescing struct {
	// Calls is the most concurrent calls. Fewer make larger batches. The default is 4.
	Calls int
	// Items is the most deductions in one call, at most MaxBatch. The default is 100. If the server
	// accepts fewer (413), so does the client.
	Items int
	// Queue is the most deductions that wait to be sent; further ones fail with ErrQueueFull. The
	// default is 10,000.
	Queue int
}

// WithCoalescing sends concurrent calls of Deduct together, as batches. A deduction is sent at once
// while fewer than Calls calls are running; those that arrive meanwhile go with the next one, in
// order of arrival. There is no timer, and nobody waits while a call is free. A deduction alone in
// its call is sent as a plain deduct.
//
// Each caller has its own answer, error, retries (always with its own request id) and context, as
// without coalescing. A context that ends before its deduction was sent takes it out of the queue:
// budget.NotDone. One that ends later leaves it unknown, and the others unaffected.
//
// There are four differences. An answer comes with the slowest of its batch (the service waits up
// to 2 s for units of a scattered budget). AttemptTimeout begins when the batch is sent; the
// context bounds the wait before that. The transport does not see values of the callers' contexts.
// A batch belongs to many callers and has its own trace, so a caller's trace reaches the service
// only with a plain deduct.
func WithCoalescing(bounds Coalescing) Option {
	return func(c *Client) { c.coalescer = newCoalescer(c, bounds) }
}

// coalescer is the queue of one client. It has no goroutines while no call is running.
type coalescer struct {
	client *Client
	bounds Coalescing

	mu       sync.Mutex
	queue    []*coalesced
	underWay int
	// items is the estimate of what the server accepts at once: it is halved when the server says
	// that it was too much, and grows by one after each full batch.
	items int
}

// coalesced is one attempt of one deduction.
type coalesced struct {
	what call
	text jsontext.Value // what stands in a batch
	// most is how many may travel with it, itself included.
	most int
	// flight is the call that carries it; nil while it waits. left means that its caller has gone.
	flight *flight
	left   bool

	// done is closed when result or err stands.
	done        chan struct{}
	result      jsontext.Value
	correlation string
	err         error
}

// flight is one running call.
type flight struct {
	items []*coalesced
	// callers is the number of callers that still wait for it; the last one that leaves ends it.
	callers  int
	answered bool
	ctx      context.Context
	end      context.CancelFunc
}

func newCoalescer(c *Client, bounds Coalescing) *coalescer {
	if bounds.Calls <= 0 {
		bounds.Calls = defaultCoalescedCalls
	}
	if bounds.Items <= 0 {
		bounds.Items = defaultCoalescedItems
	}
	bounds.Items = min(bounds.Items, MaxBatch)
	if bounds.Queue <= 0 {
		bounds.Queue = defaultCoalescedQueue
	}
	return &coalescer{client: c, bounds: bounds, items: bounds.Items}
}

// deduct makes one attempt of a deduction, together with others. Its errors are those of send.
func (q *coalescer) deduct(ctx context.Context, what call, answer *DeductAnswer) error {
	// A fault of its own must not spoil a batch.
	if _, err := q.client.target(what); err != nil {
		return what.unwritten(err)
	}
	text, err := what.text(what.item)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return q.notSent(what, err)
	}
	i := &coalesced{what: what, text: text, most: q.bounds.Items, done: make(chan struct{})}
	if !q.enter(i) {
		return q.notSent(what, ErrQueueFull)
	}
	select {
	case <-i.done:
	case <-ctx.Done():
		switch q.leave(i) {
		case waiting:
			return q.notSent(what, ctx.Err())
		case sent:
			return &TransportError{Op: what.op, Server: q.client.Server(), Sent: true, Err: ctx.Err()}
		case answered:
			<-i.done
		}
	}
	if i.err != nil {
		return i.err
	}
	got, err := q.client.itemAnswer(i.result, what.requestID, i.correlation)
	if err != nil {
		return err
	}
	*answer = *got
	return nil
}

// enter puts a deduction into the queue and ensures that it is sent. It returns false if there is
// no room.
func (q *coalescer) enter(i *coalesced) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) >= q.bounds.Queue {
		return false
	}
	q.queue = append(q.queue, i)
	if q.underWay < q.bounds.Calls {
		q.underWay++
		go q.run()
	}
	return true
}

// stage is the progress of a deduction when its caller leaves.
type stage int

const (
	waiting stage = iota
	sent
	answered
)

// leave ends the wait of a caller and removes a deduction that is still in the queue.
func (q *coalescer) leave(i *coalesced) stage {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i.flight == nil {
		if at := slices.Index(q.queue, i); at >= 0 {
			q.queue = slices.Delete(q.queue, at, at+1)
		}
		return waiting
	}
	if i.flight.answered {
		return answered
	}
	i.left = true
	i.flight.callers--
	if i.flight.callers == 0 {
		i.flight.end()
	}
	return sent
}

// run sends what is in the queue, call by call, until it is empty.
func (q *coalescer) run() {
	for f := q.take(); f != nil; f = q.take() {
		q.send(f)
		f.end()
	}
}

// take returns the next call with the longest-waiting deductions, in order; nil if nothing waits.
func (q *coalescer) take() *flight {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, most := 0, q.items
	for n < len(q.queue) && n < min(most, q.queue[n].most) {
		most = min(most, q.queue[n].most)
		n++
	}
	if n == 0 {
		q.underWay--
		return nil
	}
	f := &flight{items: slices.Clone(q.queue[:n]), callers: n}
	f.ctx, f.end = context.WithCancel(context.Background())
	q.queue = slices.Delete(q.queue, 0, n)
	for _, i := range f.items {
		i.flight = f
	}
	return f
}

// send makes the call and distributes the results.
func (q *coalescer) send(f *flight) {
	if len(f.items) == 1 {
		var result jsontext.Value
		correlation, err := q.client.exchange(f.ctx, f.items[0].what, &result)
		q.deliver(f, []jsontext.Value{result}, correlation, err)
		return
	}
	what := call{
		op: "deduct", method: http.MethodPost, path: []string{"v1", "deductions:batch"},
		query: q.client.inTenant(), body: f.text(),
	}
	var answer batchAnswer
	correlation, err := q.client.exchange(f.ctx, what, &answer)
	if err == nil {
		err = q.client.complete(what, answer, len(f.items))
	}
	if most := f.mostAfter(err); most > 0 {
		q.again(f, most)
		return
	}
	q.deliver(f, answer.Results, correlation, err)
}

// text writes the body of a batch from its items.
func (f *flight) text() jsontext.Value {
	size := len(`{"deductions":[]}`)
	for _, i := range f.items {
		size += len(i.text) + 1
	}
	text := append(make(jsontext.Value, 0, size), `{"deductions":[`...)
	for n, i := range f.items {
		if n > 0 {
			text = append(text, ',')
		}
		text = append(text, i.text...)
	}
	return append(text, "]}"...)
}

// mostAfter returns how many of a batch may go together after it was answered with err; 0 means
// that the answer applies to each of them. A batch that is refused as faulty did nothing. The fault
// may be one item or their number, so each item has to get its own answer. Only an unauthenticated
// caller (401) is so for every item.
func (f *flight) mostAfter(err error) int {
	var p *Problem
	switch {
	case KindOf(err) != budget.Faulty:
		return 0
	case errors.As(err, &p) && p.Status == http.StatusUnauthorized:
		return 0
	case errors.As(err, &p) && p.Status == http.StatusRequestEntityTooLarge:
		return len(f.items) / 2
	}
	return 1
}

// again returns the items of a batch that did nothing to the front of the queue, at most `most` to
// go together.
func (q *coalescer) again(f *flight, most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	back := slices.DeleteFunc(f.items, func(i *coalesced) bool { return i.left })
	for _, i := range back {
		i.flight, i.most = nil, most
	}
	if most > 1 {
		q.items = min(q.items, most)
	}
	q.queue = slices.Insert(q.queue, 0, back...)
}

// deliver gives each caller its result, or the error of the call as a whole.
func (q *coalescer) deliver(f *flight, results []jsontext.Value, correlation string, err error) {
	q.mu.Lock()
	f.answered = true
	if err == nil && len(f.items) == q.items && q.items < q.bounds.Items {
		q.items++
	}
	q.mu.Unlock()
	for n, i := range f.items {
		if err != nil {
			i.err = ownCopy(err)
		} else {
			i.result, i.correlation = results[n], correlation
		}
		close(i.done)
	}
}

// ownCopy returns an error that its receiver may keep and change, because others have the same one.
func ownCopy(err error) error {
	var p *Problem
	var t *TransportError
	switch {
	case errors.As(err, &p):
		own := *p
		return &own
	case errors.As(err, &t):
		own := *t
		return &own
	}
	return err
}

// notSent returns the error of an attempt that never left the client.
func (q *coalescer) notSent(what call, err error) error {
	return &TransportError{Op: what.op, Server: q.client.Server(), Err: err, kept: true}
}
