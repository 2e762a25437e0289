package counter_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore/faultstore"
	"github.com/budgetd/budgetd/ledger"
)

func ref(b *bucket.Budget) bucket.BudgetRef { return bucket.BudgetRef{ID: b.ID} }

// TestLateSumIsSyncedOnce checks that each of two rollbacks after the end of their epoch moves its
// own units.
func TestLateSumIsSyncedOnce(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(promo("sale", 100, 2))
		id := name(0)
		w.deduct(b, id, 10)
		_, err := w.moves.Offline(w.Context(), ref(b), b.Home(id).Key)
		w.ok(err)
		w.rollback(b, id, "one", 4)
		w.rollback(b, id, "two", 2)
		if got, want := w.books(b.ID), (books{T: 100, U: 40, O: 50, S: 4, R: 6}); got != want {
			w.Errorf("%+v, want %+v", got, want)
		}
	})
}

// TestOffline checks that a bucket that an operator takes offline returns its units, answers
// repeats and refuses new requests, and that it comes back with its share.
func TestOffline(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(promo("sale", 100, 2))
		id := name(0)
		home := b.Home(id)
		w.deduct(b, id, 10)
		v, err := w.moves.Offline(w.Context(), ref(b), home.Key)
		w.ok(err)
		if v.Online || v.Epoch.Status != ledger.Closed || v.Remaining != 0 {
			w.Errorf("offline: %+v", v)
		}
		w.settled(b, books{T: 100, U: 40, O: 50, S: 10})
		_ = w.read(b.ID)
		if again := w.deduct(b, id, 10); !again.Replayed {
			w.Errorf("replay: %+v", again)
		}
		var other string
		for i := 1; other == ""; i++ {
			if b.Home(name(i)).ID == home.ID {
				other = name(i)
			}
		}
		if e := w.refused(b, other, 1, budget.Unavailable); e.Reason != budget.ReasonOffline {
			w.Errorf("reason %q", e.Reason)
		}
		last := &b.Buckets[1-home.Ordinal]
		if _, err := w.moves.Offline(w.Context(), ref(b), last.Key); !budget.Is(err, budget.LastBucket) {
			w.Errorf("the last bucket: %v", err)
		}
		if got := w.rollback(b, id, "part", 4); got.RolledBack != 4 {
			w.Errorf("rollback: %+v", got)
		}
		if got, want := w.books(b.ID), (books{T: 100, U: 40, O: 50, S: 6, R: 4}); got != want {
			w.Errorf("late sum: %+v, want %+v", got, want)
		}
		v, err = w.moves.Online(w.Context(), ref(b), home.Key)
		w.ok(err)
		if !v.Online || v.Epoch.Status != ledger.Open || v.Epoch.Number != 2 || v.Remaining == 0 {
			w.Errorf("online: %+v", v)
		}
		w.deduct(b, other, 1)
		if again := w.deduct(b, id, 10); !again.Replayed {
			w.Errorf("replay in the next epoch: %+v", again)
		}
		w.run("store sync")
		w.books(b.ID)
	})
}

// TestOnlineSpreads checks that a bucket that comes online, like one of ledger mode, leaves nothing
// in U: the shares of buckets do not depend on the order of two calls.
func TestOnlineSpreads(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(promo("sale", 100, 4))
		for _, bk := range b.Buckets[:2] {
			_, err := w.moves.Offline(w.Context(), ref(b), bk.Key)
			w.ok(err)
		}
		w.settled(b, books{T: 100, U: 50, O: 50})
		_, err := w.moves.Online(w.Context(), ref(b), b.Buckets[0].Key)
		w.ok(err)
		w.settled(b, books{T: 100, O: 100})
		for _, bk := range w.read(b.ID).Buckets {
			if o, want := bk.Epoch.Outstanding, []int64{17, 0, 42, 41}[bk.Ordinal]; o != want {
				w.Errorf("bucket %d has %d, want %d", bk.Ordinal, o, want)
			}
		}
		_, err = w.moves.Online(w.Context(), ref(b), b.Buckets[0].Key)
		w.ok(err)
		w.settled(b, books{T: 100, O: 100})
	})
}

