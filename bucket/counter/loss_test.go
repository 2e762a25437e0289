package counter_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore/faultstore"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// TestLostMemory checks that what the buckets of a lost memory had is quarantined or returns to the
// total, as the budget says, and that the rest of the budget continues.
func TestLostMemory(t *testing.T) {
	for _, onLoss := range []budget.OnLoss{budget.Quarantine, budget.AssumeUnused} {
		for name, lose := range map[string]func(*world){
			"restart without data": func(w *world) { w.ok(w.servers[0].RestartEmpty()) },
			"flush":                func(w *world) { w.flush(0) },
			"restart with older":   func(w *world) { w.goBack(0, "older"); w.restart(0) },
			"older in the process": func(w *world) { w.goBack(0, "older") },
			"restart with all":     func(w *world) { w.restart(0) },
		} {
			t.Run(string(onLoss)+"/"+name, func(t *testing.T) {
				w := onServers(t, "sqlite", 2)
				d := promo("sale", 100, 2)
				d.OnLoss = onLoss
				b := w.create(d)
				w.remember(0, "older")
				on0 := idsOn(w, b, 0, 3)
				w.deduct(b, on0[0], 20)
				w.settled(b, books{T: 100, O: 80, S: 20})
				lose(w)
				_ = w.try("store sync")
				w.run("store sync")
				want := books{T: 100, O: 50, S: 20, Q: 30}
				if onLoss == budget.AssumeUnused {
					want = books{T: 100, O: 50, S: 20, U: 30}
				}
				if name == "older in the process" {
					// The changed set is as old: nothing shows that counters are below SQL's until the
					// bucket changes.
					w.deduct(b, on0[1], 1)
					_ = w.try("store sync")
					w.run("store sync")
				}
				w.settled(b, want)
				w.deduct(b, on0[2], 25)
				if got := w.books(b.ID); got.Q != want.Q {
					w.Errorf("%+v", got)
				}
				w.run("store sync")
				w.books(b.ID)
			})
		}
	}
}

// idsOn returns ids whose bucket is on a partition.
func idsOn(w *world, b *bucket.Budget, index, n int) (out []string) {
	for i := 0; len(out) < n; i++ {
		id := fmt.Sprintf("on-%d-%d", index, i)
		if b.Home(id).Partition == w.partitions[index] {
			out = append(out, id)
		}
	}
	return out
}

// TestUndelivered checks that a node delivers a grant that another node left undelivered when it
// stopped. SQL has given the bucket the units, its store does not have them yet, and no other units
// cover the request.
func TestUndelivered(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 99, 3))
	other, _ := w.newNode(func(*counter.Config) {})
	w.network.Inject(func(op string, _ bucket.Partition) faultstore.Fault {
		if op == "grant" {
			return faultstore.LoseCall
		}
		return faultstore.None
	})
	_, err := other.Deduct(t.Context(), request(b, "one", 90))
	if budget.CodeOf(err).Kind() != budget.NotDone {
		t.Fatalf("without grants: %v", err)
	}
	w.network.Inject(nil)
	w.deduct(b, "one", 90)
	w.settled(b, books{T: 99, O: 9, S: 90})
}

// TestLostRowAppears checks that an epoch of an older memory which only appears in SQL later, as
// after a restore, also ends, although no other memory has begun since.
func TestLostRowAppears(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 2))
	w.run("store sync")
	w.ok(w.db.Write(w.Context(), "restore", func(t *engine.Tx) error {
		_, err := t.Exec(`UPDATE bucket_epoch SET incarnation = 0 WHERE bucket_id = ?`, b.Buckets[0].ID)
		return err
	}))
	w.run("store sync")
	if got := w.books(b.ID); got.Q != 0 {
		t.Errorf("%d units in quarantine at once: the rows of all buckets were read", got.Q)
	}
	w.clock.Advance(30 * time.Second)
	w.run("store sync")
	if got := w.books(b.ID); got.Q != 50 {
		t.Errorf("%d units in quarantine after 30 s, want 50", got.Q)
	}
}

