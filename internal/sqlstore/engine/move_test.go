package engine

import (
	"context"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
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
