package limit

import (
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Judge decides whether what a deduction counts fits all of its limits, and counts it if so; tallies has
// one element per touch. With a refusal, which names the first exceeded limit with what was used before,
// nothing is counted (I6). What is exempt or not enforced is counted and never refused.
func Judge(touches []Touch, tallies []*Tally) (states []budget.LimitState, refusal *budget.LimitState) {
	states = make([]budget.LimitState, len(touches))
	for i := range touches {
		if states[i] = touches[i].State(tallies[i]); touches[i].Exceeds(states[i]) {
			return nil, &states[i]
		}
	}
	for i := range touches {
		tallies[i].count(touches[i].Counts)
		states[i] = touches[i].State(tallies[i])
	}
	return states, nil
}

// State is how far a touch's limit is used.
func (t *Touch) State(tally *Tally) budget.LimitState {
	used, reset := tally.Used()
	state := budget.LimitState{Limit: t.Limit.Name, Dimension: t.Limit.Dimension,
		Value: strings.Join(t.Values, "+"), Used: used}
	state.Max, state.Exempt = t.Limit.Bound(t.Key)
	if reset != 0 {
		state.ResetAt = time.UnixMilli(reset).UTC()
	}
	return state
}

// Exceeds reports whether a limit that is used so far refuses the touch.
func (t *Touch) Exceeds(state budget.LimitState) bool {
	return t.Limit.Enforce && !state.Exempt && t.Counts > state.Max-min(state.Used, state.Max)
}

// Exceeded lists every limit that what a deduction counts would exceed, with what was used before; nil
// where there is none. tallies has one element per touch. Nothing is counted.
func Exceeded(touches []Touch, tallies []*Tally) (refused []budget.LimitState) {
	for i := range touches {
		if state := touches[i].State(tallies[i]); touches[i].Exceeds(state) {
			refused = append(refused, state)
		}
	}
	return refused
}

// Count counts a deduction in all of its limits, whether they are exceeded or not, and returns how far
// each is used then.
func Count(touches []Touch, tallies []*Tally) []budget.LimitState {
	states := make([]budget.LimitState, len(touches))
	for i := range touches {
		tallies[i].count(touches[i].Counts)
		states[i] = touches[i].State(tallies[i])
	}
	return states
}
