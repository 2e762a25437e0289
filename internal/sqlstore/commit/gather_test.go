package commit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// gather brings units into the first bucket for operations, and compares their verdicts.
func (w *world) gather(want []bucket.Verdict, ops ...bucket.Operation) []bucket.Outcome {
	w.Helper()
	out, err := w.part.Gather(w.Ctx, w.b.ID, ops[0].Bucket, ops)
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

func TestGatherFromDonors(t *testing.T) {
	each(t, 3000, 3, nil, func(w *world) {
		w.commit(w.asks(1, "a", 300))
		out := w.gather(one(bucket.Accepted), w.asks(0, "b", 1500))
		if out[0].Remaining != 0 || out[0].Deduction.Bucket != w.b.Buckets[0].ID {
			t.Errorf("%+v", out[0])
		}
		w.holds("[0 700 500]") // the fullest gives, and no more than is needed
		if n := w.figure(`SELECT amount FROM grant_log WHERE kind = 'collect'`); n != 500 {
			t.Errorf("collected %d units, want 500", n)
		}
		w.want(one(bucket.Known), w.asks(0, "b", 1500))
	})
}

func TestGatherExhausted(t *testing.T) {
	each(t, 300, 3, nil, func(w *world) {
		out := w.gather([]bucket.Verdict{bucket.Exhausted, bucket.Accepted, bucket.Exhausted},
			w.asks(0, "a", 301), w.asks(0, "b", 200), w.asks(0, "c", 101))
		if out[0].Cover.Sum() != 300 || out[2].Cover.Sum() != 300-200 {
			t.Errorf("covers %+v, %+v", out[0].Cover, out[2].Cover)
		}
		// A request for more than the budget has moves nothing.
		before := w.outstanding()
		w.gather(one(bucket.Exhausted), w.asks(0, "d", 101))
		w.holds(before)
	})
}

// TestGatherInOrder checks that a refusal states what was left before a smaller request with the same
// id was accepted: after that, the id's other payload would be a conflict.
func TestGatherInOrder(t *testing.T) {
	each(t, 30, 3, nil, func(w *world) {
		w.gather(one(bucket.Accepted), w.asks(0, "a", 28))
		out := w.gather([]bucket.Verdict{bucket.Exhausted, bucket.Accepted, bucket.Known},
			w.asks(0, "b", 3), w.asks(0, "b", 2), w.asks(0, "b", 3))
		if left := out[0].Cover.Sum(); left != 2 {
			t.Errorf("the refusal states %d available units, want 2", left)
		}
	})
}

// TestGatherContracts checks that Gather takes an emptied donor offline if the units that are left
// are too few for it, and that an offline bucket can gather again.
func TestGatherContracts(t *testing.T) {
	each(t, 300, 3, nil, func(w *world) {
		w.gather(one(bucket.Accepted), w.asks(0, "a", 295))
		w.holds("[0 0 5]")
		if n := w.figure(`SELECT COUNT(*) FROM sharding_budget_management_bucket
			WHERE status = 'offline' AND offline_by = 'service'`); n != 1 {
			t.Errorf("%d buckets are offline, want only the emptied one", n)
		}
		w.want(one(bucket.Gone), w.asks(1, "b", 1))
		w.gather(one(bucket.Accepted), w.asks(1, "b", 1)) // it comes online again
		w.gather(one(bucket.Accepted), w.asks(2, "c", 4))
		w.gather(one(bucket.Exhausted), w.asks(0, "d", 1))
	})
}

// TestGatherReturns checks that Gather sweeps returned units and applies for them again, even if
// adjust_cnt allows no further application.
func TestGatherReturns(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		w.commit(w.asks(0, "a", 50), w.asks(1, "b", 50))
		w.Exec([]any{`UPDATE budget_management_bucket SET adjust_cnt = 1`},
			[]any{`UPDATE sharding_budget_management_bucket SET out_cnt = 1`},
			[]any{`UPDATE bucket_epoch SET used_quantity = 40, returning_quantity = 10`},
			[]any{`INSERT INTO give_back (budget_id, request_id, kind, rollback_id, amount, is_whole,
			is_direct, bucket_id, epoch, created_at) SELECT budget_id, request_id, 'rollback', ?, 10, 0, 0,
			bucket_id, epoch, 0 FROM deduction`, []byte("r")})
		w.gather([]bucket.Verdict{bucket.Accepted, bucket.Exhausted}, w.asks(0, "c", 15), w.asks(0, "d", 6))
		if n := w.figure(`SELECT amount FROM grant_log WHERE kind = 'again'`); n != 15 {
			t.Errorf("the bucket applied again for %d units, want 15", n)
		}
		if n := w.figure(`SELECT MAX(out_cnt) FROM sharding_budget_management_bucket`); n != 1 {
			t.Errorf("out_cnt is %d, want 1", n)
		}
	})
}

