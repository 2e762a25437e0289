package manage_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// child is a definition of a child with one bucket.
func child(name string, parent bucket.Budget, total int64) budget.Definition {
	d := promo(name, total, 1)
	d.Parent = parent.ID
	return d
}

func (w *world) carve(d budget.Definition) (manage.Created, error) {
	return w.part.Create(w.ctx, d, make([]bucket.Partition, 1))
}

func TestCarveMovesUnits(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		org := w.create(promo("org", 1000, 4))
		d := child("team", org, 200)
		made, err := w.carve(d)
		w.ok(err)
		equal(w, "new", made.New, true)
		equal(w, "parent", made.View.Definition.ParentName, "org")
		equal(w, "stored", made.Budget.Parent, org.ID)
		w.has(org.ID, ledger.Figures{Total: 1000, InBuckets: 800, Allocated: 200, Online: 4})
		w.has(made.Budget.ID, ledger.Figures{Total: 200, InBuckets: 200, Online: 1})
		v, err := w.part.View(w.ctx, bucket.BudgetRef{ID: made.Budget.ID})
		w.ok(err)
		equal(w, "parent in the view", v.Definition.ParentName, "org")
		w.conserved(org.ID)

		again, err := w.carve(d)
		w.ok(err)
		equal(w, "repeated", again.New, false)
		equal(w, "repeated", again.Budget.ID, made.Budget.ID)
		d.TotalQuantity = 201
		_, err = w.carve(d)
		w.refused(err, budget.NameTaken)

		e := w.refused(second(w.carve(child("large", org, 801))), budget.BudgetExhausted)
		equal(w, "available", *e.Available, 800)
		d = child("least", org, 900)
		d.AtLeast = 801
		w.refused(second(w.carve(d)), budget.BudgetExhausted)
		d.AtLeast = 800
		made, err = w.carve(d)
		w.ok(err)
		equal(w, "granted", made.View.Definition.TotalQuantity, 800)
		again, err = w.carve(d) // by what was asked for, not by what was granted
		w.ok(err)
		equal(w, "repeated", again.New, false)
		w.has(org.ID, ledger.Figures{Total: 1000, Allocated: 1000, Online: 4})
		w.refused(second(w.carve(child("none", org, 1))), budget.BudgetExhausted)
	})
}

// TestCarveForAWhile checks that a child with a ttl ends so long after its creation, by SQL's clock,
// also if the create is repeated.
func TestCarveForAWhile(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := child("brief", w.create(promo("org", 100, 1)), 10)
		d.TTL = time.Hour
		made, err := w.carve(d)
		w.ok(err)
		ends := made.View.Definition
		equal(w, "ttl", ends.EndAt.Sub(ends.CreatedAt), time.Hour)
		again, err := w.carve(d)
		w.ok(err)
		equal(w, "end after a repeat", again.Budget.EndAt.Equal(ends.EndAt), true)
		d.TTL = 2 * time.Hour
		_, err = w.carve(d)
		w.refused(err, budget.NameTaken)
	})
}

func second[A any](_ A, err error) error { return err }

// TestCarveAfterUse checks that a parent gives its children what is free, and what came back, but
// nothing that is used or held.
func TestCarveAfterUse(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		org := w.create(promo("org", 100, 2))
		w.use(org.Buckets[0], 30)
		w.hold(org.Buckets[1], 20)
		w.back(org.Buckets[0], 5)
		e := w.refused(second(w.carve(child("a", org, 56))), budget.BudgetExhausted)
		equal(w, "available", *e.Available, 55)
		made, err := w.carve(child("b", org, 55))
		w.ok(err)
		w.has(org.ID, ledger.Figures{Total: 100, Allocated: 55, Used: 25, Held: 20, Online: 2})
		w.has(made.Budget.ID, ledger.Figures{Total: 55, InBuckets: 55, Online: 1})
	})
}

// TestChildOfADay checks that a child's units come from the open period, and that it ends with it.
func TestChildOfADay(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		days := w.create(daily("days", 100, 15, budget.Forfeit))
		w.refused(second(w.carve(child("a", days, 16))), budget.BudgetExhausted)
		made, err := w.carve(child("b", days, 10))
		w.ok(err)
		w.has(days.ID, ledger.Figures{Total: 100, Unfunded: 85, InBuckets: 5, Allocated: 10, Online: 2})
		if end := made.Budget.EndAt; !end.Equal(days.Period.End) {
			t.Errorf("it ends at %v, the period at %v", end, days.Period.End)
		}
		if !strings.HasSuffix(w.Name(), "sqlite") {
			return // a server has its own clock
		}
		w.later(24 * time.Hour) // the rollover comes first
		next, err := w.carve(child("c", days, 15))
		w.ok(err)
		w.has(days.ID, ledger.Figures{Total: 100, Unfunded: 70, Forfeited: 5, Allocated: 25, Online: 2})
		if end := next.Budget.EndAt; !end.Equal(days.Period.End.Add(24 * time.Hour)) {
			t.Errorf("it ends at %v", end)
		}
		_, err = w.adjust(made.Budget.ID, "late", 1)
		w.refused(err, budget.BudgetExpired)
	})
}

