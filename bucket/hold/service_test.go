package hold_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/ledger"
)

// told is an observer that records what it receives.
type told struct {
	bucket.Observer
	mu            sync.Mutex
	commits, open int
	expired       int
	units         int64
	failed        int
}

func (o *told) Commit(_ context.Context, rows int, _ time.Duration) { o.note(func() { o.commits++ }) }
func (o *told) Failed(string, budget.Code)                          { o.note(func() { o.failed++ }) }
func (o *told) HoldsExpired(n int)                                  { o.note(func() { o.expired += n }) }
func (o *told) Moved(_ string, units int64)                         { o.note(func() { o.units += units }) }
func (o *told) HoldsOpen(n int)                                     { o.note(func() { o.open = n }) }
func (o *told) note(change func())                                  { o.mu.Lock(); defer o.mu.Unlock(); change() }

func withService(t *testing.T, run func(w *fixture.World, s *hold.Service, o *told)) {
	t.Parallel()
	fixture.OnEveryEngine(t, func(w *fixture.World) {
		o := &told{}
		budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: manage.NewLedger(w.DB)})
		w.OK(err)
		run(w, hold.New(hold.Config{Budgets: budgets, Ledger: hold.NewLedger(w.DB), Observer: o}), o)
	})
}

func TestServiceGivesBack(t *testing.T) {
	withService(t, func(w *fixture.World, s *hold.Service, o *told) {
		b := w.Create("b", 100, 1)
		ref := bucket.BudgetRef{Name: "b", Tenant: "default"}
		w.Deduct(fixture.Deduction{Bucket: b.Buckets[0], ID: "order", Amount: 30,
			Note: ledger.Note{Reference: "for Ann", Dimensions: `{"user":"u1"}`}})
		for _, replayed := range []bool{false, true} {
			v, err := s.Rollback(w.Ctx, bucket.RollbackRequest{Budget: ref, RequestID: "order", RollbackID: "r", Amount: 4})
			w.OK(err)
			want := bucket.DeductionView{RequestID: "order", State: ledger.StateUsed, Amount: 30, RolledBack: 4,
				Bucket: "b:bucket-0", Reference: "for Ann", Dimensions: `{"user":"u1"}`, CountedAt: w.DB.Now(),
				Receipt: bucket.Receipt(b.Buckets[0], 1), Replayed: replayed}
			if !reflect.DeepEqual(v, want) {
				t.Errorf("%+v, want %+v", v, want)
			}
		}
		v, err := s.Cancel(w.Ctx, bucket.RollbackRequest{Budget: ref, RequestID: "order"})
		w.OK(err)
		if v.State != ledger.StateRolledBack || v.RolledBack != 30 {
			t.Errorf("%+v", v)
		}
		void, err := s.Cancel(w.Ctx, bucket.RollbackRequest{Budget: ref, RequestID: "void"})
		w.OK(err)
		if got, err := s.Deduction(w.Ctx, bucket.RollbackRequest{Budget: ref, RequestID: "void"}); err != nil || !reflect.DeepEqual(got, void) || void.State != ledger.StateVoid {
			t.Errorf("%+v, %v; want %+v", got, err, void)
		}
		for id, code := range map[string]budget.Code{"absent": budget.DeductionNotFound, "void": budget.RequestVoid} {
			if _, err := s.Rollback(w.Ctx, bucket.RollbackRequest{Budget: ref, RequestID: id}); budget.CodeOf(err) != code {
				t.Errorf("%s: %v", id, err)
			}
		}
		if _, err := s.Deduction(w.Ctx, bucket.RollbackRequest{Budget: ref, RequestID: "absent"}); budget.CodeOf(err) != budget.DeductionNotFound {
			t.Error(err)
		}
		if _, err := s.Cancel(w.Ctx, bucket.RollbackRequest{Budget: bucket.BudgetRef{ID: 77}, RequestID: "order"}); budget.CodeOf(err) != budget.BudgetNotFound {
			t.Error(err)
		}
	})
}

