package e2e

import (
	"fmt"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// tenant returns a client for one tenant.
func (w *limitWorld) tenant(name string) *client.Client {
	w.Helper()
	c, err := client.New(w.url, client.WithTenant(name))
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// create creates a budget with limits, an unlimited one if units is 0.
func (w *limitWorld) create(name string, units int64, limits ...client.Limit) *client.Budget {
	w.Helper()
	request := client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Promo, TotalQuantity: units, Limits: limits,
		Unlimited: units == 0}
	if units > 0 {
		request.BucketQuantity = 3
	}
	b, err := w.c.Create(w.ctx, request)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// dimensionsOf parses dimensions such as "user=u1 phone=p1".
func dimensionsOf(text string) map[string]string {
	out := map[string]string{}
	for len(text) > 0 {
		var name, value string
		if n, _ := fmt.Sscanf(text, "%s", &name); n == 0 {
			break
		}
		text = text[min(len(text), len(name)+1):]
		for i := range name {
			if name[i] == '=' {
				name, value = name[:i], name[i+1:]
				break
			}
		}
		out[name] = value
	}
	return out
}

// deduct deducts under a new id and returns the outcome: "accepted", "replayed", the name of the
// limit that refused, or else the code of the refusal.
func (w *limitWorld) deduct(name string, amount int64, dimensions string) string {
	w.ids++
	return w.deductAs(fmt.Sprintf("r%d", w.ids), name, amount, dimensions)
}

func (w *limitWorld) deductAs(id, name string, amount int64, dimensions string) string {
	w.Helper()
	answer, err := w.c.Deduct(w.ctx, name, client.DeductRequest{RequestID: id, Amount: amount, Dimensions: dimensionsOf(dimensions)})
	if err == nil && answer.Replayed {
		return "replayed"
	}
	return w.outcome(err)
}

func (w *limitWorld) outcome(err error) string {
	w.Helper()
	p := problem(err)
	switch {
	case err == nil:
		return "accepted"
	case p == nil:
		w.Fatal(err)
	case p.Limit != nil:
		if p.Status != 429 || p.Limit.Max == nil || p.Limit.Used > *p.Limit.Max || p.Limit.Value == "" {
			w.Errorf("figures of a refusal: %+v, %+v", p, p.Limit)
		}
		return p.Limit.Name
	}
	return string(p.Code)
}

// expect deducts and compares the outcome.
func (w *limitWorld) expect(want, name string, amount int64, dimensions string) {
	w.Helper()
	if got := w.deduct(name, amount, dimensions); got != want {
		w.Errorf("%d of %s for %s: %s, want %s", amount, name, dimensions, got, want)
	}
}

// audit checks that refused calls lost nothing.
func (w *limitWorld) audit(name string) {
	w.Helper()
	report, err := w.c.Audit(w.ctx, name)
	if err != nil || !report.OK {
		w.Errorf("audit of %s: %+v, %v", name, report, err)
	}
}

func firstHit(name, dimension, length string, most int64) client.Limit {
	return client.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount,
		Window: client.Window{Kind: budget.WindowFirstHit, Length: length}}
}

func each(every budget.Every, name, dimension string, most int64) client.Limit {
	return client.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount,
		Window: client.Window{Kind: budget.WindowCalendar, Every: every}}
}

func ever(name, dimension string, most int64) client.Limit {
	return client.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount,
		Window: client.Window{Kind: budget.WindowLifetime}}
}
