package counter_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/redisstore/faultstore"
	"github.com/budgetd/budgetd/ledger"
)

// idsAt returns request ids of one bucket.
func idsAt(b *bucket.Budget, ordinal, n int) (out []string) {
	for i := 0; len(out) < n; i++ {
		if id := fmt.Sprintf("at-%d-%d", ordinal, i); b.Home(id).Ordinal == ordinal {
			out = append(out, id)
		}
	}
	return out
}

// useMuch deducts 101 units from one bucket, of which this node's syncs measure 100.
func (w *world) useMuch(b *bucket.Budget, ordinal int) {
	w.Helper()
	ids := idsAt(b, ordinal, 11)
	w.deduct(b, ids[0], 1)
	w.run("store sync")
	w.clock.Advance(time.Second)
	for _, id := range ids[1:] {
		w.deduct(b, id, 10)
	}
}

func (w *world) recycle(b *bucket.Budget) bucket.Recycle {
	w.Helper()
	run, err := w.moves.Recycle(w.Context(), ref(b))
	w.ok(err)
	return run
}

// outstanding returns what SQL knows that buckets have, by ordinal.
func (w *world) outstanding(b *bucket.Budget) (out []int64) {
	w.Helper()
	for _, bk := range w.read(b.ID).Buckets {
		out = append(out, bk.Epoch.Outstanding)
	}
	return out
}

// TestRecycle checks that a recycle gives the bucket that is used most what the others do not need,
// and reports that.
func TestRecycle(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(promo("sale", 1000, 4))
		w.useMuch(b, 1)
		run := w.recycle(b)
		if run.Number != 1 || run.Cause != bucket.OnDemand || run.Buckets != 4 || run.Skipped != 0 ||
			run.Moved != 750 || run.Before.Units != 899 || run.Before.Stranded < 600 ||
			run.After != (bucket.Spread{Units: 899}) || run.EndedAt.Before(run.BeganAt) {
			w.Errorf("%+v", run)
		}
		for _, bk := range w.read(b.ID).Buckets {
			if bk.Epoch.Status != ledger.Open {
				w.Errorf("bucket %d is %s", bk.Ordinal, bk.Epoch.Status)
			}
		}
		w.settled(b, books{T: 1000, O: 899, S: 101})
		o := w.outstanding(b)
		if o[1] < 700 || o[0] < 25 || o[2] < 25 || o[3] < 25 {
			w.Errorf("%v", o)
		}
		history, err := w.moves.Recycles(w.Context(), ref(b), 0, 10)
		if err != nil || len(history) != 1 || history[0] != run {
			w.Errorf("%+v, %v, want %+v", history, err, run)
		}
		for i := range 4 { // every store has what SQL says
			w.deduct(b, idsAt(b, i, 20)[19], o[i])
		}
		w.settled(b, books{T: 1000, S: 1000})
	})
}

// TestRecycleWhileSelling checks that no deduction is refused while a budget is recycled.
func TestRecycleWhileSelling(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(promo("sale", 100_000, 8))
		w.useMuch(b, 1)
		var done atomic.Bool
		var sold atomic.Int64
		var all sync.WaitGroup
		for seller := range 4 {
			all.Go(func() {
				for i := 0; !done.Load(); i++ {
					id := fmt.Sprintf("s-%d-%d", seller, i)
					if _, err := w.node.Deduct(w.Context(), request(b, id, 1)); err != nil {
						w.Errorf("%s: %v", id, err)
						return
					}
					sold.Add(1)
				}
			})
		}
		for range 3 {
			before := sold.Load()
			for sold.Load() < before+20 && !w.Failed() {
				time.Sleep(time.Millisecond)
			}
			if run := w.recycle(b); run.Skipped != 0 || run.Buckets != 8 {
				w.Errorf("%+v", run)
			}
		}
		done.Store(true)
		all.Wait()
		w.run("store sync")
		w.run("store epochs")
		if got := w.books(b.ID); got.S != sold.Load()+101 {
			w.Errorf("%+v, %d were sold", got, sold.Load())
		}
	})
}

