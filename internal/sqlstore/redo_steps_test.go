package sqlstore

import (
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// told returns what notes an answer and returns it; done is told for an answer that may lack what an attempt
// of unknown outcome did, or that a clock is in.
func told[A any](answer A, err error) func(s *scenario, what string) A {
	return func(s *scenario, what string) A {
		s.Helper()
		s.note(what, answer, err)
		return answer
	}
}

func done[A any](answer A, err error) func(s *scenario, what string) A {
	return func(s *scenario, what string) A {
		s.Helper()
		s.ok(what, err)
		return answer
	}
}

// is fails unless a figure is the one that is wanted.
func is[A comparable](s *scenario, what string, got, want A) {
	s.Helper()
	if got != want {
		s.Fatalf("%s, %s: %v, want %v", s.topic, what, got, want)
	}
}

// create makes a budget with a bucket on each lane, and opens them.
func (s *scenario) create(d budget.Definition, lanes ...bucket.Lane) bucket.Budget {
	s.Helper()
	for _, lane := range lanes {
		done(s.db.Lane(s.Context(), lane, "one"))(s, "lane")
	}
	d.Tenant, d.Unit, d.BucketQuantity = "default", budget.Count, len(lanes)
	if d.Durability == "" {
		d.Durability = budget.Ledger
	}
	if d.Type == "" {
		d.Type = budget.Promo
	}
	v, _, err := s.db.Create(s.Context(), d, lanes)
	s.note("create", v, err)
	s.open(v.ID)
	return s.read(v.ID)
}

// lanes are n lanes of an instance.
func lanes(instance string, n int) (out []bucket.Lane) {
	for i := range n {
		out = append(out, bucket.Lane{Instance: instance, Index: i})
	}
	return out
}

func (s *scenario) read(id int64) bucket.Budget {
	s.Helper()
	return done(s.db.Budget(s.Context(), bucket.BudgetRef{ID: id}))(s, "budget")
}

// open finishes what was begun, as a node does: epochs that are opening open, and pending grants arrive.
func (s *scenario) open(id int64) {
	s.Helper()
	todo := done(s.db.UnfinishedOf(s.Context(), id))(s, "unfinished of")
	var refs []bucket.Ref
	for _, e := range todo.Epochs {
		ref := bucket.Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		if e.Row.Status == ledger.Opening {
			refs, s.logs[ref] = append(refs, ref), newLog(ref)
		}
	}
	if len(refs) > 0 {
		s.ok("mark open", s.db.MarkOpen(s.Context(), refs))
	}
	for _, g := range todo.Grants {
		if log := s.logs[g.Order.Ref]; log != nil && log.grants() < g.Order.Number {
			log.grant(g.Order.Amount, g.Order.Number)
		}
	}
}

// log is that of a bucket's newest epoch.
func (s *scenario) log(b *bucket.Bucket) *testLog {
	s.Helper()
	log := s.logs[b.Ref()]
	if log == nil {
		s.Fatalf("%s: epoch %+v is not open", s.topic, b.Ref())
	}
	return log
}

// commit drains logs; nothing may be wrong with one.
func (s *scenario) commit(logs ...*testLog) {
	s.Helper()
	var call []ledger.Log
	for _, l := range logs {
		call = append(call, l.log(l.drained))
	}
	report := done(s.db.Commit(s.Context(), call))(s, "commit")
	for i, e := range report.Epochs {
		if e.Err != nil {
			s.Fatalf("%s, commit: %v", s.topic, e.Err)
		}
		logs[i].drained = e.Row.DrainedSeq
	}
}

// end drains and closes an epoch that is closing, or, with ending, open; what it holds goes to U.
func (s *scenario) end(id int64, ref bucket.Ref, ending bool) {
	s.Helper()
	if ending {
		is(s, "ending", told(s.db.Ending(s.Context(), id, ref, bucket.ByService, true))(s, "ending"), true)
	}
	l := s.logs[ref]
	s.commit(l)
	l.add(ledger.Line(ledger.KindClose, l.left(l.granted()), fmt.Sprint(l.grants())))
	order := done(s.db.CloseEpoch(s.Context(), id, ref, l.entries[len(l.entries)-1], nil))(s, "close")
	is(s, "grant of a close", order, nil)
}

// accounts reads and checks the accounts of a budget. A snapshot is not read again within its call, so this
// calls again where it could not be read, as the next audit does.
func (s *scenario) accounts(id int64) bucket.Accounts {
	s.Helper()
	a, err := s.db.Accounts(s.Context(), id)
	for again := 0; again < 10 && (budget.Is(err, budget.Unavailable) || budget.Is(err, budget.Internal)); again++ {
		a, err = s.db.Accounts(s.Context(), id)
	}
	s.ok("accounts", err)
	for _, found := range a.Check() {
		s.Errorf("%s: %v", s.topic, found)
	}
	return a
}

// books compares a budget's figures, those of its period apart, and checks its accounts.
func (s *scenario) books(id int64, want ledger.Figures) {
	s.Helper()
	s.accounts(id)
	f := told(s.db.Figures(s.Context(), id))(s, "figures")
	f.Period, f.PeriodUnits, f.PeriodUsed = budget.Period{}, 0, 0
	if f != want {
		s.Fatalf("%s: figures\n%+v, want\n%+v", s.topic, f, want)
	}
}
