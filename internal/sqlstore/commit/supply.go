package commit

import (
	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

// supply brings at least `need` units into the target: first the usual step of U, then units of
// donors. taken is what the operations take.
func (g *gathering) supply(need, taken int64) error {
	b := g.budget
	usual := allocation.Step(need, g.bound, len(g.list), b.Sharding)
	for _, part := range []struct {
		kind  moves.Kind
		units int64
	}{{moves.Again, min(g.free, need)}, {moves.Apply, max(usual, need)}} {
		units := min(part.units, g.bound)
		if part.kind == moves.Again && b.AdjustCnt == 0 || units <= 0 || need <= 0 {
			continue // nothing counts the applies of this budget, so all of U is applied for
		}
		if part.kind == moves.Apply && b.AdjustCnt > 0 && g.target.OutCnt >= b.AdjustCnt {
			continue
		}
		err := g.give(part.kind, units)
		if err == nil {
			err = moves.Units(g.tx, b, allocation.Movement{Undistributed: -units})
		}
		if err != nil {
			return err
		}
		g.bound, need = g.bound-units, need-units
	}
	if need <= 0 {
		return nil
	}
	return g.collect(need, taken)
}

func (g *gathering) give(kind moves.Kind, units int64) error {
	return moves.Give(g.tx, g.budget, kind, moves.Portion{Row: g.target, Units: units})
}

// collect brings units of donors into the target, the fullest donor first.
func (g *gathering) collect(need, taken int64) error {
	var portions []moves.Portion
	sum := int64(0)
	for _, donor := range g.donors {
		if units := min(donor.Outstanding, need-sum); units > 0 {
			portions = append(portions, moves.Portion{Row: donor, Units: units})
			sum += units
		}
	}
	if sum < need {
		return engine.Defect("%d units of budget %d were found and not moved", need,
			g.budget.ID)
	}
	if err := moves.Draw(g.tx, portions...); err != nil {
		return err
	}
	if err := g.give(moves.Collect, sum); err != nil {
		return err
	}
	return g.contract(portions, taken)
}

// contract removes emptied donors from the bucket list if the units left in the budget are not
// worth a bucket of their own.
func (g *gathering) contract(portions []moves.Portion, taken int64) error {
	left, largest := g.budget.Undistributed, int64(0)
	for i := range g.list {
		left += g.list[i].Outstanding
	}
	left -= taken
	for i := range g.ops {
		largest = max(largest, g.ops[i].Request.Amount)
	}
	if left >= fragment.Least(g.budget.Total, len(g.list), largest) {
		return nil
	}
	for _, p := range portions {
		if p.Row.Outstanding > 0 || p.Row.ListStatus != rows.Online {
			continue
		}
		if _, err := moves.End(g.tx, g.budget, ledger.Closed, &p.Row.Epoch); err != nil {
			return err
		}
		if err := moves.PutOffline(g.tx, g.budget, p.Row, bucket.ByService); err != nil {
			return err
		}
	}
	return nil
}
