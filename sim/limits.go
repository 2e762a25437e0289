package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// firstLimit is a limit that a budget keeps, whatever else changes, so that requests can name it.
const firstLimit = "l0"

// exempt is the user whom no limit bounds: what is left at the end is sold to it.
const exempt = "vip"

// limited gives a definition limits: few values, windows that many of a seed's calls fall into. Some budgets
// of ledger mode get their first ones later.
func limited(d *budget.Definition, draw func(string, uint64) uint64) {
	d.RoutingDimension = "user"
	if d.Durability == budget.Store || draw("later", 4) > 0 {
		d.Limits = &budget.Limits{List: drawLimits(d.TotalQuantity, d.Durability == budget.Store, draw)}
	}
}

func drawLimits(total int64, inStore bool, draw func(string, uint64) uint64) (list []budget.Limit) {
	for i := range 1 + draw("number", 3) {
		what := func(of string) string { return fmt.Sprint(of, i) }
		l := budget.Limit{Name: fmt.Sprint("l", i), Dimension: "user", Measure: budget.MeasureCount,
			Enforce: draw(what("enforce"), 8) > 0, Window: drawWindow(draw(what("window"), 6))}
		if !inStore {
			l.Dimension = []string{"user", "user", "user+ad", "ad"}[draw(what("dimension"), 4)]
		}
		l.Max = 1 + int64(draw(what("max"), 4))
		switch l.Window.Kind {
		case budget.WindowLifetime:
			l.Max *= 12
		case budget.WindowCalendar:
			l.Max *= 4
		}
		if draw(what("measure"), 3) == 0 {
			l.Measure, l.Max = budget.MeasureAmount, max(l.Max*total/80, 1)
		}
		l.Overrides = []budget.Override{{Value: exempt, Exempt: true}}
		if l.Dimension == "user+ad" {
			l.Overrides = []budget.Override{{Values: []string{exempt, exempt}, Exempt: true}}
		}
		list = append(list, l)
	}
	return list
}

func drawWindow(n uint64) budget.LimitWindow {
	switch n {
	case 0:
		return budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Second}
	case 1:
		return budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Minute}
	case 2:
		return budget.LimitWindow{Kind: budget.WindowLifetime}
	case 3:
		return budget.LimitWindow{Kind: budget.WindowFirstHit, Length: 4 * time.Second}
	case 4:
		return budget.LimitWindow{Kind: budget.WindowSliding, Length: 5 * time.Second, Slot: 700 * time.Millisecond}
	}
	return budget.LimitWindow{Kind: budget.WindowSliding, Length: 10 * time.Second, Slot: 2 * time.Second}
}

// carry gives a request of a budget with limits its dimensions, and own amounts now and then.
func (c *client) carry(k *known, r *request) {
	if !k.limited {
		return
	}
	r.dimensions = map[string]string{"user": fmt.Sprint("u", c.rnd.IntN(4)), "ad": fmt.Sprint("a", c.rnd.IntN(2))}
	if k.counting && c.rnd.IntN(10) == 0 {
		r.counts = map[string]int64{firstLimit: c.rnd.Int64N(4)}
	}
}

// seller is what requests carry that no limit may refuse.
func seller(k *known) map[string]string {
	if !k.limited {
		return nil
	}
	return map[string]string{"user": exempt, "ad": exempt}
}

// changeLimits gives a budget other limits: other bounds, windows, measures and dimensions.
func (c *client) changeLimits(k *known) {
	if !k.limited {
		c.look(k)
		return
	}
	list := drawLimits(k.total, k.inStore, func(_ string, n uint64) uint64 { return c.rnd.Uint64N(n) })
	_ = c.call("limits", list, func(ctx context.Context, n *node) (any, error) {
		return n.service.Change(ctx, k.ref, bucket.Change{Limits: &list})
	})
}

// probe asks for a unit for each user while nothing else is under way: the auditor knows then which of them a
// limit has to refuse, in ledger mode to the unit.
func (w *world) probe(c *client) {
	for _, k := range w.budgets {
		if !k.limited {
			continue
		}
		for user := range 4 {
			r := &request{id: fmt.Sprintf("probe-%d", user), amount: 1, payload: payloadOf(1, ""),
				dimensions: map[string]string{"user": fmt.Sprint("u", user), "ad": fmt.Sprint("a", user%2)}}
			w.again(c, "a probe of "+k.name, func() bool { return certain(c.send(k, r)) })
		}
	}
}
