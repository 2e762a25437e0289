package commit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// bring brings units for operations, and compares their verdicts.
func (w *world) bring(want []bucket.Verdict, ops ...bucket.Operation) []bucket.Outcome {
	w.Helper()
	return w.bringNear(0, want, ops...)
}

// bringNear is bring where a usual deduction takes recent units.
func (w *world) bringNear(recent int64, want []bucket.Verdict, ops ...bucket.Operation) []bucket.Outcome {
	w.Helper()
	out, err := w.decider.Bring(w.Ctx, map[int64]int64{w.b.ID: recent}, ops)
	w.OK(err)
	w.verdicts(out, want...)
	return out
}

// outstanding lists O of the buckets' newest epochs.
func (w *world) outstanding() string {
	w.Helper()
	var out []int64
	for i := range w.b.Buckets {
		out = append(out, w.Newest(w.b.Buckets[i].ID).Outstanding)
	}
	return fmt.Sprint(out)
}

func (w *world) holds(want string) {
	w.Helper()
	if got := w.outstanding(); got != want {
		w.Errorf("buckets hold %s, want %s", got, want)
	}
}

func TestBringFromDonors(t *testing.T) {
	each(t, 3000, 3, nil, func(w *world) {
		w.commit(w.asks(1, "a", 300))
		out := w.bring(one(bucket.Accepted), w.asks(0, "b", 1500))
		if out[0].Remaining != 0 || out[0].Deduction.Bucket != w.b.Buckets[0].ID {
			t.Errorf("%+v", out[0])
		}
		w.holds("[0 700 500]") // the fullest gives, and no more than is needed
		if n := w.figure(`SELECT amount FROM grant_log WHERE kind = 'collect'`); n != 500 {
			t.Errorf("collected %d units, want 500", n)
		}
		w.bring(one(bucket.Known), w.asks(0, "b", 1500))
	})
}

func TestBringExhausted(t *testing.T) {
	each(t, 300, 3, nil, func(w *world) {
		out := w.bring([]bucket.Verdict{bucket.Exhausted, bucket.Accepted, bucket.Exhausted},
			w.asks(0, "a", 301), w.asks(0, "b", 200), w.asks(0, "c", 101))
		if out[0].Availability.Sum() != 300 || out[2].Availability.Sum() != 300-200 {
			t.Errorf("available %+v, %+v", out[0].Availability, out[2].Availability)
		}
		// A request for more than the budget has moves nothing.
		before := w.outstanding()
		w.bring(one(bucket.Exhausted), w.asks(0, "d", 101))
		w.holds(before)
	})
}

// TestBringInOrder checks that a refusal states what was left before a smaller request with the same
// id was accepted: after that, the id's other payload would be a conflict.
func TestBringInOrder(t *testing.T) {
	each(t, 30, 3, nil, func(w *world) {
		w.bring(one(bucket.Accepted), w.asks(0, "a", 28))
		out := w.bring([]bucket.Verdict{bucket.Exhausted, bucket.Accepted, bucket.Known},
			w.asks(0, "b", 3), w.asks(0, "b", 2), w.asks(0, "b", 3))
		if left := out[0].Availability.Sum(); left != 2 {
			t.Errorf("the refusal states %d available units, want 2", left)
		}
	})
}

// TestBringIntoOne checks that operations of several buckets are written to one, the fullest, which
// gives what it has before others do.
func TestBringIntoOne(t *testing.T) {
	each(t, 300, 3, nil, func(w *world) {
		w.commit(w.asks(0, "a", 90), w.asks(1, "b", 80))
		out := w.bring([]bucket.Verdict{bucket.Accepted, bucket.Accepted}, w.asks(0, "c", 50), w.asks(1, "d", 50))
		for i := range out {
			if out[i].Deduction.Bucket != w.b.Buckets[2].ID {
				t.Errorf("%+v", out[i])
			}
		}
		w.holds("[10 20 0]")
		w.bring(one(bucket.Known), w.asks(0, "a", 90))
		w.bring([]bucket.Verdict{bucket.Exhausted, bucket.Accepted}, w.asks(0, "e", 31), w.asks(0, "f", 30))
	})
}

