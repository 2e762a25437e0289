package counter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// everywhere runs a test on Redis with each SQL engine.
func everywhere(t *testing.T, partitions int, test func(w *world)) {
	for _, driver := range []string{"sqlite", "mariadb"} {
		t.Run(driver, func(t *testing.T) { test(onRedis(t, driver, partitions)) })
	}
}

// TestDeduct runs a budget from its creation to its last unit: deductions, replays, a conflict, a
// rollback, syncs and refusals.
func TestDeduct(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		b := w.create(promo("sale", 100, 1))
		a := w.deduct(b, "one", 30)
		if a.BucketRemaining != 70 || a.BudgetRemaining != 70 || a.Replayed || a.State != ledger.StateUsed {
			w.Errorf("answer: %+v", a)
		}
		if again := w.deduct(b, "one", 30); !again.Replayed || again.Amount != 30 ||
			again.Receipt != a.Receipt {
			w.Errorf("replay: %+v", again)
		}
		w.refused(b, "one", 31, budget.RequestConflict)
		w.settled(b, books{T: 100, O: 70, S: 30})
		v := w.rollback(b, "one", "", 10)
		if v.RolledBack != 10 || v.Amount != 30 || v.Replayed {
			w.Errorf("rollback: %+v", v)
		}
		if got, want := w.books(b.ID), (books{T: 100, O: 80, S: 20}); got != want {
			w.Errorf("after the rollback's answer: %+v, want %+v", got, want)
		}
		if v := w.rollback(b, "one", "", 10); !v.Replayed || v.RolledBack != 10 {
			w.Errorf("replayed rollback: %+v", v)
		}
		e := w.refused(b, "two", 81, budget.BudgetExhausted)
		if e.Available == nil || *e.Available != 80 {
			w.Errorf("available: %v", e)
		}
		w.deduct(b, "three", 80)
		w.refused(b, "four", 1, budget.BudgetExhausted)
		w.settled(b, books{T: 100, S: 100})
		if again := w.deduct(b, "one", 30); !again.Replayed {
			w.Errorf("replay after the end: %+v", again)
		}
	})
}

// TestScattered deducts more than the bucket of the request has, while other buckets have the
// units.
func TestScattered(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(promo("sale", 100, 4))
		w.settled(b, books{T: 100, O: 100})
		w.deduct(b, "large", 95)
		w.refused(b, "too large", 6, budget.BudgetExhausted)
		for i := range 5 {
			w.deduct(b, name(i), 1)
		}
		w.refused(b, "one more", 1, budget.BudgetExhausted)
		w.settled(b, books{T: 100, S: 100})
	})
}

// TestBatch checks that a batch has the same results as its requests one by one, with those of one
// id in order.
func TestBatch(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		b := w.create(promo("sale", 1000, 4))
		var all []bucket.DeductRequest
		for i := range 300 {
			all = append(all, request(b, name(i%100), 10)) // each id three times
		}
		all = append(all, request(b, name(0), 11))
		replayed := 0
		for i, r := range w.node.DeductAll(t.Context(), all) {
			switch {
			case i == 300 && !budget.Is(r.Err, budget.RequestConflict), i < 300 && r.Err != nil:
				w.Errorf("%d: %v", i, r.Err)
			case r.Answer.Replayed != (i >= 100) && i < 300:
				w.Errorf("%d: replayed %v", i, r.Answer.Replayed)
			}
			if r.Answer.Replayed {
				replayed++
			}
		}
		if replayed != 200 {
			w.Errorf("%d replays", replayed)
		}
		w.settled(b, books{T: 1000, S: 1000})
	})
}