// TestLostEntry checks that a missing entry loses its epoch and no other.
func TestLostEntry(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 2))
	id := name(0)
	w.deduct(b, id, 10)
	w.settled(b, books{T: 100, O: 90, S: 10})
	w.forget(b.Home(id))
	for i := range 50 {
		if b.Home(name(1+i)).ID == b.Home(id).ID {
			w.deduct(b, name(1+i), 5)
			break
		}
	}
	w.run("store sync")
	if got := w.books(b.ID); got.Q != 40 || got.S != 15 {
		t.Errorf("%+v", got)
	}
	if again := w.deduct(b, id, 10); !again.Replayed { // its record is kept
		t.Errorf("%+v", again)
	}
}

// TestDurable checks that a durable store that comes back with its marker keeps its epochs.
func TestDurable(t *testing.T) {
	w := onServers(t, "sqlite", 1)
	w.stores["m0"].Durable = true
	b := w.create(promo("sale", 100, 1))
	w.deduct(b, "one", 10)
	w.settled(b, books{T: 100, O: 90, S: 10})
	w.remember(0, "synced") // its set of changes is empty
	w.deduct(b, "two", 10)
	w.restart(0)
	_ = w.try("store sync")
	w.settled(b, books{T: 100, O: 80, S: 20})
	if v := w.rollback(b, "one", "", 0); v.RolledBack != 10 {
		t.Errorf("%+v", v)
	}
	w.goBack(0, "synced") // below SQL's counters, and nothing in it says so
	w.restart(0)
	_ = w.try("store sync")
	w.settled(b, books{T: 100, S: 10, Q: 90})
}

