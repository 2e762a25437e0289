package returns

import (
	"maps"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/counters"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// lessening is the decrease of what a limit counts of a deduction.
type lessening struct {
	limit     *limit.Limit
	countedMS int64
	less      int64
	// mayLoad means that a flight may be about to load the counter from the ledger.
	mayLoad bool
}

// lowerLimits lowers the windows in which the changed deductions were counted. If a flight may be
// about to load a counter from the ledger, its row is created and its version raised even if
// nothing is counted in it yet, so that the flight loads it again.
func (s *execution) lowerLimits(places map[int64]*place) error {
	lower := map[counters.Key][]lessening{}
	for _, d := range s.changed {
		if d.RolledBack == d.stored.RolledBack || places[d.Bucket].LimitsVersion == 0 {
			continue
		}
		set, err := s.limits(places[d.Bucket])
		if err != nil {
			return err
		}
		s.lessen(set, d, lower)
	}
	if len(lower) == 0 {
		return nil
	}
	s.limited = true
	keys := slices.SortedFunc(maps.Keys(lower), counters.Key.Compare)
	locked, err := counters.Lock(s.tx, keys)
	if err != nil {
		return err
	}
	var changed []*counters.Row
	for _, key := range keys {
		row, write, mayLoad := locked[key], false, false
		for _, l := range lower[key] {
			write = row != nil && row.Counts.GivenBack(l.limit, l.countedMS, l.less) || write
			mayLoad = mayLoad || l.mayLoad
		}
		switch {
		case row == nil && mayLoad:
			if err := counters.Insert(s.tx, &counters.Row{Key: key}); err != nil {
				return err
			}
		case write || mayLoad && row != nil:
			changed = append(changed, row)
		}
	}
	return counters.Update(s.tx, changed)
}

// lessen adds the decrease of a changed deduction.
func (s *execution) lessen(set *limit.Set, d *deduction, to map[counters.Key][]lessening) {
	if len(set.List) == 0 {
		return
	}
	counted, now := engine.ToMS(d.CountedAt), engine.ToMS(s.tx.DB.Now())
	touches, _ := set.Touches(d.Amount, ledger.ReadDimensions(d.Dimensions),
		ledger.ReadCounts(d.Counts))
	for _, touch := range touches {
		l := touch.Limit
		keeps, mayLoad := l.Keeps(counted, now)
		less := l.Kept(touch.Counts, d.Amount, d.stored.RolledBack) -
			l.Kept(touch.Counts, d.Amount, d.RolledBack)
		if !keeps || less <= 0 {
			continue
		}
		key := counters.Key{Budget: d.Budget, Dimension: l.Dimension, Value: touch.Key}
		to[key] = append(to[key], lessening{l, counted, less, mayLoad})
	}
}

// limitsHold retries the transaction if the limits that it lowered may have changed since they were
// read. A change writes its version into the live epochs of the budget, which are locked by now.
// For a bucket without a live epoch, the budget has to be locked first.
func (s *execution) limitsHold(places map[int64]*place,
	epochs map[rows.Position]*rows.Epoch) error {
	if s.redo.lockBudgets {
		s.keepLimits()
	}
	if !s.limited || s.redo.lockBudgets {
		return nil
	}
	for _, p := range places {
		if p.LimitsVersion == 0 {
			continue
		}
		newest := epochs[p.newest()]
		if !newest.Live() {
			s.redo.lockBudgets = true
			return engine.ErrAgain
		}
		if newest.DefinitionVersion > p.Version {
			return engine.ErrAgain
		}
	}
	s.keepLimits()
	return nil
}

// lockBudgets locks the budgets of ids, which are sorted, if an earlier attempt found that
// necessary.
func (s *execution) lockBudgets(ids []bucket.ID) error {
	last := int64(0)
	for _, id := range ids {
		if !s.redo.lockBudgets || id.Budget == last {
			continue
		}
		last = id.Budget
		_, err := rows.LockBudget(s.tx, "return", id.Budget)
		if err != nil && !budget.Is(err, budget.BudgetNotFound) {
			return err
		}
	}
	return nil
}

// limits returns the limits of a bucket's budget, cached or read now.
func (s *execution) limits(p *place) (*limit.Set, error) {
	if set, ok := s.sets.Get(p.Budget); ok && set.Version == p.LimitsVersion {
		return set, nil
	}
	if set := s.read[p.Budget]; set != nil {
		return set, nil
	}
	set, err := counters.Limits(&s.tx.Reader, p.Budget, p.LimitsVersion)
	if err != nil {
		return nil, err
	}
	if s.read == nil {
		s.read = map[int64]*limit.Set{}
	}
	s.read[p.Budget] = set
	return set, nil
}

// keepLimits caches limits whose version limitsHold has compared.
func (s *execution) keepLimits() {
	for id, set := range s.read {
		s.sets.Add(id, set)
	}
}