func TestServiceOfHolds(t *testing.T) {
	withService(t, func(w *fixture.World, s *hold.Service, o *told) {
		b := w.Create("b", 100, 2)
		ref := bucket.BudgetRef{ID: b.ID}
		for i, id := range []string{"one", "two", "single"} {
			d := fixture.Deduction{Bucket: b.Buckets[i%2], ID: id, Amount: 10, Hold: time.Minute, Group: "g"}
			if id == "single" {
				d.Group = ""
			}
			w.Deduct(d)
		}
		views, err := s.Extend(w.Ctx, bucket.ExtendRequest{Budget: ref, Group: "g", HoldTTL: time.Hour})
		w.OK(err)
		if len(views) != 2 || !views[0].HoldUntil.Equal(w.DB.Now().Add(time.Hour)) || views[0].Group != "g" {
			t.Errorf("%+v", views)
		}
		views, err = s.Confirm(w.Ctx, bucket.ConfirmRequest{Budget: ref, RequestID: "single", Amount: 7})
		w.OK(err)
		if len(views) != 1 || views[0].Confirmed != 7 || views[0].RolledBack != 3 {
			t.Errorf("%+v", views)
		}
		views, err = s.Confirm(w.Ctx, bucket.ConfirmRequest{Budget: ref, Group: "g"})
		w.OK(err)
		if len(views) != 2 || views[1].RequestID != "two" || views[1].State != ledger.StateUsed {
			t.Errorf("%+v", views)
		}
		views, err = s.RollbackGroup(w.Ctx, bucket.RollbackRequest{Budget: ref, Group: "g"})
		w.OK(err)
		if len(views) != 2 || views[0].State != ledger.StateRolledBack {
			t.Errorf("%+v", views)
		}
		for name, err := range map[string]error{
			"both":           second(s.Confirm(w.Ctx, bucket.ConfirmRequest{Budget: ref, Group: "g", RequestID: "one"})),
			"neither":        second(s.Confirm(w.Ctx, bucket.ConfirmRequest{Budget: ref})),
			"amount, group":  second(s.Confirm(w.Ctx, bucket.ConfirmRequest{Budget: ref, Group: "g", Amount: 1})),
			"amount":         second(s.Confirm(w.Ctx, bucket.ConfirmRequest{Budget: ref, RequestID: "one", Amount: -1})),
			"ttl":            second(s.Extend(w.Ctx, bucket.ExtendRequest{Budget: ref, RequestID: "one"})),
			"no group":       second(s.RollbackGroup(w.Ctx, bucket.RollbackRequest{Budget: ref})),
			"part of groups": second(s.RollbackGroup(w.Ctx, bucket.RollbackRequest{Budget: ref, Group: "g", Amount: 1})),
		} {
			if budget.CodeOf(err) != budget.Invalid {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestServiceOfStoreMode(t *testing.T) {
	withService(t, func(w *fixture.World, s *hold.Service, _ *told) {
		b := w.Create("b", 100, 1)
		w.Exec([]any{`UPDATE budget_management_bucket SET durability = 'store' WHERE id = ?`, b.ID})
		ref := bucket.BudgetRef{ID: b.ID}
		for call, err := range map[string]error{
			"rollback":            second(s.Rollback(w.Ctx, bucket.RollbackRequest{Budget: ref, RequestID: "order"})),
			"confirm":             second(s.Confirm(w.Ctx, bucket.ConfirmRequest{Budget: ref, Group: "g", Amount: 1})),
			"extend":              second(s.Extend(w.Ctx, bucket.ExtendRequest{Budget: ref})),
			"rollback of a group": second(s.RollbackGroup(w.Ctx, bucket.RollbackRequest{Budget: ref})),
			"holds":               second(s.HoldsOf(w.Ctx, ref, 1)),
			"read":                second(s.Deduction(w.Ctx, bucket.RollbackRequest{Budget: ref, RequestID: "order"})),
		} {
			if budget.CodeOf(err) != budget.LedgerModeOnly || !strings.Contains(err.Error(), call+" needs the rows") {
				t.Errorf("%s: %v", call, err)
			}
		}
	})
}

// TestRollbacksShareTransactions checks that many concurrent callers need few commits, and that
// each gets its own answer.
func TestRollbacksShareTransactions(t *testing.T) {
	withService(t, func(w *fixture.World, s *hold.Service, o *told) {
		const n = 60
		b := w.Create("b", 10_000, 2)
		for i := range n {
			w.Use(b.Buckets[i%2], fmt.Sprint("order-", i), int64(1+i%7))
		}
		var callers sync.WaitGroup
		var back atomic.Int64
		for i := range 2 * n { // each twice
			callers.Go(func() {
				v, err := s.Rollback(w.Ctx, bucket.RollbackRequest{Budget: bucket.BudgetRef{ID: b.ID},
					RequestID: fmt.Sprint("order-", i%n)})
				switch {
				case err != nil:
					w.Errorf("rollback: %v", err)
				case v.RequestID != fmt.Sprint("order-", i%n) || v.RolledBack != int64(1+i%n%7):
					w.Errorf("%+v", v)
				case !v.Replayed:
					back.Add(1)
				}
			})
		}
		callers.Wait()
		if back.Load() != n {
			t.Errorf("%d rollbacks, want %d", back.Load(), n)
		}
		if o.commits >= n {
			t.Errorf("%d commits", o.commits)
		}
		t.Logf("%d commits", o.commits)
	})
}

// slow has transactions that take as long as a test wants.
type slow struct {
	begun, end chan struct{}
	broken     string
}

func (l *slow) through(ctx context.Context, orders []hold.Order,
	execute func(context.Context, []hold.Order) ([]hold.Result, error)) ([]hold.Result, error) {
	if l.begun != nil {
		l.begun <- struct{}{}
		<-l.end
	}
	for _, o := range orders {
		if o.RequestID == l.broken {
			return nil, &budget.Error{Code: budget.Internal, Op: "return", Message: "broken rows"}
		}
	}
	return execute(ctx, orders)
}

// TestCallersThatLeave checks that an order that no transaction took is certainly not done, and
// that one that is in a transaction may be done.
func TestCallersThatLeave(t *testing.T) {
	t.Parallel()
	fixture.OnEveryEngine(t, func(w *fixture.World) {
		budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: manage.NewLedger(w.DB)})
		w.OK(err)
		l := &slow{begun: make(chan struct{}), end: make(chan struct{})}
		s := hold.New(hold.Config{Budgets: budgets, Ledger: hold.NewLedger(w.DB),
			Settings: hold.Settings{Grace: time.Millisecond}})
		s.Through(l.through)
		b := w.Create("b", 100, 1)
		w.Use(b.Buckets[0], "first", 1)
		w.Use(b.Buckets[0], "other", 1)
		w.Use(b.Buckets[0], "second", 1)
		call := func(ctx context.Context, id string) chan error {
			answer := make(chan error, 1)
			go func() {
				answer <- second(s.Rollback(ctx, bucket.RollbackRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: id}))
			}()
			return answer
		}
		ctx, leave := context.WithCancel(w.Ctx)
		first := call(ctx, "first")
		<-l.begun
		leave()
		if err := <-first; budget.CodeOf(err) != budget.OutcomeUnknown {
			t.Errorf("in a transaction: %v", err)
		}
		ctx, leave = context.WithCancel(w.Ctx)
		_, err = s.Deduction(w.Ctx, bucket.RollbackRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: "second"}) // the budget is in the cache
		w.OK(err)
		other := call(w.Ctx, "other")
		<-l.begun // two transactions are under way: a third waits
		waiting := call(ctx, "second")
		time.Sleep(20 * time.Millisecond)
		leave()
		if err := <-waiting; budget.CodeOf(err) != budget.Unavailable {
			t.Errorf("in the queue: %v", err)
		}
		close(l.end)
		go func() {
			for range l.begun { // the calls that follow
			}
		}()
		w.OK(<-call(w.Ctx, "first"))
		w.OK(<-other)
		if got, err := s.Deduction(w.Ctx, bucket.RollbackRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: "second"}); err != nil || got.RolledBack != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		close(l.begun)
	})
}