// TestTwoNodes checks that a node with an older memory cannot deduct from it, and that both nodes
// verify a partition.
func TestTwoNodes(t *testing.T) {
	w := onServers(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 1))
	other, _ := w.newNode(func(*counter.Config) {})
	_, err := other.Deduct(t.Context(), request(b, "one", 1))
	w.ok(err)
	w.ok(w.servers[0].RestartEmpty())
	_ = w.try("store sync")
	w.run("store sync") // this node has given the memory up
	for i := range 20 {
		_, err := other.Deduct(t.Context(), request(b, name(i), 1))
		if err == nil {
			t.Fatal("all was quarantined, and a node deducted")
		}
		if budget.Is(err, budget.BudgetExhausted) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if got, want := w.books(b.ID), (books{T: 100, Q: 100}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestFaults loses calls and answers, delays and repeats calls, and loses memories, while two nodes
// work concurrently. I1 holds all the time and I2 at the end, and each id takes effect at most
// once.
func TestFaults(t *testing.T) {
	for seed := range uint64(6) {
		for _, losses := range []bool{false, true} {
			t.Run(fmt.Sprint(seed, losses), func(t *testing.T) { chaos(t, seed, losses) })
		}
	}
}

func chaos(t *testing.T, seed uint64, losses bool) {
	const total, ids = 300, 60
	world := onRedis
	if losses {
		world = onServers
	}
	w := world(t, "sqlite", 2)
	b := w.create(promo("sale", total, 3))
	// An id whose reply was lost waits for the whole deadline where its bucket has no more units.
	brief := func(c *counter.Config) { c.Settings.Deadline = time.Second }
	w.node, w.budgets = w.newNode(brief)
	other, _ := w.newNode(brief)
	r := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	chance := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	w.network.Inject(func(string, bucket.Partition) faultstore.Fault {
		switch chance(20) {
		case 0:
			return faultstore.LoseCall
		case 1:
			return faultstore.LoseReply
		case 2:
			return faultstore.HoldBack
		case 3:
			return faultstore.Double
		case 4:
			return faultstore.Delay
		}
		return faultstore.None
	})
	var losing sync.Mutex
	lose := func(partition int, sameProcess bool) {
		losing.Lock() // a server that restarts cannot be flushed
		defer losing.Unlock()
		if sameProcess {
			w.flush(partition)
		} else if err := w.servers[partition].RestartEmpty(); err != nil {
			t.Error(err)
		}
	}
	accepted, back, unclear := map[string]int64{}, map[string]int64{}, map[string]bool{}
	var all sync.WaitGroup
	for worker := range 4 {
		node := []*node{w.node, other}[worker%2]
		all.Go(func() {
			for range 40 {
				id := name(chance(ids))
				amount := int64(1 + len(id)%3 + int(id[len(id)-1]-'0'))
				switch chance(6) {
				case 0:
					v, err := node.Rollback(t.Context(), bucket.RollbackRequest{NoKey: true, RequestID: id,
						Budget: bucket.BudgetRef{ID: b.ID}})
					mu.Lock()
					if err == nil {
						back[id] = max(back[id], v.RolledBack)
					} else if budget.CodeOf(err).Kind() == budget.MayBeDone {
						unclear[id] = true
					}
					mu.Unlock()
				default:
					_, err := node.Deduct(t.Context(), request(b, id, amount))
					if err == nil {
						mu.Lock()
						accepted[id] = amount
						mu.Unlock()
					} else if budget.CodeOf(err).Kind() == budget.Conflict && !budget.Is(err, budget.AlreadyRolledBack) {
						t.Errorf("%s: %v", id, err)
					}
				}
				if losses && chance(60) == 0 {
					lose(chance(2), chance(2) == 0)
				}
			}
		})
	}
	stop, watch := make(chan struct{}), sync.WaitGroup{}
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			w.network.Release()
			for _, l := range []string{"store sync", "store epochs"} {
				_ = w.try(l)
			}
			w.books(b.ID)
		}
	})
	all.Wait()
	close(stop)
	watch.Wait()
	w.network.Release()
	w.network.Inject(nil)
	for range 5 {
		_ = w.try("store sync")
		_ = w.try("store epochs")
		time.Sleep(2 * time.Millisecond)
	}
	w.run("store sync")
	w.run("store epochs")
	got := w.books(b.ID)
	sold := int64(0)
	for id, units := range accepted {
		if !unclear[id] {
			sold += units - back[id]
		}
	}
	if sold > got.S+got.Q {
		t.Errorf("I2: %d were sold by the answers, %+v", sold, got)
	}
	if !losses {
		recorded := int64(0)
		for i := range ids {
			v, err := w.node.Deduction(t.Context(), bucket.RollbackRequest{NoKey: true, RequestID: name(i),
				Budget: bucket.BudgetRef{ID: b.ID}})
			if err == nil {
				recorded += v.Amount - v.RolledBack
			}
			if v.RolledBack < back[name(i)] || accepted[name(i)] > 0 && v.Amount != accepted[name(i)] {
				t.Errorf("I4, I5: %s is %+v, accepted %d, %d came back", name(i), v, accepted[name(i)],
					back[name(i)])
			}
		}
		if got.Q != 0 || recorded != got.S {
			t.Errorf("records have %d, %+v", recorded, got)
		}
	}
	t.Logf("%+v, sold %d", got, sold)
}

// TestOldEpochUnderANewMarker checks that nothing is taken from an epoch of an older memory, in
// which units are left that have been sold since. The first deduction makes the new incarnation and
// finds sums that SQL does not have (I2).
func TestOldEpochUnderANewMarker(t *testing.T) {
	w := onServers(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 1))
	w.remember(0, "older")
	w.deduct(b, "one", 60)
	w.settled(b, books{T: 100, O: 40, S: 60})
	w.goBack(0, "older")
	w.restart(0)
	w.refused(b, "two", 90, budget.BudgetExhausted)
	w.refused(b, "three", 30, budget.BudgetExhausted)
	w.settled(b, books{T: 100, S: 60, Q: 40})
}
