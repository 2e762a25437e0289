package ledger

import "github.com/budgetd/budgetd/budget"

// PeriodFigures is a period and the units that left it after its end, in minor units.
type PeriodFigures struct {
	budget.Period
	// Returned became unfunded again, Passed went to later periods, Forfeited to X.
	Returned, Passed, Forfeited int64
	// Children is the sum of the totals of the children that were carved out of the period.
	Children int64
}

// CheckPeriods compares the units that each period got with the sum of the places where they are,
// and the budget's columns with the sums over its periods (I1):
//
//	funded + carried = Σ(O + H + S + R + quarantined − released) + children + returned + passed
//	                   + forfeited, and + U for the open period
//	F = T − Σ funded + Σ returned;  X = Σ forfeited;  Σ carried = Σ passed;  A = Σ children (I10)
//
// The epochs of a period are those whose rows carry its number.
func CheckPeriods(
	f Figures, current budget.Period, periods []PeriodFigures, epochs []EpochFigures,
) []Discrepancy {
	held := map[int64]int64{}
	for i := range epochs {
		e := &epochs[i]
		held[e.Row.Period] += e.Row.Outstanding + e.Row.Held + e.Row.Used + e.Row.Returning +
			e.Quarantined - e.Released
	}
	var out []Discrepancy
	var sum PeriodFigures
	for i := range periods {
		p := &periods[i]
		counted := held[p.Number] + p.Children + p.Returned + p.Passed + p.Forfeited
		if p.Number == current.Number && !current.Over {
			counted += f.Undistributed
		}
		out = compare(out, "units of a period", p.Funded+p.Carried, counted)
		sum.Funded, sum.Carried = sum.Funded+p.Funded, sum.Carried+p.Carried
		sum.Returned, sum.Passed, sum.Forfeited = sum.Returned+p.Returned, sum.Passed+p.Passed,
			sum.Forfeited+p.Forfeited
		sum.Children += p.Children
		delete(held, p.Number)
	}
	for _, units := range held {
		out = compare(out, "units of a period that does not exist", 0, units)
	}
	out = compare(out, "not funded", f.Unfunded, f.Total-sum.Funded+sum.Returned)
	out = compare(out, "allocated", f.Allocated, sum.Children)
	out = compare(out, "forfeited", f.Forfeited, sum.Forfeited)
	return compare(out, "carried", sum.Carried, sum.Passed)
}
