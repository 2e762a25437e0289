package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/sim/auditor"
)

// client makes calls one after the other, of a chance of its own, and remembers what it was told.
type client struct {
	w      *world
	number int
	rnd    *rand.Rand
	made   int // names are numbered
}

// request is a deduct with the rollbacks that were asked for it.
type request struct {
	id, key, payload string
	amount           int64
	dimensions       map[string]string
	counts           map[string]int64
	ttl              time.Duration // of a hold; 0: it is none
	group            string
	rollbacks        []*rollback
	confirms         []*confirm
}

// rollback is one that was sent; amount 0 asks for whatever is left.
type rollback struct {
	id     string
	amount int64
	unsure bool
}

func (w *world) newClient(number int) *client {
	return &client{w: w, number: number, rnd: rand.New(rand.NewPCG(w.seed, uint64(number)+1000))}
}

// think waits for a while that is nobody else's.
func (c *client) think(least, spread time.Duration) {
	c.w.instants.until(mix(name("client")+uint64(c.number)), least, spread)
}

// run makes the client's share of the calls.
func (c *client) run() {
	for c.w.more() {
		c.think(time.Millisecond, 40*time.Millisecond)
		if c.w.lullNow(c.number) {
			c.think(useSilence+time.Second, 5*time.Second)
			c.repeatCancelled()
		}
		k := c.budget()
		switch n := c.rnd.IntN(1000); {
		case n < 690:
			c.deduct(k)
		case n < 740:
			c.settle(k)
		case n < 820:
			c.rollBack(k)
		case n < 850:
			c.cancelOne(k)
		case n < 880:
			c.adjust(k)
		case n < 930:
			c.operate(k)
		case n < 945:
			c.change(k)
		case n < 965:
			c.audit(k)
		case n < 990:
			c.look(k)
		default:
			c.create()
		}
	}
}

// useSilence is how long a node must not have been heard of until others take it for stopped: its lease of 10 s
// and 20 s more (docs/adr/0009).
const useSilence = 30 * time.Second

// lullNow reports whether it is time for a client to wait for long, which it does once.
func (w *world) lullNow(client int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.plan.lull || w.lulled[client] || w.asked < w.plan.operations/2 {
		return false
	}
	w.lulled[client] = true
	return true
}

// more reports whether clients have calls left to make.
func (w *world) more() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked < w.plan.operations
}

func (c *client) budget() *known {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.budgets[c.rnd.IntN(len(c.w.budgets))]
}

func (c *client) name(what string) string {
	c.made++
	return fmt.Sprintf("%s-%d-%d", what, c.number, c.made)
}

// call makes one call through any node that runs. A node that crashes meanwhile leaves the outcome
// unknown, whatever it still says.
func (c *client) call(what string, args any, do func(context.Context, *node) (any, error)) error {
	n := c.node()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	answer, err := do(ctx, n)
	if n.dead.Load() {
		err = &budget.Error{Code: budget.OutcomeUnknown, Op: what, Err: errDead}
	}
	c.w.note(n.m.number, "client "+what, n.key(uint64(c.number)), args, answer, err)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.asked++
	c.w.answers[what+" "+codeOf(err)]++
	return err
}

// node returns a node that runs, and waits for one if need be.
func (c *client) node() *node {
	for {
		m := c.w.machines[c.rnd.IntN(len(c.w.machines))]
		if n := m.node.Load(); n != nil {
			return n
		}
		c.think(time.Millisecond, 100*time.Millisecond)
	}
}

// earlier returns a request that some client sent, rather a late one; nil: there is none.
func (c *client) earlier(k *known) *request {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if len(k.requests) == 0 {
		return nil
	}
	return k.requests[max(len(k.requests)-1-c.rnd.IntN(40), 0)]
}

