package hold_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/ledger"
)

// world is a database with the part under test.
type world struct {
	*fixture.World
	part *hold.Ledger
}

// onEveryEngine runs a test on SQLite and on MariaDB.
func onEveryEngine(t *testing.T, run func(w *world)) {
	t.Parallel()
	fixture.OnEveryEngine(t, func(w *fixture.World) { run(&world{w, hold.NewLedger(w.DB)}) })
}

// execute executes one order.
func (w *world) execute(o hold.Order) (ledger.Deduction, bool, error) {
	w.Helper()
	got, err := w.part.Execute(w.Ctx, []hold.Order{o})
	w.OK(err)
	return got[0].Deduction, got[0].Replayed, got[0].Err
}

// give rolls back part of a deduction, or what is left with amount 0.
func (w *world) give(b fixture.Budget, id, rollbackID string, amount int64) (
	ledger.Deduction, bool, error) {
	w.Helper()
	return w.execute(hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: id, RollbackID: rollbackID,
		Amount: amount})
}

// gives rolls back, and compares the total rolled back and the rows.
func (w *world) gives(b fixture.Budget, id, rollbackID string, amount, rolledBack int64, replayed bool) {
	w.Helper()
	d, again, err := w.give(b, id, rollbackID, amount)
	if err != nil || d.RolledBack != rolledBack || again != replayed {
		w.Fatalf("rollback %q of %d of %q: %d rolled back, replayed %v, %v; want %d, %v",
			rollbackID, amount, id, d.RolledBack, again, err, rolledBack, replayed)
	}
	w.recorded(d)
}

// recorded compares a deduction with what is read.
func (w *world) recorded(want ledger.Deduction) {
	w.Helper()
	id := bucket.ID{Budget: want.Budget, RequestID: want.RequestID}
	got, err := w.part.Recorded(w.Ctx, []bucket.ID{id})
	w.OK(err)
	if got[id] != want {
		w.Fatalf("recorded is %+v, want %+v", got[id], want)
	}
}

func (w *world) cancel(b fixture.Budget, id string) ledger.Deduction {
	w.Helper()
	d, _, err := w.execute(hold.Order{Kind: hold.Cancel, Budget: b.ID, RequestID: id})
	w.OK(err)
	w.recorded(d)
	return d
}

func (w *world) confirm(b fixture.Budget, id string, amount int64) (ledger.Deduction, bool, error) {
	w.Helper()
	return w.execute(hold.Order{Kind: hold.Confirm, Budget: b.ID, RequestID: id, Amount: amount})
}

func (w *world) expire(limit int) hold.Expired {
	w.Helper()
	got, err := w.part.ExpireHolds(w.Ctx, limit, 0)
	w.OK(err)
	return got
}

func (w *world) hold(id int64, name, group string, amount int64, ttl time.Duration) {
	w.Helper()
	w.Deduct(fixture.Deduction{Bucket: id, ID: name, Amount: amount, Hold: ttl, Group: group})
}

// refused fails unless the error has a code.
func (w *world) refused(err error, code budget.Code) *budget.Error {
	w.Helper()
	if budget.CodeOf(err) != code {
		w.Fatalf("error %v, want %s", err, code)
	}
	e, _ := err.(*budget.Error)
	return e
}

// columns compares O, H, S and R of an epoch, and checks the accounts.
func (w *world) columns(id, epoch int64, outstanding, held, used, returning int64) {
	w.Helper()
	e := w.Epoch(id, epoch)
	got := [4]int64{e.Outstanding, e.Held, e.Used, e.Returning}
	if want := [4]int64{outstanding, held, used, returning}; got != want {
		w.Fatalf("O, H, S and R are %v, want %v", got, want)
	}
	w.Check()
}

// unchanged fails if a step changes an epoch's row.
func (w *world) unchanged(id int64, what string, step func()) {
	w.Helper()
	before := *w.Newest(id)
	step()
	if after := *w.Newest(id); after != before {
		w.Errorf("%s changed %+v to %+v", what, before, after)
	}
}

func equal[T comparable](w *world, what string, got, want T) {
	w.Helper()
	if got != want {
		w.Errorf("%s is %v, want %v", what, got, want)
	}
}
