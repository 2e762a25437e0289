package memstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var sqlNow = time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC)

// sqlWithBudget returns a database with a budget of 100 units in two open buckets.
func sqlWithBudget(t *testing.T) (*SQL, bucket.Budget) {
	t.Helper()
	s := NewSQL(func() time.Time { return sqlNow })
	ctx := context.Background()
	lane := bucket.Lane{Instance: "memory"}
	if _, err := s.Lane(ctx, lane, "run-1"); err != nil {
		t.Fatal(err)
	}
	b, _, err := s.Create(ctx, budget.Definition{
		Tenant: "default", Name: "b", Unit: budget.Count, Durability: budget.Ledger, Type: budget.Promo,
		TotalQuantity: 100, BucketQuantity: 2,
	}, []bucket.Lane{lane, lane})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.MarkOpen(ctx, []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref()}); err != nil {
		t.Fatal(err)
	}
	return s, b
}

// TestSQLHookAnswers: a fault before means not done, one after done and not answered.
func TestSQLHookAnswers(t *testing.T) {
	cause := errors.New("cable")
	refusal := budget.Refuse(budget.TooLarge, "test", "as it is")
	for name, test := range map[string]struct {
		before, after error
		code          budget.Code
		cause         error
		applied       bool
	}{
		"none":                  {nil, nil, "", nil, true},
		"before":                {cause, nil, budget.Unavailable, cause, false},
		"after":                 {nil, cause, budget.OutcomeUnknown, cause, true},
		"before, one of ours":   {refusal, nil, budget.TooLarge, refusal, false},
		"after, one of ours":    {nil, refusal, budget.TooLarge, refusal, true},
		"before goes first":     {cause, refusal, budget.Unavailable, cause, false},
		"wrapped, one of ours":  {fmt.Errorf("x: %w", refusal), nil, budget.TooLarge, refusal, false},
		"after, unknown to all": {nil, context.DeadlineExceeded, budget.OutcomeUnknown, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := sqlWithBudget(t)
			var calls []string
			s.Hook = func(method string, before bool) error {
				calls = append(calls, fmt.Sprint(method, before))
				if before {
					return test.before
				}
				return test.after
			}
			state, _, err := s.Adjust(context.Background(),
				bucket.Adjustment{Budget: b.ID, RequestID: "more", Quantity: 7})
			s.Hook = nil
			if budget.CodeOf(err) != test.code || test.cause != nil && !errors.Is(err, test.cause) {
				t.Errorf("%v, want %q", err, test.code)
			}
			if err != nil && state != "" {
				t.Errorf("state %q beside %v", state, err)
			}
			f, err := s.Figures(context.Background(), b.ID)
			if err != nil || (f.Total == 107) != test.applied {
				t.Errorf("total %d, %v; applied %v", f.Total, err, test.applied)
			}
			want := "Adjusttrue Adjustfalse"
			if test.before != nil {
				want = "Adjusttrue"
			}
			if got := strings.Join(calls, " "); got != want {
				t.Errorf("calls %s, want %s", got, want)
			}
		})
	}
}

// TestSQLHookHearsARefusal: what a method would have refused is unknown to the caller too.
func TestSQLHookHearsARefusal(t *testing.T) {
	s, b := sqlWithBudget(t)
	s.Hook = func(_ string, before bool) error {
		if before {
			return nil
		}
		return errors.New("cable")
	}
	_, _, err := s.Rollback(context.Background(), bucket.RollbackOrder{Budget: b.ID, RequestID: "none"})
	if !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("%v, want outcome_unknown", err)
	}
}

// TestSQLHookMayCall: the hook runs without locks, so that a simulation may look or stop in it.
func TestSQLHookMayCall(t *testing.T) {
	s, b := sqlWithBudget(t)
	depth := 0
	s.Hook = func(method string, _ bool) error {
		if depth++; depth > 3 || method == "Figures" {
			return nil
		}
		_, err := s.Figures(context.Background(), b.ID)
		return err
	}
	if _, err := s.Sweep(context.Background(), b.ID); err != nil {
		t.Error(err)
	}
	if depth < 2 {
		t.Errorf("called %d times", depth)
	}
}

