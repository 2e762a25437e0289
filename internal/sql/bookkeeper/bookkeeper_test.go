package bookkeeper

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// everywhere runs a test on SQLite and on MariaDB, in a database with a budget of four buckets.
func everywhere(t *testing.T, run func(t *testing.T, db *engine.DB)) {
	for driver, dsn := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "budgetd.db") },
		"mysql":  func(t *testing.T) string { return testservers.SharedMariaDB(t).NewDatabase(t) },
	} {
		t.Run(driver, func(t *testing.T) {
			db, err := engine.Open(t.Context(), engine.Config{Driver: driver, DSN: dsn(t)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			create(t, db, 1, 1)
			run(t, db)
		})
	}
}

func create(t *testing.T, db *engine.DB, id, firstBucket int64) {
	t.Helper()
	do(t, db, nil, func(b *books.Books) error {
		b.Create(books.Creation{ID: id, FirstBucket: firstBucket, As: "{}", Homes: make([]books.Home, 4),
			KeyOf: func(ordinal int) string { return fmt.Sprint("b:", ordinal) },
			Definition: budget.Definition{Tenant: "shop", Name: fmt.Sprint("b", id), Unit: budget.Count, Type: budget.Promo,
				Durability: budget.Ledger, TotalQuantity: 1000, BucketQuantity: 4}})
		return nil
	})
}

// do runs a movement without further queries.
func do(t *testing.T, db *engine.DB, load []Query, decide func(b *books.Books) error) {
	t.Helper()
	if err := try(t, db, load, decide); err != nil {
		t.Fatal(err)
	}
}

func try(t *testing.T, db *engine.DB, load []Query, decide func(b *books.Books) error) error {
	t.Helper()
	if load == nil {
		load = []Query{}
	}
	return Do(t.Context(), db, "test", load, func(b *books.Books) ([]Query, error) { return nil, decide(b) })
}

// look returns the rows of a budget.
func look(t *testing.T, db *engine.DB, id int64) (out *books.Books) {
	t.Helper()
	do(t, db, WholeBudget(id), func(b *books.Books) error { out = b; return nil })
	return out
}

// TestSave checks that rows are written as they are: several rows of one table in one statement,
// each with its own values, NULL, words and bytes, and no column that nobody changed.
func TestSave(t *testing.T) {
	everywhere(t, func(t *testing.T, db *engine.DB) {
		create(t, db, 2, 5)
		others := look(t, db, 2)
		dimension := "user\x00'; DROP TABLE budget_limit; --"
		do(t, db, WholeBudget(1), func(b *books.Books) error {
			u := b.Budgets.Get(1)
			u.GLCode, u.Routing, u.OnLoss = "caf\xc3\xa9 \xff'", &dimension, "assume_unused"
			for i, row := range b.Buckets.All() {
				row.UpdatedAt, row.OutCnt = int64(i), int64(10+i)
				if i%2 == 0 {
					row.Status, row.OfflineBy = "offline", "service"
				}
				e := b.Epochs.Get(books.Position{Bucket: row.ID, Epoch: row.Epoch})
				e.Outstanding -= int64(i)
				e.Used += int64(i)
			}
			return nil
		})
		after := look(t, db, 1)
		u := after.Budgets.Get(1)
		if u.GLCode != "caf\xc3\xa9 \xff'" || u.Routing == nil || *u.Routing != dimension || u.OnLoss != "assume_unused" || u.Total != 1000 {
			t.Errorf("%+v", *u)
		}
		for i, row := range after.Buckets.All() {
			want := books.Word([]string{"offline", "online"}[i%2])
			e := after.Epochs.Get(books.Position{Bucket: row.ID, Epoch: row.Epoch})
			if row.Status != want || row.OutCnt != int64(10+i) || row.UpdatedAt != int64(i) || e.Used != int64(i) || e.Outstanding != 250-int64(i) {
				t.Errorf("bucket %d: %+v, %+v", i, *row, *e)
			}
		}
		do(t, db, WholeBudget(1), func(b *books.Books) error { b.Budgets.Get(1).Routing = nil; return nil })
		if u := look(t, db, 1).Budgets.Get(1); u.Routing != nil {
			t.Errorf("%q, want NULL", *u.Routing)
		}
		if diff := cmp.Diff(rowsIn(others), rowsIn(look(t, db, 2))); diff != "" {
			t.Errorf("another budget: %s", diff)
		}
	})
}

// rowsIn returns the rows of a budget's books.
func rowsIn(b *books.Books) (out []any) {
	for _, u := range b.Budgets.All() {
		out = append(out, *u)
	}
	for _, row := range b.Buckets.All() {
		out = append(out, *row)
	}
	for _, e := range b.Epochs.All() {
		out = append(out, *e)
	}
	for _, p := range b.Periods.All() {
		out = append(out, *p)
	}
	return out
}

// TestNothingIsSaved checks that a movement that is refused, breaks the accounting, or changes a
// row that no lock covers, saves nothing.
func TestNothingIsSaved(t *testing.T) {
	refused := errors.New("refused")
	everywhere(t, func(t *testing.T, db *engine.DB) {
		before := rowsIn(look(t, db, 1))
		for name, test := range map[string]struct {
			load   []Query
			decide func(b *books.Books) error
			want   string
		}{
			"refused": {WholeBudget(1), func(b *books.Books) error {
				b.Budgets.Get(1).GLCode = "x"
				return refused
			}, "refused"},
			"a unit too many": {WholeBudget(1), func(b *books.Books) error {
				b.Budgets.Get(1).Undistributed++
				return nil
			}, "equation is off by -1"},
			"a unit too few": {WholeBudget(1), func(b *books.Books) error {
				b.Epochs.All()[2].Outstanding--
				return nil
			}, "changed by -1, its rows explain 0"},
			"below 0": {WholeBudget(1), func(b *books.Books) error {
				e := b.Epochs.All()[0]
				e.Used, e.Outstanding = e.Used+251, e.Outstanding-251
				return nil
			}, "below 0"},
			"a grant of an epoch that was not loaded": {nil, func(b *books.Books) error {
				b.Grants.Add(books.Grant{Bucket: 1, Epoch: 1, Number: 2, Budget: 1, Kind: "apply", Amount: 1, Status: "done"})
				return nil
			}, "was not loaded"},
			"without a lock": {[]Query{BudgetByName("shop", "b1")}, func(b *books.Books) error {
				b.Budgets.Get(1).GLCode = "x"
				return nil
			}, "read without a lock"},
		} {
			err := try(t, db, test.load, test.decide)
			if err == nil || !strings.Contains(fmt.Sprint(err, errors.Unwrap(err)), test.want) {
				t.Errorf("%s: %v, want %q", name, err, test.want)
			}
			if name != "refused" && !budget.Is(err, budget.Internal) {
				t.Errorf("%s: %v is not internal", name, err)
			}
			if diff := cmp.Diff(before, rowsIn(look(t, db, 1))); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	})
}

// TestEffectAndItsRow checks that a movement appends the row of the audit log that its context
// carries, and that one that is refused or changes nothing does not.
func TestEffectAndItsRow(t *testing.T) {
	everywhere(t, func(t *testing.T, db *engine.DB) {
		rows := func() (n int) {
			t.Helper()
			if err := db.Read(t.Context(), "count", func(r *engine.Reader) error {
				_, err := r.Get(&n, `SELECT COUNT(*) FROM audit_log WHERE op = ? AND after_json = ?`, []byte("append"), []byte("{}"))
				return err
			}); err != nil {
				t.Fatal(err)
			}
			return n
		}
		for _, test := range []struct {
			gl   string
			fail error
			want int
		}{{"a", nil, 1}, {"a", nil, 1}, {"b", errors.New("refused"), 1}, {"b", nil, 2}} {
			entry := auditlog.NewEntry(auditlog.Row{Op: "append"})
			ctx := auditlog.NewContext(t.Context(), entry)
			err := Do(ctx, db, "test", WholeBudget(1), func(b *books.Books) ([]Query, error) {
				entry.Change("shop", "b1", nil, []byte("{}"))
				b.Budgets.Get(1).GLCode = test.gl
				return nil, test.fail
			})
			if !errors.Is(err, test.fail) || rows() != test.want {
				t.Errorf("%+v: %v, %d rows", test, err, rows())
			}
		}
	})
}

// TestMoreRows checks that a decision can ask for further rows, which are locked in the same
// transaction, and that rows that are there are not read again.
func TestMoreRows(t *testing.T) {
	everywhere(t, func(t *testing.T, db *engine.DB) {
		asked := 0
		err := Do(t.Context(), db, "test", WholeBudget(1)[:1], func(b *books.Books) ([]Query, error) {
			u := b.Budgets.Get(1)
			if asked++; len(b.Buckets.All()) == 0 {
				u.GLCode = "first"
				return WholeBudget(1), nil
			}
			if u.GLCode != "first" {
				t.Errorf("%q: a row was read again", u.GLCode)
			}
			u.Name = "renamed"
			return nil, nil
		})
		if u := look(t, db, 1).Budgets.Get(1); err != nil || asked != 2 || u.GLCode != "first" || u.Name != "renamed" {
			t.Errorf("asked %d times: %v, %+v", asked, err, *u)
		}
	})
}

// TestMovements runs many movements, one after the other and then eight at a time, and compares the
// accounts with each other afterwards (I1), also those of every epoch with its grants.
func TestMovements(t *testing.T) {
	everywhere(t, func(t *testing.T, db *engine.DB) {
		n := 0
		adjust := func(quantity int64) {
			n++
			adjustOnce(t, db, fmt.Sprint("r", n), quantity)
		}
		rapid.Check(t, func(r *rapid.T) {
			switch rapid.SampledFrom([]string{"adjust", "use", "return", "change", "recycle",
				"sweep", "bucket"}).Draw(r, "what") {
			case "recycle":
				recycle(t, db)
			case "sweep":
				sweep(t, db)
			case "bucket":
				bucketVerb(t, db, rapid.IntRange(0, 3).Draw(r, "bucket"), rapid.Bool().Draw(r, "online"))
			case "change":
				changeOnce(t, db, rapid.IntRange(1, 6).Draw(r, "buckets"), rapid.IntRange(0, 3).Draw(r, "limits"))
			case "adjust":
				adjust(rapid.Int64Range(-300, 300).Draw(r, "quantity"))
			case "use":
				use(t, db, rapid.IntRange(0, 3).Draw(r, "bucket"), rapid.Int64Range(1, 200).Draw(r, "units"))
			case "return":
				giveBack(t, db, rapid.IntRange(0, 3).Draw(r, "bucket"), rapid.Int64Range(1, 200).Draw(r, "units"))
			}
			if n%10 == 0 {
				conserved(t, db)
			}
		})
		conserved(t, db)
		var group sync.WaitGroup
		for worker := range 8 {
			group.Go(func() {
				for i := range 20 {
					adjustOnce(t, db, fmt.Sprintf("w%d-%d", worker, i), int64(i%5*50-90))
					use(t, db, i%4, 7)
					giveBack(t, db, (i+1)%4, 3)
					if i%5 == 4 {
						changeOnce(t, db, 4+i%3, i%4)
					}
					switch (worker + i) % 4 {
					case 0:
						recycle(t, db)
					case 1:
						sweep(t, db)
					default:
						bucketVerb(t, db, (worker+i)%3, i%2 == 0)
					}
				}
			})
		}
		group.Wait()
		conserved(t, db)
	})
}

func adjustOnce(t *testing.T, db *engine.DB, id string, quantity int64) {
	t.Helper()
	load := append(WholeBudget(1), Adjustment(1, id))
	err := try(t, db, load, func(b *books.Books) error {
		_, err := b.Adjust(b.Budgets.Get(1), books.Order{RequestID: id, Quantity: quantity})
		return err
	})
	if err != nil && !budget.Is(err, budget.AmountExceedsRemaining) && !budget.Is(err, budget.Invalid) {
		t.Error(err)
	}
}

// changeOnce gives the budget another number of buckets, of which the first four serve the others'
// movements, and other limits; it checks that these are there afterwards.
func changeOnce(t *testing.T, db *engine.DB, buckets, limits int) {
	t.Helper()
	first, err := db.TakeIDs(t.Context(), engine.SequenceBucket, 6)
	if err != nil {
		t.Error(err)
		return
	}
	load := append(WholeBudget(1), Limits(1), Beside(1, "b1"))
	wrote := int64(0)
	do(t, db, load, func(b *books.Books) error {
		u := b.Budgets.Get(1)
		before, err := b.DefinitionOf(u)
		if err != nil {
			return err
		}
		after := before
		after.BucketQuantity = buckets
		after.Limits = &budget.Limits{Version: u.LimitsVersion + 1}
		for i := range limits {
			after.Limits.List = append(after.Limits.List, budget.Limit{Name: fmt.Sprint("l", i), Max: u.Version + 1,
				Window: budget.LimitWindow{Kind: budget.WindowLifetime}})
		}
		after.Version, after.UpdatedAt, wrote = u.Version+1, after.UpdatedAt.Add(1), u.Version+1
		return b.Change(u, books.Redefinition{Before: before, After: after, Limits: true, FirstBucket: first + 100,
			KeyOf: func(ordinal int) string { return fmt.Sprint("b:", ordinal) }})
	})
	do(t, db, load, func(b *books.Books) error {
		u := b.Budgets.Get(1)
		if u.Version != wrote { // another change came after it
			return nil
		}
		d, err := b.DefinitionOf(u)
		if err != nil {
			return err
		}
		if len(d.Limits.List) != limits || limits > 0 && d.Limits.List[limits-1].Max != wrote {
			t.Errorf("%+v, want %d limits of version %d", d.Limits.List, limits, wrote)
		}
		return nil
	})
}

// recycle recycles the budget by what its buckets used, of which the feed has nothing here.
func recycle(t *testing.T, db *engine.DB) {
	t.Helper()
	load := append([]Query{Demand([]Fed{{1, 5}, {2, 500}})}, WholeBudget(1)...)
	do(t, db, load, func(b *books.Books) error {
		_, err := b.Recycle(b.Budgets.Get(1), "operator", nil)
		return err
	})
}

// sweep moves R where it belongs, by the query of many budgets.
func sweep(t *testing.T, db *engine.DB) {
	t.Helper()
	do(t, db, Returning([]int64{1, 77}, books.Position{}), func(b *books.Books) error {
		b.Sweep(b.Budgets.Get(1))
		return nil
	})
}

// bucketVerb takes a bucket offline, or brings it online.
func bucketVerb(t *testing.T, db *engine.DB, bucket int, online bool) {
	t.Helper()
	err := try(t, db, append(WholeBudget(1), Applied(1)), func(b *books.Books) error {
		row := b.Buckets.All()[bucket]
		if online {
			_, err := b.Online(b.Budgets.Get(1), row)
			return err
		}
		return b.Offline(b.Budgets.Get(1), row, "operator")
	})
	if err != nil && !budget.Is(err, budget.LastBucket) {
		t.Error(err)
	}
}

// use moves up to units from O of a bucket to S.
func use(t *testing.T, db *engine.DB, bucket int, units int64) {
	t.Helper()
	do(t, db, WholeBudget(1), func(b *books.Books) error {
		row := b.Buckets.All()[bucket]
		e := b.Epochs.Get(books.Position{Bucket: row.ID, Epoch: row.Epoch})
		units := min(units, e.Outstanding)
		e.Outstanding -= units
		e.Used += units
		return nil
	})
}

// giveBack moves up to units from S of a bucket to R.
func giveBack(t *testing.T, db *engine.DB, bucket int, units int64) {
	t.Helper()
	do(t, db, WholeBudget(1), func(b *books.Books) error {
		row := b.Buckets.All()[bucket]
		e := b.Epochs.Get(books.Position{Bucket: row.ID, Epoch: row.Epoch})
		units := min(units, e.Used)
		e.Used -= units
		e.Returning += units
		return nil
	})
}

// conserved recounts the accounts from all rows.
func conserved(t *testing.T, db *engine.DB) {
	t.Helper()
	err := db.Snapshot(t.Context(), "recount", func(r *engine.Reader) error {
		var total, epochs, off int64
		const equation = `SELECT total_quantity - unfunded_quantity - undistributed_quantity - quarantined_quantity
			- forfeited_quantity FROM budget_management_bucket WHERE id = 1`
		const held = `SELECT COALESCE(SUM(outstanding_quantity + held_quantity + used_quantity + returning_quantity), 0)
			FROM bucket_epoch WHERE budget_id = 1`
		const wrong = `SELECT COUNT(*) FROM bucket_epoch e WHERE e.outstanding_quantity + e.held_quantity + e.used_quantity
			+ e.returning_quantity + e.closed_quantity + e.swept_quantity <> (SELECT COALESCE(SUM(g.amount), 0)
			FROM grant_log g WHERE g.bucket_id = e.bucket_id AND g.epoch = e.epoch)`
		for _, q := range []struct {
			into *int64
			text string
		}{{&total, equation}, {&epochs, held}, {&off, wrong}} {
			if _, err := r.Get(q.into, q.text); err != nil {
				return err
			}
		}
		if total != epochs || off != 0 {
			t.Errorf("T less F, U, Q and X is %d, the epochs have %d; %d epochs differ from their grants", total, epochs, off)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTables checks that the rows have exactly the columns of their tables, in which a SELECT and
// an INSERT would otherwise fail or leave out what the table has.
func TestTables(t *testing.T) {
	everywhere(t, func(t *testing.T, db *engine.DB) {
		for _, set := range books.New(0).Sets() {
			table := set.Table()
			err := db.Read(t.Context(), "columns", func(r *engine.Reader) error {
				rows, err := r.Plain().QueryContext(t.Context(), "SELECT * FROM "+table.Name+" WHERE 1 = 0")
				if err != nil {
					return err
				}
				defer rows.Close()
				columns, err := rows.Columns()
				missing := map[string]bool{}
				for _, name := range columns {
					missing[name] = true
				}
				for _, name := range table.Columns {
					if !missing[name] {
						t.Errorf("%s has no column %s", table.Name, name)
					}
					delete(missing, name)
				}
				known := map[string]map[string]bool{
					"budget_management_bucket": {"has_undistributed": true, "settle_due_ms": true},
					"bucket_epoch":             {"has_units": true, "has_returns": true, "is_unfinished": true},
					"store_partition":          {"synced_at": true},
					"quarantine":               {"is_held": true},
				}[table.Name]
				if known == nil {
					known = map[string]bool{}
				}
				if !reflect.DeepEqual(missing, known) {
					t.Errorf("%s: the row lacks %v", table.Name, missing)
				}
				return errors.Join(err, rows.Err())
			})
			if err != nil {
				t.Error(err)
			}
		}
	})
}
