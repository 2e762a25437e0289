package commit_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

func TestAccepted(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		ops := []bucket.Operation{w.asks(0, "a", 10), w.asks(1, "b", 5, user("u")), w.asks(0, "c", 1)}
		ops[1].Request.Reference = "order 7"
		out := w.want([]bucket.Verdict{bucket.Accepted, bucket.Accepted, bucket.Accepted}, ops...)
		if out[0].Remaining != 39 || out[1].Remaining != 45 || out[2].Remaining != 39 {
			t.Errorf("remaining %d, %d, %d", out[0].Remaining, out[1].Remaining, out[2].Remaining)
		}
		ids := []bucket.ID{{Budget: w.b.ID, RequestID: "b"}, {Budget: w.b.ID, RequestID: "x"}}
		found, err := w.decider.Recorded(w.Ctx, ids)
		w.OK(err)
		if d := found[ids[0]]; len(found) != 1 || d != out[1].Deduction || d.Reference != "order 7" ||
			d.Dimensions != `{"user":"u"}` || d.State != ledger.StateUsed {
			t.Errorf("recorded %+v, answered %+v", found, out[1].Deduction)
		}
		if n := w.figure(`SELECT COUNT(*) FROM deduction_value WHERE value = ?`, []byte("u")); n != 1 {
			t.Errorf("%d values", n)
		}
	})
}

func TestFeedRows(t *testing.T) {
	each(t, 100, 2, nil, func(w *world) {
		w.commit(w.asks(0, "a", 10), w.asks(1, "b", 5), w.asks(0, "c", 1, hold(time.Hour, "")))
		w.commit(w.asks(0, "d", 2))
		for _, want := range []struct {
			first, entries, units int64
			ids                   []string
		}{{1, 2, 11, []string{"a", "c"}}, {3, 1, 2, []string{"d"}}} {
			var body string
			w.OK(readText(w, &body, `SELECT body FROM feed WHERE bucket_id = ? AND first_entry = ?
				AND entries = ? AND units = ?`, w.b.Buckets[0].ID, want.first, want.entries, want.units))
			got, err := ledger.ReadFeed(body)
			w.OK(err)
			for i, id := range want.ids {
				if got[i].RequestID != id || got[i].Held != (id == "c") {
					t.Errorf("entry %d of %d is %+v", i, want.first, got[i])
				}
			}
		}
	})
}

func TestKnown(t *testing.T) {
	each(t, 10, 1, nil, func(w *world) {
		first := w.commit(w.asks(0, "a", 4))
		for range 3 {
			again := w.want(one(bucket.Known), w.asks(0, "a", 4))
			if again[0].Deduction != first[0].Deduction {
				t.Errorf("known as %+v, was %+v", again[0].Deduction, first[0].Deduction)
			}
		}
		// Known comes before every refusal: of a budget that has too little, or too old a definition.
		w.want(one(bucket.Known), w.asks(0, "a", 400))
		w.Exec([]any{`UPDATE bucket_epoch SET definition_version = 2`})
		w.want(one(bucket.Known), w.asks(0, "a", 4))
	})
}

func TestTombstone(t *testing.T) {
	each(t, 10, 1, nil, func(w *world) {
		w.Exec([]any{`INSERT INTO deduction (budget_id, request_id, bucket_id, epoch, amount, fingerprint,
			nonce, counted_at) VALUES (?, ?, 0, 0, 0, ?, ?, 1)`, w.b.ID, []byte("a"), []byte{}, []byte("n")})
		out := w.want(one(bucket.Known), w.asks(0, "a", 4))
		if out[0].Deduction.State != ledger.StateVoid {
			t.Errorf("state %s, want void", out[0].Deduction.State)
		}
	})
}

func TestDuplicates(t *testing.T) {
	each(t, 10, 1, nil, func(w *world) {
		out := w.want([]bucket.Verdict{bucket.Accepted, bucket.Known, bucket.Accepted},
			w.asks(0, "a", 4), w.asks(0, "a", 5), w.asks(0, "b", 1))
		if out[1].Deduction.Amount != 4 {
			t.Errorf("the second is known as %+v", out[1].Deduction)
		}
		// The first one does not fit, so the second is the first that is accepted.
		w.want([]bucket.Verdict{bucket.Short, bucket.Accepted, bucket.Known}, w.asks(0, "c", 40),
			w.asks(0, "c", 3), w.asks(0, "c", 3))
	})
}

