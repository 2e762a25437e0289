package usage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
)

// override changes overrides of the limit "one" of a budget.
func (w *world) override(b *bucket.Budget, set []budget.Override, remove ...string) bucket.Overrides {
	w.Helper()
	got, err := w.defs.Override(w.Ctx, b.ID, bucket.OverrideRequest{Limit: "one", Set: set, Remove: remove})
	w.OK(err)
	return got
}

func own(value string, most int64) []budget.Override {
	return []budget.Override{{Value: value, Max: most}}
}

// TestOverridesAreJudged checks that each value is judged by its own maximum in flights, checks and
// the list of the nearest, after each change of one, and that no count starts over.
func TestOverridesAreJudged(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 1000, limits(window("one", 2, daily)))
		n := 0
		tries := func(b *bucket.Budget, value string, amount int64, want bucket.Verdict) {
			w.Helper()
			n++
			if code := codeOf(w.d.Check(w.Ctx, []bucket.CheckRequest{ask(b, amount, user(value))})[0].Err); (code == "") !=
				(want == bucket.Accepted) {
				w.Errorf("a check of %d for %s: %q", amount, value, code)
			}
			if out := w.deduct(b, fmt.Sprint("d", n), amount, user(value)); out.Verdict != want {
				w.Errorf("%d for %s: verdict %d, want %d", amount, value, out.Verdict, want)
			}
		}
		tries(b, "ann", 2, bucket.Accepted)
		tries(b, "ann", 1, bucket.Limited)
		before := b
		w.override(b, []budget.Override{{Value: "ann", Max: 5}, {Value: "bob", Exempt: true}})
		if b = w.find(b.ID); b.Version != before.Version || b.ListVersion == before.ListVersion {
			w.Errorf("the definition has version %d, the list %d, by which nodes learn of the first override", b.Version,
				b.ListVersion)
		}
		tries(b, "ann", 4, bucket.Limited)
		tries(b, "ann", 3, bucket.Accepted)
		tries(b, "bob", 50, bucket.Accepted)
		tries(b, "eve", 3, bucket.Limited)
		w.sees(b, "one", 2, true, "ann 5/5")
		// This node knows that there are overrides, and reads the new one without another definition.
		w.override(b, own("eve", 3))
		tries(b, "eve", 3, bucket.Accepted)
		w.override(b, own("ann", 6))
		tries(b, "ann", 1, bucket.Accepted)
		w.override(b, nil, "bob")
		tries(b, "bob", 1, bucket.Limited)
		tries(b, "ann", 1, bucket.Limited)
		for _, list := range []budget.Limit{window("one", 3, daily), window("one", 3, ever)} {
			b = w.change(b, list)
			if b.Limits.List[0].OverrideCount != 2 {
				w.Errorf("a change without overrides leaves %d", b.Limits.List[0].OverrideCount)
			}
		}
		w.override(b, own("ann", 8))
		tries(b, "ann", 3, bucket.Limited)
		tries(b, "ann", 2, bucket.Accepted)
		b = w.change(b, window("one", 2, ever, budget.Override{Value: "ann", Max: 9}))
		tries(b, "ann", 1, bucket.Accepted)
		tries(b, "eve", 1, bucket.Limited) // its override is gone
		b = w.change(b, window("one", 20, ever, []budget.Override{}...), window("two", 100, ever))
		b = w.change(b, budget.Limit{Name: "one", Dimension: "shop", Max: 2, Measure: budget.MeasureCount, Enforce: true, Window: ever})
		if b.Limits.List[0].OverrideCount != 0 {
			w.Errorf("another dimension leaves %d overrides", b.Limits.List[0].OverrideCount)
		}
	})
}

