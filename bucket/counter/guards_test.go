package counter_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// memory is the partition's memory as SQL knows it.
func (w *world) memory(index int) bucket.Memory {
	w.Helper()
	row, err := w.part.Partition(w.Context(), w.partitions[index])
	w.ok(err)
	return row.Memory()
}

// write runs a statement.
func (w *world) write(query string, args ...any) {
	w.Helper()
	w.ok(w.db.Write(w.Context(), "test", func(t *engine.Tx) error {
		_, err := t.Exec(query, args...)
		return err
	}))
}

// halted returns why the only bucket of a budget was stopped.
func (w *world) halted(b *bucket.Budget) string {
	w.Helper()
	return w.read(b.ID).Buckets[0].Epoch.Halted
}

// TestMoreThanWasGranted checks that a store that took more than SQL has granted is not believed:
// its bucket is halted, and SQL's columns stay.
func TestMoreThanWasGranted(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 1))
	_, err := w.part.Record(t.Context(), w.memory(0), []bucket.Sum{{Bucket: b.Buckets[0].ID,
		Epoch: b.Buckets[0].Epoch.Number, Verdict: bucket.Accepted, Taken: 101}})
	w.ok(err)
	if w.halted(b) == "" {
		t.Error("the bucket goes on")
	}
	if e := w.read(b.ID).Buckets[0].Epoch; e.Outstanding != 100 || e.Used != 0 {
		t.Errorf("O %d S %d", e.Outstanding, e.Used)
	}
}

// TestBalanceAtClose checks that an epoch ends only if the store's balance and undelivered grants
// equal SQL's. Otherwise the bucket is halted and its units stay.
func TestBalanceAtClose(t *testing.T) {
	for _, test := range []struct {
		name                    string
		taken, balance, pending int64
		ends                    bool
	}{
		{"all there", 10, 90, 0, true},
		{"a unit too few", 10, 89, 0, false},
		{"a unit too many", 10, 91, 0, false},
		{"a grant on its way", 10, 80, 10, true},
		{"a grant on its way and too much", 10, 90, 10, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := onRedis(t, "sqlite", 1)
			b := w.create(promo("sale", 100, 1))
			e := b.Buckets[0].Epoch
			w.write(`UPDATE bucket_epoch SET status = 'closing' WHERE bucket_id = ?`, e.Bucket)
			if test.pending > 0 {
				w.write(`UPDATE grant_log SET amount = ? WHERE bucket_id = ?`, 100-test.pending, e.Bucket)
				w.write(`INSERT INTO grant_log (bucket_id, epoch, number, budget_id, kind, amount, status,
					created_at) VALUES (?, ?, ?, ?, 'apply', ?, 'pending', 1)`, e.Bucket, e.Number,
					e.NextGrant, b.ID, test.pending)
			}
			_, err := w.part.Settle(t.Context(), []store.Told{{Memory: w.memory(0),
				Closings: []store.Closing{{Ref: b.Buckets[0].Ref(),
					Entry: bucket.Entry{Verdict: bucket.Accepted, Epoch: e.Number, Taken: test.taken,
						Balance: test.balance, LastGrant: e.NextGrant - 1}}}}}, -1)
			w.ok(err)
			now := w.read(b.ID).Buckets[0].Epoch
			if ended := now.Status == ledger.Closed; ended != test.ends || ended == (now.Halted != "") {
				t.Fatalf("status %s, halted %q", now.Status, now.Halted)
			}
			if !test.ends && now.Outstanding != 100 {
				t.Errorf("O is %d", now.Outstanding)
			}
			if test.ends {
				if got, want := w.books(b.ID), (books{T: 100, U: 90, S: 10}); got != want {
					t.Errorf("%+v, want %+v", got, want)
				}
			}
		})
	}
}

// TestIncarnationBegunOnce checks that of two nodes that find the same loss, one begins the next
// incarnation.
func TestIncarnationBegunOnce(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	row, err := w.part.Partition(t.Context(), w.partitions[0])
	w.ok(err)
	next := row
	next.Incarnation, next.Since = row.Incarnation+1, row.Incarnation+1
	for i, want := range []bool{true, false} {
		made, err := w.part.BeginIncarnation(t.Context(), row.Incarnation, next, "test")
		if err != nil || made != want {
			t.Errorf("attempt %d: %v, %v", i, made, err)
		}
	}
}

// TestAnswersOfAnOlderMemory checks that answers of an earlier memory change nothing once SQL has
// given that memory up.
func TestAnswersOfAnOlderMemory(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 1))
	e, older := b.Buckets[0].Epoch, w.memory(0)
	row, err := w.part.Partition(t.Context(), w.partitions[0])
	w.ok(err)
	next := row
	next.Incarnation, next.Since = row.Incarnation+1, row.Incarnation+1
	made, err := w.part.BeginIncarnation(t.Context(), row.Incarnation, next, "test")
	if err != nil || !made {
		t.Fatal(made, err)
	}
	sums := []bucket.Sum{{Bucket: e.Bucket, Epoch: e.Number, Verdict: bucket.Accepted, Taken: 10}}
	for _, m := range []bucket.Memory{older, next.Memory()} {
		_, err := w.part.Record(t.Context(), m, sums)
		if m == older && err == nil {
			t.Error("the older memory was believed")
		}
		if now := w.read(b.ID).Buckets[0].Epoch; now.Used != 0 {
			t.Errorf("S is %d", now.Used)
		}
	}
}

