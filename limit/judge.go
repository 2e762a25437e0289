package limit

import (
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Judge decides whether what a deduction counts fits all of its limits, and counts it if so;
// tallies has one element per touch. It returns how far each limit is used then. A refusal lists
// every limit that would be exceeded (Exceeded), and nothing is counted (I6).
func Judge(touches []Touch, tallies []*Tally) (states, refused []budget.LimitState) {
	if refused = Exceeded(touches, tallies); refused != nil {
		return nil, refused
	}
	return Count(touches, tallies), nil
}

// State is how far a touch's limit is used.
func (t *Touch) State(tally *Tally) budget.LimitState {
	used, reset := tally.Used()
	state := budget.LimitState{Limit: t.Limit.Name, Dimension: t.Limit.Dimension,
		Value: strings.Join(t.Values, "+"), Used: min(used, budget.MaxAmount)}
	state.Max, state.Exempt = t.Limit.Bound(t.Key)
	if reset != 0 {
		state.ResetAt = time.UnixMilli(reset).UTC()
	}
	return state
}

// Exceeds reports whether a limit that is used so far refuses the touch: by its maximum, or, where
// nothing is enforced, because a count above budget.MaxAmount is no number that callers can read.
func (t *Touch) Exceeds(state budget.LimitState) bool {
	most := t.bound(state)
	return t.Counts > most-min(state.Used, most)
}

func (t *Touch) bound(state budget.LimitState) int64 {
	if t.Limit.Enforce && !state.Exempt {
		return state.Max
	}
	return budget.MaxAmount
}

// Exceeded lists every limit that what a deduction counts would exceed, with what was used before,
// what was asked for, and when that would fit; nil where there is none. What is exempt or not
// enforced is refused only where its count would overflow. tallies has one element per touch.
// Nothing is counted.
func Exceeded(touches []Touch, tallies []*Tally) (refused []budget.LimitState) {
	for i := range touches {
		touch := &touches[i]
		state := touch.State(tallies[i])
		if !touch.Exceeds(state) {
			continue
		}
		most := touch.bound(state)
		state.Asked, state.Overflow = touch.Counts, !touch.Limit.Enforce || state.Exempt
		state.ResetAt = time.Time{}
		if fits := tallies[i].fits(touch.Counts, most); fits != 0 {
			state.ResetAt = time.UnixMilli(fits).UTC()
		}
		refused = append(refused, state)
	}
	return refused
}

// Count counts a deduction in all of its limits, whether they are exceeded or not, and returns how
// far each is used then.
func Count(touches []Touch, tallies []*Tally) []budget.LimitState {
	states := make([]budget.LimitState, len(touches))
	for i := range touches {
		tallies[i].count(touches[i].Counts)
		states[i] = touches[i].State(tallies[i])
	}
	return states
}