// TestOverridesAreRows checks what a change of one override leaves: the others, the versions when
// nothing changes, and that rows that no limit has any more are removed.
func TestOverridesAreRows(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 1000, limits(window("one", 2, daily, own("a", 1)...)))
		list := make([]budget.Override, 1000)
		for i := range list {
			list[i] = budget.Override{Value: fmt.Sprintf("u%04d", i), Max: int64(i)}
		}
		if got := w.override(b, list); got.Count != 1001 || len(got.List) != 1000 || got.List[7].Value != "u0007" || got.List[7].Max != 7 {
			w.Errorf("%d of %d", len(got.List), got.Count)
		}
		before := w.find(b.ID)
		w.override(b, list)
		if got := w.override(b, nil, "nobody"); got.Count != 1001 {
			w.Errorf("%+v", got)
		}
		if after := w.find(b.ID); after.Limits.OverridesVersion != before.Limits.OverridesVersion {
			w.Errorf("what is so already makes version %d of %d", after.Limits.OverridesVersion, before.Limits.OverridesVersion)
		}
		page, err := w.defs.Overrides(w.Ctx, bucket.OverridesRequest{Budget: bucket.BudgetRef{ID: b.ID}, Limit: "one", After: "u0997", Most: 3})
		if w.OK(err); len(page.List) != 2 || page.List[1].Max != 999 || page.Last != "u0999" {
			w.Errorf("%+v", page)
		}
		page, err = w.defs.Overrides(w.Ctx, bucket.OverridesRequest{Budget: bucket.BudgetRef{ID: b.ID}, Limit: "one", Values: []string{"u0003"}})
		if w.OK(err); len(page.List) != 1 || page.List[0].Max != 3 {
			w.Errorf("%+v", page)
		}
		w.change(b, window("one", 2, daily, budget.Override{Value: "x", Max: 4}))
		w.Clock.Advance(2 * time.Minute)
		steps := 1
		for ; steps < 20; steps++ {
			more, err := transfer.NewLedger(w.DB).RemoveOverrides(w.Ctx, 300)
			if w.OK(err); !more {
				break
			}
		}
		if n := w.rows(`SELECT COUNT(*) FROM limit_override`); n != 1 || steps != 5 {
			w.Errorf("%d rows after %d steps", n, steps)
		}
		w.OK(w.defs.Delete(w.Ctx, b.ID, nil))
		w.Clock.Advance(2 * time.Minute)
		_, err = transfer.NewLedger(w.DB).RemoveOverrides(w.Ctx, 300)
		w.OK(err)
		if n := w.rows(`SELECT (SELECT COUNT(*) FROM limit_override) + (SELECT COUNT(*) FROM limit_override_series)`); n != 0 {
			w.Errorf("%d rows of a deleted budget", n)
		}
	})
}

// TestOverridesOfCombinedValues checks values that contain the separator, and long ones, whose key
// is a hash.
func TestOverridesOfCombinedValues(t *testing.T) {
	each(t, func(w *world) {
		pair := window("one", 1, ever)
		pair.Dimension = "user+ad"
		b := w.make("b", 1000, limits(pair))
		long := strings.Repeat("x", 256)
		for i, values := range [][]string{{"a+b", "c"}, {long, long}, {"1:a", "#"}} {
			got := w.override(b, []budget.Override{{Values: values, Max: 3}})
			b = w.find(b.ID)
			page, err := w.defs.Overrides(w.Ctx, bucket.OverridesRequest{Budget: bucket.BudgetRef{ID: b.ID}, Limit: "one", Values: values})
			if w.OK(err); len(page.List) != 1 || fmt.Sprint(page.List[0].Values) != fmt.Sprint(values) || fmt.Sprint(got.List) != fmt.Sprint(page.List) {
				w.Errorf("%q: %+v, %+v", values, page, got)
			}
			both := map[string]string{"user": values[0], "ad": values[1]}
			w.accepted(b, fmt.Sprint("d", i), 3, both)
			if out := w.deduct(b, fmt.Sprint("e", i), 1, both); out.Verdict != bucket.Limited || out.Refused[0].Max != 3 {
				w.Errorf("%q: %+v", values, out)
			}
		}
	})
}

// TestFaultyOverrides checks what is refused.
func TestFaultyOverrides(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 1000, limits(window("one", 2, daily)))
		try := func(want string, r bucket.OverrideRequest) {
			w.Helper()
			_, err := w.defs.Override(w.Ctx, b.ID, r)
			e, _ := err.(*budget.Error)
			if e == nil || e.Code != budget.Invalid || len(e.Fields) == 0 || e.Fields[0].Field != want {
				w.Errorf("%+v: %v", r, err)
			}
		}
		try("name", bucket.OverrideRequest{Limit: "two", Set: own("a", 1)})
		try("overrides[0].value", bucket.OverrideRequest{Limit: "one", Set: []budget.Override{{Values: []string{"a", "b"}, Max: 1}}})
		try("overrides[1].value", bucket.OverrideRequest{Limit: "one", Set: append(own("a", 1), own("a", 2)...)})
		try("overrides[0].max", bucket.OverrideRequest{Limit: "one", Set: own("a", -1)})
		try("overrides", bucket.OverrideRequest{Limit: "one", Set: make([]budget.Override, 1001)})
		try("value", bucket.OverrideRequest{Limit: "one", Remove: []string{"a", "b"}})
		w.Exec([]any{`UPDATE budget_limit SET override_count = 1000000`})
		try("overrides", bucket.OverrideRequest{Limit: "one", Set: own("a", 1)})
		list := []budget.Limit{window("one", 2, daily), window("two", 2, daily, own("a", 1)...)}
		if _, err := w.defs.Change(w.Ctx, b.ID, bucket.Change{Limits: &list}); !budget.Is(err, budget.Invalid) {
			w.Errorf("a change with one too many: %v", err)
		}
		_, err := w.defs.Override(w.Ctx, 4711, bucket.OverrideRequest{Limit: "one", Set: own("a", 1)})
		if !budget.Is(err, budget.BudgetNotFound) {
			w.Errorf("no budget: %v", err)
		}
	})
}
