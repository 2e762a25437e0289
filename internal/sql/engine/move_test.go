package engine

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestLostCommitOfAMove checks that a movement whose COMMIT lost its reply is never answered as not
// done: it finds what it wrote, or its outcome is unknown, also if the database cannot be reached
// again afterwards.
func TestLostCommitOfAMove(t *testing.T) {
	for name, back := range map[string]bool{"the database comes back": true, "the database stays away": false} {
		t.Run(name, func(t *testing.T) {
			config, err := mysql.ParseDSN(testservers.SharedMariaDB(t).NewDatabase(t))
			if err != nil {
				t.Fatal(err)
			}
			proxy := testservers.NewProxy(t, config.Addr)
			config.Addr = proxy.Addr()
			set := func(d testservers.Disturbance) {
				if err := proxy.Set(testservers.Rule{Disturbance: d}); err != nil {
					t.Error(err)
				}
			}
			pauses := 0
			db := mustOpen(t, Config{Driver: "mysql", DSN: config.FormatDSN(),
				Sleep: func(ctx context.Context, d time.Duration) error {
					if pauses++; pauses == 1 || back { // it asks whether the lost connection is gone
						set(testservers.Pass)
					} else { // it begins again
						set(testservers.Refuse)
					}
					return sleep(ctx, d)
				}})
			var attempts, found int
			err = db.Move(t.Context(), "test", func(m *Move) error {
				attempts++
				query := m.Statement()
				query.SQL("SELECT only_row AS n FROM audit_log_head WHERE removed_seq = 7")
				var rows []struct {
					N int64 `db:"n"`
				}
				if err := m.Load([]*Statement{query}, []any{&rows}); err != nil {
					return err
				}
				if found = len(rows); found > 0 && m.Unsure {
					return nil
				}
				write := m.Statement()
				write.SQL("UPDATE audit_log_head SET removed_seq = 7 WHERE only_row = 1")
				m.Save(write)
				set(testservers.CutReply)
				return nil
			})
			switch {
			case back && (err != nil || attempts != 2 || found != 1):
				t.Errorf("after %d attempts, %d rows: %v", attempts, found, err)
			case !back && !budget.Is(err, budget.OutcomeUnknown):
				t.Errorf("after %d attempts: %v, want outcome_unknown", attempts, err)
			}
			set(testservers.Pass)
		})
	}
}

// TestStoppedMove checks that a movement that stops between its packets keeps nobody waiting for more
// than about a second, and begins again when it goes on.
func TestStoppedMove(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	db := mustOpen(t, Config{Driver: "mysql", DSN: dsn})
	other := foreign(t, "mysql", dsn)
	do(t, other, "SET SESSION innodb_lock_wait_timeout = 5")
	attempts := 0
	err := db.Move(t.Context(), "test", func(m *Move) error {
		query := m.Statement()
		query.SQL("SELECT removed_seq AS n FROM audit_log_head /*locked*/")
		var rows []struct {
			N int64 `db:"n"`
		}
		if err := m.Load([]*Statement{query}, []any{&rows}); err != nil {
			return err
		}
		if attempts++; attempts == 1 { // while this one stands still
			do(t, other, "UPDATE audit_log_head SET removed_seq = 5")
		}
		write := m.Statement()
		write.SQL("UPDATE audit_log_head SET removed_seq = ")
		write.Number(rows[0].N + 1)
		m.Save(write)
		return nil
	})
	var n int64
	if err := db.Read(t.Context(), "test", func(r *Reader) error {
		_, err := r.Get(&n, "SELECT removed_seq FROM audit_log_head")
		return err
	}); err != nil {
		t.Error(err)
	}
	if err != nil || attempts != 2 || n != 6 {
		t.Errorf("%d attempts, %d instead of 6, %v", attempts, n, err)
	}
}

// TestLookAfterAMove checks that a movement's rows are read after its COMMIT, also if it saves
// nothing, and that a look that fails leaves the movement done.
func TestLookAfterAMove(t *testing.T) {
	for driver, dsn := range map[string]string{"mysql": testservers.SharedMariaDB(t).NewDatabase(t),
		"sqlite": filepath.Join(t.TempDir(), "db")} {
		t.Run(driver, func(t *testing.T) {
			db := mustOpen(t, Config{Driver: driver, DSN: dsn})
			type row struct {
				N int64 `db:"n"`
			}
			move := func(to int64, text string) ([]row, error) {
				var now []row
				err := db.MoveAndLook(t.Context(), "test", func(m *Move) error {
					query := m.Statement()
					query.SQL("SELECT removed_seq AS n FROM audit_log_head")
					var was []row
					if err := m.Load([]*Statement{query}, []any{&was}); err != nil || to == was[0].N {
						return err
					}
					write := m.Statement()
					write.SQL("UPDATE audit_log_head SET removed_seq = ")
					write.Number(to)
					m.Save(write)
					return nil
				}, func(begin func() *Statement) ([]*Statement, []any) {
					now = nil
					query := begin()
					query.SQL(text)
					return []*Statement{query, query}, []any{&[]row{}, &now}
				})
				return now, err
			}
			const text = "SELECT removed_seq AS n FROM audit_log_head"
			for _, to := range []int64{7, 7, 8} {
				if now, err := move(to, text); err != nil || len(now) != 1 || now[0].N != to {
					t.Errorf("%v, %v", now, err)
				}
			}
			if _, err := move(9, text+" WHERE nothing = 1"); !budget.Is(err, budget.OutcomeUnknown) {
				t.Errorf("a look that fails: %v", err)
			}
			if now, err := move(9, text); err != nil || now[0].N != 9 {
				t.Errorf("%v, %v", now, err)
			}
		})
	}
}
