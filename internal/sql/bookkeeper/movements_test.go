package bookkeeper

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

func adjustOnce(t *testing.T, db *engine.DB, id string, quantity int64) {
	t.Helper()
	load := append(WholeBudget(1), Adjustment(1, id))
	err := try(t, db, load, func(b *books.Books) error {
		_, err := b.Adjust(b.Budgets.Get(1), books.Order{RequestID: id, Quantity: quantity})
		return err
	})
	if err != nil && !budget.Is(err, budget.AmountExceedsRemaining) && !budget.Is(err, budget.Invalid) {
		t.Error(err)
	}
}

// changeOnce gives the budget another number of buckets, of which the first four serve the others'
// movements, and other limits; it checks that these are there afterwards.
func changeOnce(t *testing.T, db *engine.DB, buckets, limits int) {
	t.Helper()
	first, err := db.TakeIDs(t.Context(), engine.SequenceBucket, 6)
	if err != nil {
		t.Error(err)
		return
	}
	load := append(WholeBudget(1), Limits(1), Beside(1, "b1"))
	wrote := int64(0)
	do(t, db, load, func(b *books.Books) error {
		u := b.Budgets.Get(1)
		before, err := b.DefinitionOf(u)
		if err != nil {
			return err
		}
		after := before
		after.BucketQuantity = buckets
		after.Limits = &budget.Limits{Version: u.LimitsVersion + 1}
		for i := range limits {
			after.Limits.List = append(after.Limits.List, budget.Limit{Name: fmt.Sprint("l", i), Max: u.Version + 1,
				Window: budget.LimitWindow{Kind: budget.WindowLifetime}})
		}
		after.Version, after.UpdatedAt, wrote = u.Version+1, after.UpdatedAt.Add(1), u.Version+1
		return b.Change(u, books.Redefinition{Before: before, After: after, Limits: true, FirstBucket: first + 100,
			KeyOf: func(ordinal int) string { return fmt.Sprint("b:", ordinal) }})
	})
	do(t, db, load, func(b *books.Books) error {
		u := b.Budgets.Get(1)
		if u.Version != wrote { // another change came after it
			return nil
		}
		d, err := b.DefinitionOf(u)
		if err != nil {
			return err
		}
		if len(d.Limits.List) != limits || limits > 0 && d.Limits.List[limits-1].Max != wrote {
			t.Errorf("%+v, want %d limits of version %d", d.Limits.List, limits, wrote)
		}
		return nil
	})
}

// recycle recycles the budget by what its buckets used, of which the feed has nothing here.
func recycle(t *testing.T, db *engine.DB) {
	t.Helper()
	load := append([]Query{Demand([]Fed{{1, 5}, {2, 500}})}, WholeBudget(1)...)
	do(t, db, load, func(b *books.Books) error {
		_, err := b.Recycle(b.Budgets.Get(1), "operator", nil)
		return err
	})
}

// sweep moves R where it belongs, by the query of many budgets.
func sweep(t *testing.T, db *engine.DB) {
	t.Helper()
	do(t, db, Returning([]int64{1, 77}, books.Position{}), func(b *books.Books) error {
		b.Sweep(b.Budgets.Get(1))
		return nil
	})
}

// bucketVerb takes a bucket offline, or brings it online.
func bucketVerb(t *testing.T, db *engine.DB, bucket int, online bool) {
	t.Helper()
	err := try(t, db, append(WholeBudget(1), Applied(1)), func(b *books.Books) error {
		row := b.Buckets.All()[bucket]
		if online {
			_, err := b.Online(b.Budgets.Get(1), row)
			return err
		}
		return b.Offline(b.Budgets.Get(1), row, "operator")
	})
	if err != nil && !budget.Is(err, budget.LastBucket) {
		t.Error(err)
	}
}

// use moves up to units from O of a bucket to S.
func use(t *testing.T, db *engine.DB, bucket int, units int64) {
	t.Helper()
	do(t, db, WholeBudget(1), func(b *books.Books) error {
		row := b.Buckets.All()[bucket]
		e := b.Epochs.Get(books.Position{Bucket: row.ID, Epoch: row.Epoch})
		units := min(units, e.Outstanding)
		e.Outstanding -= units
		e.Used += units
		return nil
	})
}

// giveBack moves up to units from S of a bucket to R.
func giveBack(t *testing.T, db *engine.DB, bucket int, units int64) {
	t.Helper()
	do(t, db, WholeBudget(1), func(b *books.Books) error {
		row := b.Buckets.All()[bucket]
		e := b.Epochs.Get(books.Position{Bucket: row.ID, Epoch: row.Epoch})
		units := min(units, e.Used)
		e.Used -= units
		e.Returning += units
		return nil
	})
}

// conserved recounts the accounts from all rows.
func conserved(t *testing.T, db *engine.DB) {
	t.Helper()
	err := db.Snapshot(t.Context(), "recount", func(r *engine.Reader) error {
		var total, epochs, off int64
		const equation = `SELECT total_quantity - unfunded_quantity - undistributed_quantity - quarantined_quantity
			- forfeited_quantity FROM budget_management_bucket WHERE id = 1`
		const held = `SELECT COALESCE(SUM(outstanding_quantity + held_quantity + used_quantity + returning_quantity), 0)
			FROM bucket_epoch WHERE budget_id = 1`
		const wrong = `SELECT COUNT(*) FROM bucket_epoch e WHERE e.outstanding_quantity + e.held_quantity + e.used_quantity
			+ e.returning_quantity + e.closed_quantity + e.swept_quantity <> (SELECT COALESCE(SUM(g.amount), 0)
			FROM grant_log g WHERE g.bucket_id = e.bucket_id AND g.epoch = e.epoch)`
		for _, q := range []struct {
			into *int64
			text string
		}{{&total, equation}, {&epochs, held}, {&off, wrong}} {
			if _, err := r.Get(q.into, q.text); err != nil {
				return err
			}
		}
		if total != epochs || off != 0 {
			t.Errorf("T less F, U, Q and X is %d, the epochs have %d; %d epochs differ from their grants", total, epochs, off)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
