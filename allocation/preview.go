package allocation

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Planned is a period that is to come, and what it gets if all before it use what they get.
type Planned struct {
	// Number counts the budget's periods from 1.
	Number int64
	// Start is its first instant, End the first one after it; zero: none.
	Start, End time.Time
	// Quantity is in minor units.
	Quantity int64
}

// previewed bounds the periods that Preview goes through.
const previewed = 2000

// Preview returns the first periods of a new budget, at most n. It adds the last period that gets
// something, unless that is among them or comes after the 2,000th. A budget that has ended has no
// periods.
func Preview(d budget.Definition, now time.Time, n int) []Planned {
	var out []Planned
	var last *Planned
	unfunded, p := Begin(d, now)
	for i := 0; i < previewed && !p.Over; i++ {
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
		turn := RollOver(d, p, next, ok, Account{Unfunded: unfunded})
		unfunded += turn.Moved.Unfunded
		if p = turn.Period; i == previewed-1 && !p.Over {
			return out
		}
	}
	if last != nil {
		out = append(out, *last)
	}
	return out
}
