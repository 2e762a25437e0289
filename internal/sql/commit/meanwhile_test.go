package commit_test

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// beside runs statements in a transaction of another connection. It commits the transaction once do
// waits for one of its locks.
func (s *server) beside(do func(), statements ...string) {
	s.Helper()
	s.do("SET autocommit = 1", "BEGIN")
	s.do(statements...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	s.waitForLock()
	s.do("COMMIT")
	<-done
}

// TestEpochBeginsMeanwhile checks that the locking form takes from the bucket's next epoch if the
// present one ends while it waits for the lock.
func TestEpochBeginsMeanwhile(t *testing.T) {
	onServer(t, nil, func(s *server) {
		locking := *s.b // without epochs, so no packet is tried
		locking.Buckets = nil
		op := s.asks(0, "a", 3)
		op.Budget = &locking
		s.beside(func() {
			if o := s.want(one(bucket.Accepted), op)[0]; o.Deduction.Epoch != 2 || o.Remaining != 47 {
				t.Errorf("%+v", o)
			}
		}, `UPDATE bucket_epoch SET status = 'closed', closed_quantity = 50, outstanding_quantity = 0
			WHERE bucket_id = 2`,
			`INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, period, period_end_ms,
			definition_version, outstanding_quantity, held_quantity, used_quantity,
			returning_quantity, closed_quantity, swept_quantity, next_grant, next_entry, halted,
			created_at) VALUES (2, 2, 1, 'open', 1, 0, 1, 50, 0, 0, 0, 0, 0, 2, 1, '', 1)`,
			`INSERT INTO grant_log (bucket_id, epoch, number, budget_id, kind, amount, status,
			created_at) VALUES (2, 2, 1, 1, 'apply', 50, 'done', 1)`,
			`UPDATE sharding_budget_management_bucket SET epoch = 2 WHERE id = 2`)
	})
}

// giveBackOfB rolls back 5 units of deduction b, which return to R of bucket 3.
var giveBackOfB = []string{`INSERT INTO give_back (budget_id, request_id, kind, rollback_id, amount,
	is_whole, is_direct, bucket_id, epoch, created_at)
	VALUES (1, 'b', 'rollback', 'r', 5, 0, 0, 3, 1, 1)`,
	`UPDATE bucket_epoch SET used_quantity = used_quantity - 5, returning_quantity = 5
	WHERE bucket_id = 3 AND epoch = 1`}

// TestBringLooksAgain checks that Bring does not answer exhausted if units come back while it reads,
// to an epoch that had none and is not its bucket's newest (I3).
func TestBringLooksAgain(t *testing.T) {
	onServer(t, nil, func(s *server) {
		s.commit(s.asks(1, "b", 50))
		s.Exec([]any{`UPDATE bucket_epoch SET status = 'closed' WHERE bucket_id = 3`},
			[]any{`INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, period, period_end_ms,
			definition_version, outstanding_quantity, held_quantity, used_quantity, returning_quantity,
			closed_quantity, swept_quantity, next_grant, next_entry, halted, created_at)
			VALUES (3, 2, 1, 'open', 1, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, '', 1)`},
			[]any{`UPDATE sharding_budget_management_bucket SET epoch = 2 WHERE id = 3`})
		s.beside(func() { s.bring(one(bucket.Accepted), s.asks(0, "a", 53)) }, giveBackOfB...)
	})
}

// TestLookTwice checks that the second look waits for a transaction that gives units back, and
// counts them, and that the ids are read after it.
func TestLookTwice(t *testing.T) {
	onServer(t, nil, func(s *server) {
		s.commit(s.asks(1, "b", 45))
		id := func(name string) bucket.ID { return bucket.ID{Budget: s.b.ID, RequestID: name} }
		s.beside(func() {
			sums, recorded, err := s.decider.LookTwice(s.Ctx, []int64{s.b.ID, 4711}, []bucket.ID{id("b"), id("c"), id("x")})
			s.OK(err)
			if sum := sums[s.b.ID]; sum.Sum() != 60 || len(sums) != 1 {
				t.Errorf("%+v, want the sum 60", sums)
			}
			if b := recorded[id("b")]; len(recorded) != 2 || b.Amount != 45 || b.RolledBack != 5 {
				t.Errorf("%+v, want b with 5 of 45 rolled back, and c", recorded)
			}
		}, append([]string{`INSERT INTO deduction VALUES (1, 'c', 2, 1, 40, '', 'n', 1, NULL)`}, giveBackOfB...)...)
		s.Forget()
	})
}

// TestBringLocks checks that Bring decides by rows that it has locked, the budget's first.
func TestBringLocks(t *testing.T) {
	for name, statements := range map[string][]string{
		"budget": {`SELECT 1 FROM budget_management_bucket WHERE id = 1 FOR UPDATE`},
		"donor": {`INSERT INTO deduction VALUES (1, 'x', 3, 1, 40, '', 'n', 1, NULL)`,
			`INSERT INTO feed VALUES (3, 1, 1, 40, 'x', 1)`,
			`UPDATE bucket_epoch SET outstanding_quantity = 10, used_quantity = 40, next_entry = 2
			WHERE bucket_id = 3`},
	} {
		t.Run(name, func(t *testing.T) {
			onServer(t, nil, func(s *server) {
				want := map[string]bucket.Verdict{"budget": bucket.Accepted, "donor": bucket.Exhausted}
				s.beside(func() { s.bring(one(want[name]), s.asks(0, "a", 70)) }, statements...)
			})
		})
	}
}

// TestBringLeavesHaltedDonors checks that Bring takes nothing from a halted bucket.
func TestBringLeavesHaltedDonors(t *testing.T) {
	each(t, 300, 3, nil, func(w *world) {
		w.Exec([]any{`UPDATE bucket_epoch SET halted = 'x' WHERE bucket_id = ?`, w.b.Buckets[2].ID})
		w.bring([]bucket.Verdict{bucket.Short, bucket.Accepted}, w.asks(0, "a", 201),
			w.asks(0, "b", 200))
		w.holds("[0 0 100]")
	})
}

// TestUnlimitedStopsAtTheLargest checks that the used and held units of an unlimited budget stop at
// the largest amount, in both forms of a flight.
func TestUnlimitedStopsAtTheLargest(t *testing.T) {
	each(t, 2, 2, nil, func(w *world) {
		w.b.Unlimited = true
		w.Exec([]any{`UPDATE bucket_epoch SET outstanding_quantity = 0, closed_quantity = 1,
			used_quantity = ?`, budget.MaxAmount - 5},
			[]any{`UPDATE budget_management_bucket SET total_quantity = 0, out_quantity = 0, unlimited = 1`})
		w.want(one(bucket.Accepted), w.asks(0, "a", budget.MaxAmount))
		w.want([]bucket.Verdict{bucket.Accepted, bucket.Accepted}, w.asks(0, "b", 7), w.asks(1, "c", 7))
		w.want([]bucket.Verdict{bucket.Known, bucket.Accepted}, w.asks(0, "b", 7), w.asks(1, "d", 7))
		for i := range w.b.Buckets {
			if e := w.Newest(w.b.Buckets[i].ID); e.Used != budget.MaxAmount || e.Outstanding != 0 {
				t.Errorf("bucket %d has O %d and S %d, want 0 and the largest amount", i, e.Outstanding, e.Used)
			}
		}
		w.Forget()
	})
}

// TestAvailabilityOfWhatMayBeAppliedFor checks that Availability leaves out undistributed units that no bucket
// may apply for any more, because adjust_cnt is used up (I3).
func TestAvailabilityOfWhatMayBeAppliedFor(t *testing.T) {
	each(t, 101, 2, nil, func(w *world) { // a unit stays in U
		for _, test := range []struct{ most, applied, want int64 }{{0, 1, 101}, {2, 1, 101}, {1, 1, 100}} {
			w.Exec([]any{`UPDATE budget_management_bucket SET adjust_cnt = ?`, test.most},
				[]any{`UPDATE sharding_budget_management_bucket SET out_cnt = ?`, test.applied})
			found, err := w.decider.Availability(w.Ctx, []int64{w.b.ID}, false)
			w.OK(err)
			if sum := found[w.b.ID]; sum.Sum() != test.want {
				t.Errorf("%+v: the sum is %d, want %d", test, sum.Sum(), test.want)
			}
		}
	})
}