// TestGatherApplies checks that Gather applies for undistributed units, but not more often than
// adjust_cnt allows. After that it collects from other buckets.
func TestGatherApplies(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		w.Exec([]any{`UPDATE budget_management_bucket SET total_quantity = 1100,
			undistributed_quantity = 1000, adjust_cnt = 2, sharding_quantity = 100`},
			[]any{`UPDATE budget_period SET funded_quantity = 1100`})
		w.gather(one(bucket.Accepted), w.asks(0, "a", 60)) // ten are missing; a step is a hundred
		w.holds("[90 50]")
		w.gather(one(bucket.Accepted), w.asks(0, "b", 340)) // more than a step is needed
		w.holds("[0 50]")
		// A third application is not allowed, so the other bucket gives. Then no units are in reach.
		w.gather(one(bucket.Accepted), w.asks(0, "c", 40))
		w.holds("[0 10]")
		w.gather(one(bucket.Short), w.asks(0, "d", 40))
		w.gather(one(bucket.Accepted), w.asks(1, "e", 40)) // the other bucket may still apply
		for column, want := range map[string]int64{"out_cnt": 2, "collect_cnt": 1} {
			got := w.figure(`SELECT ` + column + ` FROM sharding_budget_management_bucket WHERE ordinal = 0`)
			if got != want {
				t.Errorf("%s of the first bucket: %d, want %d", column, got, want)
			}
		}
	})
}

func TestGatherVerdicts(t *testing.T) {
	each(t, 100, 2, []budget.Limit{perUser("calls", 1, budget.MeasureCount)}, func(w *world) {
		w.commit(w.asks(0, "a", 50, user("u")))
		newer := *w.b
		newer.Version = 2
		w.Exec([]any{`UPDATE bucket_epoch SET definition_version = 2`})
		current := func(op *bucket.Operation) { op.Budget = &newer }
		out := w.gather([]bucket.Verdict{bucket.Known, bucket.Outdated, bucket.Limited, bucket.Accepted,
			bucket.Known}, w.asks(0, "a", 50), w.asks(0, "b", 1), w.asks(0, "c", 1, user("u"), current),
			w.asks(0, "d", 10, user("v"), current), w.asks(0, "d", 10, user("v"), current))
		if out[4].Deduction != out[3].Deduction {
			t.Errorf("the twin is known as %+v", out[4].Deduction)
		}
		w.Exec([]any{`UPDATE sharding_budget_management_bucket SET status = 'offline', offline_by = 'operator'
			WHERE id = ?`, w.b.Buckets[0].ID}, []any{`UPDATE bucket_epoch SET status = 'closed'
			WHERE bucket_id = ?`, w.b.Buckets[0].ID})
		w.gather(one(bucket.Gone), w.asks(0, "e", 1, current))
		w.Exec([]any{`UPDATE budget_management_bucket SET roll_over_ms = 1`})
		w.gather([]bucket.Verdict{bucket.Over, bucket.Over}, w.asks(0, "a", 50), w.asks(1, "f", 1, current))
		_, err := w.part.Gather(w.Ctx, 4711, 1, nil)
		if err != nil {
			t.Errorf("nothing asked for: %v", err)
		}
		if _, err = w.part.Gather(w.Ctx, 4711, 1, []bucket.Operation{w.asks(1, "g", 1)}); !budget.Is(err,
			budget.BudgetNotFound) {
			t.Errorf("%v, want budget_not_found", err)
		}
	})
}

// TestGatherFromManyBuckets checks that Gather collects from more epochs than one transaction
// locks.
func TestGatherFromManyBuckets(t *testing.T) {
	each(t, 200, 200, nil, func(w *world) {
		w.gather([]bucket.Verdict{bucket.Accepted, bucket.Exhausted}, w.asks(0, "a", 190), w.asks(0, "b", 11))
		w.gather(one(bucket.Accepted), w.asks(0, "c", 10))
		w.gather(one(bucket.Exhausted), w.asks(0, "d", 1))
	})
}

func TestGatherHolds(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		w.gather(one(bucket.Accepted), w.asks(0, "a", 80, hold(time.Hour, "g")))
		w.want(one(bucket.Accepted), w.asks(1, "b", 1, hold(time.Hour, "g")))
	})
}

func TestLookups(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		for _, exact := range []bool{false, true} {
			got, err := w.part.Covers(w.Ctx, []int64{w.b.ID, 4711}, exact)
			w.OK(err)
			if c := got[w.b.ID]; len(got) != 1 || c != (bucket.Cover{Outstanding: 100}) {
				t.Errorf("covers %+v", got)
			}
		}
		first := w.b.Buckets[0].ID
		got, err := w.part.Standings(w.Ctx, []int64{first, 4711})
		w.OK(err)
		if len(got) != 1 || got[first] != 50 {
			t.Errorf("standings %v", got)
		}
	})
}
