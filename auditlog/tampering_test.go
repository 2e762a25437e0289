package auditlog

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"
)

// Changes made directly in the tables are detected.
func TestTampering(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		for n := range 5 {
			appendRow(t, db, madeRow(n))
		}
		for _, test := range []struct {
			do, undo string
			at       int64
		}{
			{"UPDATE audit_log SET times = 2 WHERE seq = 3", "UPDATE audit_log SET times = 1 WHERE seq = 3", 3},
			{"UPDATE audit_log SET before_json = NULL WHERE seq = 2", "UPDATE audit_log SET before_json = x'7b7d' WHERE seq = 2", 2},
			{"UPDATE audit_log SET seq = -4 WHERE seq = 4", "UPDATE audit_log SET seq = 4 WHERE seq = -4", -4},
			{"UPDATE audit_log SET seq = 9 WHERE seq = 5", "UPDATE audit_log SET seq = 5 WHERE seq = 9", 5},
			{"UPDATE audit_log_head SET last_seq = 4", "UPDATE audit_log_head SET last_seq = 5", 5},
			{"UPDATE audit_log_head SET removed_seq = 1", "UPDATE audit_log_head SET removed_seq = 0", 1},
			{copyOf("5", "6"), "DELETE FROM audit_log WHERE seq = 6", 6},
			{exchange, exchange, 2},
			{kept("seq = 3"), restored, 3},
			{kept("seq > 2"), restored, 3},
			{kept("seq > 0"), restored, 1},
			{"UPDATE audit_log SET seq = seq + 10 WHERE seq > 2;" + copyOf("2", "3") + ";UPDATE audit_log SET seq = seq - 9 WHERE seq > 10;" +
				"UPDATE audit_log_head SET last_seq = 6", "DELETE FROM audit_log WHERE seq = 3;UPDATE audit_log SET seq = seq + 9 WHERE seq > 3;" +
				"UPDATE audit_log SET seq = seq - 10 WHERE seq > 10;UPDATE audit_log_head SET last_seq = 5", 3},
		} {
			for statement := range strings.SplitSeq(test.do, ";") {
				exec(t, db, statement)
			}
			var broken *Break
			if _, err := Verify(t.Context(), db); !errors.As(err, &broken) || broken.Seq != test.at {
				t.Errorf("%s: %v", test.do, err)
			}
			for statement := range strings.SplitSeq(test.undo, ";") {
				exec(t, db, statement)
			}
			if _, err := Verify(t.Context(), db); err != nil {
				t.Fatalf("%s: %v", test.undo, err)
			}
		}
		for _, column := range []string{"at_ms", "principal", "key_id", "source", "op", "tenant", "target", "request_id",
			"correlation_id", "before_json", "after_json", "outcome", "times", "hash"} {
			for statement := range strings.SplitSeq(kept("seq = 3"), ";") {
				exec(t, db, statement)
			}
			exec(t, db, "INSERT INTO audit_log SELECT * FROM kept")
			exec(t, db, "UPDATE audit_log SET "+column+" = 7 WHERE seq = 3")
			if _, err := Verify(t.Context(), db); err == nil {
				t.Errorf("an edited %s is not noticed", column)
			}
			exec(t, db, "DELETE FROM audit_log WHERE seq = 3")
			for statement := range strings.SplitSeq(restored, ";") {
				exec(t, db, statement)
			}
		}
		last, err := Verify(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, db, "DELETE FROM audit_log WHERE seq = 5")
		if _, err := Verify(t.Context(), db); err == nil {
			t.Error("a removed last row is not noticed")
		}
		// Without a row and with a head that says so, a log is as a new one: only an anchor tells.
		exec(t, db, "DELETE FROM audit_log")
		exec(t, db, "UPDATE audit_log_head SET last_seq = 0, last_hash = ?", make([]byte, 32))
		if _, err := Verify(t.Context(), db, last); err == nil {
			t.Error("a log that was emptied is not noticed with an anchor")
		}
	})
}