func TestAdjustOfAChild(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		org := w.create(promo("org", 100, 2))
		made, err := w.carve(child("team", org, 40))
		w.ok(err)
		team := made.Budget
		w.adjusts(team.ID, "more", 50)
		w.has(org.ID, ledger.Figures{Total: 100, InBuckets: 10, Allocated: 90, Online: 2})
		w.has(team.ID, ledger.Figures{Total: 90, InBuckets: 90, Online: 1})
		equal(w, "replayed", w.adjusts(team.ID, "more", 50).Replayed, true)
		_, err = w.adjust(team.ID, "more", 51)
		w.refused(err, budget.RequestConflict)
		_, err = w.adjust(team.ID, "too much", 11)
		equal(w, "available", *w.refused(err, budget.BudgetExhausted).Available, 10)
		w.use(w.read(team.ID).Buckets[0], 30)
		w.exceeds(team.ID, "used", -61, 60)
		w.adjusts(team.ID, "less", -60)
		w.has(team.ID, ledger.Figures{Total: 30, Used: 30, Online: 1})
		w.has(org.ID, ledger.Figures{Total: 100, Undistributed: 60, InBuckets: 10, Allocated: 30, Online: 2})
		w.exceeds(org.ID, "allocated", -71, 70)
		w.adjusts(org.ID, "the rest", -70)
		w.has(org.ID, ledger.Figures{Total: 30, Allocated: 30, Online: 2})
		w.conserved(org.ID)
		w.conserved(team.ID)
	})
}

// TestChangesOfAFamily checks what no change may do to a family.
func TestChangesOfAFamily(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		end := w.db.Now().Add(100 * time.Hour).Truncate(time.Second)
		d := promo("org", 100, 2)
		d.EndAt = end
		org := w.create(d)
		d = child("team", org, 40)
		d.EndAt = end.Add(-time.Hour)
		made, err := w.carve(d)
		w.ok(err)
		at := func(hours int) *time.Time { at := end.Add(time.Duration(hours) * time.Hour); return &at }
		amount := budget.Amount
		for name, test := range map[string]struct {
			id     int64
			change bucket.Change
			field  string
		}{
			"the child's end after the parent's":  {made.Budget.ID, bucket.Change{EndAt: at(1)}, "end_at"},
			"no end":                              {made.Budget.ID, bucket.Change{EndAt: &time.Time{}}, "end_at"},
			"the parent's end before the child's": {org.ID, bucket.Change{EndAt: at(-2)}, "end_at"},
			"the child's unit":                    {made.Budget.ID, bucket.Change{Unit: &amount}, "unit"},
			"the parent's unit":                   {org.ID, bucket.Change{Unit: &amount}, "unit"},
			"adjust_cnt":                          {org.ID, bucket.Change{AdjustCnt: new(1)}, "adjust_cnt"},
		} {
			w.unchanged(test.id, name, func() {
				_, err := w.part.Change(w.ctx, test.id, test.change)
				if e := w.refused(err, budget.Invalid); len(e.Fields) != 1 || e.Fields[0].Field != test.field {
					t.Errorf("%s: %v", name, e.Fields)
				}
			})
		}
		w.change(made.Budget.ID, bucket.Change{EndAt: at(0)})
		w.change(org.ID, bucket.Change{EndAt: at(5)})
		w.change(made.Budget.ID, bucket.Change{EndAt: at(5)})
		w.refused(w.part.Delete(w.ctx, org.ID, nil), budget.InUse)
		w.refused(w.part.Delete(w.ctx, made.Budget.ID, nil), budget.InUse)
	})
}

// TestHundredChildren carves 100 children of 20 out of 1,000 units at once: exactly 50 get theirs.
func TestHundredChildren(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		org := w.create(promo("org", 1000, 4))
		var made atomic.Int64
		var group sync.WaitGroup
		for i := range 100 {
			group.Go(func() {
				_, err := w.carve(child(fmt.Sprint("team-", i), org, 20))
				for budget.Is(err, budget.Unavailable) { // it waited for too long
					_, err = w.carve(child(fmt.Sprint("team-", i), org, 20))
				}
				switch {
				case err == nil:
					made.Add(1)
				case !budget.Is(err, budget.BudgetExhausted):
					t.Error(err)
				}
			})
		}
		group.Wait()
		if n := made.Load(); n != 50 {
			t.Errorf("%d children of 20 out of 1000", n)
		}
		w.has(org.ID, ledger.Figures{Total: 1000, Allocated: 1000, Online: 4})
		w.conserved(org.ID)
	})
}

// TestCarveLooksAgain checks that units which come back while a carve reads, to an epoch that had
// none and is not its bucket's newest, are not missed (I3).
func TestCarveLooksAgain(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	w := newWorld(t, "mysql", dsn)
	org := w.create(promo("org", 100, 1))
	id := org.Buckets[0].ID
	w.use(org.Buckets[0], 100)
	w.exec(`UPDATE bucket_epoch SET status = 'closed' WHERE bucket_id = ?`, id)
	w.exec(`INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, period, period_end_ms,
		definition_version, outstanding_quantity, held_quantity, used_quantity, returning_quantity,
		closed_quantity, swept_quantity, next_grant, next_entry, halted, created_at)
		VALUES (?, 2, ?, 'open', 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, '', 1)`, id, org.ID)
	w.exec(`UPDATE sharding_budget_management_bucket SET epoch = 2 WHERE id = ?`, id)
	rows, err := sql.Open("mysql", dsn)
	w.ok(err)
	defer rows.Close()
	beside, err := rows.Begin()
	w.ok(err)
	_, err = beside.Exec(`UPDATE bucket_epoch SET used_quantity = 95, returning_quantity = 5
		WHERE bucket_id = ? AND epoch = 1`, id)
	w.ok(err)
	done := make(chan error)
	go func() { done <- second(w.carve(child("team", org, 5))) }()
	for waits := 0; waits == 0; {
		time.Sleep(110 * time.Millisecond) // what is asked for sooner is answered from a cache
		w.ok(rows.QueryRow(`SELECT COUNT(*) FROM information_schema.innodb_trx t
			JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
			WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`).Scan(&waits))
	}
	w.ok(beside.Commit())
	w.ok(<-done)
	w.has(org.ID, ledger.Figures{Total: 100, Allocated: 5, Used: 95, Online: 1})
}