func TestShort(t *testing.T) {
	each(t, 10, 1, nil, func(w *world) {
		out := w.want([]bucket.Verdict{bucket.Accepted, bucket.Short, bucket.Accepted},
			w.asks(0, "a", 4), w.asks(0, "b", 7), w.asks(0, "c", 6))
		if out[1].Remaining != 0 {
			t.Errorf("remaining %d, want 0", out[1].Remaining)
		}
		w.want(one(bucket.Short), w.asks(0, "d", 1))
	})
}

func TestGone(t *testing.T) {
	each(t, 10, 2, nil, func(w *world) {
		w.commit(w.asks(0, "a", 1), w.asks(1, "b", 1))
		for _, change := range []string{`status = 'closed', closed_quantity = closed_quantity + 4,
			outstanding_quantity = 0`, `halted = 'x'`} {
			before := w.Newest(w.b.Buckets[0].ID)
			w.Exec([]any{`UPDATE bucket_epoch SET ` + change + ` WHERE bucket_id = ?`, w.b.Buckets[0].ID})
			w.want([]bucket.Verdict{bucket.Gone, bucket.Accepted}, w.asks(0, "c", 1),
				w.asks(1, "d"+change[:1], 1))
			w.Exec([]any{`UPDATE bucket_epoch SET status = 'open', halted = ?, outstanding_quantity = ?,
				closed_quantity = ? WHERE bucket_id = ?`, []byte{}, before.Outstanding, before.Closed,
				before.Bucket})
		}
		op := w.asks(0, "e", 1)
		op.Bucket = 4711
		w.want(one(bucket.Gone), op)
	})
}

// TestPresentEpoch checks that units come from the bucket's present epoch, even if the operation
// was routed by an earlier one.
func TestPresentEpoch(t *testing.T) {
	each(t, 10, 1, nil, func(w *world) {
		w.commit(w.asks(0, "a", 1))
		b := w.fixture()
		w.Offline(b, b.Buckets[0])
		w.want(one(bucket.Gone), w.asks(0, "b", 1))
		w.Online(b, b.Buckets[0], 9)
		out := w.want(one(bucket.Accepted), w.asks(0, "b", 1))
		if out[0].Deduction.Epoch != 2 || out[0].Remaining != 8 {
			t.Errorf("%+v", out[0])
		}
	})
}

func TestOver(t *testing.T) {
	each(t, 10, 1, nil, func(w *world) {
		w.commit(w.asks(0, "a", 1))
		end := w.DB.Now().Add(time.Hour).UnixMilli()
		w.Exec([]any{`UPDATE bucket_epoch SET period_end_ms = ?`, end})
		w.want(one(bucket.Accepted), w.asks(0, "b", 1))
		w.Exec([]any{`UPDATE bucket_epoch SET period_end_ms = ?`, w.DB.Now().UnixMilli() - 1})
		w.want([]bucket.Verdict{bucket.Over, bucket.Known}, w.asks(0, "c", 1), w.asks(0, "b", 1))
	})
}

func TestOutdated(t *testing.T) {
	each(t, 10, 1, nil, func(w *world) {
		w.commit(w.asks(0, "a", 1))
		w.Exec([]any{`UPDATE bucket_epoch SET definition_version = 2`})
		newer := *w.b
		newer.Version = 2
		mixed := w.asks(0, "c", 1)
		mixed.Budget = &newer
		w.want([]bucket.Verdict{bucket.Outdated, bucket.Accepted}, w.asks(0, "b", 1), mixed)
	})
}

func TestLimited(t *testing.T) {
	limits := []budget.Limit{perUser("amount", 10, budget.MeasureAmount),
		perUser("calls", 2, budget.MeasureCount)}
	each(t, 1000, 2, limits, func(w *world) {
		out := w.want([]bucket.Verdict{bucket.Accepted, bucket.Accepted, bucket.Limited, bucket.Accepted},
			w.asks(0, "a", 4, user("u")), w.asks(1, "b", 4, user("u")), w.asks(0, "c", 3, user("u")),
			w.asks(0, "d", 3, user("v")))
		if len(out[2].Refused) != 2 || out[2].Refused[0].Used != 8 || out[2].Refused[1].Used != 2 {
			t.Errorf("refused %+v, want both limits", out[2].Refused)
		}
		if l := out[1].Limits; len(l) != 2 || l[0].Used != 8 || l[1].Used != 2 {
			t.Errorf("limits %+v", l)
		}
		// Not enforced by the bucket: it has enough. A repeat is known although the limit is used up.
		w.want([]bucket.Verdict{bucket.Limited, bucket.Known, bucket.Accepted},
			w.asks(0, "e", 1, user("u")), w.asks(0, "a", 4, user("u")), w.asks(0, "f", 7, user("v")))
		w.want([]bucket.Verdict{bucket.Limited, bucket.Limited}, w.asks(0, "g", 1, user("u")),
			w.asks(0, "h", 1, user("v")))
		if n := w.figure(`SELECT COUNT(*) FROM limit_counter`); n != 2 {
			t.Errorf("%d rows of counters, want one per user", n)
		}
	})
}