// TestCancel checks that a cancel returns what is left, or keeps a late deduction from taking
// effect.
func TestCancel(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		b := w.create(promo("sale", 100, 1))
		cancel := func(id string) (bucket.DeductionView, error) {
			return w.node.Cancel(w.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: id})
		}
		w.deduct(b, "done", 10)
		w.rollback(b, "done", "part", 3)
		v, err := cancel("done")
		w.ok(err)
		if v.State != ledger.StateRolledBack || v.RolledBack != 10 {
			w.Errorf("cancelled: %+v", v)
		}
		_, err = w.node.Rollback(w.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "done",
			RollbackID: "more", Amount: 1})
		if !budget.Is(err, budget.AlreadyRolledBack) {
			w.Errorf("rollback after it: %v", err)
		}
		for replayed := range 2 { // nothing was lost before the partition's first memory
			v, err := cancel("none")
			w.ok(err)
			if v.State != ledger.StateVoid || v.Replayed != (replayed == 1) {
				w.Errorf("cancelled before: %+v", v)
			}
		}
		w.refused(b, "none", 1, budget.RequestVoid)
		w.settled(b, books{T: 100, O: 100})
	})
}

// TestCancelAfterALoss checks that an id without a record stays unclear, however often it is
// cancelled, if an earlier memory may have had one.
func TestCancelAfterALoss(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 1))
	w.deduct(b, "lost", 5)
	w.flush(0)
	_ = w.try("store sync") // the partition is verified again
	w.run("store sync")
	r := bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "lost"}
	unclear := func(when string) {
		w.Helper()
		for call, do := range map[string]func(context.Context, bucket.RollbackRequest) (
			bucket.DeductionView, error){"cancel": w.node.Cancel, "rollback": w.node.Rollback,
			"read": w.node.Deduction} {
			if v, err := do(t.Context(), r); !budget.Is(err, budget.OutcomeUnknown) {
				w.Errorf("%s %s: %+v, %v", call, when, v, err)
			}
		}
	}
	unclear("at once")
	unclear("again")
	w.refused(b, "lost", 5, budget.RequestVoid)
	w.age(11 * time.Minute) // the memory is as old as the record window, and has the record
	unclear("later")
	r.RequestID = "new"
	if v, err := w.node.Cancel(t.Context(), r); err != nil || v.State != ledger.StateVoid {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestLookup checks that a record can be read by key or receipt.
func TestLookup(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 4))
	a, err := w.node.Deduct(t.Context(), bucket.DeductRequest{Budget: ref(b), RequestID: "r",
		Amount: 5,
		Key:    "user-1"})
	w.ok(err)
	for _, r := range []bucket.RollbackRequest{{Key: "user-1"}, {Receipt: a.Receipt}} {
		r.Budget, r.RequestID = ref(b), "r"
		v, err := w.node.Deduction(t.Context(), r)
		w.ok(err)
		if v.Amount != 5 || v.State != ledger.StateUsed || v.Receipt != a.Receipt ||
			v.Bucket != a.Bucket {
			t.Errorf("%+v", v)
		}
	}
	w.age(11 * time.Minute)
	_, err = w.node.Deduction(t.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "other"})
	if !budget.Is(err, budget.DeductionNotFound) {
		t.Error(err)
	}
	_, err = w.node.Deduction(t.Context(), bucket.RollbackRequest{Budget: ref(b), RequestID: "r",
		Receipt: "9999.1"})
	if !budget.Is(err, budget.Invalid) {
		t.Error(err)
	}
}

