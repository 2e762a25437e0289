package transfer_test

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// TestPartitionRows checks what is read of partitions: their buckets, draining ones, and what they
// may lose.
func TestPartitionRows(t *testing.T) {
	everywhere(t, func(w *world) {
		w.create(promo("ledger", 90, 7)) // its buckets are on no partition
		w.create(stored("b", 90, 5))
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(1), partition(8)}, true))
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(1), partition(8)}, true))
		rows := map[bucket.Partition]transfer.PartitionRow{}
		for _, row := range must(w.part.PartitionRows(w.ctx))(w) {
			rows[row.Partition] = row
		}
		equal(w, "partitions", len(rows), 6)
		equal(w, "at risk", len(must(w.part.AtRisk(w.ctx))(w)), 5)
		set := func(unlimited int) {
			w.change(func(t *engine.Tx) error {
				return t.Hit(1, `UPDATE budget_management_bucket SET unlimited = ? WHERE name = ?`,
					unlimited, []byte("b"))
			})
		}
		set(1)
		equal(w, "at risk without a total", len(must(w.part.AtRisk(w.ctx))(w)), 0)
		set(0)
		equal(w, "a partition", rows[partition(0)], transfer.PartitionRow{Partition: partition(0), Incarnation: 1, Buckets: 1})
		equal(w, "a drained one", rows[partition(1)], transfer.PartitionRow{Partition: partition(1), Incarnation: 1,
			Draining: true, Buckets: 1})
		equal(w, "an empty one", rows[partition(8)], transfer.PartitionRow{Partition: partition(8), Incarnation: 1,
			Draining: true})
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(1), partition(3)}, false))
		for _, row := range must(w.part.PartitionRows(w.ctx))(w) {
			equal(w, "drained", row.Draining, row.Partition == partition(8))
		}
	})
}

func TestPlacedAfter(t *testing.T) {
	everywhere(t, func(w *world) {
		w.create(promo("ledger", 90, 3))
		a, b, c := w.create(stored("a", 90, 1)), w.create(stored("b", 90, 3)), w.create(stored("c", 90, 2))
		list := must(w.part.PlacedAfter(w.ctx, nil, 0, 2))(w)
		if len(list) != 2 || list[0].Budget != a.ID || list[1].Budget != b.ID ||
			len(list[1].Buckets) != 3 || list[1].Name != "b" || list[1].Buckets[2].Partition != partition(2) {
			w.Errorf("the first page: %+v", list)
		}
		list = must(w.part.PlacedAfter(w.ctx, []bucket.Partition{partition(1), partition(2)}, a.ID, 5))(w)
		if len(list) != 2 || list[0].Budget != b.ID || list[1].Budget != c.ID {
			w.Errorf("on two partitions: %+v", list)
		}
		list = must(w.part.PlacedAfter(w.ctx, []bucket.Partition{partition(9)}, 0, 5))(w)
		equal(w, "on an empty partition", len(list), 0)
	})
}