// TestSQLChecksEveryWrite plants a unit in each column; the next write of any kind must notice.
func TestSQLChecksEveryWrite(t *testing.T) {
	plants := map[string]func(b *sqlBudget, e *sqlEpoch){
		"total":           func(b *sqlBudget, _ *sqlEpoch) { b.definition.TotalQuantity++ },
		"undistributed":   func(b *sqlBudget, _ *sqlEpoch) { b.undistributed++ },
		"outstanding":     func(_ *sqlBudget, e *sqlEpoch) { e.Outstanding++ },
		"used":            func(_ *sqlBudget, e *sqlEpoch) { e.Used++ },
		"held":            func(_ *sqlBudget, e *sqlEpoch) { e.Held++ },
		"returning":       func(_ *sqlBudget, e *sqlEpoch) { e.Returning++ },
		"closed":          func(_ *sqlBudget, e *sqlEpoch) { e.closed++ },
		"swept":           func(_ *sqlBudget, e *sqlEpoch) { e.Swept++ },
		"two at once":     func(b *sqlBudget, e *sqlEpoch) { b.undistributed--; e.Outstanding++ },
		"between R and S": func(_ *sqlBudget, e *sqlEpoch) { e.Used--; e.Returning++ },
	}
	ctx := context.Background()
	writes := map[string]func(s *SQL, b bucket.Budget) error{
		"Adjust": func(s *SQL, b bucket.Budget) error {
			_, _, err := s.Adjust(ctx, bucket.Adjustment{Budget: b.ID, RequestID: "more", Quantity: 7})
			return err
		},
		"Sweep": func(s *SQL, b bucket.Budget) error { _, err := s.Sweep(ctx, b.ID); return err },
		"Change": func(s *SQL, b bucket.Budget) error {
			_, err := s.Change(ctx, b.ID, bucket.Change{})
			return err
		},
		"Cancel": func(s *SQL, b bucket.Budget) error { _, err := s.Cancel(ctx, b.ID, "id"); return err },
		"Ending": func(s *SQL, b bucket.Budget) error {
			_, err := s.Ending(ctx, b.ID, b.Buckets[1].Ref(), bucket.ByService, false)
			return err
		},
		"Lose": func(s *SQL, b bucket.Budget) error {
			_, err := s.Lose(ctx, b.Buckets[1].Ref())
			return err
		},
	}
	for what, plant := range plants {
		for method, write := range writes {
			s, b := sqlWithBudget(t)
			plant(s.budgets[0], s.buckets[0].newest())
			caught := caughtBy(func() error { return write(s, b) })
			if !strings.Contains(caught, "I1 is violated") {
				t.Errorf("%s is not noticed by %s: %q", what, method, caught)
			}
			s, b = sqlWithBudget(t)
			s.Unchecked = true
			plant(s.budgets[0], s.buckets[0].newest())
			if caught := caughtBy(func() error { return write(s, b) }); caught != "" {
				t.Errorf("unchecked, %s: %s", method, caught)
			}
		}
	}
}

// caughtBy returns what a call panics with, "" for nothing.
func caughtBy(call func() error) (caught string) {
	defer func() {
		if p := recover(); p != nil {
			caught = fmt.Sprint(p)
		}
	}()
	if err := call(); err != nil {
		return err.Error()
	}
	return ""
}

// TestSQLAnswersAreCopies: a caller cannot reach the tables through an answer.
func TestSQLAnswersAreCopies(t *testing.T) {
	s, b := sqlWithBudget(t)
	ctx := context.Background()
	ref := b.Buckets[0].Ref()
	line := func(previous, line string, seq int64) ledger.Entry {
		e, err := ledger.ParseEntry(seq, ledger.Chain(previous, line)+line)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	open := line("", ledger.OpenLine(ref.Bucket, 1, 1), 0)
	request := ledger.EncodeRequest(ledger.Request{ID: "id", Nonce: "12345678",
		Fingerprint: strings.Repeat("f", 16)})
	first := line(open.Chain, ledger.Line(ledger.KindDeduct, 5, request), 1)
	second := line(first.Chain, ledger.Line(ledger.KindDeduct, 5, request), 2)
	report, err := s.Commit(ctx, []ledger.Log{{Bucket: ref.Bucket, Epoch: 1,
		Entries: []ledger.Entry{open, first, second}}})
	if err != nil || report.Epochs[0].Err != nil || len(report.Epochs[0].Outcomes) != 2 {
		t.Fatalf("%+v, %v", report, err)
	}
	for _, o := range report.Epochs[0].Outcomes {
		o.Deduction.Amount = 99
	}
	at := report.Epochs[0].Outcomes[0].Position
	found, err := s.At(ctx, []ledger.Position{at})
	if err != nil || found[at].Deduction.Amount != 5 {
		t.Fatalf("%+v, %v", found[at].Deduction, err)
	}
	found[at].Deduction.Amount = 99
	read, err := s.Budget(ctx, bucket.BudgetRef{ID: b.ID})
	if err != nil {
		t.Fatal(err)
	}
	read.Buckets[0].Online = false
	run, err := s.BeginRun(ctx, bucket.Run{Budget: b.ID, Units: 5})
	if err != nil || run.Number != 1 {
		t.Fatalf("%+v, %v", run, err)
	}
	again, err := s.Budget(ctx, bucket.BudgetRef{ID: b.ID})
	recorded, err2 := s.Recorded(ctx, []bucket.ID{{Budget: b.ID, RequestID: "id"}})
	if err != nil || err2 != nil || !again.Buckets[0].Online ||
		recorded[bucket.ID{Budget: b.ID, RequestID: "id"}].Amount != 5 {
		t.Errorf("%+v, %+v, %v, %v", again, recorded, err, err2)
	}
}