// TestRelease checks that an operator's decision releases quarantined units, once per request id.
func TestRelease(t *testing.T) {
	for _, driver := range []string{"sqlite", "mariadb"} {
		t.Run(driver, func(t *testing.T) {
			w := onServers(t, driver, 1)
			b := w.create(promo("sale", 100, 2))
			w.deduct(b, "one", 20)
			w.run("store sync")
			w.ok(w.servers[0].RestartEmpty())
			_ = w.try("store sync")
			w.settled(b, books{T: 100, S: 20, Q: 80})
			list, err := w.node.Quarantines(t.Context(), ref(b))
			w.ok(err)
			if len(list) != 2 || list[0].Held()+list[1].Held() != 80 ||
				!strings.HasSuffix(list[0].Cause, "; noticed by node node-1") {
				t.Errorf("%+v", list)
			}
			release := func(id string, quantity int64, used bool, want budget.Code) bucket.ReleaseAnswer {
				t.Helper()
				a, err := w.node.Release(t.Context(), bucket.ReleaseRequest{Budget: ref(b), RequestID: id,
					Quantity: quantity, Reason: "counted", By: "ann", Used: used})
				if budget.CodeOf(err) != want {
					t.Fatal(err)
				}
				return a
			}
			if a := release("r1", 60, true, ""); a.Released != 60 || a.Quarantined != 20 || a.Replayed {
				t.Errorf("%+v", a)
			}
			if a := release("r1", 60, true, ""); a.Released != 60 || !a.Replayed {
				t.Errorf("%+v", a)
			}
			release("r1", 60, false, budget.RequestConflict)
			release("r2", 21, false, budget.AmountExceedsRemaining)
			release("r3", 0, false, "")
			w.settled(b, books{T: 100, U: 20, S: 80})
			list, err = w.node.Quarantines(t.Context(), ref(b))
			w.ok(err)
			released := map[string]int64{}
			for _, q := range list {
				for _, r := range q.Releases {
					released[fmt.Sprint(r.RequestID, " ", r.Used, " ", r.By, " ", r.Reason)] += r.Quantity
					if r.At.IsZero() {
						t.Errorf("%+v", r)
					}
				}
			}
			if want := map[string]int64{"r1 true ann counted": 60, "r3 false ann counted": 20}; !maps.Equal(released, want) {
				t.Errorf("decisions: %v, want %v", released, want)
			}
			w.deduct(b, "two", 20)
			w.refused(b, "three", 1, budget.BudgetExhausted)
		})
	}
}

// TestStoreDown checks that the buckets of a store that is down are unavailable, with the reason,
// and that the others continue.
func TestStoreDown(t *testing.T) {
	w := onServers(t, "sqlite", 1)
	server := w.servers[0]
	b := w.create(promo("sale", 100, 1))
	w.deduct(b, "one", 1)
	w.ok(server.Kill())
	for i := range 3 {
		_, err := w.node.Deduct(t.Context(), request(b, name(i), 1))
		if kind := budget.CodeOf(err).Kind(); kind != budget.NotDone && kind != budget.MayBeDone {
			t.Fatal(err)
		}
	}
	if e := w.refused(b, "later", 1, budget.Unavailable); e.Reason != budget.ReasonStoreDown {
		t.Errorf("reason %q: %v", e.Reason, e)
	}
	w.ok(server.Restart())
	var err error
	for range 100 {
		if _, err = w.node.Deduct(t.Context(), request(b, "again", 1)); !budget.Is(err,
			budget.Unavailable) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !budget.Is(err, budget.BudgetExhausted) {
		t.Error(err) // it came back without its memory: all of it is in quarantine
	}
	if got := w.books(b.ID); got.Q != 100 && got.Q != 99 {
		t.Errorf("%+v", got)
	}
}

// TestUnansweredPush checks that a deduction that needs units of another bucket is told that a store
// does not answer, whether or not the store did what it was asked for.
func TestUnansweredPush(t *testing.T) {
	for _, fault := range []faultstore.Fault{faultstore.LoseCall, faultstore.LoseReply} {
		w := onRedis(t, "sqlite", 2)
		b := w.create(promo("sale", 100, 2))
		w.deduct(b, "one", 1)
		w.network.Inject(func(op string, _ bucket.Partition) faultstore.Fault {
			if op == "deduct" {
				return faultstore.None
			}
			return fault
		})
		e := w.refused(b, "two", 60, budget.Unavailable)
		if e.Reason != budget.ReasonStoreDown || !strings.Contains(e.Message, "store") ||
			!strings.Contains(e.Message, "repeat") || e.RetryAfter <= 0 {
			t.Errorf("fault %d: reason %q, retry after %s: %s", fault, e.Reason, e.RetryAfter, e.Message)
		}
		w.network.Inject(nil)
		w.run("store epochs")
		w.deduct(b, "two", 60)
		w.run("store sync")
		if got := w.books(b.ID); got.S != 61 || got.U+got.O != 39 {
			t.Errorf("%+v", got)
		}
	}
}

// TestSkew checks that a partition whose clock differs from SQL's is unavailable.
func TestSkew(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 1))
	other, _ := w.newNode(func(c *counter.Config) {
		c.Now = func() time.Time { return w.db.Now().Add(-1500 * time.Millisecond) }
	})
	_, err := other.Deduct(t.Context(), request(b, "one", 1))
	if !budget.Is(err, budget.Unavailable) {
		t.Error(err)
	}
	w.deduct(b, "one", 1)
}
