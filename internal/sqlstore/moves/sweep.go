package moves

import (
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

const (
	sweepEpochs = `UPDATE bucket_epoch /*by PRIMARY*/ SET
		swept_quantity = swept_quantity + returning_quantity, returning_quantity = 0,
		late_quantity = 0 WHERE `
	sweepWhere = `(bucket_id = ? AND epoch = ? AND returning_quantity = ? AND returning_quantity > 0)`
)

// Sweep moves R of locked epochs, of a locked budget, to where their periods say (ComeBack). It
// returns the units moved.
func Sweep(t *engine.Tx, b *rows.Budget, epochs ...*rows.Epoch) (int64, error) {
	var keys []any
	var back []Coming
	units := int64(0)
	for _, e := range epochs {
		if e.Returning == 0 {
			continue
		}
		keys = append(keys, e.Bucket, e.Number, e.Returning)
		back = append(back, Coming{Row: e, Never: e.Returning - e.Late, Late: e.Late})
		units += e.Returning
		e.Swept, e.Returning, e.Late = e.Swept+e.Returning, 0, 0
	}
	if err := t.HitAll(sweepEpochs, nil, sweepWhere, keys); err != nil {
		return 0, err
	}
	return units, ComeBack(t, b, back...)
}
