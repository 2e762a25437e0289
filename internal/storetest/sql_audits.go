package storetest

import (
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var auditTests = []sqlTest{
	{"accounts/rows beside columns", accountsRows},
	{"prefix/sums up to a position", prefixSums},
	{"audits/of a budget that does not exist", auditsNoBudget},
	{"match/a grant's amount is grant_log's", matchGrantAmount},
	{"spans/an epoch beside its rows", spansOfRows},
	{"recount/parts of an epoch", recountParts},
	{"epochs/one after the other, ended ones too", epochsAfter},
	{"books/budgets in order", booksInOrder},
	{"stranded/fenced and out of reach", strandedUnits},
}

func accountsRows(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 2) // T 102
	first, other := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	w.apply(b.ID, bucket.Want{Ref: first, Need: 50, Units: 50})
	w.deliver()
	w.use(first, "a", 10)
	w.use(first, "b", 5)
	w.book(first).deduct("a", 3)
	w.commit(w.book(first))
	w.gives(b.ID, "a", "part", 4, 4, false)
	must(w.db.Sweep(w.ctx, b.ID))(w) // 3 + 4
	w.gives(b.ID, "b", "", 0, 5, false)
	w.offline(b.ID, first, bucket.ByOperator, false, &bucket.Target{Ref: other}) // 51 - 18 = 33
	w.adjusts(w.adjustment(b, "less", -2), bucket.AdjustmentDone, false)
	w.exceeds(w.adjustment(b, "refused", -95), 94)
	w.adjusts(w.adjustment(b, "waits", -70), bucket.AdjustmentPending, false)
	a := must(w.db.Accounts(w.ctx, b.ID))(w)
	equal(w, "adjusted", a.Adjusted, 100)
	equal(w, "shrinks that wait", a.Shrinks, 70)
	a.Figures.Period, a.Figures.PeriodUnits, a.Figures.PeriodUsed = budget.Period{}, 0, 0
	equal(w, "figures", a.Figures, ledger.Figures{
		Total: 100, Undistributed: 55, PendingShrink: 70, Remaining: 34, Used: 6, Returning: 5,
		Online: 1, Offline: 1})
	if len(a.Epochs) != 2 {
		w.Fatalf("%d epochs", len(a.Epochs))
	}
	for _, e := range a.Epochs {
		want := ledger.EpochFigures{Bucket: "b:bucket-0", Row: w.epoch(first), Granted: 51, Closed: 33,
			Deducted: 15, Duplicates: 3, RolledBack: 9, Noted: 9}
		if e.Row.Bucket == other.Bucket {
			want = ledger.EpochFigures{Bucket: "b:bucket-1", Row: w.epoch(other), Granted: 34}
		}
		equal(w, "epoch", e, want)
	}
}

func prefixSums(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 1)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 9, Units: 9})
	w.deliver()         // 1 grant of 1, 2 grant of 9
	book.deduct("a", 2) // 3
	book.deduct("a", 3) // 4, a duplicate
	book.deduct("b", 1) // 5
	w.commit(book)
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 7, Units: 7})
	w.gives(b.ID, "a", "", 0, 2, false) // not the store's concern
	for _, test := range []struct{ seq, grants, granted, deducted int64 }{
		{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 10, 0}, {3, 2, 10, 2}, {4, 2, 10, 5}, {5, 2, 10, 6},
		{5, 3, 17, 6}, {99, 99, 17, 6},
	} {
		granted, deducted, err := w.db.Prefix(w.ctx, ref, test.seq, test.grants)
		if err != nil || granted != test.granted || deducted != test.deducted {
			w.Errorf("up to %d and grant %d: %d, %d, %v; want %d, %d", test.seq, test.grants, granted,
				deducted, err, test.granted, test.deducted)
		}
	}
	none := bucket.Ref{Bucket: ref.Bucket, Epoch: 2, Activation: 1}
	granted, deducted, err := w.db.Prefix(w.ctx, none, 9, 9)
	if err != nil || granted != 0 || deducted != 0 {
		w.Errorf("of an epoch that does not exist: %d, %d, %v", granted, deducted, err)
	}
}

func auditsNoBudget(w *sqlWorld) {
	b := w.create("b", 10, 1)
	for name, call := range map[string]func() error{
		"figures":  func() error { _, err := w.db.Figures(w.ctx, b.ID+1); return err },
		"accounts": func() error { _, err := w.db.Accounts(w.ctx, b.ID+1); return err },
	} {
		if err := call(); !budget.Is(err, budget.BudgetNotFound) {
			w.Errorf("%s: %v, want budget_not_found", name, err)
		}
	}
	equal(w, "figures", fmt.Sprint(w.figures(b.ID)),
		fmt.Sprint(ledger.Figures{Total: 10, Remaining: 10, Online: 1}))
}