// kept is statements that remove rows, and restored is those that bring them back.
func kept(where string) string {
	return "CREATE TABLE kept AS SELECT * FROM audit_log WHERE " + where + ";DELETE FROM audit_log WHERE " + where
}

const restored = "INSERT INTO audit_log SELECT * FROM kept;DROP TABLE kept"

// copyOf is a statement that adds a copy of a row, with another number and all else.
func copyOf(seq, as string) string {
	return "INSERT INTO audit_log (seq, at_ms, principal, key_id, source, op, tenant, target, request_id, " +
		"correlation_id, before_json, after_json, outcome, times, hash) SELECT " + as + ", at_ms, principal, " +
		"key_id, source, op, tenant, target, request_id, correlation_id, before_json, after_json, outcome, " +
		"times, hash FROM audit_log WHERE seq = " + seq
}

// exchange exchanges two rows.
const exchange = "UPDATE audit_log SET seq = -2 WHERE seq = 2;UPDATE audit_log SET seq = 2 WHERE seq = 3;" +
	"UPDATE audit_log SET seq = 3 WHERE seq = -2"

// TestErasedBeginning checks that rows that are removed from the beginning are missed, although the
// head says so, unless a row records their removal.
func TestErasedBeginning(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		for n := range 5 {
			appendRow(t, db, madeRow(n))
		}
		exec(t, db, "UPDATE audit_log_head SET removed_seq = 2, removed_hash = (SELECT hash FROM audit_log WHERE seq = 2)")
		exec(t, db, "DELETE FROM audit_log WHERE seq <= 2")
		var broken *Break
		if _, err := Verify(t.Context(), db); !errors.As(err, &broken) || broken.Seq != 2 {
			t.Errorf("%v; want a break at row 2", err)
		}
	})
}

// Old rows are removed from the beginning, the chain continues, and the removal is a row of it.
func TestPrune(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		prune := func(before int64) (n int64) {
			t.Helper()
			err := within(t, db, func(tx *sql.Tx) (err error) {
				n, err = Prune(t.Context(), tx, db.server, before, Row{AtMS: 100, Principal: "budgetd"})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Verify(t.Context(), db); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := prune(1000); n != 0 {
			t.Errorf("%d of none", n)
		}
		for _, at := range []int{1, 2, 9, 3, 4} { // the third call was made later than those behind it
			appendRow(t, db, madeRow(at))
		}
		if n := prune(1); n != 0 {
			t.Errorf("%d removed that are young", n)
		}
		if n := prune(5); n != 2 {
			t.Errorf("%d removed, want those before the young one", n)
		}
		rows, err := Read(t.Context(), db, Query{Limit: 100})
		if err != nil || len(rows) != 4 || rows[0].Seq != 3 || rows[3].Op != OpPrune || !strings.HasPrefix(rows[3].Target, "2:") {
			t.Errorf("%+v, %v", rows, err)
		}
		if n := prune(1000); n != 3 {
			t.Errorf("%d removed, want all but the last", n)
		}
		// Rows that are removed from the beginning without Prune are missed.
		exec(t, db, "DELETE FROM audit_log WHERE seq = 6")
		if _, err := Verify(t.Context(), db); err == nil {
			t.Error("a removed first row is not noticed")
		}
	})
}

func TestPruneInParts(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		err := within(t, db, func(tx *sql.Tx) error {
			for n := range pruneRows + 10 {
				if err := Append(t.Context(), tx, db.server, madeRow(n)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		var counts []int64
		for range 3 {
			err := within(t, db, func(tx *sql.Tx) error {
				n, err := Prune(t.Context(), tx, db.server, pruneRows*10, Row{AtMS: pruneRows * 10})
				counts = append(counts, n)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Verify(t.Context(), db); err != nil {
			t.Error(err)
		}
		// The first removal appends a row, which is young.
		if diff := cmp.Diff([]int64{pruneRows, 10, 0}, counts); diff != "" {
			t.Error(diff)
		}
	})
}