// TestBringContracts checks that one bucket gets everything near the end of a budget, and that the
// others are offline until more is handed out than that was.
func TestBringContracts(t *testing.T) {
	each(t, 300, 3, nil, func(w *world) {
		w.bringNear(10, one(bucket.Accepted), w.asks(0, "a", 179)) // 300 is more than 4 * 3 * 10
		w.holds("[0 21 100]")
		w.bringNear(10, one(bucket.Exhausted), w.asks(0, "b", 122)) // nothing moves for it
		w.bringNear(0, one(bucket.Accepted), w.asks(0, "c", 1))     // nobody knows what is usual
		w.holds("[0 21 99]")
		w.bringNear(10, one(bucket.Accepted), w.asks(1, "d", 2))
		w.holds("[0 0 118]")
		if n := w.figure(`SELECT COUNT(*) FROM sharding_budget_management_bucket
			WHERE status = 'offline' AND offline_by = 'service'`); n != 2 {
			t.Errorf("%d buckets are offline, want all but one", n)
		}
		if n := w.figure(`SELECT contraction_bound FROM budget_management_bucket`); n != 120 {
			t.Errorf("the bound is %d, want 120", n)
		}
		w.want(one(bucket.Gone), w.asks(1, "e", 1))
		w.bringNear(10, []bucket.Verdict{bucket.Accepted, bucket.Exhausted}, w.asks(1, "e", 118), w.asks(0, "f", 1))
	})
}

// TestBringBegins checks that a bucket which the service took offline begins an epoch if no other
// serves, and one that an operator took offline does not.
func TestBringBegins(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		close := func(bucket int, by string) {
			id := w.b.Buckets[bucket].ID
			w.Exec([]any{`UPDATE sharding_budget_management_bucket SET status = 'offline', offline_by = ?
				WHERE id = ?`, []byte(by), id}, []any{`UPDATE budget_management_bucket SET
				undistributed_quantity = undistributed_quantity + 50, out_quantity = out_quantity - 50`},
				[]any{`UPDATE bucket_epoch SET status = 'closed', closed_quantity = 50, outstanding_quantity = 0
				WHERE bucket_id = ?`, id})
		}
		close(0, "operator")
		close(1, "service")
		out := w.bring(one(bucket.Accepted), w.asks(0, "a", 30))
		if d := out[0].Deduction; d.Bucket != w.b.Buckets[1].ID || d.Epoch != 2 {
			t.Errorf("%+v", d)
		}
		w.Exec([]any{`UPDATE sharding_budget_management_bucket SET status = 'offline', offline_by = 'operator'`})
		w.bring(one(bucket.Gone), w.asks(0, "b", 30))
		w.Exec([]any{`UPDATE sharding_budget_management_bucket SET status = 'online', offline_by = ''
			WHERE id = ?`, w.b.Buckets[1].ID})
	})
}

// TestBringReturns checks that Bring sweeps returned units and applies for them again, even if
// adjust_cnt allows no further application.
func TestBringReturns(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		w.commit(w.asks(0, "a", 50), w.asks(1, "b", 50))
		w.Exec([]any{`UPDATE budget_management_bucket SET adjust_cnt = 1`},
			[]any{`UPDATE sharding_budget_management_bucket SET out_cnt = 1`},
			[]any{`UPDATE bucket_epoch SET used_quantity = 40, returning_quantity = 10`},
			[]any{`INSERT INTO give_back (budget_id, request_id, kind, rollback_id, amount, is_whole,
			is_direct, bucket_id, epoch, created_at) SELECT budget_id, request_id, 'rollback', ?, 10, 0, 0,
			bucket_id, epoch, 0 FROM deduction`, []byte("r")})
		w.bring([]bucket.Verdict{bucket.Accepted, bucket.Exhausted}, w.asks(0, "c", 15), w.asks(0, "d", 6))
		if n := w.figure(`SELECT amount FROM grant_log WHERE kind = 'again'`); n != 15 {
			t.Errorf("the bucket applied again for %d units, want 15", n)
		}
		if n := w.figure(`SELECT MAX(out_cnt) FROM sharding_budget_management_bucket`); n != 1 {
			t.Errorf("out_cnt is %d, want 1", n)
		}
	})
}

