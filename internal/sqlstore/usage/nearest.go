package usage

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sqlstore/counters"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/limit"
)

// nearestPage is how many rows are read at a time. A row of a sliding limit has a count per slot.
const nearestPage = 1000

// Nearest reads the counters of up to most values of a limit's dimension, and returns those that
// have used the largest shares of their maximums, at most keep. It returns Unavailable if the
// database cannot be read.
func (p *Part) Nearest(ctx context.Context, budgetID int64, l *limit.Limit, most, keep int) (
	out bucket.Nearest, err error) {
	err = p.db.Read(ctx, "nearest", func(r *engine.Reader) error {
		out, err = nearest(r, counters.Key{Budget: budgetID, Dimension: l.Dimension}, l, most, keep,
			engine.ToMS(p.db.Now()))
		return err
	})
	return out, err
}

func nearest(r *engine.Reader, after counters.Key, l *limit.Limit, most, keep int, nowMS int64) (
	out bucket.Nearest, err error) {
	for {
		page := min(nearestPage, most-out.Read)
		// One row more than the page says whether others follow.
		found, err := counters.ReadAfter(r, after, page+1)
		if err != nil {
			return bucket.Nearest{}, err
		}
		more := len(found) > page
		for i := range found[:min(page, len(found))] {
			row := &found[i]
			out.Values = append(out.Values, row.Counts.Standing(l, row.Key.Value, nowMS))
			after, out.Read = row.Key, out.Read+1
		}
		out.Values = limit.Nearest(out.Values, keep)
		if !more || out.Read >= most {
			out.Complete = !more && l.Settled(nowMS)
			return out, nil
		}
	}
}
