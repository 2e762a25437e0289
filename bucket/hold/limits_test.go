package hold_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/counters"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// limited gives a budget limits of version `changed`, as a change at the present instant does.
func (w *world) limited(b fixture.Budget, changed int64, list ...budget.Limit) *limit.Set {
	w.Helper()
	now := engine.ToMS(w.DB.Now())
	w.Exec([]any{`UPDATE budget_management_bucket SET version = version + 1, limits_version = ?
		WHERE id = ?`, changed, b.ID},
		[]any{`UPDATE bucket_epoch SET definition_version = definition_version + 1
		WHERE budget_id = ? AND status = 'open'`, b.ID},
		[]any{`DELETE FROM budget_limit WHERE budget_id = ?`, b.ID})
	for i, l := range list {
		w.Exec([]any{`INSERT INTO budget_limit (budget_id, name, definition, ordinal, changed_version,
			changed_ms) VALUES (?, ?, ?, ?, ?, ?)`, b.ID, []byte(l.Name), limit.Encode(l), i, changed, now})
	}
	var set *limit.Set
	w.OK(w.DB.Read(w.Ctx, "limits", func(r *engine.Reader) (err error) {
		set, err = counters.Limits(r, b.ID, changed)
		return err
	}))
	return set
}

// take deducts and counts as a flight does.
func (w *world) take(set *limit.Set, b fixture.Budget, d fixture.Deduction, dimensions map[string]string) {
	w.Helper()
	d.Note = ledger.Note{Dimensions: ledger.Dimensions(dimensions)}
	w.Deduct(d)
	charges, _ := set.Charges(d.Amount, dimensions, nil)
	w.Write(func(t *engine.Tx) error {
		for i := range charges {
			key := counters.Key{Budget: b.ID, Dimension: charges[i].Limit.Dimension, Value: charges[i].Key}
			found, err := counters.Read(&t.Reader, []counters.Key{key})
			if err != nil {
				return err
			}
			row := found[key]
			if row == nil {
				row = &counters.Row{Key: key}
				if _, err := t.Exec(`INSERT INTO limit_counter VALUES (?, ?, ?, 1, ?, 0)`, key.Budget,
					[]byte(key.Dimension), []byte(key.Value), []byte(row.Counts.Pack())); err != nil {
					return err
				}
			}
			usage := row.Counts.Usage(charges[i].Limit, charges[i].Key, engine.ToMS(w.DB.Now()))
			usage.Stale()
			limit.Count(charges[i:i+1], []*limit.Usage{&usage})
			row.Counts.Put(&usage)
			if err := t.Hit(1, `UPDATE limit_counter SET version = version + 1, counts = ?
				WHERE budget_id = ? AND dimension = ? AND value = ?`, []byte(row.Counts.Pack()), key.Budget,
				[]byte(key.Dimension), []byte(key.Value)); err != nil {
				return err
			}
		}
		return nil
	})
}

// counted reads what a limit counts of a value now.
func (w *world) counted(set *limit.Set, b fixture.Budget, name, value string, want int64) {
	w.Helper()
	l := set.Limit(name)
	key := counters.Key{Budget: b.ID, Dimension: l.Dimension, Value: value}
	row := &counters.Row{}
	w.OK(w.DB.Read(w.Ctx, "counters", func(r *engine.Reader) error {
		found, err := counters.Read(r, []counters.Key{key})
		if found[key] != nil {
			row = found[key]
		}
		return err
	}))
	usage := row.Counts.Usage(l, value, engine.ToMS(w.DB.Now()))
	if used, _ := usage.Used(); used != want {
		w.Errorf("limit %s counts %d of %s, want %d", name, used, value, want)
	}
}

var (
	ever = budget.Limit{Name: "ever", Dimension: "user", Max: 50, Measure: budget.MeasureAmount,
		Enforce: true, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}
	calls = budget.Limit{Name: "calls", Dimension: "user+ad", Max: 5, Measure: budget.MeasureCount,
		Enforce: true, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}
	minute = budget.Limit{Name: "minute", Dimension: "user", Max: 50, Measure: budget.MeasureAmount,
		Enforce: true, Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Minute}}
	sliding = budget.Limit{Name: "sliding", Dimension: "user", Max: 50, Measure: budget.MeasureAmount,
		Enforce: true, Window: budget.LimitWindow{Kind: budget.WindowSliding, Length: 10 * time.Minute,
			Slot: time.Minute}}
)

// TestLimitsAreLowered checks that everything that returns units lowers the windows in which they
// were counted.
func TestLimitsAreLowered(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 1000, 2)
		set := w.limited(b, 1, ever, calls, minute, sliding)
		both := map[string]string{"user": "u1", "ad": "a"}
		key := "2:u11:a"
		for i := range 5 {
			w.take(set, b, fixture.Deduction{Bucket: b.Buckets[i%2], ID: fmt.Sprint("order-", i), Amount: 10,
				Hold: time.Hour, Group: "g"}, both)
		}
		counted := func(ever, calls, minute, sliding int64) {
			w.Helper()
			w.counted(set, b, "ever", "u1", ever)
			w.counted(set, b, "calls", key, calls)
			w.counted(set, b, "minute", "u1", minute)
			w.counted(set, b, "sliding", "u1", sliding)
		}
		counted(50, 5, 50, 50)
		_, _, err := w.confirm(b, "order-0", 4)
		w.OK(err)
		counted(44, 5, 44, 44)
		w.gives(b, "order-0", "", 4, 10, false)
		counted(40, 4, 40, 40)
		w.Clock.Advance(time.Minute)
		w.take(set, b, fixture.Deduction{Bucket: b.Buckets[0], ID: "later", Amount: 7, Hold: time.Second}, both)
		counted(47, 5, 7, 47)
		w.gives(b, "order-1", "part", 3, 3, false) // its minute is over
		counted(44, 5, 7, 44)
		w.Clock.Advance(time.Second)
		equal(w, "expired", w.expire(5).Units, 7)
		counted(37, 4, 0, 37)
		_, err = w.group(hold.Rollback, b)
		w.OK(err)
		counted(0, 0, 0, 0)
		w.Clock.Advance(time.Hour)
		counted(0, 0, 0, 0)
	})
}