// deduct sends a request, a new one or one that was sent before or cancelled, again with another payload
// now and then, and repeats it while its outcome is not known, or gives up.
func (c *client) deduct(k *known) {
	r := c.earlier(k)
	switch n := c.rnd.IntN(100); {
	case r == nil || n >= 17:
		r = c.newRequest(k)
	case n < 2:
		other := *r
		other.amount++
		other.payload = payloadOf(other.amount, other.key)
		r = &other
	case n < 6:
		r = c.cancelled(k, r)
	}
	for range 4 {
		code := c.send(k, r)
		if code != string(budget.OutcomeUnknown) && code != string(budget.Unavailable) || c.rnd.IntN(4) == 0 {
			return
		}
		c.think(time.Millisecond, 200*time.Millisecond)
	}
}

// payloadOf is the reference of a request: it tells payloads apart.
func payloadOf(amount int64, key string) string { return fmt.Sprintf("%d for %q", amount, key) }

func (c *client) newRequest(k *known) *request {
	r := &request{id: c.name("id")}
	if c.rnd.IntN(2) == 0 {
		r.key = fmt.Sprintf("key-%d", c.rnd.IntN(5))
	}
	// Budgets differ in how soon they are sold out; now and then one bucket does not cover it.
	r.amount = 1 + c.rnd.Int64N(max(k.total/(30+60*(int64(len(k.name))%3)), 2))
	if c.rnd.IntN(20) == 0 {
		r.amount = 1 + c.rnd.Int64N(k.total/int64(k.buckets)*3/2+1)
	}
	r.payload = payloadOf(r.amount, r.key)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.carry(k, r)
	c.hold(k, r)
	k.requests = append(k.requests, r)
	return r
}

// send makes one attempt of a request and returns the outcome.
func (c *client) send(k *known, r *request) string {
	var asked *auditor.Call
	var got bucket.DeductAnswer
	together := c.rnd.IntN(2) == 0
	err := c.call("deduct", r.id, func(ctx context.Context, n *node) (any, error) {
		const unsteady = 5 * time.Second
		asked = &auditor.Call{Budget: k.ref.ID, ID: r.id, Amount: r.amount, Payload: r.payload, Began: time.Now(),
			Values: r.dimensions, Counts: r.counts, Group: r.group,
			Unsteady:  virtual()-n.m.jumped.Load() < int64(unsteady),
			Remembers: k.inStore && n.m.withoutDatabase(time.Second)}
		c.w.audit.Began(asked)
		var err error
		request := bucket.DeductRequest{Budget: k.ref, RequestID: r.id, Amount: r.amount, Key: r.key,
			Reference: r.payload, Dimensions: r.dimensions, Counts: r.counts, HoldTTL: r.ttl, Group: r.group}
		if together {
			all := n.service.DeductAll(ctx, []bucket.DeductRequest{request})
			got, err = all[0].Answer, all[0].Err
			return got, err
		}
		got, err = n.service.Deduct(ctx, request)
		return got, err
	})
	answer := auditor.Answer{Code: codeOf(err), Replayed: got.Replayed, Amount: got.Amount, ID: got.RequestID}
	if e, ok := errors.AsType[*budget.Error](err); ok && e.Limit != nil {
		answer.Limit = e.Limit.Limit
	}
	_, _ = fmt.Sscanf(got.Receipt, "%d.%d.%d", &answer.Bucket, &answer.Epoch, &answer.Seq)
	c.w.audit.Ended(asked, answer, time.Now())
	return codeOf(err)
}

// rollBack gives back units of an earlier request, all or a part, or repeats an earlier rollback.
func (c *client) rollBack(k *known) {
	r := c.earlier(k)
	if r == nil {
		return
	}
	var b *rollback
	if n := len(r.rollbacks); n > 0 && c.rnd.IntN(3) == 0 {
		b = r.rollbacks[c.rnd.IntN(n)]
	} else {
		b = &rollback{id: c.name("back")}
		if c.rnd.IntN(2) == 0 {
			b.amount = 1 + c.rnd.Int64N(r.amount)
		}
		r.rollbacks = append(r.rollbacks, b)
	}
	for range 3 {
		if code := c.sendBack(k, r, b); code != string(budget.OutcomeUnknown) {
			return
		}
		c.think(time.Millisecond, 50*time.Millisecond)
	}
}

