package commit_test

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/commit"
)

// TestLimitsCountedElsewhere checks that a node judges by what other nodes counted, although it
// remembers the limit rows that it wrote itself.
func TestLimitsCountedElsewhere(t *testing.T) {
	limits := []budget.Limit{perUser("amount", 50, budget.MeasureAmount)}
	counted := func(s *server) int64 {
		return s.figure(`SELECT SUM(amount) FROM deduction`)
	}
	for name, run := range map[string]func(s *server, other *commit.Decider){
		"a row that another node wrote": func(s *server, other *commit.Decider) {
			s.want(one(bucket.Accepted), s.asks(0, "a", 20, user("u")))
			s.by(other, bucket.Accepted, s.asks(0, "b", 20, user("u")))
			s.want(one(bucket.Limited), s.asks(1, "c", 20, user("u")))
			s.want(one(bucket.Accepted), s.asks(1, "d", 10, user("u")))
			if n := counted(s); n != 50 {
				t.Errorf("%d units, want 50", n)
			}
			if n := s.decider.ReadsAll(s.b.ID); n == 0 {
				t.Error("the node still relies on what it remembers")
			}
		},
		"a row that another node removed": func(s *server, _ *commit.Decider) {
			s.want(one(bucket.Accepted), s.asks(0, "a", 50, user("u")))
			s.do(`DELETE FROM limit_counter`)
			s.want(one(bucket.Accepted), s.asks(1, "b", 1, user("u")))
			s.Forget()
		},
		"a row that should not be there": func(s *server, other *commit.Decider) {
			s.decider.TakeForAbsent(s.b.ID)
			s.by(other, bucket.Accepted, s.asks(0, "a", 40, user("u")))
			s.want(one(bucket.Limited), s.asks(1, "b", 20, user("u")))
			s.want(one(bucket.Accepted), s.asks(1, "c", 10, user("u")))
			if s.decider.TakesForAbsent(s.b.ID) {
				t.Error("the node still takes unknown rows for absent")
			}
		},
		"rows that were not there": func(s *server, _ *commit.Decider) {
			for n := range 10 {
				var ops []bucket.Operation
				for i := range 100 {
					op := s.asks(0, fmt.Sprintf("a%d-%d", n, i), 51, user(fmt.Sprintf("u%d-%d", n, i)))
					ops = append(ops, op)
				}
				for _, o := range s.commit(ops...) {
					if o.Verdict != bucket.Limited {
						t.Fatalf("%v, want a refusal", o.Verdict)
					}
				}
			}
			if !s.decider.TakesForAbsent(s.b.ID) {
				t.Error("1,000 rows were not there, and the node still reads the next one")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, limits, func(s *server) {
				run(s, commit.New(s.DB))
				if _, locking := s.decider.Forms(); locking != 0 {
					t.Errorf("%d flights by the locking form", locking)
				}
			})
		})
	}
}

// by commits an operation on another node.
func (s *server) by(node *commit.Decider, want bucket.Verdict, op bucket.Operation) {
	s.Helper()
	out, err := node.Commit(s.Ctx, []bucket.Operation{op})
	s.OK(err)
	s.verdicts(out, want)
}