// TestLimitsOfAnOfflineBucket checks that they are lowered too, under the budget's lock.
func TestLimitsOfAnOfflineBucket(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		set := w.limited(b, 1, ever)
		user := map[string]string{"user": "u1"}
		w.take(set, b, fixture.Deduction{Bucket: b.Buckets[0], ID: "order", Amount: 10}, user)
		w.Offline(b, b.Buckets[0])
		w.gives(b, "order", "", 4, 4, false)
		w.counted(set, b, "ever", "u1", 6)
	})
}

// TestLimitsThatChange checks that a rollback lowers what the present definition counts. If a
// flight may be about to load a counter from the ledger, the rollback creates the row or raises its
// version, so that the flight's guarded write fails.
func TestLimitsThatChange(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		set := w.limited(b, 1, ever)
		user := map[string]string{"user": "u1"}
		w.take(set, b, fixture.Deduction{Bucket: b.Buckets[0], ID: "order", Amount: 10}, user)
		w.Clock.Advance(time.Minute)
		w.gives(b, "order", "1", 1, 1, false) // the limits are in the cache now
		w.counted(set, b, "ever", "u1", 9)
		version := func(dimension, value string) (n int64) {
			key := counters.Key{Budget: b.ID, Dimension: dimension, Value: value}
			w.OK(w.DB.Read(w.Ctx, "counters", func(r *engine.Reader) error {
				found, err := counters.Read(r, []counters.Key{key})
				if found[key] != nil {
					n = found[key].Version
				}
				return err
			}))
			return n
		}
		w.limited(b, 2, minute, sliding)
		before := version("user", "u1")
		w.gives(b, "order", "2", 1, 2, false)
		equal(w, "version", version("user", "u1"), before+1)
		w.Exec([]any{`DELETE FROM limit_counter WHERE budget_id = ?`, b.ID})
		w.gives(b, "order", "3", 1, 3, false)
		equal(w, "version of the row made", version("user", "u1"), 1)
		w.counted(set, b, "ever", "u1", 0)
	})
}

// TestLimitsChangeDuringARollback checks that a rollback lowers the limits of the definition that is
// valid when it commits: in a bucket that is online, and in one that is offline, where no epoch says
// that the definition has changed. It waits for a counter here while the definition changes.
func TestLimitsChangeDuringARollback(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		offline bool
	}{{"online", false}, {"offline", true}} {
		t.Run(test.name, func(t *testing.T) { // one at a time, for awaitLockWait
			config := engine.Config{Driver: "mysql", DSN: testservers.SharedMariaDB(t).NewDatabase(t)}
			fixture.On(t, config, func(fw *fixture.World) {
				w := &world{fw, hold.NewLedger(fw.DB)}
				w.changesDuring(test.offline)
			})
		})
	}
}

func (w *world) changesDuring(offline bool) {
	b := w.Create("b", 100, 2)
	both := map[string]string{"user": "u1", "shop": "s1"}
	w.take(w.limited(b, 1, ever), b, fixture.Deduction{Bucket: b.Buckets[0], ID: "order", Amount: 10},
		both)
	if offline {
		w.Offline(b, b.Buckets[0])
	}
	w.Clock.Advance(time.Minute)
	locked, release, waiting := make(chan struct{}), make(chan struct{}), sync.WaitGroup{}
	waiting.Go(func() {
		w.Write(func(t *engine.Tx) error {
			var one int
			_, err := t.Get(&one, `SELECT 1 FROM limit_counter WHERE budget_id = ? /*locked*/`, b.ID)
			close(locked)
			<-release
			return err
		})
	})
	<-locked
	waiting.Go(func() { w.gives(b, "order", "1", 1, 1, false) })
	w.awaitLockWait()
	shop := ever
	shop.Name, shop.Dimension = "shop", "shop"
	set := w.limited(b, 2, ever, shop)
	w.take(set, b, fixture.Deduction{Bucket: b.Buckets[1], ID: "other", Amount: 5},
		map[string]string{"user": "u2", "shop": "s1"})
	close(release)
	waiting.Wait()
	w.counted(set, b, "shop", "s1", 4)
}

// awaitLockWait returns when a transaction of this database waits for a lock. Only one caller may
// wait at a time: the server answers from a cache until nobody has asked for 100 ms.
func (w *world) awaitLockWait() {
	w.Helper()
	for range 300 {
		n := 0
		w.OK(w.DB.Read(w.Ctx, "waits", func(r *engine.Reader) error {
			_, err := r.Get(&n, `SELECT COUNT(*) FROM information_schema.innodb_trx t
				JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
				WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`)
			return err
		}))
		if n > 0 {
			return
		}
		time.Sleep(110 * time.Millisecond)
	}
	w.Errorf("no transaction waits for a lock")
}