// TestBringApplies checks that Bring applies for undistributed units, but not more often than
// adjust_cnt allows all buckets together: an application that the target may not make counts on one
// that may.
func TestBringApplies(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		w.Exec([]any{`UPDATE budget_management_bucket SET total_quantity = 1100,
			undistributed_quantity = 1000, adjust_cnt = 2, sharding_quantity = 100`},
			[]any{`UPDATE budget_period SET funded_quantity = 1100`})
		counts := func(want string) {
			t.Helper()
			got := fmt.Sprint(w.figure(`SELECT out_cnt FROM sharding_budget_management_bucket WHERE ordinal = 0`),
				w.figure(`SELECT out_cnt FROM sharding_budget_management_bucket WHERE ordinal = 1`))
			if got != want {
				t.Errorf("applications %s, want %s", got, want)
			}
		}
		w.bring(one(bucket.Accepted), w.asks(0, "a", 60)) // ten are missing; a step is a hundred
		w.holds("[90 50]")
		w.bring(one(bucket.Accepted), w.asks(0, "b", 340)) // more than a step is needed
		w.holds("[0 50]")
		counts("2 0")
		w.Exec([]any{`UPDATE bucket_epoch SET used_quantity = used_quantity - 90, outstanding_quantity = 90
			WHERE bucket_id = ?`, w.b.Buckets[0].ID}, []any{`UPDATE deduction SET amount = 250 WHERE amount = 340`},
			[]any{`UPDATE feed SET units = 250 WHERE units = 340`})
		w.bring(one(bucket.Accepted), w.asks(0, "c", 120)) // for the first bucket, counted on the second
		w.holds("[70 50]")
		counts("2 1")
		w.bring(one(bucket.Accepted), w.asks(0, "d", 120))
		counts("2 2")
		w.bring(one(bucket.Accepted), w.asks(0, "e", 100)) // no bucket may apply: the other gives
		w.holds("[0 0]")
		w.bring(one(bucket.Exhausted), w.asks(0, "f", 1))
		w.Forget() // the feed's body still says 340
	})
}

func TestBringVerdicts(t *testing.T) {
	each(t, 100, 2, []budget.Limit{perUser("calls", 1, budget.MeasureCount)}, func(w *world) {
		w.commit(w.asks(0, "a", 50, user("u")))
		newer := *w.b
		newer.Version = 2
		w.Exec([]any{`UPDATE bucket_epoch SET definition_version = 2`})
		current := func(op *bucket.Operation) { op.Budget = &newer }
		out := w.bring([]bucket.Verdict{bucket.Known, bucket.Outdated, bucket.Limited, bucket.Accepted,
			bucket.Known}, w.asks(0, "a", 50), w.asks(0, "b", 1), w.asks(0, "c", 1, user("u"), current),
			w.asks(0, "d", 10, user("v"), current), w.asks(0, "d", 10, user("v"), current))
		if out[4].Deduction != out[3].Deduction {
			t.Errorf("the duplicate is known as %+v", out[4].Deduction)
		}
		w.Exec([]any{`UPDATE sharding_budget_management_bucket SET status = 'offline', offline_by = 'operator'`},
			[]any{`UPDATE bucket_epoch SET status = 'closed'`})
		w.bring(one(bucket.Gone), w.asks(0, "e", 1, current))
		w.Exec([]any{`UPDATE budget_management_bucket SET roll_over_ms = 1,
			period_end_ms = 1`})
		w.bring([]bucket.Verdict{bucket.Known, bucket.Over}, w.asks(0, "a", 50), w.asks(1, "f", 1, current))
		if _, err := w.decider.Bring(w.Ctx, nil, nil); err != nil {
			t.Errorf("nothing asked for: %v", err)
		}
		unknown := *w.b
		unknown.ID = 4711
		w.bring(one(bucket.Gone), w.asks(1, "g", 1, func(op *bucket.Operation) { op.Budget = &unknown }))
	})
}

// TestBringFromManyBuckets checks that Bring collects from more epochs than one transaction
// locks.
func TestBringFromManyBuckets(t *testing.T) {
	each(t, 200, 200, nil, func(w *world) {
		w.bring([]bucket.Verdict{bucket.Accepted, bucket.Exhausted}, w.asks(0, "a", 190), w.asks(0, "b", 11))
		w.bring(one(bucket.Accepted), w.asks(0, "c", 10))
		w.bring(one(bucket.Exhausted), w.asks(0, "d", 1))
	})
}

func TestBringHolds(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		w.bring(one(bucket.Accepted), w.asks(0, "a", 80, hold(time.Hour, "g")))
		w.want(one(bucket.Accepted), w.asks(1, "b", 1, hold(time.Hour, "g")))
	})
}

func TestLookups(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		for _, exact := range []bool{false, true} {
			got, err := w.decider.Availability(w.Ctx, []int64{w.b.ID, 4711}, exact)
			w.OK(err)
			if c := got[w.b.ID]; len(got) != 1 || c != (ledger.Availability{Outstanding: 100}) {
				t.Errorf("available %+v", got)
			}
		}
		first := w.b.Buckets[0].ID
		got, sums, err := w.decider.Balances(w.Ctx, []int64{first, 4711}, []int64{w.b.ID, 4711})
		w.OK(err)
		if len(got) != 1 || got[first] != 50 || len(sums) != 1 || sums[w.b.ID].Sum() != 100 {
			t.Errorf("balances %v, sums %v", got, sums)
		}
	})
}
