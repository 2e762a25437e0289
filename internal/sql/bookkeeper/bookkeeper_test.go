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
