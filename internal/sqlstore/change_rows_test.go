package sqlstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// changeForms are the forms in which an UPDATE of several rows is sent to a server.
var changeForms = []struct {
	name       string
	joinRows   int
	valuesList bool
}{{"case", 0, false}, {"union", 2, false}, {"values", 2, true}}

const (
	makeChangeable = `CREATE TABLE changeable (a BIGINT NOT NULL, b VARBINARY(128) NOT NULL, n BIGINT, text VARBINARY(512), seq BIGINT NOT NULL,
		PRIMARY KEY (a, b))`
	changeChangeable = `UPDATE changeable /*by PRIMARY*/ SET n = $value, text = $value,
		seq = seq + $value WHERE `
	ofChangeable    = `a = ? AND b = ?`
	changeableWhere = ofChangeable + ` AND seq = ?`
)

// TestChangeRows: whatever the form of the statement, each row gets its own values, of any size and in any order of sizes,
// and where one does not match, nothing is left of any.
func TestChangeRows(t *testing.T) {
	const rows = 120
	db := openMariaDB(t, nil)
	if err := db.write(t.Context(), "make", func(tx *tx) error {
		_, err := tx.exec(makeChangeable)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, form := range changeForms {
		for _, order := range []string{"small first", "large first", "any"} {
			t.Run(form.name+", "+order, func(t *testing.T) {
				db.dialect.joinRows, db.dialect.valuesList = form.joinRows, form.valuesList
				begin, changes, want := changeables(rows, order)
				if err := db.write(t.Context(), "fill", func(tx *tx) error {
					if _, err := tx.exec(`DELETE FROM changeable`); err != nil {
						return err
					}
					return tx.insert(`INSERT INTO changeable (a, b, n, text, seq)`, 5, begin)
				}); err != nil {
					t.Fatal(err)
				}
				before := changeableRows(t, db)
				change := func(changes []rowChange) error {
					return db.write(t.Context(), "change", func(tx *tx) error {
						return tx.changeRows(changeChangeable, ofChangeable, changeableWhere, changes)
					})
				}
				for _, at := range []int{0, rows / 2, rows - 1} {
					wrong := slices.Clone(changes)
					wrong[at].where = append(slices.Clone(wrong[at].where[:2]), int64(77))
					if err := change(wrong); err == nil {
						t.Errorf("row %d does not match, and there is no error", at)
					}
				}
				if after := changeableRows(t, db); !slices.Equal(after, before) {
					t.Errorf("after a miss:\n%s\nbefore\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
				}
				if err := change(changes); err != nil {
					t.Fatal(err)
				}
				if after := changeableRows(t, db); !slices.Equal(after, want) {
					t.Errorf("%s\nwant\n%s", strings.Join(after, "\n"), strings.Join(want, "\n"))
				}
			})
		}
	}
}

// TestByKey: rows are locked in the order of their keys, as an index has it.
func TestByKey(t *testing.T) {
	keys := [][]any{{int64(-1), []byte("b")}, {int64(2), []byte("")}, {int64(2), []byte("B")}, {int64(2), []byte("a")},
		{int64(2), []byte("a\x00")}, {int64(2), []byte("\xff")}, {int64(10), []byte("a")}}
	for range 20 {
		var rows []rowChange
		for _, i := range rand.Perm(len(keys)) {
			rows = append(rows, rowChange{key: keys[i]})
		}
		for i, row := range byKey(rows) {
			if fmt.Sprint(row.key) != fmt.Sprint(keys[i]) {
				t.Fatalf("%d: %q, want %q", i, row.key, keys[i])
			}
		}
	}
}

// changeables are rows of changeable, what changes them, and what they are then.
func changeables(rows int, order string) (begin []any, changes []rowChange, want []string) {
	numbers := []any{int64(0), nil, 7, int64(-1), int64(1 << 31), int64(9007199254740991), int64(math.MaxInt64), int64(math.MinInt64)}
	texts := []any{[]byte{}, nil, "x", []byte("?"), []byte{0, 255, '\'', '\\'}, []byte(strings.Repeat("long ", 100)), "/*locked*/"}
	for i := range rows {
		k := i * len(numbers) / rows // by size
		switch order {
		case "large first":
			k = len(numbers) - 1 - k
		case "any":
			k = rand.IntN(len(numbers)) //nolint:gosec // a test
		}
		n, text, more := numbers[k], texts[k%len(texts)], int64(3)
		if i%10 == 9 { // what is there already: it matches all the same
			n, text, more = int64(5), []byte("before"), 0
		}
		key := []any{int64(i / 3), fmt.Appendf(nil, "%0*d", 1+i%3*40, i)}
		begin = append(begin, key[0], key[1], int64(5), []byte("before"), int64(i))
		changes = append(changes, rowChange{key: key, values: []any{n, text, more}, where: append(slices.Clone(key), int64(i))})
		if b, ok := text.([]byte); ok {
			text = string(b)
		}
		want = append(want, fmt.Sprintf("%d %s %v %q %d", key[0], key[1], n, fmt.Sprint(text), int64(i)+more))
	}
	slices.Sort(want)
	return begin, changes, want
}

func changeableRows(t *testing.T, db *DB) (out []string) {
	t.Helper()
	err := db.read(t.Context(), "read", func(r *reader) error {
		var rows []struct {
			A    int64   `db:"a"`
			B    string  `db:"b"`
			N    *int64  `db:"n"`
			Text *string `db:"text"`
			Seq  int64   `db:"seq"`
		}
		if err := r.list(&rows, `SELECT a, b, n, text, seq FROM changeable`); err != nil {
			return err
		}
		out = nil
		for _, row := range rows {
			var n, text any
			if row.N != nil {
				n = *row.N
			}
			if row.Text != nil {
				text = *row.Text
			}
			out = append(out, fmt.Sprintf("%d %s %v %q %d", row.A, row.B, n, fmt.Sprint(text), row.Seq))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}
