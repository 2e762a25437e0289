package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// TestFates: errors are told apart by type and number.
func TestFates(t *testing.T) {
	number := func(n uint16) error { return fmt.Errorf("wrapped: %w", &mysql.MySQLError{Number: n}) }
	for _, test := range []struct {
		err  error
		want fate
	}{
		{number(1213), again}, {number(1205), again}, {number(1062), taken}, {number(1053), lost},
		{number(1927), lost}, {number(4031), lost}, {number(1040), full}, {number(1114), full},
		{number(1064), wrong}, {number(4025), wrong}, {number(3819), wrong}, {number(1146), wrong},
		{driver.ErrBadConn, lost}, {mysql.ErrInvalidConn, lost}, {io.ErrUnexpectedEOF, lost},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, lost},
		{context.DeadlineExceeded, over}, {fmt.Errorf("x: %w", context.Canceled), over},
		{errAgain, again}, {sql.ErrNoRows, wrong}, {errors.New("deadlock 1213"), wrong},
		{ledger.ErrEnded, decided}, {&ledger.Mismatch{}, decided},
		{budget.Refuse(budget.LastBucket, "x", "y"), decided},
	} {
		if got := fateOf(test.err); got != test.want {
			t.Errorf("%v: %d, want %d", test.err, got, test.want)
		}
	}
	for _, test := range []struct {
		err  error
		code budget.Code
	}{
		{number(1213), budget.Unavailable}, {number(1040), budget.Unavailable},
		{context.Canceled, budget.Unavailable}, {number(1064), budget.Internal},
		{number(1062), budget.Internal}, {budget.Refuse(budget.LastBucket, "x", "y"), budget.LastBucket},
	} {
		if err := notDone("op", test.err); !budget.Is(err, test.code) || !errors.Is(err, test.err) {
			t.Errorf("%v became %v, want code %s", test.err, err, test.code)
		}
	}
}

// patient counts how often a transaction was done again, and does something in between.
type patient struct {
	pauses atomic.Int64
	then   func()
}

func (p *patient) sleep(ctx context.Context, d time.Duration) error {
	p.pauses.Add(1)
	if p.then != nil {
		p.then()
	}
	return sleep(ctx, d)
}