// TestRollbackAmounts checks that a rollback returns what was asked for, once per rollback id and
// never more than is left, and that a contradicting one is refused.
func TestRollbackAmounts(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		b := w.create(promo("sale", 100, 1))
		w.deduct(b, "a", 30)
		_, _ = w.node.Cancel(w.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "void"})
		for i, test := range []struct {
			request, id  string
			amount       int64
			code         budget.Code
			back, budget int64
			replayed     bool
		}{
			{"a", "r1", 7, "", 7, 77, false},
			{"a", "r1", 7, "", 7, 77, true},
			{"a", "r1", 8, budget.RequestConflict, 0, 77, false},
			{"a", "r2", 24, budget.AmountExceedsRemaining, 0, 77, false},
			{"a", "r3", 13, "", 20, 90, false},
			{"a", "r4", 0, "", 30, 100, false},
			{"a", "r4", 0, "", 30, 100, true},
			{"a", "r5", 0, budget.AlreadyRolledBack, 0, 100, false},
			{"a", "r1", 7, "", 30, 100, true},
			{"void", "r1", 1, budget.RequestVoid, 0, 100, false},
		} {
			v, err := w.node.Rollback(w.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b),
				RequestID: test.request, RollbackID: test.id, Amount: test.amount})
			if budget.CodeOf(err) != test.code || err == nil && (v.RolledBack != test.back ||
				v.Replayed != test.replayed) {
				w.Errorf("%d: %+v, %v; want %+v", i, v, err, test)
			}
			// It is answered once SQL has it: no sync is needed to see the units (I3).
			if got, want := w.books(b.ID), (books{T: 100, O: test.budget, S: 100 - test.budget}); got != want {
				w.Errorf("%d: %+v, want %+v", i, got, want)
			}
		}
	})
}

// TestOwnRollbackIsNoReplay checks that a rollback or cancel that the service repeats because SQL
// did not have it is not shown as done by an earlier call.
func TestOwnRollbackIsNoReplay(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		var failures atomic.Int32
		node, _ := w.newNode(func(*counter.Config) {})
		node.FailRecords(&failures, func() {})
		b := w.create(promo("sale", 100, 1))
		w.deduct(b, "a", 30)
		for i, call := range []func(context.Context, bucket.RollbackRequest) (
			bucket.DeductionView, error){node.Rollback, node.Cancel} {
			for again := range 2 {
				failures.Store(int32(2 - 2*again))
				r := bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "a"}
				if i == 0 {
					r.RollbackID, r.Amount = "part", 10
				}
				v, err := call(t.Context(), r)
				if err != nil || v.Replayed != (again == 1) ||
					again == 0 && failures.Load() >= 0 {
					w.Errorf("call %d, time %d: %+v, %v", i, again+1, v, err)
				}
			}
		}
		w.settled(b, books{T: 100, O: 100})
	})
}

// TestOwnRollbackShowsItsOwnEffect checks that a rollback that the service repeats because SQL did
// not have it answers what it did, and not what another call has given back since.
func TestOwnRollbackShowsItsOwnEffect(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		b := w.create(promo("sale", 100, 1))
		w.deduct(b, "a", 30)
		r := bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "a", RollbackID: "part",
			Amount: 10}
		var failures atomic.Int32
		failures.Store(1)
		node, _ := w.newNode(func(*counter.Config) {})
		node.FailRecords(&failures, func() {
			_, err := w.node.Cancel(t.Context(), r)
			w.ok(err)
		})
		v, err := node.Rollback(t.Context(), r)
		if w.ok(err); v.RolledBack != 10 || v.State != ledger.StateUsed || v.Replayed {
			w.Errorf("%+v", v)
		}
		if v, err = node.Rollback(t.Context(), r); err != nil || v.RolledBack != 30 || !v.Replayed {
			w.Errorf("repeated: %+v, %v", v, err)
		}
		w.settled(b, books{T: 100, O: 100})
	})
}

// TestLateUnitsAreInTheSum checks that a rollback or cancel is answered after SQL has its units, also
// if the store has closed the epoch and SQL does not know that yet: the node that closed it was slow.
func TestLateUnitsAreInTheSum(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		b := w.create(promo("sale", 100, 1))
		w.deduct(b, "a", 30)
		w.deduct(b, "b", 20)
		w.settled(b, books{T: 100, O: 50, S: 50})
		for i, call := range []func() (bucket.DeductionView, error){
			func() (bucket.DeductionView, error) {
				return w.node.Rollback(w.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "a"})
			},
			func() (bucket.DeductionView, error) {
				return w.node.Cancel(w.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "b"})
			},
		} {
			donors, err := w.part.Collect(w.Context(), b.ID, 100)
			w.ok(err)
			var refs []bucket.Ref
			for _, bk := range w.read(b.ID).Buckets {
				if slices.Contains(donors, bk.ID) {
					refs = append(refs, bk.Ref())
				}
			}
			_, err = w.stores["m"].Close(w.Context(), w.memory(0), refs, false)
			w.ok(err)
			v, err := call()
			if err != nil || v.State != ledger.StateRolledBack {
				w.Errorf("%d: %+v, %v", i, v, err)
			}
			if used := w.books(b.ID).S; len(refs) != 1-i || used != []int64{20, 0}[i] {
				w.Errorf("%d: %d closed, %d used", i, len(refs), used)
			}
		}
	})
}
