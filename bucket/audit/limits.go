package audit

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

const (
	selectKeys = `SELECT c.dimension, c.value FROM limit_counter c /*by PRIMARY*/
		WHERE c.budget_id = ? ORDER BY c.dimension, c.value LIMIT ?`
	// lastMS is later than every instant in the ledger.
	lastMS = int64(1) << 53
)

// limits compares the present windows of at most mostCounters limit counters of a budget with the
// deductions that they count, each time in one snapshot, and returns the discrepancies that every
// read shows. It skips limits on combined dimensions: their counters do not store the values.
// Errors: BudgetNotFound, Unavailable.
func (s *Service) limits(ctx context.Context, id int64) ([]ledger.Discrepancy, error) {
	return again(func() (out []ledger.Discrepancy, err error) {
		now := engine.ToMS(s.db.Now())
		err = s.db.Snapshot(ctx, "audit limits", func(r *engine.Reader) error {
			out, err = compareCounters(r, id, mostCounters, now)
			return err
		})
		return out, err
	})
}

func compareCounters(r *engine.Reader, budgetID int64, most int, nowMS int64) (
	out []ledger.Discrepancy, err error) {
	_, u, err := bookkeeper.ReadBudget(r, "audit", budgetID)
	if err != nil || u.LimitsVersion == 0 {
		return nil, err
	}
	set, err := counters.Limits(r, budgetID, u.LimitsVersion)
	if err != nil {
		return nil, err
	}
	var found []struct {
		Dimension string `db:"dimension"`
		Value     string `db:"value"`
	}
	if err := r.List(&found, selectKeys, budgetID, most); err != nil || len(found) == 0 {
		return nil, err
	}
	keys := make([]counters.Key, len(found))
	for i, f := range found {
		keys[i] = counters.Key{Budget: budgetID, Dimension: f.Dimension, Value: f.Value}
	}
	read, err := counters.Read(r, keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		for _, l := range set.List {
			if l.Dimension != key.Dimension || len(l.Dimensions()) > 1 || read[key] == nil {
				continue
			}
			d, err := compareCounter(r, read[key], l, nowMS)
			if err != nil {
				return nil, err
			}
			if d != nil {
				out = append(out, *d)
			}
		}
	}
	return out, nil
}

// compareCounter compares the count of one limit for one value. It returns nil if the count agrees,
// or will be loaded from the deductions before its next use.
func compareCounter(r *engine.Reader, row *counters.Row, l *limit.Limit, nowMS int64) (
	*ledger.Discrepancy, error) {
	nowMS = row.Counts.Now(nowMS)
	kept := row.Counts.Usage(l, row.Key.Value, nowMS)
	if kept.Row.Version != l.ChangedVersion {
		return nil, nil
	}
	from := int64(0)
	if l.Sliding() {
		from = l.SlotsFrom(nowMS)
	} else {
		from = max(l.WindowAt(nowMS), 0)
	}
	events, err := counters.Events(r, row.Key.Budget, l, []string{row.Key.Value}, from, lastMS)
	if err != nil {
		return nil, err
	}
	counted := limit.NewUsage(l, row.Key.Value, nowMS)
	counted.Load(events)
	recorded, _ := kept.Used()
	want, _ := counted.Used()
	if recorded == want {
		return nil, nil
	}
	return &ledger.Discrepancy{What: fmt.Sprintf("limit %s of %s %q", l.Name, l.Dimension,
		row.Key.Value), Recorded: recorded, Counted: want}, nil
}