// foreign is a connection of somebody else to the same database.
func foreign(t *testing.T, driverName, dsn string) *sql.Conn {
	t.Helper()
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func do(t *testing.T, conn *sql.Conn, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := conn.ExecContext(context.Background(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// filled returns a budget with one committed log per bucket position: each a grant and a deduction.
func filled(t *testing.T, db *DB, name string, buckets int) (bucket.Budget, []ledger.Log) {
	t.Helper()
	v := openBudget(t, db, name, 1000, buckets)
	logs := make([]ledger.Log, buckets)
	for i := range v.Buckets {
		l := newLog(v.Buckets[i].Ref())
		l.grant(v.Buckets[i].Epoch.Outstanding, 1)
		l.deduct(1, fmt.Sprint(name, i))
		logs[i] = l.log(0)
	}
	return v, logs
}

func TestDeadlockIsDoneAgain(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	p := &patient{}
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn, Sleep: p.sleep})
	v, logs := filled(t, db, "b", 2)
	other := foreign(t, "mysql", dsn)
	// The victim is who has changed less: that must be the commit.
	do(t, other, "SET autocommit = 1", "CREATE TABLE ballast (n BIGINT PRIMARY KEY)", "BEGIN")
	for i := range 200 {
		do(t, other, fmt.Sprintf("INSERT INTO ballast VALUES (%d)", i))
	}
	lock := "SELECT 1 FROM bucket_epoch WHERE bucket_id = %d FOR UPDATE"
	do(t, other, fmt.Sprintf(lock, v.Buckets[1].ID))
	done := make(chan error, 1)
	go func() {
		r, err := db.Commit(context.Background(), logs)
		if err == nil && (len(r.Epochs[0].Outcomes) != 1 || len(r.Epochs[1].Outcomes) != 1) {
			err = fmt.Errorf("report %+v", r)
		}
		done <- err
	}()
	waitForLock(t, dsn)
	do(t, other, fmt.Sprintf(lock, v.Buckets[0].ID), "ROLLBACK")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if p.pauses.Load() == 0 {
		t.Error("there was no deadlock")
	}
}

// TestRefundLocksCountersInOrder: a refund holds no counter while it waits for one whose key is lower, though a limit
// that was added later makes it lock some that may be missing; so it and a commit cannot wait for each other.
func TestRefundLocksCountersInOrder(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	p := &patient{}
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn, Sleep: p.sleep})
	limits := []budget.Limit{
		{Name: "a", Dimension: "user", Max: 100, Measure: budget.MeasureAmount, Enforce: true,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}},
		{Name: "b", Dimension: "user", Max: 100, Measure: budget.MeasureAmount, Enforce: true,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}},
	}
	v := openDefined(t, db, budget.Definition{Tenant: "default", Name: "b", Unit: budget.Count, Durability: budget.Ledger,
		Type: budget.Promo, TotalQuantity: 1000, BucketQuantity: 1, Limits: &budget.Limits{List: limits[:1]}})
	l := newLog(v.Buckets[0].Ref())
	deduct := func(id string, from int64) {
		t.Helper()
		r := request(1, id)
		r.Dimensions = `{"user":"u"}`
		l.ask(1, r)
		got, err := db.Commit(t.Context(), []ledger.Log{l.log(from)})
		if err != nil || got.Epochs[0].Err != nil || got.Epochs[0].Outcomes[0].Duplicate != nil {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	l.grant(v.Buckets[0].Epoch.Outstanding, 1)
	deduct("first", 0)
	if _, err := db.Change(t.Context(), v.ID, bucket.Change{Limits: &limits}); err != nil {
		t.Fatal(err)
	}
	deduct("second", 2)
	other := foreign(t, "mysql", dsn)
	// The victim is who has changed less: that must be the refund.
	do(t, other, "SET autocommit = 1", "CREATE TABLE ballast (n BIGINT PRIMARY KEY)", "BEGIN")
	for i := range 200 {
		do(t, other, fmt.Sprintf("INSERT INTO ballast VALUES (%d)", i))
	}
	lock := "SELECT 1 FROM limit_counter WHERE budget_id = %d AND limit_name = '%s' AND value = 'u' AND window_ms = 0 FOR UPDATE"
	do(t, other, fmt.Sprintf(lock, v.ID, "a"))
	done := make(chan error, 1)
	go func() {
		_, _, err := db.Rollback(context.Background(), bucket.RollbackOrder{Budget: v.ID, RequestID: "first"})
		done <- err
	}()
	waitForLock(t, dsn)
	do(t, other, fmt.Sprintf(lock, v.ID, "b"), "ROLLBACK")
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := p.pauses.Load(); n != 0 {
		t.Errorf("the refund was done again %d times", n)
	}
	for _, name := range []string{"a", "b"} {
		var counted int64
		err := foreign(t, "mysql", dsn).QueryRowContext(t.Context(),
			"SELECT counted FROM limit_counter WHERE limit_name = ? AND value = 'u'", name).Scan(&counted)
		if err != nil || counted != 1 {
			t.Errorf("limit %s counts %d, %v", name, counted, err)
		}
	}
}

// waitForLock waits until a transaction waits for a row.
func waitForLock(t *testing.T, dsn string) {
	t.Helper()
	conn := foreign(t, "mysql", dsn)
	for range 50 {
		time.Sleep(150 * time.Millisecond) // what is asked for sooner is answered from a cache
		var n int
		err := conn.QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nobody waits for a lock")
}

// TestLockWaitIsDoneAgain: 1205 rolls back only the statement, so the whole is rolled back first.
func TestLockWaitIsDoneAgain(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	p := &patient{}
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn, Sleep: p.sleep})
	v, logs := filled(t, db, "b", 2)
	other := foreign(t, "mysql", dsn)
	do(t, other, "BEGIN", fmt.Sprintf("SELECT 1 FROM bucket_epoch WHERE bucket_id = %d FOR UPDATE",
		v.Buckets[1].ID))
	p.then = func() { do(t, other, "ROLLBACK") }
	if _, err := db.Commit(t.Context(), logs); err != nil {
		t.Fatal(err)
	}
	if p.pauses.Load() != 1 {
		t.Errorf("done again %d times, want once", p.pauses.Load())
	}
}

