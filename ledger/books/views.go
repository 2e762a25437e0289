package books

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Ledger returns the epoch as the other packages know it.
func (e *Epoch) Ledger() ledger.Epoch {
	return ledger.Epoch{Budget: e.Budget, Bucket: e.Bucket, Number: e.Number,
		Status: ledger.Status(e.Status), Outstanding: e.Outstanding, Held: e.Held, Used: e.Used,
		Returning: e.Returning, Late: e.Late, Closed: e.Closed, Swept: e.Swept,
		NextGrant: e.NextGrant, NextEntry: e.NextEntry, DefinitionVersion: e.Version,
		Period: e.Period, EndAt: at(e.PeriodEndMS), Halted: e.Halted, Incarnation: e.Incarnation,
		Taken: e.Taken, GivenBack: e.GivenBack, LateSum: e.LateSum}
}

// PeriodOf returns the open or last period of a budget, with its units if its row was loaded.
func (b *Books) PeriodOf(u *Budget) budget.Period {
	p := budget.Period{Number: u.Period, Start: at(u.PeriodStartMS), End: at(u.PeriodEndMS),
		Over: u.IsOver == 1}
	if row := b.Periods.Get([2]int64{u.ID, u.Period}); row != nil {
		p.Funded, p.Carried, p.Before = row.Funded, row.Carried, row.Before
	}
	return p
}

// FirstFigures returns the figures of a new budget, all of whose rows are there.
func (b *Books) FirstFigures(u *Budget) ledger.Figures {
	p := b.PeriodOf(u)
	f := ledger.Figures{Total: u.Total, Undistributed: u.Undistributed, Unfunded: u.Unfunded,
		PeriodUnits: p.Funded + p.Carried, PeriodBefore: p.Before, Online: len(b.Buckets.All())}
	for _, e := range b.Epochs.All() {
		if e.Status == Open {
			f.InBuckets += e.Outstanding
		} else {
			f.Unsettled += e.Outstanding
		}
	}
	p.Funded, p.Carried, p.Before = 0, 0, 0
	f.Period = p
	return f
}