// TestFiguresOfManyBudgets checks that a batch reads the figures of a few budgets only, and that
// further answers are the same without them.
func TestFiguresOfManyBudgets(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		var all []bucket.DeductRequest
		for i := range 3 * 8 {
			b := w.create(promo(name(i), 100, 1))
			w.deduct(b, "before", 1) // applies the units
			all = append(all, request(b, "one", 30))
		}
		other, _ := w.newNode(func(*counter.Config) {})
		figures := 0
		for i, r := range other.DeductAll(t.Context(), all) {
			if r.Err != nil || r.Answer.BucketRemaining != 69 {
				w.Fatalf("%d: %+v", i, r)
			}
			if !r.Answer.FiguresUnknown {
				figures++
			}
		}
		if figures == 0 || figures > 8 { // fewer if the deadline passes
			w.Errorf("figures of %d budgets, want 1 to %d", figures, 8)
		}
	})
}

// TestFullEpoch checks that an epoch which has taken the largest quantity in all, because units came
// back, is followed by another one, so that every unit can still be used.
func TestFullEpoch(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		const total = budget.MaxAmount
		b := w.create(promo("sale", total, 2))
		for i := range 4 {
			w.deduct(b, name(i), total/3*2)
			w.rollback(b, name(i), "", 0)
		}
		w.deduct(b, "all", total)
		w.refused(b, "more", 1, budget.BudgetExhausted)
		w.settled(b, books{T: total, S: total})
	})
}

// TestBothHomes checks that one call may have requests for budgets in SQL and in stores, that each is
// answered by the home of its budget, and that a store refuses what needs rows.
func TestBothHomes(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	stored := w.create(promo("stored", 100, 2))
	d := promo("rows", 100, 2)
	d.Durability = budget.Ledger
	made, err := w.defs.Create(w.Context(), d, make([]bucket.Partition, 2))
	w.ok(err)
	var requests []bucket.DeductRequest
	var checks []bucket.CheckRequest
	for i := range 12 {
		ref := bucket.BudgetRef{ID: []int64{made.Budget.ID, stored.ID, 99}[i%3]}
		requests = append(requests, bucket.DeductRequest{Budget: ref, RequestID: name(i), Amount: int64(i + 1)})
		checks = append(checks, bucket.CheckRequest{Budget: ref, Amount: int64(95 + i)})
	}
	got := w.node.DeductAll(w.Context(), requests)
	foreseen := w.node.Check(w.Context(), checks)
	for i, r := range got {
		switch home := []string{"rows:", "stored:"}; {
		case i%3 == 2:
			if !budget.Is(r.Err, budget.BudgetNotFound) || !budget.Is(foreseen[i].Err, budget.BudgetNotFound) {
				t.Errorf("%d: %v, %v", i, r.Err, foreseen[i].Err)
			}
		case r.Err != nil || !strings.HasPrefix(r.Answer.Bucket, home[i%3]) || r.Answer.RequestID != name(i):
			t.Errorf("%d: %+v", i, r)
		case !budget.Is(foreseen[i].Err, budget.BudgetExhausted) || foreseen[i].Amount != int64(95+i):
			t.Errorf("check %d: %+v", i, foreseen[i])
		}
	}
	hold := request(stored, "hold", 1)
	hold.HoldTTL = time.Minute
	_, alone := w.node.Deduct(w.Context(), hold)
	for what, err := range map[string]error{"alone": alone, "in a batch": w.node.DeductAll(w.Context(),
		[]bucket.DeductRequest{hold, request(stored, "no hold", 1)})[0].Err} {
		if !budget.Is(err, budget.LedgerModeOnly) || !strings.Contains(err.Error(), "hold needs the rows") {
			t.Errorf("%s: %v", what, err)
		}
	}
	owner := bucket.RollbackRequest{Budget: ref(stored), RequestID: name(1), NoKey: true, OnlyBy: "ann"}
	_, rolledBack := w.node.Rollback(w.Context(), owner)
	_, cancelled := w.node.Cancel(w.Context(), owner)
	_, shown := w.node.Deduction(w.Context(), owner)
	if !budget.Is(rolledBack, budget.Forbidden) || !budget.Is(cancelled, budget.Forbidden) || shown != nil {
		t.Errorf("for an owner: %v, %v, %v", rolledBack, cancelled, shown)
	}
}
