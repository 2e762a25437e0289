package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestAlternate checks that the two commits take turns, the other one first, and that a failure ends
// the row.
func TestAlternate(t *testing.T) {
	var order []int
	sides, err := alternate(func(side int) (measurement, error) {
		order = append(order, side)
		return measurement{perS: float64(len(order))}, nil
	})
	if err != nil || fmt.Sprint(order) != "[0 1 0 1 0 1]" {
		t.Errorf("order %v, %v", order, err)
	}
	if got := fmt.Sprint(medianOf(sides[0], "per second"), medianOf(sides[1], "per second")); got != "3 4" {
		t.Errorf("medians %s, want 3 4", got)
	}
	calls := 0
	_, err = alternate(func(int) (measurement, error) {
		calls++
		return measurement{}, errors.New("no server")
	})
	if err == nil || calls != 1 {
		t.Errorf("%d calls after a failure, %v", calls, err)
	}
}

// TestCompared checks the medians and the ratio of a figure, of a CPU time, and of a figure that only
// this commit has.
func TestCompared(t *testing.T) {
	side := func(figures ...float64) (all []measurement) {
		for _, f := range figures {
			all = append(all, measurement{perS: 100 * f, cpu: []cost{{"server", f}}})
		}
		return all
	}
	these := side(3, 50, 2)
	for i := range these {
		these[i].named = []figure{{"end ÷ middle", 0.25}}
	}
	w := &world{log: io.Discard, failed: []string{"lua: why"}}
	got := w.compared("abc123", []versus{{row{name: "creates", what: "what it is"},
		[2][]measurement{side(9, 1, 4), these}}})
	for _, want := range []string{
		"| row | what | figure | abc123 | this commit | ÷ |",
		"| creates | what it is | per second | 400 | 300 | 0.75 |",
		"|  |  | CPU of server, µs | 4.00 | 3.00 | 0.75 |",
		"|  |  | end ÷ middle | 0.00 | 0.25 |  |",
		"Failed: lua: why",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		of   []float64
		want float64
	}{{nil, 0}, {[]float64{7}, 7}, {[]float64{9, 1, 4}, 4}, {[]float64{8, 2, 6, 4}, 4}} {
		if got := median(test.of); got != test.want {
			t.Errorf("median of %v: %g, want %g", test.of, got, test.want)
		}
	}
}

// TestComparable checks that only rows of budgetd are measured with two commits.
func TestComparable(t *testing.T) {
	for name, want := range map[string]bool{"store-single": true, "verbs-2ms": true,
		"ending-store-4-2ms": true, "lua": false, "hot-once": false, "records": false} {
		if got := comparable(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}