// TestCallerGivesUp: before COMMIT nothing happens and the answer says so.
func TestCallerGivesUp(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn})
	v, logs := filled(t, db, "b", 1)
	other := foreign(t, "mysql", dsn)
	do(t, other, "BEGIN", "SELECT 1 FROM bucket_epoch FOR UPDATE")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := db.Commit(ctx, logs)
	if !budget.Is(err, budget.Unavailable) || time.Since(began) > time.Second {
		t.Errorf("%v after %s, want unavailable after 0.1 s", err, time.Since(began))
	}
	do(t, other, "ROLLBACK")
	wantUsed(t, db, v.ID, 0)
}

func wantUsed(t *testing.T, db *DB, budgetID, want int64) {
	t.Helper()
	f, err := db.Figures(t.Context(), budgetID)
	if err != nil {
		t.Fatal(err)
	}
	if f.Used != want {
		t.Errorf("used %d, want %d", f.Used, want)
	}
}

// TestUnknownOutcome: a connection lost at COMMIT that cannot be replaced.
func TestUnknownOutcome(t *testing.T) {
	for _, test := range []struct {
		name  string
		query string
		cut   cut
		code  budget.Code
		used  int64
	}{
		{"lost before COMMIT", "INSERT", drop, budget.Unavailable, 0},
		{"COMMIT not heard", "COMMIT", drop, budget.OutcomeUnknown, 0},
		{"COMMIT heard, the answer lost", "COMMIT", deafen, budget.OutcomeUnknown, 1},
		{"COMMIT heard, no answer in time", "COMMIT", silence, budget.OutcomeUnknown, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, dsn := newProxy(t, testservers.SharedMariaDB(t).NewDatabase(t))
			db := mustOpen(t, Config{Driver: "mysql", DSN: dsn})
			v, logs := filled(t, db, "b", 1)
			p.set(func(query string) cut {
				if strings.HasPrefix(query, test.query) {
					return test.cut
				}
				return pass
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := db.Commit(ctx, logs)
			if !budget.Is(err, test.code) {
				t.Errorf("%v, want %s", err, test.code)
			}
			p.set(nil)
			wantUsed(t, db, v.ID, test.used)
			if _, err := db.Commit(t.Context(), logs); err != nil { // again, with the same keys
				t.Error(err)
			}
			wantUsed(t, db, v.ID, 1)
		})
	}
}

// TestKilledConnection: the server ends the session while it waits for a lock.
func TestKilledConnection(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	p := &patient{}
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn, Sleep: p.sleep})
	v, logs := filled(t, db, "b", 1)
	other := foreign(t, "mysql", dsn)
	do(t, other, "BEGIN", "SELECT 1 FROM bucket_epoch FOR UPDATE")
	done := make(chan error, 1)
	go func() {
		_, err := db.Commit(context.Background(), logs)
		done <- err
	}()
	waitForLock(t, dsn)
	killer := foreign(t, "mysql", dsn)
	var id int64
	err := killer.QueryRowContext(t.Context(), `SELECT trx_mysql_thread_id
		FROM information_schema.innodb_trx
		WHERE trx_state = 'LOCK WAIT'`).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	do(t, other, "ROLLBACK")
	do(t, killer, fmt.Sprintf("KILL CONNECTION %d", id))
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantUsed(t, db, v.ID, 1)
}

