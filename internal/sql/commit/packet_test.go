package commit_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/limit"
)

// server is a world on MariaDB with a second connection, which disturbs the flights.
type server struct {
	*world
	dsn   string
	other *sql.Conn
}

func onServer(t *testing.T, limits []budget.Limit, run func(s *server)) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	fixture.On(t, engine.Config{Driver: "mysql", DSN: dsn}, func(f *fixture.World) {
		w := &world{World: f, decider: commit.New(f.DB)}
		w.b = w.budget("b", 100, 2, limits)
		db, err := sql.Open("mysql", dsn)
		w.OK(err)
		defer db.Close()
		other, err := db.Conn(w.Ctx)
		w.OK(err)
		run(&server{world: w, dsn: dsn, other: other})
	})
}

// do runs statements on the other connection.
func (s *server) do(statements ...string) {
	s.Helper()
	for _, text := range statements {
		if _, err := s.other.ExecContext(context.Background(), text); err != nil {
			s.Fatalf("%s: %v", text, err)
		}
	}
}

// contents returns all rows that flights write, as text.
func (s *server) contents() string {
	s.Helper()
	out := ""
	for _, query := range []string{
		`SELECT COALESCE(GROUP_CONCAT(request_id ORDER BY request_id), '') FROM deduction`,
		`SELECT COUNT(*) FROM deduction_value`, `SELECT COUNT(*) FROM hold`,
		`SELECT COALESCE(GROUP_CONCAT(CONCAT(hold_group, state)), '') FROM group_of_holds`,
		`SELECT COALESCE(GROUP_CONCAT(CONCAT(value, ':', version % 100, HEX(counts)) ORDER BY value), '')
			FROM limit_counter`,
		`SELECT COALESCE(GROUP_CONCAT(CONCAT_WS('/', bucket_id, outstanding_quantity, used_quantity,
			held_quantity, next_entry) ORDER BY bucket_id), '') FROM bucket_epoch`,
		`SELECT COALESCE(GROUP_CONCAT(HEX(body) ORDER BY bucket_id, first_entry), '') FROM feed`,
	} {
		var text string
		if err := s.other.QueryRowContext(context.Background(), query).Scan(&text); err != nil {
			s.Fatal(err)
		}
		out += text + "\n"
	}
	return out
}

// TestFailedPacketCommitsNothing checks that a packet that fails commits nothing, neither at once
// nor with the packets that follow on other connections.
func TestFailedPacketCommitsNothing(t *testing.T) {
	limits := []budget.Limit{perUser("amount", 50, budget.MeasureAmount)}
	lock := "SELECT 1 FROM bucket_epoch WHERE bucket_id = 3 FOR UPDATE"
	for _, test := range []struct {
		name string
		// before runs before the flight begins, meanwhile once the flight waits for a lock.
		before, meanwhile []string
	}{
		{"1062 an existing id", []string{`INSERT INTO deduction VALUES (1, 'c', 0, 0, 0, '', 'n', 1, NULL)`}, nil},
		{"4025 too little in a bucket", []string{`UPDATE bucket_epoch SET outstanding_quantity = 1,
			closed_quantity = closed_quantity + 47 WHERE bucket_id = 3`}, nil},
		{"4025 a closed epoch", []string{`UPDATE bucket_epoch SET status = 'closed' WHERE bucket_id = 3`}, nil},
		{"4025 a halted epoch", []string{`UPDATE bucket_epoch SET halted = 'x' WHERE bucket_id = 3`}, nil},
		{"4025 a newer definition", []string{`UPDATE bucket_epoch SET definition_version = 2
			WHERE bucket_id = 3`}, nil},
		{"4025 an ended period", []string{`UPDATE bucket_epoch SET period_end_ms = 1
			WHERE bucket_id = 3`}, nil},
		{"1048 a missing epoch", []string{`UPDATE bucket_epoch SET epoch = 7
			WHERE bucket_id = 3`}, nil},
		{"1048 a closed group", []string{`UPDATE group_of_holds SET state = 'used'`}, nil},
		{"4025 a changed limit row", nil, []string{`UPDATE limit_counter SET version = version + 1`, `COMMIT`}},
		{"1062 a new limit row", nil, []string{`INSERT INTO limit_counter VALUES
			(1, 'user', 'v', 1, x'01', 0)`, `COMMIT`}},
		{"1205 a lock wait that times out", nil, nil},
		{"4025 a period that ends while it waits", []string{`UPDATE bucket_epoch SET period_end_ms =
			UNIX_TIMESTAMP(NOW(6)) * 1000 + 700 WHERE bucket_id = 3`}, []string{`DO SLEEP(0.8)`, `ROLLBACK`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			onServer(t, limits, func(s *server) {
				s.commit(s.asks(0, "a", 1, user("u")), s.asks(1, "b", 2, hold(time.Hour, "g")))
				s.do(test.before...)
				s.do("SET autocommit = 1", "BEGIN", lock)
				waits := test.meanwhile != nil || test.name[:4] == "1205"
				if !waits {
					s.do("ROLLBACK")
				}
				before := ""
				if !waits {
					before = s.contents()
				}
				if len(test.meanwhile) > 0 && test.meanwhile[0][0] != 'D' {
					// The row is changed after it was read and before it is written: the packet waits at a
					// deduction for the other connection.
					s.do("ROLLBACK", "BEGIN", `INSERT INTO deduction VALUES (1, 'c', 2, 1, 1, '', 'n', 1, NULL)`)
				}
				done := make(chan engine.Sent, 1)
				go func() {
					sent, _, _ := commit.New(s.DB).Packet(s.Ctx, s.asks(0, "c", 4, user("u")),
						s.asks(1, "d", 5, user("v"), hold(time.Hour, "g")))
					done <- sent
				}()
				if waits && test.meanwhile != nil {
					s.waitForLock()
					if test.meanwhile[0][0] != 'D' {
						s.do("DELETE FROM deduction WHERE request_id = 'c'")
					}
					s.do(test.meanwhile...)
				}
				if sent := <-done; sent != engine.Failed {
					t.Fatalf("Packet returned %d, want Failed", sent)
				}
				if waits && test.meanwhile == nil {
					s.do("ROLLBACK")
				}
				if before == "" {
					if n := s.figure(`SELECT COUNT(*) FROM deduction WHERE request_id IN ('c', 'd')`); n != 0 {
						t.Errorf("the failed packet wrote %d rows", n)
					}
					before = s.contents()
				}
				// No connection has the packet's transaction open: another flight commits only itself.
				other := s.budget("other", 100, 1, nil)
				op := s.asks(0, "z", 1)
				op.Budget, op.Bucket, op.Charges = other, other.Buckets[0].ID, []limit.Charge(nil)
				for range 20 {
					_, _, err := commit.New(s.DB).Packet(s.Ctx, op)
					s.OK(err)
				}
				s.do(`DELETE FROM deduction WHERE request_id = 'z'`, `DELETE FROM feed WHERE bucket_id = `+
					fmt.Sprint(op.Bucket), `DELETE FROM bucket_epoch WHERE bucket_id = `+fmt.Sprint(op.Bucket))
				if after := s.contents(); after != before {
					t.Errorf("the rows changed from\n%sto\n%s", before, after)
				}
				s.Forget()
			})
		})
	}
}

