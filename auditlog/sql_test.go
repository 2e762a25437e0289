package auditlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"

	"github.com/budgetd/budgetd"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// everywhere runs a test on each engine, on an empty log.
func everywhere(t *testing.T, test func(t *testing.T, db *logDB)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		test(t, open(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "db")+
			"?_pragma=busy_timeout(60000)&_pragma=journal_mode(WAL)&_txlock=immediate"))
	})
	t.Run("mariadb", func(t *testing.T) {
		test(t, open(t, "mysql", testservers.SharedMariaDB(t).NewDatabase(t)))
	})
}

// logDB is a database with an audit log.
type logDB struct {
	*sql.DB
	server bool
}

func open(t *testing.T, driver, dsn string) *logDB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	for statement := range strings.SplitSeq(budgetd.Schema, ";\n") {
		if strings.TrimSpace(statement) != "" {
			exec(t, db, statement)
		}
	}
	for range 2 { // the second one finds the head
		if err := Install(t.Context(), db); err != nil {
			t.Fatal(err)
		}
	}
	return &logDB{db, driver == "mysql"}
}

func exec(t *testing.T, db Tx, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// within runs a transaction.
func within(t *testing.T, db *logDB, do func(tx *sql.Tx) error) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// appendRow appends a row and returns it with its number and hash.
func appendRow(t *testing.T, db *logDB, row Row) Row {
	t.Helper()
	err := within(t, db, func(tx *sql.Tx) error { return Append(t.Context(), tx, db.server, row) })
	if err != nil {
		t.Fatal(err)
	}
	rows, err := Read(t.Context(), db, Query{NewestFirst: true, Limit: 1})
	if err != nil || len(rows) != 1 {
		t.Fatalf("%v, %v", rows, err)
	}
	return rows[0]
}

func madeRow(n int) Row {
	return Row{AtMS: int64(n), Principal: "admin", KeyID: "k123456789", Source: "10.0.0.1:80", Op: "append",
		Tenant: "default", Target: "007", RequestID: "r\xff", CorrelationID: "c", Before: []byte("{}"), Outcome: Done}
}

func TestWhatIsAppendedIsRead(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		if head, err := Verify(t.Context(), db); err != nil || head != (Anchor{}) {
			t.Fatalf("empty: %v, %v", head, err)
		}
		var want []Row
		for n := range 3 {
			want = append(want, appendRow(t, db, madeRow(n)))
		}
		other := madeRow(9)
		other.Principal, other.Op, other.Tenant, other.Before = "jane", "drain", "", nil
		want = append(want, appendRow(t, db, other))
		got, err := Read(t.Context(), db, Query{Limit: 10})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
		for _, test := range []struct {
			query Query
			want  []Row
		}{
			{Query{After: 1, Limit: 1}, want[1:2]}, {Query{FromMS: 1, ToMS: 9, Limit: 9}, want[1:3]},
			{Query{Principal: "jane", Limit: 9}, want[3:]}, {Query{Op: "append", Tenant: "default", Limit: 9}, want[:3]},
			{Query{Tenant: "Default", Limit: 9}, nil},
			{Query{After: 1, Before: 4, Limit: 9}, want[1:3]},
			{Query{NewestFirst: true, Limit: 2}, []Row{want[3], want[2]}},
			{Query{NewestFirst: true, Before: 3, Limit: 9}, []Row{want[1], want[0]}},
			{Query{NewestFirst: true, Principal: "admin", After: 1, Limit: 9}, []Row{want[2], want[1]}},
		} {
			got, err := Read(t.Context(), db, test.query)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("%+v: %v %s", test.query, err, diff)
			}
		}
		head, err := Verify(t.Context(), db, want[1].Anchor())
		if err != nil || head != want[3].Anchor() {
			t.Errorf("%v, %v", head, err)
		}
	})
}

