package sqlstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// oddKeys are different keys, however much an engine would like to take some for one.
var oddKeys = []string{
	"7", "007", "7.0", "+7", "0x7", "1e3", "1000", "1E3", "a", "A", "a ", " a", "á", "a\u0301", "ß",
	"ss", "NULL", "'; DROP TABLE deduction;--", `\`, `\'`, `"`, "`", "%", "_", "?", "/*locked*/",
	"-- x", "\U0001F600", "9223372036854775808", "inf", "nan",
}

func bothEngines(t *testing.T, test func(t *testing.T, db *DB)) {
	t.Run("sqlite", func(t *testing.T) { test(t, openFile(t, time.Now)) })
	t.Run("mariadb", func(t *testing.T) { test(t, openMariaDB(t, time.Now)) })
}

// TestKeysAreBytes: request ids, rollback ids, adjustment ids and texts are what they are.
func TestKeysAreBytes(t *testing.T) {
	bothEngines(t, func(t *testing.T, db *DB) {
		ctx := t.Context()
		v := openBudget(t, db, "b", 1_000_000, 1)
		l := newLog(v.Buckets[0].Ref())
		l.grant(v.Buckets[0].Epoch.Outstanding, 1)
		for i, key := range oddKeys {
			r := request(int64(i)+1, key)
			r.Reference, r.Dimensions = key, ledger.Dimensions(map[string]string{key: key})
			l.add(ledger.Line(ledger.KindDeduct, int64(i)+1, ledger.EncodeRequest(r)))
		}
		report, err := db.Commit(ctx, []ledger.Log{l.log(0)})
		if err != nil || report.Epochs[0].Err != nil {
			t.Fatalf("%v, %+v", err, report)
		}
		judged, err := db.Judge(ctx, v.ID, oddKeys)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]bucket.ID, len(oddKeys))
		for i, key := range oddKeys {
			ids[i] = bucket.ID{Budget: v.ID, RequestID: key}
		}
		recorded, err := db.Recorded(ctx, ids)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range oddKeys {
			r, amount := request(int64(i)+1, key), int64(i)+1
			want := ledger.Deduction{
				Budget: v.ID, RequestID: key, Amount: amount, State: ledger.StateUsed, Reference: key,
				Fingerprint: r.Fingerprint, Nonce: r.Nonce, Position: l.at(amount + 1), Entry: amount,
				Dimensions: ledger.Dimensions(map[string]string{key: key}),
				CountedAt:  judged.Recorded[key].CountedAt,
			}
			if got := judged.Recorded[key]; got != want {
				t.Errorf("judged %q: %+v, want %+v", key, got, want)
			}
			if got := recorded[ids[i]]; got != want {
				t.Errorf("recorded %q: %+v, want %+v", key, got, want)
			}
		}
		testOtherKeys(t, db, v)
	})
}

func testOtherKeys(t *testing.T, db *DB, v bucket.Budget) {
	ctx := t.Context()
	last := oddKeys[len(oddKeys)-1]
	for _, key := range oddKeys {
		d, replayed, err := db.Rollback(ctx, bucket.RollbackOrder{
			Budget: v.ID, RequestID: last, RollbackID: key, Amount: 1,
		})
		if err != nil || replayed {
			t.Errorf("rollback %q: %+v, replayed %v, %v", key, d, replayed, err)
		}
		state, replayed, err := db.Adjust(ctx, bucket.Adjustment{Budget: v.ID, RequestID: key,
			Quantity: 1})
		if err != nil || replayed || state != bucket.AdjustmentDone {
			t.Errorf("adjust %q: %s, replayed %v, %v", key, state, replayed, err)
		}
		lane := bucket.Lane{Instance: "store", Index: 1}
		if _, err := db.NextActivation(ctx, lane, 1, key); !budget.Is(err, budget.InstanceNotFound) {
			t.Errorf("lane: %v", err)
		}
	}
	f, err := db.Figures(ctx, v.ID)
	if err != nil || f.Total != v.TotalQuantity+int64(len(oddKeys)) ||
		f.Returning != int64(len(oddKeys)) {
		t.Errorf("figures %+v, %v", f, err)
	}
	for i, name := range []string{"a1", "a-1", "a01"} {
		other := openBudget(t, db, name, int64(i)+1, 1)
		if got, err := db.Budget(ctx, bucket.BudgetRef{Tenant: "default", Name: name}); err != nil ||
			got.ID != other.ID {
			t.Errorf("budget %s: %+v, %v", name, got, err)
		}
	}
}

// TestManyKeys: lists longer than one statement takes.
func TestManyKeys(t *testing.T) {
	bothEngines(t, func(t *testing.T, db *DB) {
		const budgets, each = 3, 700
		var logs []ledger.Log
		var ids []bucket.ID
		var positions []ledger.Position
		for b := range budgets {
			v := openBudget(t, db, fmt.Sprint("b", b), 1_000_000, 1)
			l := newLog(v.Buckets[0].Ref())
			l.grant(v.Buckets[0].Epoch.Outstanding, 1)
			for i := range each {
				l.deduct(1, fmt.Sprint("order ", i))
				ids = append(ids, bucket.ID{Budget: v.ID, RequestID: fmt.Sprint("order ", i)})
				positions = append(positions, l.at(int64(i)+2))
			}
			logs = append(logs, l.log(0))
		}
		if _, err := db.Commit(t.Context(), logs); err != nil {
			t.Fatal(err)
		}
		recorded, err := db.Recorded(t.Context(), ids)
		if err != nil || len(recorded) != budgets*each {
			t.Errorf("%d recorded, %v", len(recorded), err)
		}
		at, err := db.At(t.Context(), positions)
		if err != nil || len(at) != budgets*each {
			t.Errorf("%d at their positions, %v", len(at), err)
		}
		for i, p := range positions {
			if o := at[p]; o.Deduction == nil || o.Deduction.RequestID != ids[i].RequestID {
				t.Fatalf("at %+v: %+v", p, o)
			}
		}
	})
}
