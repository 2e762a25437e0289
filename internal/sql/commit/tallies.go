package commit

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/limit"
)

// Tallies returns the present usage of the limits of touches, one list per element and one tally
// per touch. The counters of all are read together; those of a changed limit are counted from the
// deductions, as the next flight will do. Error: Unavailable.
func (d *Decider) Tallies(ctx context.Context, asked []bucket.Touched) (
	out [][]*limit.Tally, err error) {
	err = d.db.Read(ctx, "check limits", func(r *engine.Reader) error {
		out, err = tallies(r, asked, engine.ToMS(d.db.Now()))
		return err
	})
	return out, err
}

// tallyKey identifies a tally, which several touches may share.
type tallyKey struct {
	counters.Key
	limit string
	// version distinguishes the limits of two versions of a budget.
	version int64
}

func tallies(r *engine.Reader, asked []bucket.Touched, nowMS int64) ([][]*limit.Tally, error) {
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
