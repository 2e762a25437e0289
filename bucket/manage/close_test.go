package manage_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/ledger"
)

// descend carves a chain of children out of a budget, each of a total less by 10.
func (w *world) descend(b bucket.Budget, names ...string) (chain []bucket.Budget) {
	w.Helper()
	for i, name := range names {
		made, err := w.carve(child(name, b, b.TotalQuantity-10))
		w.ok(err)
		b = w.read(made.Budget.ID)
		chain = append(chain, b)
		equal(w, name, b.TotalQuantity, int64(100-10*(i+1)))
	}
	return chain
}

func (w *world) closes(id int64) int64 {
	w.Helper()
	units, err := w.part.Close(w.ctx, id)
	w.ok(err)
	return units
}

// TestClose closes a budget with two levels below it: all but what is used and held goes back level
// by level; what is given back later follows when it is settled.
func TestClose(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		org := w.create(promo("org", 100, 2))
		w.refused(second(w.part.Close(w.ctx, org.ID)), budget.Invalid)
		chain := w.descend(org, "team", "agent", "task")
		w.use(chain[2].Buckets[0], 7)
		w.hold(chain[1].Buckets[0], 3)
		w.use(chain[0].Buckets[0], 1)
		equal(w, "came back", w.closes(chain[0].ID), 90-11)
		equal(w, "again", w.closes(chain[0].ID), 0)
		w.has(org.ID, ledger.Figures{Total: 100, Undistributed: 79, InBuckets: 10, Allocated: 11, Online: 2})
		for i, want := range []ledger.Figures{{Total: 11, Used: 1, Allocated: 10}, {Total: 10, Held: 3, Allocated: 7}, {Total: 7, Used: 7}} {
			want.Offline = 1
			w.has(chain[i].ID, want)
		}
		_, err := w.adjust(chain[0].ID, "more", 5)
		w.refused(err, budget.BudgetExpired)
		w.refused(second(w.carve(child("late", chain[0], 1))), budget.BudgetExpired)
		w.refused(second(w.part.Change(w.ctx, chain[0].ID, bucket.Change{EndAt: &time.Time{}})), budget.Invalid)
		w.change(chain[2].ID, bucket.Change{Archived: new(true)})

		w.exec(`UPDATE bucket_epoch SET used_quantity = used_quantity - 4, returning_quantity = 4 WHERE bucket_id = ?`,
			chain[2].Buckets[0].ID)
		made, err := w.carve(child("more", org, 93)) // it needs the four
		w.ok(err)
		equal(w, "granted", made.View.Definition.TotalQuantity, 93)
		w.has(org.ID, ledger.Figures{Total: 100, Allocated: 100, Online: 2})
		w.has(chain[0].ID, ledger.Figures{Total: 7, Used: 1, Allocated: 6, Offline: 1})
		for _, b := range append(slices.Clone(chain), org) {
			w.conserved(b.ID)
		}
	})
}

// TestEndOfAFamily checks that a budget is archived after its children, and that a child that has
// given back everything may be deleted.
func TestEndOfAFamily(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		org := w.create(promo("org", 100, 2))
		chain := w.descend(org, "team", "task")
		w.use(chain[1].Buckets[0], 7)
		unused, err := w.carve(child("unused", org, 10))
		w.ok(err)
		children := []string{}
		list, err := w.part.Budgets(w.ctx, bucket.Page{Parent: "org", Size: 9})
		w.ok(err)
		for i := range list {
			children = append(children, list[i].Definition.Name)
		}
		equal(w, "children", children, []string{"team", "unused"})
		w.refused(w.part.Delete(w.ctx, unused.Budget.ID, nil), budget.InUse)
		w.closes(unused.Budget.ID)
		w.ok(w.part.Delete(w.ctx, unused.Budget.ID, nil))
		w.closes(chain[0].ID)
		archive := bucket.Change{Archived: new(true)}
		w.refused(second(w.part.Change(w.ctx, chain[0].ID, archive)), budget.InUse)
		w.change(chain[1].ID, archive)
		w.change(chain[0].ID, archive)
		w.refused(w.part.Delete(w.ctx, chain[0].ID, nil), budget.InUse)
		w.conserved(org.ID)
	})
}

// TestEndedChildServesItsParent checks that a parent is not sold out while a child that has ended has
// units, though nobody has settled it: for a deduction, a look before a refusal, a shrink, an append to
// another child, and a child of a child (I3).
func TestEndedChildServesItsParent(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		for name, use := range map[string]func(org, other bucket.Budget) error{
			"deduct": func(org, _ bucket.Budget) error {
				b := w.read(org.ID)
				out, err := commit.New(w.db).Bring(w.ctx, nil, []bucket.Operation{{Budget: &b,
					Bucket: b.Buckets[0].ID, Request: ledger.Request{ID: "a", Amount: 5, Nonce: "n"}}})
				if err == nil && out[0].Verdict != bucket.Accepted {
					err = fmt.Errorf("verdict %v, %+v", out[0].Verdict, out[0].Availability)
				}
				return err
			},
			"look": func(org, _ bucket.Budget) error {
				sums, _, err := commit.New(w.db).LookTwice(w.ctx, []int64{org.ID}, nil)
				if err == nil && sums[org.ID].Sum() != 5 {
					err = fmt.Errorf("%+v", sums[org.ID])
				}
				return err
			},
			"read": func(org, _ bucket.Budget) error {
				sums, err := commit.New(w.db).Availability(w.ctx, []int64{org.ID}, false)
				if err == nil && sums[org.ID].Sum() != 5 {
					err = fmt.Errorf("%+v", sums[org.ID])
				}
				return err
			},
			"shrink": func(org, _ bucket.Budget) error { return second(w.adjust(org.ID, "less", -5)) },
			"append": func(_, other bucket.Budget) error { return second(w.adjust(other.ID, "more", 5)) },
			"carve":  func(org, _ bucket.Budget) error { return second(w.carve(child("third-"+org.Name, org, 5))) },
		} {
			for _, depth := range []int{1, 2} {
				org := w.create(promo(fmt.Sprint("org-", name, depth), 100, 2))
				names := []string{"a-" + org.Name, "b-" + org.Name}[:depth]
				chain := w.descend(org, names...)
				other, err := w.carve(child("c-"+org.Name, org, 10))
				w.ok(err)
				last := chain[depth-1]
				w.use(last.Buckets[0], 5)
				w.closes(chain[0].ID)
				w.ok(second(w.adjust(other.Budget.ID, "rest", w.figures(org.ID).Undistributed)))
				w.exec(`UPDATE bucket_epoch SET used_quantity = 0, returning_quantity = 5 WHERE bucket_id = ?`, last.Buckets[0].ID)
				if err := use(org, other.Budget); err != nil {
					t.Errorf("%s, depth %d: %v", name, depth, err)
				}
				w.conserved(org.ID)
				w.conserved(last.ID)
			}
		}
	})
}
