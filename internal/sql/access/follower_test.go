package access

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/budgetd/budgetd/access"
)

// A node learns of new and revoked keys by one query, and records their use.
func TestFollower(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		at := time.UnixMilli(now)
		var log bytes.Buffer
		f := &follower{DB: db, Book: access.NewBook(1000), Log: slog.New(slog.NewTextHandler(&log, nil)),
			Now: func() time.Time { return at }, Keep: time.Hour}
		once := func() {
			t.Helper()
			if err := f.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		token, key := newKey(t, "till")
		expect := func(want access.Reason) {
			t.Helper()
			if _, reason := f.Book.Authenticate(token.Reveal(), at.UnixMilli()); reason != want {
				t.Errorf("%q, want %q", reason, want)
			}
		}
		expect(access.Stale)
		once()
		expect(access.Unknown)
		if err := createOne(t, db, key); err != nil {
			t.Fatal(err)
		}
		once()
		expect(access.Accepted)
		at = at.Add(2 * time.Second)
		expect(access.Stale)
		once() // nothing has changed, which is worth knowing
		expect(access.Accepted)
		at = at.Add(time.Hour)
		once()
		expect(access.Accepted)
		at = at.Add(2 * time.Minute)
		once()
		hour := at.UnixMilli() - at.UnixMilli()%access.HourMS
		if kept, err := one(t.Context(), db, key.ID); err != nil || kept.LastUsedMS != hour {
			t.Errorf("last used %d, want %d; %v", kept.LastUsedMS, hour, err)
		}
		once()
		if left := f.Book.Used(9); len(left) != 0 {
			t.Errorf("told again: %v", left)
		}
		if _, err := ended(t, db, key.ID, now); err != nil {
			t.Fatal(err)
		}
		once()
		expect(access.Revoked)
	})
}

// queries counts the rows that a follower reads.
type queries struct {
	Tx
	limit, asked int
}

func (q *queries) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	q.asked++
	if n := args[len(args)-1].(int); n > q.limit {
		return nil, fmt.Errorf("a statement reads %d keys", n)
	}
	return q.Tx.QueryContext(ctx, query, args...)
}

// TestFollowerReadsChanges checks that a node reads all keys once, in pages, and from then on only
// those that changed.
func TestFollowerReadsChanges(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		var tokens []access.Token
		for n := range 25 {
			token, key := newKey(t, fmt.Sprint("p", n))
			if err := createOne(t, db, key); err != nil {
				t.Fatal(err)
			}
			tokens = append(tokens, token)
		}
		counted := &queries{Tx: db, limit: 10}
		f := &follower{DB: counted, Book: access.NewBook(0), Log: slog.New(slog.DiscardHandler), Keep: time.Hour,
			Now: func() time.Time { return time.UnixMilli(now) }, full: 10}
		once := func(statements int) {
			t.Helper()
			counted.asked = 0
			if err := f.RunOnce(t.Context()); err != nil || counted.asked != statements {
				t.Errorf("%d statements, %v; want %d", counted.asked, err, statements)
			}
		}
		once(3)
		once(0)
		if f.Book.Len() != 25 {
			t.Errorf("%d keys", f.Book.Len())
		}
		// What is not read again is not noticed: a row that another program changed proves it.
		if _, err := db.ExecContext(t.Context(), `UPDATE access_key SET revoked_ms = 1 WHERE key_id = ?`, []byte(tokens[0].ID())); err != nil {
			t.Fatal(err)
		}
		if _, err := ended(t, db, tokens[7].ID(), now); err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), `UPDATE access_key SET version = 1000, budgets = 'x' WHERE key_id = ?`, []byte(tokens[9].ID())); err != nil {
			t.Fatal(err)
		}
		once(1)
		for n, want := range map[int]access.Reason{0: access.Accepted, 7: access.Revoked, 8: access.Accepted, 9: access.Unknown} {
			if _, reason := f.Book.Authenticate(tokens[n].Reveal(), now); reason != want {
				t.Errorf("key %d: %q, want %q", n, reason, want)
			}
		}
		if _, err := db.ExecContext(t.Context(), `UPDATE access_state SET version = 3`); err != nil {
			t.Fatal(err)
		}
		once(3) // an earlier version: the database was restored
		if _, reason := f.Book.Authenticate(tokens[0].Reveal(), now); reason != access.Revoked {
			t.Errorf("after a restore: %q", reason)
		}
	})
}

// TestRemove checks that only keys that ended before an instant are removed, and never the last key.
func TestRemove(t *testing.T) {
	everywhere(t, func(t *testing.T, db *sql.DB) {
		want := map[string]bool{}
		for name, change := range map[string]func(*access.Key){
			"live": func(*access.Key) {}, "expires later": func(k *access.Key) { k.ExpiresMS = now + 10 },
			"expired": func(k *access.Key) { k.ExpiresMS = now + 1 }, "revoked": func(*access.Key) {}, "revoked later": func(*access.Key) {},
			"the last": func(k *access.Key) { k.CreatedMS, k.ExpiresMS = now+1, now+2 },
		} {
			_, key := newKey(t, name)
			change(&key)
			if err := createOne(t, db, key); err != nil {
				t.Fatal(err)
			}
			if at, ok := map[string]int64{"revoked": now + 1, "revoked later": now + 10}[name]; ok {
				if _, err := ended(t, db, key.ID, at); err != nil {
					t.Fatal(err)
				}
			}
			want[name] = name != "expired" && name != "revoked"
		}
		n, err := within(t, db, func(tx *sql.Tx) (int, error) { return remove(t.Context(), tx, now+5) })
		if err != nil || n != 2 {
			t.Errorf("%d removed, %v", n, err)
		}
		left, _, err := allOf(t, db)
		if err != nil || len(left) != 4 {
			t.Errorf("%d left, %v", len(left), err)
		}
		for _, key := range left {
			if !want[key.Principal] {
				t.Errorf("%q is left", key.Principal)
			}
		}
	})
}
