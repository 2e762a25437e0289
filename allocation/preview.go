package allocation

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Planned is a future period and its quantity if all periods before it use theirs.
type Planned struct {
	// Number counts the budget's periods from 1.
	Number int64
	// Start is its first instant, End the first one after it; zero means unbounded.
	Start, End time.Time
	// Quantity is in minor units.
	Quantity int64
}

// maxPreviewed bounds the periods that Preview examines.
const maxPreviewed = 2000

// Preview returns the first periods of a new budget, at most n, followed by the last funded period
// unless that comes after the 2,000th. A budget that has ended has no periods.
func Preview(d budget.Definition, now time.Time, n int) []Planned {
	var out []Planned
	var last *Planned
	unfunded, p := Begin(d, now)
	for i := 0; i < maxPreviewed && !p.Over; i++ {
		one := Planned{Number: p.Number, Start: p.Start, End: p.End, Quantity: p.Funded}
		switch {
		case len(out) < n:
			out = append(out, one)
		case p.Funded > 0:
			last = &one
		}
		if p.End.IsZero() || unfunded == 0 && len(out) == n {
			break
		}
		next, ok := Next(d, p, p.End)
		rolled := RollOver(d, p, next, ok, Account{Unfunded: unfunded})
		unfunded += rolled.Moved.Unfunded
		if p = rolled.Period; i == maxPreviewed-1 && !p.Over {
			return out
		}
	}
	if last != nil {
		out = append(out, *last)
	}
	return out
}
