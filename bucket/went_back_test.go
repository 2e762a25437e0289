package bucket_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestRedisWentBackUnnoticed: a Redis goes back to what it had saved, or becomes empty, and keeps its run id, its
// connections and its scripts. Its buckets are replaced, every id that was accepted is known still, and all that
// is left is sold, once.
func TestRedisWentBackUnnoticed(t *testing.T) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		for _, event := range [][]string{{"DEBUG", "RELOAD", "NOSAVE"}, {"FLUSHALL"}} {
			t.Run(fmt.Sprint(durability, " ", event), func(t *testing.T) { redisWentBack(t, durability, event) })
		}
	}
}

func redisWentBack(t *testing.T, durability budget.Durability, event []string) {
	server := testservers.Redis(t, testservers.RedisArgs("--enable-debug-command", "yes"))
	db := openSQL(t, "sqlite", filepath.Join(t.TempDir(), "budgetd.db"))
	w := &world{t: t, sql: db, durability: durability, connect: func() map[string]bucket.Instance {
		store, err := redisstore.New(redisstore.Config{Name: "redis", Addr: server.Addr(), Lanes: 1,
			InstallationID: db.InstallationID()})
		if err != nil {
			t.Fatal(err)
		}
		return map[string]bucket.Instance{"redis": store}
	}}
	s := w.node(storeQuick())
	ref := w.create(s, promo("back", 1000, 3))
	sell := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := again(s, ref, fmt.Sprint("o", i), 1); err != nil {
				t.Fatalf("o%d: %v", i, err)
			}
		}
	}
	identity := func() (string, int64) {
		t.Helper()
		who, err := w.connect()["redis"].Identity(t.Context(), bucket.Lane{Instance: "redis"})
		if err != nil {
			t.Fatal(err)
		}
		lane, err := db.Lane(t.Context(), bucket.Lane{Instance: "redis"}, who)
		if err != nil {
			t.Fatal(err)
		}
		return who, lane.Activation
	}
	command := func(words ...string) {
		t.Helper()
		if _, err := server.Command(words...); err != nil {
			t.Fatal(err)
		}
	}
	sell(0, 30)
	w.settled(s, ref, 30)
	command("SAVE")
	sell(30, 50)
	w.settled(s, ref, 50)
	who, activation := identity()
	command(event...)
	sell(50, 51)
	w.settled(s, ref, 51)
	if now, next := identity(); now != who || next <= activation {
		t.Errorf("identity %q and activation %d, before %q and %d", now, next, who, activation)
	}
	for i := range 51 {
		if a, err := again(s, ref, fmt.Sprint("o", i), 1); err != nil || !a.Replayed {
			t.Errorf("o%d again: %+v, %v", i, a, err)
		}
	}
	if _, err := again(s, ref, "the rest", 949); err != nil {
		t.Errorf("the rest: %v", err)
	}
	if _, err := again(s, ref, "one more", 1); !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("one more: %v", err)
	}
	w.settled(s, ref, 1000)
}