// TestServerGone: a server that does not answer is unavailable, and one that is back is used again.
func TestServerGone(t *testing.T) {
	server := testservers.MariaDB(t)
	db := mustOpen(t, Config{Driver: "mysql", DSN: server.NewDatabase(t)})
	v, logs := filled(t, db, "b", 1)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Commit(t.Context(), logs); !budget.Is(err, budget.Unavailable) {
		t.Errorf("commit: %v, want unavailable", err)
	}
	if _, err := db.Judge(t.Context(), v.ID, nil); !budget.Is(err, budget.Unavailable) {
		t.Errorf("judge: %v, want unavailable", err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Commit(t.Context(), logs); err != nil {
		t.Error(err)
	}
	wantUsed(t, db, v.ID, 1)
}

// TestFileBusy: another program that holds SQLite's lock is waited for, and then again.
func TestFileBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budgetd.db")
	p := &patient{}
	db := mustOpen(t, Config{Driver: "sqlite", DSN: path, Sleep: p.sleep,
		BusyTimeout: 10 * time.Millisecond})
	v, logs := filled(t, db, "b", 1)
	other := foreign(t, "sqlite", path)
	do(t, other, "BEGIN IMMEDIATE")
	if _, err := db.Commit(t.Context(), logs); !budget.Is(err, budget.Unavailable) {
		t.Errorf("%v, want unavailable", err)
	}
	if n := p.pauses.Load(); n != writeAttempts-1 {
		t.Errorf("done again %d times, want %d", n, writeAttempts-1)
	}
	wantUsed(t, db, v.ID, 0) // readers are not kept out
	p.then = func() { do(t, other, "ROLLBACK"); p.then = nil }
	if _, err := db.Commit(t.Context(), logs); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, db, v.ID, 1)
}

// TestFileGivesUp: SQLite's statements are not interrupted, but a caller who is gone by COMMIT, or
// while others write, changes nothing.
func TestFileGivesUp(t *testing.T) {
	db := openFile(t, time.Now)
	v, logs := filled(t, db, "b", 1)
	ctx, cancel := context.WithCancel(t.Context())
	err := db.write(ctx, "test", func(tx *tx) error {
		cancel()
		_, err := tx.drain(logs)
		return err
	})
	if !budget.Is(err, budget.Unavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("gone before COMMIT: %v", err)
	}
	err = db.write(t.Context(), "test", func(*tx) error {
		late, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err := db.Commit(late, logs)
		if !budget.Is(err, budget.Unavailable) {
			t.Errorf("while another writes: %v, want unavailable", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	wantUsed(t, db, v.ID, 0)
}

// TestPanicLeavesNothing: a defect in a transaction does not leave it open.
func TestPanicLeavesNothing(t *testing.T) {
	for _, e := range engines() {
		t.Run(e.name, func(t *testing.T) {
			db := e.open(t)
			v, logs := filled(t, db, "b", 1)
			func() {
				defer func() { _ = recover() }()
				_ = db.write(t.Context(), "test", func(tx *tx) error {
					if _, err := tx.exec(`UPDATE bucket_epoch SET used_quantity = 99`); err != nil {
						t.Error(err)
					}
					panic("defect")
				})
			}()
			wantUsed(t, db, v.ID, 0)
			if _, err := db.Commit(t.Context(), logs); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAuditIsWaitedFor: the sums of an audit may take longer than other statements, which end with readTimeout.
func TestAuditIsWaitedFor(t *testing.T) {
	p, dsn := newProxy(t, testservers.SharedMariaDB(t).NewDatabase(t))
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.ReadTimeout = time.Second
	db := mustOpen(t, Config{Driver: "mysql", DSN: config.FormatDSN(), PoolSize: 1})
	v, logs := filled(t, db, "b", 1)
	if _, err := db.Commit(t.Context(), logs); err != nil {
		t.Fatal(err)
	}
	var slow atomic.Bool
	p.set(func(query string) cut {
		if strings.Contains(query, "SUM(d.rolled_back)") {
			slow.Store(true)
			time.Sleep(1500 * time.Millisecond)
		}
		return pass
	})
	a, err := db.Accounts(t.Context(), v.ID)
	if err != nil || a.Figures.Used != 1 || len(a.Check()) > 0 || !slow.Load() {
		t.Errorf("an audit that takes 1.5 s: %+v, %v", a.Figures, err)
	}
	p.set(func(query string) cut {
		if strings.HasPrefix(query, "SELECT") {
			time.Sleep(1500 * time.Millisecond)
		}
		return pass
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := db.Figures(ctx, v.ID); !budget.Is(err, budget.Unavailable) {
		t.Errorf("another read that takes 1.5 s: %v", err)
	}
}