// TestPagesWalkAnIndex checks that a page at either end of a long log reads no more rows than it
// answers. Both engines walk the primary key, or the index of a filter.
func TestPagesWalkAnIndex(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		err := within(t, db, func(tx *sql.Tx) error {
			for n := range 2000 {
				if err := Append(t.Context(), tx, db.server, madeRow(n)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		const primary = "(sqlite_autoindex_audit_log_1|PRIMARY)"
		for _, test := range []struct {
			query Query
			index string
		}{
			{Query{}, primary}, {Query{After: 7}, primary}, {Query{NewestFirst: true}, primary},
			{Query{NewestFirst: true, Before: 1500}, primary},
			{Query{Principal: "jane"}, "audit_log_principal"}, {Query{Op: "drain"}, "audit_log_op"},
			{Query{Tenant: "acme"}, "audit_log_tenant"},
			{Query{NewestFirst: true, Target: "sale"}, "audit_log_target"},
			{Query{NewestFirst: true, Principal: "jane"}, "audit_log_principal"},
			{Query{NewestFirst: true, Op: "drain", Before: 1500}, "audit_log_op"},
			{Query{NewestFirst: true, Tenant: "acme"}, "audit_log_tenant"},
			{Query{NewestFirst: true, Principal: "jane", Tenant: "default", Op: "append"}, "audit_log_principal"},
		} {
			test.query.Limit = 10
			plan := planOf(t, db, test.query)
			walks := regexp.MustCompile(`(INDEX |\bkey=)` + test.index + `\b`)
			if !walks.MatchString(plan) || sorts.MatchString(plan) {
				t.Errorf("%+v: %s", test.query, plan)
			}
		}
	})
}

// sorts is what the engines' plans say of a sort.
var sorts = regexp.MustCompile(`TEMP B-TREE|filesort`)

// planOf returns how an engine answers a query.
func planOf(t *testing.T, db *logDB, q Query) (plan string) {
	t.Helper()
	query, args := statement(q)
	explain := "EXPLAIN "
	if db.QueryRowContext(t.Context(), "SELECT sqlite_version()").Scan(new(string)) == nil {
		explain = "EXPLAIN QUERY PLAN "
	}
	rows, err := db.QueryContext(t.Context(), explain+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values := make([]sql.NullString, len(names))
		into := make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		for i, value := range values {
			plan += fmt.Sprintf("%s=%s ", names[i], value.String)
		}
	}
	return plan
}

// A transaction that is rolled back leaves neither a row nor a gap.
func TestRolledBack(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		appendRow(t, db, madeRow(1))
		broken := errors.New("broken")
		err := within(t, db, func(tx *sql.Tx) error {
			if err := Append(t.Context(), tx, db.server, madeRow(2)); err != nil {
				t.Error(err)
			}
			return broken
		})
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if row := appendRow(t, db, madeRow(3)); row.Seq != 2 {
			t.Errorf("number %d", row.Seq)
		}
		if _, err := Verify(t.Context(), db); err != nil {
			t.Error(err)
		}
	})
}

// Nodes that append concurrently form one chain.
func TestConcurrentAppends(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		const nodes, each = 4, 25
		var group sync.WaitGroup
		for node := range nodes {
			group.Go(func() {
				for n := range each {
					row := madeRow(n)
					row.Principal = fmt.Sprint(node)
					err := within(t, db, func(tx *sql.Tx) error {
						return Append(t.Context(), tx, db.server, row)
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		group.Wait()
		head, err := Verify(t.Context(), db)
		if err != nil || head.Seq != nodes*each {
			t.Errorf("%d rows: %v", head.Seq, err)
		}
	})
}

// The row of an administrative call exists if and only if its effect does.
func TestAppendOf(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		run := func(ctx context.Context) {
			t.Helper()
			if err := within(t, db, func(tx *sql.Tx) error { return AppendOf(ctx, tx, db.server) }); err != nil {
				t.Fatal(err)
			}
		}
		run(t.Context()) // background work
		entry := NewEntry(madeRow(1))
		entry.Change("shop", "sale", nil, []byte("{}"))
		run(NewContext(t.Context(), entry))
		rows, err := Read(t.Context(), db, Query{Limit: 9})
		if err != nil || len(rows) != 1 || rows[0].Target != "sale" || rows[0].Before != nil {
			t.Errorf("%+v, %v", rows, err)
		}
		if _, left := entry.End(Done); left {
			t.Error("the row is still to be appended")
		}
	})
}

// Texts longer than their columns are cut alike in every engine.
func TestLongTexts(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		long := strings.Repeat("x", 1000)
		appendRow(t, db, Row{Principal: long, KeyID: long, Source: long, Op: long, Tenant: long, Target: long,
			RequestID: long, CorrelationID: long, Outcome: long})
		if _, err := Verify(t.Context(), db); err != nil {
			t.Error(err)
		}
	})
}

func TestNotInstalled(t *testing.T) {
	everywhere(t, func(t *testing.T, db *logDB) {
		exec(t, db, "DELETE FROM audit_log_head")
		if err := Append(t.Context(), db, db.server, madeRow(1)); !errors.Is(err, errNoHead) {
			t.Error(err)
		}
		if _, err := Verify(t.Context(), db); !errors.Is(err, errNoHead) {
			t.Error(err)
		}
	})
}
