package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// createAll makes the budgets of the plan, while nothing fails yet.
func (w *world) createAll() {
	c := w.newClient(999)
	for _, d := range w.plan.shapes {
		if !c.sendCreate(d) {
			panic("a budget was not created although nothing failed")
		}
	}
}

// create makes another budget, or one that is there already.
func (c *client) create() {
	d := c.w.plan.shapes[c.rnd.IntN(len(c.w.plan.shapes))]
	if c.rnd.IntN(2) == 0 {
		d.Name = fmt.Sprintf("extra-%d", c.rnd.IntN(4))
	}
	if c.rnd.IntN(4) == 0 {
		d.TotalQuantity++ // another definition under that name
	}
	for range 3 {
		if c.sendCreate(d) {
			return
		}
		c.think(time.Millisecond, 100*time.Millisecond)
	}
}

// sendCreate makes one attempt; done: the answer is certain.
func (c *client) sendCreate(d budget.Definition) (done bool) {
	var v bucket.View
	err := c.call("create", d, func(ctx context.Context, n *node) (any, error) {
		var err error
		v, _, err = n.service.Create(ctx, d)
		return v, err
	})
	if err == nil {
		c.w.learn(v, d)
	}
	return err == nil || budget.Is(err, budget.NameTaken)
}

// learn lets all clients know of a budget. What it was created with is its total, whatever became of
// it.
func (w *world) learn(v bucket.View, d budget.Definition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.budgets {
		if k.ref.ID == v.Definition.ID {
			return
		}
	}
	k := &known{ref: bucket.BudgetRef{ID: v.Definition.ID}, name: v.Definition.Name, buckets: d.BucketQuantity,
		total: d.TotalQuantity, limited: d.RoutingDimension != "", counting: d.Limits != nil,
		inStore: d.Durability == budget.Store}
	w.budgets = append(w.budgets, k)
	w.audit.Created(k.ref.ID, d.TotalQuantity)
}

// operate takes a bucket offline, brings it online or makes it apply; or it recycles the budget.
func (c *client) operate(k *known) {
	key := fmt.Sprintf("%s:bucket-%d", k.name, c.rnd.IntN(k.buckets))
	kind := c.rnd.IntN(12)
	if kind >= 10 {
		_ = c.call("recycle", k.name, func(ctx context.Context, n *node) (any, error) {
			return n.service.Recycle(ctx, k.ref)
		})
		return
	}
	what := []string{"offline", "online", "apply"}[kind%3]
	_ = c.call(what, key, func(ctx context.Context, n *node) (any, error) {
		switch kind % 3 {
		case 0:
			return n.service.Offline(ctx, k.ref, key)
		case 1:
			return n.service.Online(ctx, k.ref, key)
		}
		return n.service.ApplyTo(ctx, k.ref, key)
	})
}

// change pauses a budget for a while, or changes what its buckets may apply for. Only the first client
// does, so that it is known since when a budget has been paused; the others change how many buckets there
// are, or drain an instance.
func (c *client) change(k *known) {
	if c.number != 0 {
		switch c.rnd.IntN(6) {
		case 4, 5:
			c.changeLimits(k)
		case 0:
			_ = c.resize(k, 1+c.rnd.IntN(2*k.buckets))
		case 1:
			_ = c.drain(c.w.stores[c.rnd.IntN(len(c.w.stores))].name, c.rnd.IntN(2) == 0)
		default:
			c.look(k)
		}
		return
	}
	if c.rnd.IntN(2) == 0 {
		bound, times := c.rnd.Int64N(k.total), c.rnd.IntN(8)
		_ = c.sendChange(k, bucket.Change{ShardingQuantity: &bound, AdjustCnt: &times})
		return
	}
	yes, no := true, false
	if c.sendChange(k, bucket.Change{Paused: &yes}) == nil && !k.unsure {
		c.w.audit.Paused(k.ref.ID, time.Now())
	}
	c.think(100*time.Millisecond, 2500*time.Millisecond)
	c.w.audit.Paused(k.ref.ID, time.Time{})
	for range 5 {
		if c.sendChange(k, bucket.Change{Paused: &no}) == nil {
			return
		}
		c.think(time.Millisecond, 100*time.Millisecond)
	}
}

// resize gives a budget another number of buckets.
func (c *client) resize(k *known, buckets int) error {
	return c.call("resize", []any{k.name, buckets}, func(ctx context.Context, n *node) (any, error) {
		return n.service.Change(ctx, k.ref, bucket.Change{BucketQuantity: &buckets})
	})
}

// drain begins to drain an instance, or ends that.
func (c *client) drain(instance string, begin bool) error {
	what := "undrain"
	if begin {
		what = "drain"
	}
	return c.call(what, instance, func(ctx context.Context, n *node) (any, error) {
		if begin {
			return n.service.Drain(ctx, instance)
		}
		return n.service.Undrain(ctx, instance)
	})
}

func (c *client) sendChange(k *known, change bucket.Change) error {
	err := c.call("change", change, func(ctx context.Context, n *node) (any, error) {
		return n.service.Change(ctx, k.ref, change)
	})
	if budget.Is(err, budget.OutcomeUnknown) {
		k.unsure = true // it may still come into force, after a later one
	}
	return err
}

// audit asks a node for the proof of a budget.
func (c *client) audit(k *known) {
	var report bucket.AuditReport
	err := c.call("audit", k.name, func(ctx context.Context, n *node) (any, error) {
		var err error
		report, err = n.service.Audit(ctx, k.ref)
		return report, err
	})
	if err == nil && !report.OK && !c.w.forked() {
		c.w.wrong("I1: audit of %s: %v", k.name, report.Discrepancies)
	}
}

// forked: a store has gone back without being told from the one it was: its balances and its logs may
// then disagree with the ledger, and an audit may be the first to see it.
func (w *world) forked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.faults[faultForked] > 0
}

// look reads a view, the list, the buckets, or a deduction.
func (c *client) look(k *known) {
	switch c.rnd.IntN(4) {
	case 0:
		_ = c.call("list", nil, func(ctx context.Context, n *node) (any, error) {
			return n.service.List(ctx, bucket.Page{Size: 10})
		})
	case 1:
		_ = c.call("buckets", k.name, func(ctx context.Context, n *node) (any, error) {
			return n.service.Buckets(ctx, k.ref)
		})
	case 2:
		if r := c.earlier(k); r != nil {
			_ = c.call("deduction", r.id, func(ctx context.Context, n *node) (any, error) {
				return n.service.Deduction(ctx, k.ref, r.id)
			})
		}
	default:
		c.view(k)
	}
}

func (c *client) view(k *known) {
	var v bucket.View
	err := c.call("view", k.name, func(ctx context.Context, n *node) (any, error) {
		var err error
		v, err = n.service.View(ctx, k.ref)
		return v, err
	})
	f := v.Figures
	sum := f.Undistributed + f.Remaining + f.Unsettled + f.Held + f.Used + f.Returning +
		f.Quarantined + f.Forfeited
	if err == nil && sum != f.Total {
		c.w.wrong("I1: the view of %s shows parts of %d and a total of %d", k.name, sum, f.Total)
	}
}
