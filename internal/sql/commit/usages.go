package commit

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/limit"
)

// Usages returns the present usage of the limits of charges, one list per element and one usage
// per charge. The counters of all are read together; those of a changed limit are counted from the
// deductions, as the next flight will do. Error: Unavailable.
func (d *Decider) Usages(ctx context.Context, asked []bucket.Charged) (
	out [][]*limit.Usage, err error) {
	err = d.db.Read(ctx, "check limits", func(r *engine.Reader) error {
		out, err = usages(r, asked, engine.ToMS(d.db.Now()))
		return err
	})
	return out, err
}

// usageKey identifies a usage, which several charges may share.
type usageKey struct {
	counters.Key
	limit string
	// version distinguishes the limits of two versions of a budget.
	version int64
}

func usages(r *engine.Reader, asked []bucket.Charged, nowMS int64) ([][]*limit.Usage, error) {
	var keys []counters.Key
	var own []limit.OverrideID
	for i := range asked {
		own = append(own, limit.Overrides(asked[i].Budget, asked[i].Charges)...)
		for j := range asked[i].Charges {
			keys = append(keys, keyOf(asked[i].Budget, &asked[i].Charges[j]))
		}
	}
	if len(keys) == 0 {
		return make([][]*limit.Usage, len(asked)), nil
	}
	found, err := counters.Read(r, keys)
	if err != nil {
		return nil, err
	}
	bounds, err := counters.ReadOverrides(r, own)
	if err != nil {
		return nil, err
	}
	made := map[usageKey]*limit.Usage{}
	out := make([][]*limit.Usage, len(asked))
	for i := range asked {
		for j := range asked[i].Charges {
			charge := &asked[i].Charges[j]
			key := usageKey{keyOf(asked[i].Budget, charge), charge.Limit.Name,
				charge.Limit.ChangedVersion}
			if made[key] == nil {
				if made[key], err = usage(r, key.Key, charge, found[key.Key], nowMS); err != nil {
					return nil, err
				}
			}
			bounds.Apply(asked[i].Budget, charge.Limit, made[key])
			out[i] = append(out[i], made[key])
		}
	}
	return out, nil
}

func keyOf(budgetID int64, t *limit.Charge) counters.Key {
	return counters.Key{Budget: budgetID, Dimension: t.Limit.Dimension, Value: t.Key}
}

// usage reads one usage; row is nil if nothing was counted yet.
func usage(r *engine.Reader, key counters.Key, charge *limit.Charge, row *counters.Row,
	nowMS int64) (*limit.Usage, error) {
	if row == nil {
		row = &counters.Row{}
	}
	t := row.Counts.Usage(charge.Limit, charge.Key, row.Counts.Now(nowMS))
	t.Values = charge.Values
	return &t, counters.Load(r, key.Budget, &t)
}