// TestNoSuchEpoch checks that a packet for a single bucket fails if its epoch does not exist, and
// changes nothing.
func TestNoSuchEpoch(t *testing.T) {
	onServer(t, nil, func(s *server) {
		s.do(`UPDATE bucket_epoch SET epoch = 7 WHERE bucket_id = 3`)
		before := s.contents()
		if sent, _, _ := s.decider.Packet(s.Ctx, s.asks(1, "a", 1)); sent != engine.Failed {
			t.Errorf("Packet returned %d, want Failed", sent)
		}
		if after := s.contents(); after != before {
			t.Errorf("the rows changed from\n%sto\n%s", before, after)
		}
		s.Forget()
	})
}

// waitForLock waits until a transaction waits for a row.
func (s *server) waitForLock() {
	s.Helper()
	for range 100 {
		time.Sleep(110 * time.Millisecond) // what is asked for sooner is answered from a cache
		if s.figure(`SELECT COUNT(*) FROM information_schema.innodb_trx t
			JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
			WHERE t.trx_state = 'LOCK WAIT' AND p.db = DATABASE()`) > 0 {
			return
		}
	}
	s.Fatal("nobody waits for a lock")
}

// TestFormsThatEnd checks that one packet writes a flight if it can, and that the locking form
// follows only a packet that failed.
func TestFormsThatEnd(t *testing.T) {
	onServer(t, []budget.Limit{perUser("amount", 50, budget.MeasureAmount)}, func(s *server) {
		s.want([]bucket.Verdict{bucket.Accepted, bucket.Accepted}, s.asks(0, "a", 1, user("u")),
			s.asks(1, "b", 1, hold(time.Hour, "g")))
		s.want([]bucket.Verdict{bucket.Limited, bucket.Accepted}, s.asks(0, "c", 51, user("u")),
			s.asks(1, "d", 1, user("u"), hold(time.Hour, "g")))
		if packets, locking := s.decider.Forms(); packets != 2 || locking != 0 {
			t.Errorf("%d flights by packets and %d by the locking form", packets, locking)
		}
		s.want(one(bucket.Known), s.asks(0, "a", 1)) // a second packet, which reads the ids first
		if o := s.want(one(bucket.Short), s.asks(0, "e", 60)); !o[0].Guess {
			t.Errorf("%+v, want a guess", o[0])
		}
		if packets, locking := s.decider.Forms(); packets != 4 || locking != 0 {
			t.Errorf("%d flights by packets and %d by the locking form", packets, locking)
		}
		s.do(`UPDATE bucket_epoch SET outstanding_quantity = 1, closed_quantity = 48 WHERE bucket_id = 2`)
		if o := s.want(one(bucket.Short), s.asks(0, "f", 2)); o[0].Guess {
			t.Errorf("%+v, want what a transaction found", o[0])
		}
		s.Forget()
		if packets, locking := s.decider.Forms(); packets != 4 || locking != 1 {
			t.Errorf("%d flights by packets and %d by the locking form", packets, locking)
		}
	})
}

// TestDeadlock checks that a packet that the server rolls back for a deadlock is followed by the
// locking form, which writes the flight.
func TestDeadlock(t *testing.T) {
	onServer(t, nil, func(s *server) {
		// The server rolls back the transaction that changed less. That must be the packet.
		s.do("SET autocommit = 1", "CREATE TABLE ballast (n BIGINT PRIMARY KEY)", "BEGIN")
		for i := range 200 {
			s.do(fmt.Sprintf("INSERT INTO ballast VALUES (%d)", i))
		}
		s.do("SELECT 1 FROM bucket_epoch WHERE bucket_id = 3 FOR UPDATE")
		done := make(chan []bucket.Outcome, 1)
		go func() { done <- s.commit(s.asks(0, "a", 1), s.asks(1, "b", 2)) }()
		s.waitForLock()
		s.do("SELECT 1 FROM bucket_epoch WHERE bucket_id = 2 FOR UPDATE", "ROLLBACK")
		s.verdicts(<-done, bucket.Accepted, bucket.Accepted)
		if packets, locking := s.decider.Forms(); packets != 0 || locking != 1 {
			t.Errorf("%d flights by packets and %d by the locking form", packets, locking)
		}
	})
}
