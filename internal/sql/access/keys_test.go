package access

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/budgetd/budgetd"
	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

func everywhere(t *testing.T, test func(t *testing.T, db *sql.DB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		test(t, open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "db")+
			"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_txlock=immediate"))
	})
	t.Run("mariadb", func(t *testing.T) {
		test(t, open(t, "mysql", testservers.SharedMariaDB(t).NewDatabase(t)))
	})
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for statement := range strings.SplitSeq(budgetd.Schema, ";\n") {
		if strings.TrimSpace(statement) != "" {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := db.ExecContext(t.Context(),
		`INSERT INTO access_state (only_row, version) VALUES (1, 1)`); err != nil {
		t.Fatal(err)
	}
	return db
}

// allOf returns every key, by id, and an error that describes the rows that cannot be parsed.
func allOf(t *testing.T, tx Tx) (all []access.Key, odd, err error) {
	t.Helper()
	found, err := since(t.Context(), tx, Cursor{}, 1000)
	slices.SortFunc(found.Keys, func(a, b access.Key) int { return strings.Compare(a.ID, b.ID) })
	return found.Keys, found.Err, err
}

func within[T any](t *testing.T, db *sql.DB, do func(tx *sql.Tx) (T, error)) (T, error) {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Error(err)
	}
	out, err := do(tx)
	if err != nil {
		return out, errors.Join(err, tx.Rollback())
	}
	return out, tx.Commit()
}

const now = int64(1_700_000_000_000)

func newKey(t *testing.T, principal string) (access.Token, access.Key) {
	t.Helper()
	token, err := access.NewToken(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return token, access.Key{ID: token.ID(), Hash: token.Hash(), Principal: principal, Role: access.Deduct,
		Scope: access.Scope{Tenant: "shop"}, CreatedMS: now, CreatedBy: "admin"}
}

func createOne(t *testing.T, db *sql.DB, key access.Key) error {
	t.Helper()
	_, err := within(t, db, func(tx *sql.Tx) (int, error) { return 0, createKey(t.Context(), tx, key, 1000) })
	return err
}

func TestWhatIsCreatedIsRead(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		_, a := newKey(t, "007")
		_, b := newKey(t, "jane\xff")
		a.Scope.Budgets, a.ExpiresMS = []string{"spring-*", "x"}, now+5
		b.Scope, b.Role = access.Scope{}, access.Admin
		if a.ID > b.ID {
			a, b = b, a
		}
		c := a
		c.ID, c.Principal, c.Role, c.Scope = "zzzzzzzzzz", "agent", access.Delegate, access.Scope{Tenant: "shop", Subtree: 7}
		for _, key := range []access.Key{b, a, c} {
			if err := createOne(t, db, key); err != nil {
				t.Fatal(err)
			}
		}
		all, odd, err := allOf(t, db)
		if diff := cmp.Diff([]access.Key{a, b, c}, all); err != nil || odd != nil || diff != "" {
			t.Errorf("%v %v %s", err, odd, diff)
		}
		for _, test := range []struct {
			tenant, after string
			limit         int
			want          int
		}{{"", "", 9, 3}, {"", "", 1, 1}, {"", a.ID, 9, 2}, {"", c.ID, 9, 0}, {"shop", "", 9, 2}, {"Shop", "", 9, 0}} {
			page, err := page(t.Context(), db, test.tenant, test.after, test.limit)
			if err != nil || len(page) != test.want {
				t.Errorf("%+v: %d keys, %v", test, len(page), err)
			}
		}
		if _, err := one(t.Context(), db, strings.ToUpper(a.ID)+"x"); !budget.Is(err, budget.KeyNotFound) {
			t.Error(err)
		}
	})
}