// TestRecycleWithoutAStore checks that a recycle leaves out the buckets of a store that is down, or
// that stops answering when it has to close epochs, and recycles the others.
func TestRecycleWithoutAStore(t *testing.T) {
	for _, lost := range []string{"", "close"} {
		t.Run("lost="+lost, func(t *testing.T) {
			w := onServers(t, "sqlite", 2)
			b := w.create(promo("sale", 1000, 4))
			w.useMuch(b, 0)
			down := w.partitions[1]
			w.network.Inject(func(op string, at bucket.Partition) faultstore.Fault {
				if at == down && (lost == "" || op == lost) {
					return faultstore.LoseCall
				}
				return faultstore.None
			})
			run := w.recycle(b)
			if run.Buckets != 2 || run.Skipped != 2 || run.Moved != 250 || run.Before.Units != 899 ||
				run.After.Units != 899 {
				t.Errorf("%+v", run)
			}
			if o := w.outstanding(b); o[0] < 300 || o[0]+o[2] != 399 || o[1] != 250 || o[3] != 250 {
				t.Errorf("%v", o)
			}
			for _, bk := range w.read(b.ID).Buckets {
				if open := bk.Epoch.Status == ledger.Open; open != (lost == "" || bk.Partition != down) {
					t.Errorf("bucket %d is %s", bk.Ordinal, bk.Epoch.Status)
				}
			}
			w.network.Inject(nil)
			w.run("store sync")
			w.run("store epochs")
			if run = w.recycle(b); run.Buckets != 4 || run.Skipped != 0 || run.Number != 2 {
				t.Errorf("afterwards: %+v", run)
			}
			w.settled(b, books{T: 1000, O: 899, S: 101})
		})
	}
}

// TestScheduledRecycle checks that a budget in store mode is recycled once at the scheduled time,
// whatever the number of nodes, and that a node which finds the report of another one only in its
// last step hands out what it collected.
func TestScheduledRecycle(t *testing.T) {
	w := onRedis(t, "sqlite", 2)
	b := w.create(promo("sale", 1000, 4))
	w.useMuch(b, 1)
	due := w.db.Now().Add(time.Second)
	set := transfer.Settings{Recycle: transfer.RecycleSettings{StrandedShare: 1,
		Next: func(after time.Time) time.Time {
			if after.Before(due) {
				return due
			}
			return after.Add(time.Hour)
		}}}
	var nodes []transfer.Loop
	for range 2 {
		for _, l := range w.moves.Loops(set) {
			if l.Name == "recycle" {
				nodes = append(nodes, l)
			}
		}
	}
	for range 2 {
		for _, l := range nodes {
			w.ok(l.RunOnce(t.Context()))
		}
		w.clock.Advance(time.Minute)
	}
	history, err := w.moves.Recycles(t.Context(), ref(b), 0, 10)
	if err != nil || len(history) != 1 || history[0].Cause != bucket.OnSchedule || history[0].Moved == 0 {
		t.Fatalf("%+v, %v", history, err)
	}
	part := transfer.NewLedger(w.db)
	want := transfer.Recycling{Cause: bucket.OnSchedule, Since: due, BeganAt: due}
	first, err := part.Collect(t.Context(), w.read(b.ID), want)
	if err != nil || first.Found == nil || *first.Found != history[0] || len(first.Tell) > 0 {
		t.Errorf("%+v, %v", first, err)
	}
	bk := b.Buckets[2].ID
	w.ok(w.part.Close(t.Context(), b.ID, bk))
	if _, err := w.node.Tell(t.Context(), []int64{bk}); err != nil {
		t.Fatal(err)
	}
	if got := w.books(b.ID); got.U == 0 {
		t.Fatalf("%+v", got)
	}
	_, last, err := part.Recycle(t.Context(), w.read(b.ID), want)
	if err != nil || last.Began || last.Run != history[0] {
		t.Errorf("%+v, %v", last, err)
	}
	w.settled(b, books{T: 1000, O: 899, S: 101})
}
