package limit

import (
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// State returns the usage of a charge's limit.
func (t *Charge) State(usage *Usage) budget.LimitState {
	used, reset := usage.Used()
	state := budget.LimitState{Limit: t.Limit.Name, Dimension: t.Limit.Dimension,
		Value: strings.Join(t.Values, "+"), Used: min(used, budget.MaxAmount)}
	if state.Exempt = usage.Bound.Exempt; !state.Exempt {
		state.Max = usage.Bound.Max
	}
	if reset != 0 {
		state.ResetAt = time.UnixMilli(reset).UTC()
	}
	return state
}

// exceeds reports whether the limit refuses the charge in that state. An enforced limit refuses
// above its maximum. Every limit refuses above budget.MaxAmount, because callers cannot represent
// such a count.
func (t *Charge) exceeds(state budget.LimitState) bool {
	most := t.bound(state)
	return t.Counts > most-min(state.Used, most)
}

func (t *Charge) bound(state budget.LimitState) int64 {
	if t.Limit.Enforce && !state.Exempt {
		return state.Max
	}
	return budget.MaxAmount
}

// Exceeded lists every limit that the deduction would exceed, with what was used, what was asked
// for, and when that would fit, or nil. Exempt values and limits that are not enforced are exceeded
// only on overflow. usages has one element per charge. Exceeded counts nothing.
func Exceeded(charges []Charge, usages []*Usage) (refused []budget.LimitState) {
	for i := range charges {
		charge := &charges[i]
		state := charge.State(usages[i])
		if !charge.exceeds(state) {
			continue
		}
		most := charge.bound(state)
		state.Asked, state.Overflow = charge.Counts, !charge.Limit.Enforce || state.Exempt
		state.ResetAt = time.Time{}
		if fits := usages[i].fits(charge.Counts, most); fits != 0 {
			state.ResetAt = time.UnixMilli(fits).UTC()
		}
		refused = append(refused, state)
	}
	return refused
}

// Count counts a deduction in all of its limits, even if it exceeds them, and returns the resulting
// usage of each.
func Count(charges []Charge, usages []*Usage) []budget.LimitState {
	states := make([]budget.LimitState, len(charges))
	for i := range charges {
		usages[i].count(charges[i].Counts)
		states[i] = charges[i].State(usages[i])
	}
	return states
}