// A principal has at most two live keys, however many are created concurrently; dead ones do not
// count.
func TestTwoLiveKeys(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		var group sync.WaitGroup
		var mu sync.Mutex
		made, refused := 0, 0
		for range 6 {
			_, key := newKey(t, "till")
			group.Go(func() {
				err := createOne(t, db, key)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					made++
				case budget.Is(err, budget.TooManyKeys):
					refused++
				default:
					t.Error(err)
				}
			})
		}
		group.Wait()
		if made != 2 || refused != 4 {
			t.Errorf("%d made, %d refused", made, refused)
		}
		_, other := newKey(t, "till")
		other.Scope.Tenant = "b" // the same name in another tenant is somebody else
		if err := createOne(t, db, other); err != nil {
			t.Error(err)
		}
		all, err := page(t.Context(), db, "shop", "", 9)
		if err != nil || len(all) != 2 {
			t.Fatal(len(all), err)
		}
		if _, err := ended(t, db, all[0].ID, now); err != nil {
			t.Fatal(err)
		}
		_, late := newKey(t, "till")
		late.ExpiresMS = now + 1
		if err := createOne(t, db, late); err != nil {
			t.Errorf("after a revocation: %v", err)
		}
		_, later := newKey(t, "till")
		later.CreatedMS = now + 1
		if err := createOne(t, db, later); err != nil {
			t.Errorf("after one has expired: %v", err)
		}
	})
}

func ended(t *testing.T, db *sql.DB, id string, at int64) (access.Key, error) {
	t.Helper()
	return within(t, db, func(tx *sql.Tx) (access.Key, error) {
		_, is, err := revoke(t.Context(), tx, id, at)
		return is, err
	})
}

func TestRevoke(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		_, key := newKey(t, "till")
		if err := createOne(t, db, key); err != nil {
			t.Fatal(err)
		}
		for _, at := range []int64{now + 1, now + 2} {
			revoked, err := ended(t, db, key.ID, at)
			if err != nil || revoked.RevokedMS != now+1 {
				t.Errorf("%+v, %v", revoked, err)
			}
		}
		if kept, err := one(t.Context(), db, key.ID); err != nil || kept.RevokedMS != now+1 {
			t.Errorf("kept: %+v, %v", kept, err)
		}
		_, err := ended(t, db, "none", now)
		if !budget.Is(err, budget.KeyNotFound) {
			t.Error(err)
		}
	})
}

func TestRotate(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		_, old := newKey(t, "till")
		old.ExpiresMS, old.Scope.Budgets = now+1000, []string{"x*"}
		if err := createOne(t, db, old); err != nil {
			t.Fatal(err)
		}
		rotate := func(id string, at int64) (Rotation, error) {
			_, fresh := newKey(t, "ignored")
			fresh.CreatedMS, fresh.Role, fresh.Scope = at, access.Admin, access.Scope{}
			return within(t, db, func(tx *sql.Tx) (Rotation, error) { return rotate(t.Context(), tx, id, fresh, at+50, 1000) })
		}
		done, err := rotate(old.ID, now+10)
		fresh := done.Next
		if err != nil || fresh.Principal != "till" || fresh.Role != access.Deduct || fresh.ExpiresMS != now+1010 ||
			fresh.Scope.Tenant != "shop" || len(fresh.Scope.Budgets) != 1 {
			t.Errorf("%+v, %v", fresh, err)
		}
		if kept, err := one(t.Context(), db, fresh.ID); err != nil || !cmp.Equal(kept, fresh) {
			t.Errorf("%+v, %v", kept, err)
		}
		if kept, err := one(t.Context(), db, old.ID); err != nil || kept.ExpiresMS != now+60 || !cmp.Equal(kept, done.Is) ||
			!cmp.Equal(done.Was, old) {
			t.Errorf("the old one: %+v, %+v, %v", kept, done, err)
		}
		if _, err := rotate(fresh.ID, now+20); !budget.Is(err, budget.TooManyKeys) {
			t.Errorf("a third live key: %v", err)
		}
		if _, err := rotate(old.ID, now+60); !budget.Is(err, budget.KeyNotLive) {
			t.Errorf("an expired one: %v", err)
		}
		if _, err := rotate("none", now); !budget.Is(err, budget.KeyNotFound) {
			t.Errorf("none: %v", err)
		}
	})
}

