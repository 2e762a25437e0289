package hold_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// TestLostReplies checks that orders whose replies are lost, including that of COMMIT, are done
// once, and that an order done by an earlier attempt of its own call is no replay.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	server := testservers.SharedMariaDB(t)
	dsn := server.NewDatabase(t)
	proxy := testservers.NewProxy(t, server.Addr())
	disturbed := strings.Replace(dsn, server.Addr(), proxy.Addr(), 1)
	if disturbed == dsn {
		t.Fatalf("%s does not name %s", dsn, server.Addr())
	}
	fixture.On(t, engine.Config{Driver: "mysql", DSN: dsn}, func(fw *fixture.World) {
		db, err := engine.Open(t.Context(), engine.Config{Driver: "mysql", DSN: disturbed,
			Clock: fw.Clock.Now})
		fw.OK(err)
		defer db.Close()
		w := &world{fw, hold.NewLedger(db)}
		b := w.Create("b", 10_000, 2)
		const n = 40
		for i := range n {
			w.hold(b.Buckets[i%2], fmt.Sprint("order-", i), fmt.Sprint("g", i%3), 10, time.Hour)
		}
		unknown := 0
		for i := range n {
			o := hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: fmt.Sprint("order-", i), Amount: 4}
			if i%2 == 0 {
				o = hold.Order{Kind: hold.Confirm, Budget: b.ID, RequestID: o.RequestID, Amount: 6}
			}
			// One statement loses its reply: a different one in each order, sometimes COMMIT.
			w.OK(proxy.Set(testservers.Rule{Disturbance: testservers.CutReply, OneIn: 16}))
			for range i / 2 % 16 {
				_, err := w.part.OpenHolds(w.Ctx, 1)
				w.OK(err)
			}
			for again := false; ; again = true {
				got, err := w.part.Execute(w.Ctx, []hold.Order{o})
				if budget.CodeOf(err) == budget.OutcomeUnknown || budget.CodeOf(err) == budget.Unavailable {
					unknown++
					continue
				}
				w.OK(err)
				w.OK(got[0].Err)
				if got[0].Replayed && !again {
					t.Errorf("order %d is a replay of itself", i)
				}
				equal(w, "rolled back", got[0].Deduction.RolledBack, 4)
				break
			}
		}
		w.OK(proxy.Set(testservers.Rule{Disturbance: testservers.Pass}))
		t.Logf("%d calls without an answer", unknown)
		w.columns(b.Buckets[0], 1, 4880, 0, 120, 0)
		w.columns(b.Buckets[1], 1, 4880, 120, 0, 0)
		for _, id := range b.Buckets {
			equal(w, "next entry", w.Newest(id).NextEntry, n+1)
		}
	})
}
