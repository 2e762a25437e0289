// Package usage reads what values of dimensions have taken, and the usage of limits. It writes
// nothing and takes no locks.
package usage

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/usage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/counters"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/limit"
)

// Part reads usage in a database. It is safe for concurrent use.
type Part struct{ db *engine.DB }

var _ usage.Limits = (*Part)(nil)

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }

// Tallies returns the present usage of the limits of touches, one list per element and one tally
// per touch. The counters of all are read together; those of a changed limit are counted from the
// deductions, as the next flight will do. It returns Unavailable if the database cannot be read.
func (p *Part) Tallies(ctx context.Context, asked []usage.Touched) (
	out [][]*limit.Tally, err error) {
	err = p.db.Read(ctx, "check limits", func(r *engine.Reader) error {
		out, err = tallies(r, asked, engine.ToMS(p.db.Now()))
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// tallyKey identifies a tally, which several touches may share.
type tallyKey struct {
	counters.Key
	limit string
	// version distinguishes the limits of two versions of a budget.
	version int64
}

func tallies(r *engine.Reader, asked []usage.Touched, nowMS int64) ([][]*limit.Tally, error) {
	var keys []counters.Key
	for i := range asked {
		for j := range asked[i].Touches {
			keys = append(keys, keyOf(asked[i].Budget, &asked[i].Touches[j]))
		}
	}
	if len(keys) == 0 {
		return make([][]*limit.Tally, len(asked)), nil
	}
	found, err := counters.Read(r, keys)
	if err != nil {
		return nil, err
	}
	made := map[tallyKey]*limit.Tally{}
	out := make([][]*limit.Tally, len(asked))
	for i := range asked {
		for j := range asked[i].Touches {
			touch := &asked[i].Touches[j]
			key := tallyKey{keyOf(asked[i].Budget, touch), touch.Limit.Name, touch.Limit.ChangedVersion}
			if made[key] == nil {
				if made[key], err = tally(r, key.Key, touch, found[key.Key], nowMS); err != nil {
					return nil, err
				}
			}
			out[i] = append(out[i], made[key])
		}
	}
	return out, nil
}

func keyOf(budgetID int64, t *limit.Touch) counters.Key {
	return counters.Key{Budget: budgetID, Dimension: t.Limit.Dimension, Value: t.Key}
}

// tally reads one tally; row is nil if nothing was counted yet.
func tally(r *engine.Reader, key counters.Key, touch *limit.Touch, row *counters.Row, nowMS int64) (
	*limit.Tally, error) {
	if row == nil {
		row = &counters.Row{}
	}
	t := row.Counts.Tally(touch.Limit, touch.Key, row.Counts.Now(nowMS))
	t.Values = touch.Values
	return &t, counters.Load(r, key.Budget, &t)
}

const (
	// Amounts are added up in two halves, so that no sum overflows an integer: unlimited budgets
	// have no bound.
	selectUsage = `SELECT COUNT(*) AS calls, COALESCE(SUM(d.amount & 1048575), 0) AS low,
		COALESCE(SUM(d.amount >> 20), 0) AS high,
		COALESCE(SUM((SELECT SUM(g.amount) FROM give_back g /*by PRIMARY*/
			WHERE g.budget_id = d.budget_id AND g.request_id = d.request_id)), 0) AS rolled_back
		FROM deduction_value v /*by PRIMARY*/`
	// lastMS is later than every instant in the ledger.
	lastMS = int64(1) << 53
)

// Usage adds up the deductions of a budget that carry all of the values and were counted in a span,
// to exclusive; a zero instant means no bound. There is at least one value. It returns Unavailable
// if the database cannot be read.
func (p *Part) Usage(ctx context.Context, budgetID int64, dimensions map[string]string,
	from, to time.Time) (sum bucket.Usage, err error) {
	names := slices.Sorted(maps.Keys(dimensions))
	values := make([]string, len(names))
	for i, name := range names {
		values[i] = dimensions[name]
	}
	fromMS, toMS := int64(0), lastMS
	if !from.IsZero() {
		fromMS = from.UnixMilli()
	}
	if !to.IsZero() {
		toMS = to.UnixMilli()
	}
	query, args := counters.Carrying(selectUsage, budgetID, names, values, fromMS, toMS)
	err = p.db.Read(ctx, "usage", func(r *engine.Reader) error {
		var row struct {
			Calls      int64 `db:"calls"`
			Low        int64 `db:"low"`
			High       int64 `db:"high"`
			RolledBack int64 `db:"rolled_back"`
		}
		_, err := r.Get(&row, query, args...)
		sum = bucket.Usage{Calls: row.Calls, Amount: joined(row.High, row.Low),
			RolledBack: min(row.RolledBack, budget.MaxAmount)}
		return err
	})
	return sum, err
}

// joined returns high * 2^20 + low, at most budget.MaxAmount.
func joined(high, low int64) int64 {
	const half = 20
	if high > budget.MaxAmount>>half {
		return budget.MaxAmount
	}
	return min(high<<half+low, budget.MaxAmount)
}