// TestRotateByAKeyThatExpires checks that the new key does not live longer than its issuer's key.
func TestRotateByAKeyThatExpires(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		for name, test := range map[string]struct{ old, last, want int64 }{
			"a key that does not expire": {0, now + 500, now + 500}, "a key that would live longer": {now + 1000, now + 500, now + 500},
			"a key that expires sooner": {now + 100, now + 500, now + 100}, "no bound": {0, 0, 0},
		} {
			_, old := newKey(t, name)
			if old.ExpiresMS = test.old; createOne(t, db, old) != nil {
				t.Fatal(name)
			}
			_, fresh := newKey(t, "ignored")
			fresh.ExpiresMS = test.last
			done, err := within(t, db, func(tx *sql.Tx) (Rotation, error) { return rotate(t.Context(), tx, old.ID, fresh, now+50, 1000) })
			if err != nil || done.Next.ExpiresMS != test.want {
				t.Errorf("%s: %d, %v; want %d", name, done.Next.ExpiresMS, err, test.want)
			}
		}
	})
}

// Only one of several nodes creates the first administrator, and only if there is no key.
func TestCreateFirst(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		var group sync.WaitGroup
		made := make([]bool, 4)
		for n := range made {
			_, key := newKey(t, fmt.Sprint("admin", n))
			group.Go(func() {
				var err error
				made[n], err = within(t, db, func(tx *sql.Tx) (bool, error) { return createFirst(t.Context(), tx, key) })
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		all, _, err := allOf(t, db)
		if err != nil || len(all) != 1 {
			t.Errorf("%v made, %d keys, %v", made, len(all), err)
		}
	})
}

// A row written by hand must not become a key with more rights than intended.
func TestRowsOfOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		_, key := newKey(t, "till")
		if err := createOne(t, db, key); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{"role = 'root'", "role = ''", "secret_hash = 'x'", "budgets = '[]'", "budgets = 'null'",
			"budgets = 'x'", `budgets = '["a?"]'`, `budgets = ''`} {
			tx, err := db.BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tx.ExecContext(t.Context(), "UPDATE access_key SET "+wrong); err != nil {
				t.Error(err)
			}
			if all, odd, err := allOf(t, tx); err != nil || odd == nil || len(all) != 0 {
				t.Errorf("%s: %+v, %v, %v", wrong, all, odd, err)
			}
			if _, err := one(t.Context(), tx, key.ID); err == nil {
				t.Errorf("%s: read", wrong)
			}
			if err := tx.Rollback(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestBoundOfATenant checks that a tenant has at most so many live keys, that other tenants are not
// affected, and that the ended keys of a tenant do not add up either.
func TestBoundOfATenant(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		const most = 5
		create := func(key access.Key) error {
			_, err := within(t, db, func(tx *sql.Tx) (int, error) { return 0, createKey(t.Context(), tx, key, most) })
			return err
		}
		var live []string
		for n := range 4 * most {
			_, key := newKey(t, fmt.Sprint("p", n))
			key.CreatedMS += int64(n)
			if len(live) == most {
				if err := create(key); !budget.Is(err, budget.TooManyKeys) {
					t.Fatalf("key %d beside %d: %v", n, most, err)
				}
				if _, err := ended(t, db, live[0], now+int64(n)); err != nil {
					t.Fatal(err)
				}
				live = live[1:]
			}
			if err := create(key); err != nil {
				t.Fatal(n, err)
			}
			live = append(live, key.ID)
		}
		_, other := newKey(t, "p")
		other.Scope.Tenant = "acme"
		if err := create(other); err != nil {
			t.Errorf("another tenant: %v", err)
		}
		_, key := newKey(t, "rotated")
		fresh := key
		fresh.ID, fresh.CreatedMS = "0000000000", now+1000
		_, err := within(t, db, func(tx *sql.Tx) (Rotation, error) {
			return rotate(t.Context(), tx, live[0], fresh, now+2000, most)
		})
		if !budget.Is(err, budget.TooManyKeys) {
			t.Errorf("a rotation beyond the bound: %v", err)
		}
		all, err := page(t.Context(), db, "shop", "", 1000)
		if err != nil || len(all) > 2*most+1 {
			t.Errorf("%d keys are kept, %v; want at most as many ended as live ones", len(all), err)
		}
	})
}