// TestOneBrokenOrder fails alone.
func TestOneBrokenOrder(t *testing.T) {
	t.Parallel()
	fixture.OnEveryEngine(t, func(w *fixture.World) {
		budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: manage.NewLedger(w.DB)})
		w.OK(err)
		s := hold.New(hold.Config{Budgets: budgets, Ledger: hold.NewLedger(w.DB)})
		s.Through((&slow{broken: "order-3"}).through)
		b := w.Create("b", 100, 1)
		var callers sync.WaitGroup
		for i := range 8 {
			w.Use(b.Buckets[0], fmt.Sprint("order-", i), 1)
		}
		for i := range 8 {
			callers.Go(func() {
				_, err := s.Rollback(w.Ctx, bucket.RollbackRequest{Budget: bucket.BudgetRef{ID: b.ID},
					RequestID: fmt.Sprint("order-", i)})
				if (err != nil) != (i == 3) {
					w.Errorf("order %d: %v", i, err)
				}
			})
		}
		callers.Wait()
	})
}

// TestExpiry ends due holds on any number of nodes, once each, and reports them to the observer.
func TestExpiry(t *testing.T) {
	t.Parallel()
	fixture.OnEveryEngine(t, func(w *fixture.World) {
		o := &told{}
		b := w.Create("b", 1000, 2)
		for i := range 40 {
			w.Deduct(fixture.Deduction{Bucket: b.Buckets[i%2], ID: fmt.Sprint("order-", i), Amount: 3,
				Hold: time.Duration(1+i/20) * time.Minute})
		}
		nodes := make([]*hold.Expiry, 3)
		for i := range nodes {
			nodes[i] = &hold.Expiry{Ledger: hold.NewLedger(w.DB), Observer: o, Log: slog.New(slog.DiscardHandler)}
		}
		all := func() {
			var running sync.WaitGroup
			for _, node := range nodes {
				running.Go(func() {
					if err := node.RunOnce(w.Ctx); err != nil {
						w.Errorf("expiry: %v", err)
					}
				})
			}
			running.Wait()
		}
		all()
		w.OK(nodes[0].CountOpen(w.Ctx))
		if o.expired != 0 || o.open != 40 {
			t.Errorf("%d expired, %d open", o.expired, o.open)
		}
		w.Clock.Advance(time.Minute)
		all()
		w.OK(nodes[0].CountOpen(w.Ctx))
		if o.expired != 20 || o.units != 60 || o.open != 20 {
			t.Errorf("%d expired, %d units, %d open", o.expired, o.units, o.open)
		}
	})
}

