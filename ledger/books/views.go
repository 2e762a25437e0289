package books

import (
	"encoding/json"

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

// Definition returns the budget's definition, without its limits. A rule that cannot be read is of
// no known kind, and releases nothing.
func (u *Budget) Definition() budget.Definition {
	d := budget.Definition{ID: u.ID, Tenant: u.Tenant, Name: u.Name, GLCode: u.GLCode,
		Unit: budget.Unit(u.Unit), Durability: budget.Durability(u.Durability),
		OnLoss: budget.OnLoss(u.OnLoss), Unlimited: u.Unlimited == 1, Type: budget.Type(u.Type),
		TotalQuantity: u.Total, BucketQuantity: int(u.Buckets), ShardingQuantity: u.Sharding,
		AdjustCnt: int(u.AdjustCnt), StartAt: at(u.StartMS), EndAt: at(u.EndMS),
		Parent: u.Parent, AlsoCharges: budget.Charges{IDs: chargesIn(u.AlsoCharges)},
		Paused: u.IsPaused == 1, Archived: u.IsArchived == 1, Timezone: u.Timezone,
		LateRefund: budget.Where(u.LateRefund), Version: u.Version, CreatedAt: at(u.CreatedAt),
		UpdatedAt: at(u.UpdatedAt)}
	if u.Routing != nil {
		d.RoutingDimension = *u.Routing
	}
	if u.TypeRule != nil {
		d.Rule = &budget.Rule{}
		if json.Unmarshal([]byte(*u.TypeRule), d.Rule) != nil {
			d.Rule = &budget.Rule{}
		}
	}
	return d
}

// PeriodOf returns the open or last period of a budget, with its units if its row was loaded.
func (b *Books) PeriodOf(u *Budget) budget.Period {
	p := u.PeriodNow()
	if row := b.Periods.Get([2]int64{u.ID, u.Period}); row != nil {
		p.Funded, p.Carried, p.Before = row.Funded, row.Carried, row.Before
	}
	return p
}

// PeriodNow returns the open or last period, without its units.
func (u *Budget) PeriodNow() budget.Period {
	return budget.Period{Number: u.Period, Start: at(u.PeriodStartMS), End: at(u.PeriodEndMS),
		Over: u.IsOver == 1}
}

// FirstFigures returns the figures of a new budget, all of whose rows are there.
func (b *Books) FirstFigures(u *Budget) ledger.Figures {
	p := b.PeriodOf(u)
	f := ledger.Figures{Total: u.Total, Undistributed: u.Undistributed, Unfunded: u.Unfunded,
		PeriodUnits: p.Funded + p.Carried, PeriodBefore: p.Before, Online: len(b.bucketsOf(u))}
	for _, e := range b.epochsOf(u) {
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
