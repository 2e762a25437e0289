package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// confirm is one that was sent; amount 0 asks for the whole.
type confirm struct {
	amount int64
	unsure bool
}

// groupOp is a confirm or a rollback of a group of which nobody knows the outcome.
type groupOp struct {
	group string
	back  bool
	done  bool
}

// hold makes a hold of some requests, some of them one of a group. c.w.mu is held.
func (c *client) hold(k *known, r *request) {
	if c.rnd.IntN(5) > 0 {
		return
	}
	r.ttl = 100*time.Millisecond + time.Duration(c.rnd.IntN(4000))*time.Millisecond
	if c.rnd.IntN(2) == 0 {
		const members = 3
		r.group = fmt.Sprint("group-", k.members/members)
		k.members++
	}
	k.holds = append(k.holds, r)
}

// settle confirms or extends a hold, or its whole group, or rolls that back; and repeats it while its outcome
// is not known, or gives up. Holds of a group are confirmed with their group only.
func (c *client) settle(k *known) {
	c.w.mu.Lock()
	var r *request
	if n := len(k.holds); n > 0 {
		r = k.holds[max(n-1-c.rnd.IntN(12), 0)]
	}
	c.w.mu.Unlock()
	kind := c.rnd.IntN(6)
	switch {
	case r == nil:
		c.deduct(k)
	case kind == 0:
		c.extend(k, r)
	case r.group != "":
		c.settleGroup(k, r.group, kind == 1)
	default:
		c.confirm(k, r)
	}
}

// confirm confirms a hold, the whole or a part, or repeats an earlier confirm.
func (c *client) confirm(k *known, r *request) {
	var x *confirm
	if n := len(r.confirms); n > 0 && c.rnd.IntN(3) > 0 {
		x = r.confirms[c.rnd.IntN(n)]
	} else {
		x = &confirm{}
		if c.rnd.IntN(3) == 0 {
			x.amount = 1 + c.rnd.Int64N(r.amount)
		}
		r.confirms = append(r.confirms, x)
	}
	for range 3 {
		if code := c.sendConfirm(k, r, x); code != string(budget.OutcomeUnknown) {
			return
		}
		c.think(time.Millisecond, 50*time.Millisecond)
	}
}

func (c *client) sendConfirm(k *known, r *request, x *confirm) string {
	accepted := c.w.audit.Settling(k.ref.ID, r.id, "")
	var confirmed int64
	err := c.call("confirm", []any{r.id, x.amount}, func(ctx context.Context, n *node) (any, error) {
		views, err := n.service.Confirm(ctx, bucket.ConfirmRequest{Budget: k.ref, RequestID: r.id, Amount: x.amount})
		if len(views) > 0 {
			confirmed = views[0].Confirmed
		}
		return views, err
	})
	switch {
	case budget.Is(err, budget.OutcomeUnknown):
		x.unsure = true
	case err == nil:
		x.unsure = false
	}
	c.w.audit.Confirmed(k.ref.ID, r.id, codeOf(err), x.amount, confirmed, accepted)
	return codeOf(err)
}

// settleGroup confirms a group, or rolls it back.
func (c *client) settleGroup(k *known, group string, back bool) {
	op := &groupOp{group: group, back: back}
	c.w.mu.Lock()
	k.groupOps = append(k.groupOps, op)
	c.w.mu.Unlock()
	for range 3 {
		if c.sendGroup(k, op) {
			return
		}
		c.think(time.Millisecond, 50*time.Millisecond)
	}
}

// sendGroup makes one attempt; done: the answer is certain.
func (c *client) sendGroup(k *known, op *groupOp) (done bool) {
	c.w.audit.Settling(k.ref.ID, "", op.group)
	what := "confirm group"
	if op.back {
		what = "rollback group"
	}
	err := c.call(what, op.group, func(ctx context.Context, n *node) (any, error) {
		if op.back {
			return n.service.RollbackGroup(ctx, bucket.RollbackRequest{Budget: k.ref, Group: op.group})
		}
		return n.service.Confirm(ctx, bucket.ConfirmRequest{Budget: k.ref, Group: op.group})
	})
	op.done = op.done || certain(codeOf(err))
	return op.done
}

// extend makes a hold, or its group, last longer.
func (c *client) extend(k *known, r *request) {
	ttl := time.Duration(1+c.rnd.IntN(4000)) * time.Millisecond
	order := bucket.ExtendRequest{Budget: k.ref, HoldTTL: ttl, RequestID: r.id}
	if r.group != "" && c.rnd.IntN(2) == 0 {
		order.RequestID, order.Group = "", r.group
	}
	_ = c.call("extend", []any{r.id, r.group, ttl}, func(ctx context.Context, n *node) (any, error) {
		return n.service.Extend(ctx, order)
	})
}

// settleAll repeats what was asked for holds and groups and has no certain outcome until it has one.
func (w *world) settleAll(c *client) {
	for _, k := range w.budgets {
		for _, r := range k.holds {
			for _, x := range r.confirms {
				if x.unsure {
					w.again(c, "confirm of "+r.id, func() bool { return certain(c.sendConfirm(k, r, x)) })
				}
			}
		}
		for _, op := range k.groupOps {
			if !op.done {
				w.again(c, "end of "+op.group, func() bool { return c.sendGroup(k, op) })
			}
		}
	}
}
