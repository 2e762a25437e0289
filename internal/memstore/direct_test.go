package memstore_test

import (
	"errors"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/ledger"
)

// TestRows: what DeductAndCommit answers OK is in the ledger, and what it does not has no effect.
func TestRows(t *testing.T) {
	ctx, at := t.Context(), bucket.Lane{Instance: "rows"}
	sql := memstore.NewSQL(time.Now)
	server := memstore.NewServer("rows", 1)
	rows := server.ConnectRows(sql)
	who, err := rows.Identity(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = sql.Lane(ctx, at, who); err != nil {
		t.Fatal(err)
	}
	b, _, err := sql.Create(ctx, budget.Definition{Tenant: "t", Name: "b", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: 20, BucketQuantity: 2},
		[]bucket.Lane{at, at})
	if err != nil {
		t.Fatal(err)
	}
	first, second := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	one := func(ref bucket.Ref, amount int64, id string) bucket.Operation {
		return storetest.Deduction(ref, amount, id)
	}
	_, _, err = rows.DeductAndCommit(ctx, at, []bucket.Operation{one(first, 1, "x")})
	if !errors.Is(err, bucket.ErrMemoryLost) {
		t.Errorf("before it is activated: %v", err)
	}
	if err = rows.Activate(ctx, at, who, 1); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []bucket.Ref{first, second} {
		if _, err = rows.Open(ctx, at, []bucket.Ref{ref}); err != nil {
			t.Fatal(err)
		}
		if _, err = rows.Grant(ctx, at, []bucket.GrantOrder{{Ref: ref, Number: 1, Amount: 10}}); err != nil {
			t.Fatal(err)
		}
	}
	if err = sql.MarkOpen(ctx, []bucket.Ref{first}); err != nil { // the second one is still opening
		t.Fatal(err)
	}
	replies, outcomes, err := rows.DeductAndCommit(ctx, at, []bucket.Operation{one(first, 3, "x"),
		one(first, 8, "too much"), one(second, 1, "y"), one(first, 3, "x")})
	if err != nil {
		t.Fatal(err)
	}
	want := []bucket.Verdict{bucket.OK, bucket.Insufficient, bucket.EpochClosed, bucket.OK}
	for i, w := range want {
		if replies[i].Verdict != w || (outcomes[i] != nil) != (w == bucket.OK) {
			t.Errorf("operation %d: %+v, %+v, want verdict %d", i, replies[i], outcomes[i], w)
		}
	}
	if outcomes[0].Duplicate != nil || outcomes[3].Duplicate == nil ||
		outcomes[3].Duplicate.Reason != ledger.ReasonDuplicate {
		t.Errorf("outcomes %+v and %+v", outcomes[0], outcomes[3])
	}
	e := sql.Tables().Budgets[0].Buckets[0].Newest()
	if e.Outstanding != 4 || e.Used != 3 || e.Returning != 3 || len(e.Deductions) != 1 ||
		len(e.Duplicates) != 1 {
		t.Errorf("the epoch is %+v", e)
	}
}
