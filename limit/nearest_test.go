package limit

import (
	"fmt"
	"math"
	"testing"

	"github.com/budgetd/budgetd/budget"
)

// TestNearestOrder checks that shares are compared exactly, that usage of a maximum of 0 is the
// largest share, and that equal shares have a fixed order.
func TestNearestOrder(t *testing.T) {
	const most = budget.MaxAmount
	list := []budget.LimitState{{Value: "c", Used: 5, Max: 10}, {Value: "b", Used: 5, Max: 10},
		{Value: "half", Used: 50, Max: 100}, {Value: "all but one", Used: most - 1, Max: most},
		{Value: "all but two", Used: most - 2, Max: most}, {Value: "over", Used: most, Max: most - 1},
		{Value: "zero", Used: 1}, {Value: "exempt", Used: math.MaxInt64, Exempt: true}, {Value: "unused", Max: 10}}
	all := []string{"zero", "over", "all but one", "all but two", "half", "b", "c"}
	for keep := range 9 {
		var got []string
		for _, s := range Nearest(append([]budget.LimitState(nil), list...), keep) {
			got = append(got, s.Value)
		}
		if fmt.Sprint(got) != fmt.Sprint(all[:min(keep, len(all))]) {
			t.Errorf("%d of them: %q, want the first of %q", keep, got, all)
		}
	}
}

// TestValuesOfKeys checks that the values of a row's key are those that it was made of.
func TestValuesOfKeys(t *testing.T) {
	pair := &Limit{dimensions: []string{"user", "ad"}}
	for _, values := range [][]string{{"a", "b"}, {"1:a", "2:b:"}, {"#", "é"}} {
		if got := valuesOf(pair.dimensions, key(values)); fmt.Sprint(got) != fmt.Sprint(values) {
			t.Errorf("%q: %q", values, got)
		}
	}
	one := &Limit{dimensions: []string{"user"}}
	if got := valuesOf(one.dimensions, "1:a"); len(got) != 1 || got[0] != "1:a" {
		t.Errorf("a single value: %q", got)
	}
	if got := valuesOf(pair.dimensions, "#00ff"); len(got) != 1 || got[0] != "#00ff" {
		t.Errorf("a hash: %q", got)
	}
}
