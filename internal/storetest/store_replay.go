package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
)

// replayer repeats a bucket's history on two stores, each time on a bucket of its own.
type replayer struct {
	ctx    context.Context
	stores [2]bucket.Instance
	lanes  [2]bucket.Lane
	fresh  int64
	// together: what was one call is one call again; else each action is one.
	together bool
}

// replayBound bounds how many histories are tried while shortening one.
const replayBound = 400

// difference is where a replay differs: after the first n actions, in these answers.
type difference struct {
	n       int
	answers [2]string
}

// run returns the first difference, nil if there is none.
func (r *replayer) run(steps []action) *difference {
	r.fresh++
	steps = slices.Clone(steps)
	for i := range steps {
		if steps[i].verb != "activate" {
			steps[i].ref.Bucket = r.fresh
		}
	}
	trimmed := trims{}
	for from := 0; from < len(steps); {
		to := from + 1
		for r.together && to < len(steps) && steps[to].batch == steps[from].batch {
			to++
		}
		limit := readLimit
		if to == len(steps) {
			limit = 1_000_000
		}
		answers := trimmed.ask(2, steps[from:to], func(steps []action) [][]string {
			return [][]string{apply(r.ctx, r.stores[0], r.lanes[0], steps, limit), apply(r.ctx, r.stores[1], r.lanes[1], steps, limit)}
		})
		one, other := answers[0], answers[1]
		for i := range one {
			if one[i] != other[i] {
				return &difference{n: to, answers: [2]string{one[i], other[i]}}
			}
		}
		from = to
	}
	return nil
}

// shorten leaves out pieces of a history, smaller and smaller ones, as long as it still shows a
// difference.
func (r *replayer) shorten(steps []action) []action {
	tried := 0
	for size := len(steps) / 2; size > 0; {
		shorter := false
		for from := 0; from < len(steps) && tried < replayBound; {
			candidate := slices.Delete(slices.Clone(steps), from, min(from+size, len(steps)))
			tried++
			if d := r.run(candidate); d != nil {
				steps, shorter = candidate[:d.n], true
			} else {
				from += size
			}
		}
		if !shorter || size > 1 {
			size /= 2
		}
	}
	return steps
}

// text tells a history and where it ends.
func (r *replayer) text(steps []action, one, other string) string {
	var out strings.Builder
	out.WriteString("shortest history found, a call begins where a number stands:\n")
	calls := 0
	for i, a := range steps {
		number := ""
		if i == 0 || !r.together || a.batch != steps[i-1].batch {
			calls++
			number = fmt.Sprint(calls)
		}
		fmt.Fprintf(&out, "%3s %s\n", number, a)
	}
	d := r.run(steps)
	if d == nil {
		return out.String() + "but not every time"
	}
	fmt.Fprintf(&out, "%-8s %s\n%-8s %s", one, d.answers[0], other, d.answers[1])
	return out.String()
}
