package hold_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// TestRandomReturns deducts, holds and gives back at random, also in batches and groups, while
// epochs end and holds expire: one call after the other with a full recount after each few, then
// eight callers at once.
func TestRandomReturns(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const alone, each = 160, 40
		r := &randomCalls{world: w, b: w.Create("b", 1_000_000, 3)}
		seed := rand.Uint64()
		w.Logf("seed %d", seed)
		alike := rand.New(rand.NewPCG(seed, 0))
		for i := range alone {
			r.call(alike)
			if i%8 == 0 {
				r.recount()
			}
		}
		together(racers, func(i int) {
			draw := rand.New(rand.NewPCG(seed, uint64(i+1)))
			for range each {
				r.call(draw)
			}
		})
		r.recount()
	})
}

type randomCalls struct {
	*world
	b  fixture.Budget
	id atomic.Int64
}

func (r *randomCalls) call(draw *rand.Rand) {
	id := r.b.Buckets[draw.IntN(3)]
	name := func() string { return fmt.Sprint("r", draw.Int64N(r.id.Load()+2)) }
	group := fmt.Sprint("g", r.id.Load()/30)
	var err error
	switch n := draw.IntN(16); {
	case n < 6:
		d := fixture.Deduction{Bucket: id, ID: fmt.Sprint("r", r.id.Add(1)), Amount: 1 + draw.Int64N(9)}
		if draw.IntN(3) > 0 {
			d.Hold, d.Group = time.Duration(1+draw.IntN(20))*time.Second, []string{"", group}[draw.IntN(2)]
		}
		_ = r.TryDeduct(d) // refused if its group is closed, or its epoch has just ended
	case n < 11:
		orders := make([]hold.Order, 1+draw.IntN(6))
		for i := range orders {
			orders[i] = hold.Order{Budget: r.b.ID, RequestID: name(), Amount: draw.Int64N(6), TTL: time.Minute,
				Kind:       []hold.Kind{hold.Rollback, hold.Rollback, hold.Confirm, hold.Extend, hold.Cancel}[draw.IntN(5)],
				RollbackID: []string{"", "a", "b"}[draw.IntN(3)]}
		}
		_, err = r.part.Execute(r.Ctx, orders)
	case n < 13:
		_, err = r.part.ExecuteGroup(r.Ctx, hold.GroupOrder{Budget: r.b.ID, Group: group, TTL: time.Minute,
			Kind: []hold.Kind{hold.Rollback, hold.Confirm, hold.Extend}[draw.IntN(3)]})
		switch budget.CodeOf(err) { // Unavailable: it lost eight races for the same rows
		case budget.DeductionNotFound, budget.NotHeld, budget.HoldExpired, budget.Unavailable:
			err = nil
		}
	case n < 15:
		r.Clock.Advance(time.Second)
		_, err = r.part.ExpireHolds(r.Ctx, 7, 0)
	default:
		err = r.Renew(r.b, id)
	}
	if err != nil {
		r.Errorf("%v", err)
	}
}

// recount compares the accounts and the feed with the rows.
func (r *randomCalls) recount() {
	r.Helper()
	r.Check()
	ids := make([]bucket.ID, r.id.Load())
	for i := range ids {
		ids[i] = bucket.ID{Budget: r.b.ID, RequestID: fmt.Sprint("r", i+1)}
	}
	known, err := r.part.Recorded(r.Ctx, ids)
	r.OK(err)
	back, deducted := map[string]int64{}, map[string]int64{} // in the feed
	for _, id := range r.b.Buckets {
		var found []struct {
			First   int64  `db:"first_entry"`
			Entries int64  `db:"entries"`
			Body    string `db:"body"`
		}
		r.OK(r.DB.Read(r.Ctx, "feed", func(read *engine.Reader) error {
			found = nil
			return read.List(&found, `SELECT first_entry, entries, body FROM feed WHERE bucket_id = ?
				ORDER BY first_entry`, id)
		}))
		next := int64(1)
		for _, f := range found {
			entries, err := ledger.ReadFeed(f.Body)
			r.OK(err)
			if f.First != next || len(entries) != int(f.Entries) {
				r.Fatalf("bucket %d: entries from %d follow %d", id, f.First, next-1)
			}
			next += f.Entries
			for _, e := range entries {
				switch e.Kind {
				case ledger.FeedDeduct:
					deducted[e.RequestID] += e.Amount
				case ledger.FeedRollback, ledger.FeedExpire:
					back[e.RequestID] += e.Amount
				}
			}
		}
		equal(r.world, "next entry", r.Newest(id).NextEntry, next)
	}
	for _, d := range known {
		if d.State == ledger.StateVoid {
			continue
		}
		got := back[d.RequestID]
		if d.Confirmed > 0 { // what a confirm gave back is not in its entry
			got = d.RolledBack
		}
		if d.RolledBack > d.Amount || deducted[d.RequestID] != d.Amount || got != d.RolledBack {
			r.Errorf("%+v: the feed has %d, and %d given back", d, deducted[d.RequestID], got)
		}
	}
}
