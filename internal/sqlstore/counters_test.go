package sqlstore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/limit"
)

// TestCounters: whatever the order in which rows come, and however many statements read them, each gets to the place of its
// key; a row of no key is an error, and so is one that an INSERT does not list.
func TestCounters(t *testing.T) {
	bothEngines(t, func(t *testing.T, db *DB) {
		var keys []rowKey
		for i := range int64(2*listChunk + 100) {
			keys = append(keys, rowKey{counterKey{i / 900, fmt.Sprint("limit-", i%3), fmt.Sprintf("\xff'%d", i)}, i % 5})
		}
		slices.SortFunc(keys, compareRowKeys)
		places := func(found map[int]limit.Row) func(int, limit.Row) {
			return func(i int, row limit.Row) {
				if _, twice := found[i]; twice {
					t.Errorf("%+v comes twice", keys[i])
				}
				found[i] = row
			}
		}
		check := func(what string, found map[int]limit.Row, counted int64) {
			t.Helper()
			if len(found) != len(keys) {
				t.Fatalf("%s: %d rows, want %d", what, len(found), len(keys))
			}
			for i, row := range found {
				if want := (limit.Row{Counted: counted + int64(i), Version: 7, ExpiresMS: int64(i) << 30}); row != want {
					t.Fatalf("%s: %+v is %+v, want %+v", what, keys[i], row, want)
				}
			}
		}
		add := func(found map[int]limit.Row) error {
			return db.write(t.Context(), "add", func(tx *tx) error {
				clear(found)
				return tx.writeAndRead(addCounter, tx.conn.dialect.addCounter, keys, func(to *inserting, i int) {
					to.number(int64(i))
					to.number(7)
					to.number(int64(i) << 30)
				}, places(found))
			})
		}
		found := map[int]limit.Row{}
		if err := add(found); err != nil {
			t.Fatal(err)
		}
		check("made", found, 0)
		err := db.read(t.Context(), "read", func(r *reader) error {
			clear(found)
			if err := r.readCounters(keys, "", places(found)); err != nil {
				return err
			}
			check("read", found, 0)
			clear(found)
			s := &statement{dialect: db.dialect}
			s.sql(strings.TrimSuffix(selectCounter, " WHERE ") + " ORDER BY c.value DESC, c.window_ms DESC")
			if n, err := r.counters(s, keys, places(found)); n != len(keys) || err != nil {
				t.Errorf("in another order: %d, %v", n, err)
			}
			check("in another order", found, 0)
			if n, err := r.counters(s, keys[1:], func(int, limit.Row) {}); err == nil {
				t.Errorf("a row of no key: %d, and no error", n)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestCountersNotListed: an INSERT that does not list each of its rows ends the transaction.
func TestCountersNotListed(t *testing.T) {
	db := openMariaDB(t, nil)
	keys := []rowKey{{counterKey{1, "a", "b"}, 0}, {counterKey{1, "a", "c"}, 0}}
	err := db.write(t.Context(), "add", func(tx *tx) error {
		into := strings.Replace(makeCounter, "INSERT", "INSERT IGNORE", 1) // lists those that it makes
		for _, some := range [][]rowKey{keys[:1], keys} {
			err := tx.writeAndRead(into, "", some, func(to *inserting, _ int) { to.number(0) }, func(int, limit.Row) {})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		t.Error("a row was not listed, and there is no error")
	}
}
