package counter_test

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore/faultstore"
	"github.com/budgetd/budgetd/ledger"
)

// TestGiveUp gives up a partition that does not come back. What its bucket held is quarantined or
// returned, as the budget says, and the bucket moves to the other partition and serves there. A
// store that comes back later sells none of it.
func TestGiveUp(t *testing.T) {
	for _, driver := range []string{"sqlite", "mariadb"} {
		for _, onLoss := range []budget.OnLoss{budget.Quarantine, budget.AssumeUnused} {
			t.Run(fmt.Sprint(driver, "/", onLoss), func(t *testing.T) { giveUp(t, driver, onLoss) })
		}
	}
}

func giveUp(t *testing.T, driver string, onLoss budget.OnLoss) {
	w := onRedis(t, driver, 2)
	d := promo("sale", 100, 2)
	d.OnLoss = onLoss
	b := w.create(d)
	dead, other := w.partitions[0], w.partitions[1]
	ids := idsOn(w, b, 0, 2)
	w.deduct(b, ids[0], 20)
	w.settled(b, books{T: 100, O: 80, S: 20})
	w.network.Inject(func(_ string, partition bucket.Partition) faultstore.Fault {
		if partition == dead {
			return faultstore.LoseCall
		}
		return faultstore.None
	})
	given, err := w.node.GiveUp(w.Context(), []bucket.Partition{dead})
	w.ok(err)
	want, out := books{T: 100, O: 50, S: 20, Q: 30}, bucket.GivenUp{Quarantined: 30}
	if onLoss == budget.AssumeUnused {
		want, out = books{T: 100, O: 50, S: 20, U: 30}, bucket.GivenUp{Returned: 30}
	}
	if got := w.books(b.ID); got != want || given != out {
		w.Fatalf("%+v, %+v; want %+v, %+v", got, given, want, out)
	}
	bk := b.Home(ids[0])
	w.ok(w.node.Move(w.Context(), b.ID, bk.ID, other)) // the dead one is not asked
	w.network.Inject(nil)
	w.run("store sync")
	w.run("store epochs")
	b = w.read(b.ID)
	if got := b.Home(ids[1]); got.Partition != other || got.Epoch.Status == ledger.Lost && onLoss == budget.AssumeUnused {
		w.Errorf("%+v", got)
	}
	w.deduct(b, ids[1], 25) // collected from the other bucket, or applied for
	w.run("store sync")
	if got := w.books(b.ID); got.S != 45 || got.Q != want.Q {
		w.Errorf("%+v", got)
	}
	w.refused(b, ids[0]+"-all", 81-want.Q, budget.BudgetExhausted)
}
