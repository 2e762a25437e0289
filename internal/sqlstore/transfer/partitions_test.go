package transfer_test

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	want "github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
)

func TestMove(t *testing.T) {
	everywhere(t, func(w *world) {
		b, other := w.create(promo("b", 90, 3)), w.create(promo("other", 90, 3))
		first, second := &b.Buckets[0], &b.Buckets[1]
		moves := []want.Placement{{Bucket: first.ID, From: first.Partition, To: partition(5)},
			{Bucket: second.ID, From: partition(7), To: partition(5)},
			{Bucket: other.Buckets[0].ID, From: partition(0), To: partition(5)}}
		moved, n, err := w.part.Move(w.ctx, b.ID, moves)
		w.ok(err)
		equal(w, "moved", n, 1)
		w.told(b.ID, moved.Levels)
		equal(w, "level", moved.Levels[0], bucket.Level{Bucket: first.ID, Epoch: 1, Partition: partition(5),
			Fill: first.Epoch.Fill + 1, Outstanding: 30, Added: 30, Open: true})
		read := w.read(b.ID)
		equal(w, "partition", read.Buckets[0].Partition, partition(5))
		equal(w, "partition of one that is elsewhere", read.Buckets[1].Partition, second.Partition)
		equal(w, "partition of another budget's", w.read(other.ID).Buckets[0].Partition, partition(0))
		if read.ListVersion <= b.ListVersion {
			w.Errorf("list version %d became %d", b.ListVersion, read.ListVersion)
		}
		_, n, err = w.part.Move(w.ctx, b.ID, moves)
		w.ok(err)
		equal(w, "moved again", n, 0)
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(2)}, true))
		_, n, err = w.part.Move(w.ctx, b.ID, []want.Placement{{Bucket: second.ID, From: second.Partition,
			To: partition(2)}})
		w.ok(err)
		equal(w, "moved to a partition that is drained", n, 0)
	})
}

// TestPartitionRows checks what is read of partitions: their buckets, draining ones, and what they
// may lose.
func TestPartitionRows(t *testing.T) {
	everywhere(t, func(w *world) {
		w.create(promo("b", 90, 5))
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(1), partition(8)}, true))
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(1), partition(8)}, true))
		rows := map[bucket.Partition]want.PartitionRow{}
		for _, row := range must(w.part.PartitionRows(w.ctx))(w) {
			rows[row.Partition] = row
		}
		equal(w, "partitions", len(rows), 6)
		equal(w, "at risk in ledger mode", len(must(w.part.AtRisk(w.ctx))(w)), 0)
		set := func(columns string) {
			w.change(func(t *engine.Tx) error {
				return t.Hit(1, `UPDATE budget_management_bucket SET `+columns)
			})
		}
		set(`durability = 'store'`)
		equal(w, "at risk in store mode", len(must(w.part.AtRisk(w.ctx))(w)), 5)
		set(`unlimited = 1`)
		equal(w, "at risk without a total", len(must(w.part.AtRisk(w.ctx))(w)), 0)
		set(`durability = 'ledger', unlimited = 0`)
		equal(w, "a partition", rows[partition(0)], want.PartitionRow{Partition: partition(0), Buckets: 1})
		equal(w, "a drained one", rows[partition(1)], want.PartitionRow{Partition: partition(1), Incarnation: 1,
			Draining: true, Buckets: 1})
		equal(w, "an empty one", rows[partition(8)], want.PartitionRow{Partition: partition(8), Incarnation: 1,
			Draining: true})
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(1), partition(3)}, false))
		for _, row := range must(w.part.PartitionRows(w.ctx))(w) {
			equal(w, "drained", row.Draining, row.Partition == partition(8))
		}
	})
}

func TestPlacedAfter(t *testing.T) {
	everywhere(t, func(w *world) {
		a, b, c := w.create(promo("a", 90, 1)), w.create(promo("b", 90, 3)), w.create(promo("c", 90, 2))
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

// TestRolloverOnAPartitionThatIsDrained checks that no epoch begins there, and that a bucket gets
// its next one on its new partition.
func TestRolloverOnAPartitionThatIsDrained(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.daily("b", 1000, day(""))
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(0)}, true))
		w.until(dayLong)
		w.rollOver(b.ID)
		w.lies("the day is in the other bucket", b.ID, 0, 40)
		equal(w, "due", len(must(w.part.Over(w.ctx, 10))(w)), 0)
		equal(w, "without an epoch", w.idle(b.ID), 1)
		moved, n, err := w.part.Move(w.ctx, b.ID, []want.Placement{{Bucket: b.Buckets[0].ID,
			From: partition(0), To: partition(4)}})
		w.ok(err)
		equal(w, "moved", n, 1)
		equal(w, "epoch", moved.Levels[0].Epoch, 2)
		equal(w, "without an epoch", w.idle(b.ID), 0)
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(1)}, true))
		w.until(2 * dayLong)
		w.rollOver(b.ID)
		w.ok(w.part.SetDraining(w.ctx, []bucket.Partition{partition(1)}, false))
		must(w.part.HandOut(w.ctx, b.ID))(w)
		equal(w, "without an epoch once it is not drained", w.idle(b.ID), 0)
	})
}
