package sim

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// patience is how often the end repeats something before it is a violation.
const patience = 60

// end is what comes after the faults: outcomes that nobody knows are cleared up, everything becomes
// quiet, what callers were told is compared with the ledger, and every unit is sold.
func (w *world) end() {
	w.calm.Store(true)
	for _, m := range w.machines {
		for i := range m.cut {
			m.cut[i].Store(0)
		}
		if m.node.Load() == nil {
			w.boot(m)
		}
	}
	w.late.Wait()
	w.audit.Settled()
	c := w.newClient(998)
	w.clearUp(c)
	w.probe(c)
	w.quiet(c, "after the faults")
	w.compare()
	for _, k := range w.budgets {
		w.release(c, k)
		w.sellOut(c, k)
	}
	w.quiet(c, "after the sell-out")
	w.compare()
	for _, m := range w.machines {
		for _, k := range w.budgets {
			report, err := m.node.Load().service.Audit(context.Background(), k.ref)
			if err != nil || !report.OK || len(report.Unchecked) > 0 {
				w.wrong("I1: the last audit of %s: %+v, %v", k.name, report, err)
			}
		}
	}
	for _, m := range w.machines {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := m.node.Load().service.Stop(ctx); err != nil {
			w.wrong("node %d does not stop: %v", m.number, err)
		}
		cancel()
	}
}

// again repeats something until it is done.
func (w *world) again(c *client, what string, do func() bool) {
	for range patience {
		if do() {
			return
		}
		c.think(time.Millisecond, 300*time.Millisecond)
	}
	w.wrong("%s: still not done after the faults", what)
}

// clearUp repeats what has no certain outcome until it has one, ends every pause and brings every
// bucket online.
func (w *world) clearUp(c *client) {
	byID := map[int64]*known{}
	for _, k := range w.budgets {
		byID[k.ref.ID] = k
		for _, r := range k.requests {
			for _, b := range r.rollbacks {
				if b.unsure {
					w.again(c, "rollback of "+r.id, func() bool { return certain(c.sendBack(k, r, b)) })
				}
			}
		}
	}
	w.settleAll(c)
	deducts, adjustments := w.audit.Unresolved()
	for _, o := range deducts {
		w.again(c, "cancel of "+o.ID, func() bool { return c.cancel(byID[o.Budget], o.ID) })
	}
	for _, o := range adjustments {
		w.again(c, "adjustment "+o.ID, func() bool {
			return certain(c.sendAdjust(byID[o.Budget], o.ID, o.Quantity))
		})
	}
	for _, s := range w.stores {
		w.again(c, "undrain of "+s.name, func() bool { return c.drain(s.name, false) == nil })
	}
	no := false
	for _, k := range w.budgets {
		w.again(c, "resize of "+k.name, func() bool { return c.resize(k, k.buckets) == nil })
		w.again(c, "resume of "+k.name, func() bool {
			return c.sendChange(k, bucket.Change{Paused: &no}) == nil
		})
		for i := range k.buckets {
			key := fmt.Sprintf("%s:bucket-%d", k.name, i)
			w.again(c, "online of "+key, func() bool {
				return c.call("online", key, func(ctx context.Context, n *node) (any, error) {
					return n.service.Online(ctx, k.ref, key)
				}) == nil
			})
		}
	}
}

func certain(code string) bool {
	return code != string(budget.OutcomeUnknown) && code != string(budget.Unavailable)
}

// quiet waits until nothing is left half done.
func (w *world) quiet(c *client, when string) {
	var left []string
	for range patience {
		if u, err := w.model.Unfinished(bg, 1); err != nil || !reflect.ValueOf(u).IsZero() {
			c.think(time.Second, time.Millisecond) // the rows need not be looked at yet
			continue
		}
		left = left[:0]
		for _, b := range w.tables() {
			left = append(left, b.Pending()...)
			left = append(left, w.audit.Behind(b.ID)...)
		}
		if len(left) == 0 {
			return
		}
		c.think(time.Second, time.Millisecond)
	}
	w.wrong("%s: still pending: %v", when, left)
}

// compare holds what callers were told against the rows.
func (w *world) compare() {
	told := map[int64]bool{}
	for _, k := range w.budgets {
		told[k.ref.ID] = true
	}
	for _, b := range w.tables() {
		w.audit.Recount(b)
		if told[b.ID] { // the others were made by a create whose outcome nobody asked for again
			w.audit.Compare(b)
		}
	}
}

// release does what an operator would who knows what was sold: everything in quarantine that nobody was
// told accepted goes back to the total, and repeating it moves nothing.
func (w *world) release(c *client, k *known) {
	name, id := 0, ""
	w.again(c, "release of what is in quarantine of "+k.name, func() bool {
		spare := w.audit.Quarantined(k.ref.ID) - w.audit.Owed(k.ref.ID)
		if spare <= 0 {
			return true
		}
		w.audit.Pooled(k.ref.ID)
		name++
		id = fmt.Sprint("release-", name)
		for replay := range 2 {
			var got bucket.ReleaseAnswer
			err := c.call("release", id, func(ctx context.Context, n *node) (any, error) {
				var err error
				got, err = n.service.Release(ctx, bucket.ReleaseRequest{Budget: k.ref, RequestID: id, Quantity: spare,
					Reason: "nobody was told accepted", By: "operator"})
				return got, err
			})
			if err != nil {
				return false // some were released by a report meanwhile
			}
			if got.Released != spare || got.Replayed != (replay == 1) {
				w.wrong("I2: a release of %d units of %s, time %d, was answered %+v", spare, k.name, replay, got)
			}
		}
		w.noted(func(s *StoreMode) { s.ByOperator += spare })
		return true
	})
	w.noted(func(s *StoreMode) { s.Lost += w.audit.Owed(k.ref.ID) })
}

// sellOut sells all that a budget covers, in pieces that no single bucket may hold, and is then
// refused one unit more. What bounded applies leave releasable changes meanwhile, both ways: a bucket
// applies for the last time it may, or gets a new epoch and may apply anew.
func (w *world) sellOut(c *client, k *known) {
	const pieces = 12
	for piece := range pieces {
		left := w.audit.Available(k.ref.ID)
		if left == 0 {
			break
		}
		if piece < 2 {
			left = (left + 1) / 2
		}
		r := &request{id: fmt.Sprintf("last-%d", piece), amount: left, payload: payloadOf(left, ""), dimensions: seller(k)}
		w.again(c, fmt.Sprintf("the last %d units of %s", left, k.name), func() bool {
			code := c.send(k, r)
			return code == "" || code == string(budget.BudgetExhausted) && w.audit.Available(k.ref.ID) < left
		})
	}
	one := &request{id: "too-much", amount: 1, payload: payloadOf(1, ""), dimensions: seller(k)}
	w.again(c, "a refusal of "+k.name, func() bool { return c.send(k, one) == string(budget.BudgetExhausted) })
	if left := w.audit.Available(k.ref.ID); left != 0 {
		w.wrong("I3: %d units of %s cannot be sold", left, k.name)
	}
}