// stuck has due holds, one of which cannot be ended.
type stuck struct {
	broken int // its index among them
	ended  []int
	order  []int
}

func (l *stuck) expire(_ context.Context, limit, skip int) (hold.Expired, error) {
	due := l.order[min(skip, len(l.order)):]
	due = due[:min(limit, len(due))]
	for _, h := range due {
		if h == l.broken {
			return hold.Expired{}, errors.New("its rows are not what they must be")
		}
	}
	var rest []int
	for i, h := range l.order {
		if i < skip || i >= skip+len(due) {
			rest = append(rest, h)
		} else {
			l.ended = append(l.ended, h)
		}
	}
	l.order = rest
	return hold.Expired{Found: len(due), Holds: len(due)}, nil
}

// TestExpiryPassesOverABrokenHold checks that the other holds end in a bounded number of runs.
func TestExpiryPassesOverABrokenHold(t *testing.T) {
	l := &stuck{broken: 7}
	for i := range 1500 {
		l.order = append(l.order, i)
	}
	e := &hold.Expiry{Observer: &told{}, Log: slog.New(slog.DiscardHandler)}
	e.Through(l.expire)
	for range 20 {
		_ = e.RunOnce(t.Context())
	}
	if len(l.ended) != 1499 || len(l.order) != 1 {
		t.Errorf("%d ended, left %v", len(l.ended), l.order)
	}
}