// TestRefusedCountsNothing checks that a limit does not count a deduction that its bucket cannot
// cover (I6).
func TestRefusedCountsNothing(t *testing.T) {
	each(t, 10, 1, []budget.Limit{perUser("amount", 100, budget.MeasureAmount)}, func(w *world) {
		w.want([]bucket.Verdict{bucket.Accepted, bucket.Short}, w.asks(0, "a", 4, user("u")),
			w.asks(0, "b", 40, user("u")))
		out := w.want(one(bucket.Accepted), w.asks(0, "c", 1, user("u")))
		if out[0].Limits[0].Used != 5 {
			t.Errorf("the limit reports %d used, want 5", out[0].Limits[0].Used)
		}
	})
}

func TestHoldsAndGroups(t *testing.T) {
	each(t, 100, 1, nil, func(w *world) {
		out := w.want([]bucket.Verdict{bucket.Accepted, bucket.Accepted, bucket.Accepted},
			w.asks(0, "a", 10, hold(time.Hour, "g")), w.asks(0, "b", 5, hold(time.Hour, "")), w.asks(0, "c", 1))
		if d := out[0].Deduction; d.State != ledger.StateHeld || d.HoldUntil.Sub(d.CountedAt) != time.Hour {
			t.Errorf("held as %+v", d)
		}
		w.want(one(bucket.Accepted), w.asks(0, "d", 1, hold(time.Hour, "g")))
		found, err := w.decider.Recorded(w.Ctx, []bucket.ID{{Budget: w.b.ID, RequestID: "a"}})
		w.OK(err)
		if d := found[bucket.ID{Budget: w.b.ID, RequestID: "a"}]; d != out[0].Deduction {
			t.Errorf("recorded %+v, answered %+v", d, out[0].Deduction)
		}
		if e := w.Newest(w.b.Buckets[0].ID); e.Held != 16 || e.Used != 1 || e.Outstanding != 83 {
			t.Errorf("O %d H %d S %d", e.Outstanding, e.Held, e.Used)
		}
		w.Exec([]any{`UPDATE group_of_holds SET state = 'used'`})
		w.want([]bucket.Verdict{bucket.GroupClosed, bucket.Accepted, bucket.Accepted},
			w.asks(0, "e", 1, hold(time.Hour, "g")), w.asks(0, "f", 1),
			w.asks(0, "g", 1, hold(time.Hour, "h")))
	})
}

func TestUnlimited(t *testing.T) {
	each(t, 1, 1, nil, func(w *world) {
		w.b.Unlimited = true
		w.Exec([]any{`UPDATE bucket_epoch SET outstanding_quantity = 0, closed_quantity = 1`},
			[]any{`UPDATE budget_management_bucket SET total_quantity = 0, out_quantity = 0, unlimited = 1`})
		w.commit(w.asks(0, "a", 1000))
		w.want(one(bucket.Accepted), w.asks(0, "b", 1_000_000))
		if e := w.Newest(w.b.Buckets[0].ID); e.Used != 1_001_000 || e.Outstanding != 0 {
			t.Errorf("O %d S %d", e.Outstanding, e.Used)
		}
		w.Exec([]any{`DELETE FROM deduction`}, []any{`UPDATE bucket_epoch SET used_quantity = 0`})
	})
}

func TestManyOperations(t *testing.T) {
	each(t, 70*100, 70, []budget.Limit{perUser("calls", 3, budget.MeasureCount)}, func(w *world) {
		var ops []bucket.Operation
		for i := range 1500 {
			ops = append(ops, w.asks(i%70, "r"+string(rune('a'+i%26))+time.Duration(i).String(), 1,
				user(time.Duration(i/3).String())))
		}
		for i, o := range w.commit(ops...) {
			if o.Verdict != bucket.Accepted {
				t.Fatalf("operation %d: %v", i, o.Verdict)
			}
		}
		if n := w.figure(`SELECT COUNT(*) FROM deduction`); n != 1500 {
			t.Errorf("%d rows", n)
		}
		for i, o := range w.commit(ops...) {
			if o.Verdict != bucket.Known {
				t.Fatalf("repeated operation %d: %v", i, o.Verdict)
			}
		}
	})
}