func (c *client) sendBack(k *known, r *request, b *rollback) string {
	var v bucket.DeductionView
	began := time.Now()
	err := c.call("rollback", []any{r.id, b.id, b.amount}, func(ctx context.Context, n *node) (any, error) {
		var err error
		v, err = n.service.Rollback(ctx, bucket.RollbackRequest{Budget: k.ref, RequestID: r.id, RollbackID: b.id,
			Amount: b.amount})
		return v, err
	})
	switch {
	case budget.Is(err, budget.OutcomeUnknown):
		b.unsure = true
	case err == nil:
		b.unsure = false
	}
	c.w.audit.RolledBack(k.ref.ID, r.id, b.id, codeOf(err), b.amount, v.RolledBack, began)
	return codeOf(err)
}

// cancelled returns a request that was cancelled at any time before, or the other one where there is none.
func (c *client) cancelled(k *known, other *request) *request {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if len(k.cancelled) == 0 {
		return other
	}
	return k.cancelled[c.rnd.IntN(len(k.cancelled))]
}

// repeatCancelled sends requests that were cancelled before a lull, and sends them once more when the epochs that
// began since their cancel are not young any more.
func (c *client) repeatCancelled() {
	type one struct {
		k *known
		r *request
	}
	var all []one
	for range 20 {
		if k := c.budget(); k.inStore {
			if r := c.cancelled(k, nil); r != nil {
				all = append(all, one{k, r})
			}
		}
	}
	for range 2 {
		for _, o := range all {
			c.send(o.k, o.r)
		}
		c.think(2*min(c.w.plan.settings.RecordWindow, 20*time.Second), time.Second)
	}
}

// cancelOne cancels a request that was sent, or one that never was.
func (c *client) cancelOne(k *known) {
	r := c.earlier(k)
	if r == nil || c.rnd.IntN(3) == 0 {
		r = c.newRequest(k)
	}
	if c.cancel(k, r.id) {
		c.w.mu.Lock()
		defer c.w.mu.Unlock()
		k.cancelled = append(k.cancelled, r)
	}
}

// cancel makes sure that an id has no effect; done: it was answered.
func (c *client) cancel(k *known, id string) (done bool) {
	c.w.audit.Cancelling(k.ref.ID, id)
	var v bucket.DeductionView
	err := c.call("cancel", id, func(ctx context.Context, n *node) (any, error) {
		var err error
		v, err = n.service.Cancel(ctx, k.ref, id)
		return v, err
	})
	if err == nil {
		c.w.audit.Cancelled(k.ref.ID, id, string(v.State))
	}
	return err == nil
}

// adjust appends or shrinks, and repeats it while its outcome is not known, or gives up.
func (c *client) adjust(k *known) {
	quantity := 1 + c.rnd.Int64N(k.total/5+1)
	if c.rnd.IntN(2) == 0 {
		quantity = -quantity
	}
	id := c.name("adjust")
	for range 3 {
		if code := c.sendAdjust(k, id, quantity); code != string(budget.OutcomeUnknown) {
			return
		}
		c.think(time.Millisecond, 200*time.Millisecond)
	}
}

func (c *client) sendAdjust(k *known, id string, quantity int64) string {
	err := c.call("adjust", []any{id, quantity}, func(ctx context.Context, n *node) (any, error) {
		return n.service.Adjust(ctx, bucket.AdjustRequest{Budget: k.ref, RequestID: id, Quantity: quantity})
	})
	c.w.audit.Adjusted(k.ref.ID, id, codeOf(err), quantity)
	return codeOf(err)
}
