package engine

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
)

// TestEffectAndItsRow checks that a transaction commits its row of the audit log together with its
// change, and that a failed one leaves no row.
func TestEffectAndItsRow(t *testing.T) {
	for name, db := range map[string]*DB{"sqlite": openFile(t, nil), "mariadb": openMariaDB(t, nil)} {
		t.Run(name, func(t *testing.T) {
			rows := func() (n int) {
				err := db.Read(t.Context(), "test", func(r *Reader) error {
					_, err := r.Get(&n, `SELECT COUNT(*) FROM audit_log WHERE op = ?`, []byte("append"))
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
			ctx := auditlog.NewContext(t.Context(), auditlog.NewEntry(auditlog.Row{Op: "append", Principal: "ann"}))
			failure := errors.New("decided otherwise")
			for want, end := range []error{failure, nil} {
				err := db.Write(ctx, "test", func(tx *Tx) error {
					_, err := tx.Exec(`UPDATE installation SET only_row = 1`)
					return errors.Join(err, end)
				})
				if !errors.Is(err, end) {
					t.Fatal(err)
				}
				if n := rows(); n != want {
					t.Errorf("the audit log has %d rows, want %d", n, want)
				}
			}
		})
	}
}

// TestCheckClock checks that CheckClock returns unavailable if this node's clock is ahead of or
// behind the server's, and nil once the difference is measured.
func TestCheckClock(t *testing.T) {
	var ahead atomic.Int64
	db := openMariaDB(t, func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	check := func() error {
		return db.Write(t.Context(), "test", func(tx *Tx) error { return tx.CheckClock("test") })
	}
	for _, test := range []struct {
		off  time.Duration
		code budget.Code
	}{{0, ""}, {time.Hour, budget.Unavailable}, {-time.Hour, budget.Unavailable}, {0, ""}} {
		ahead.Store(int64(test.off))
		if err := check(); budget.CodeOf(err) != test.code {
			t.Errorf("with the clock %s off: %v, want %q", test.off, err, test.code)
		}
	}
	ahead.Store(int64(time.Hour))
	if err := db.SyncClock(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Errorf("after SyncClock: %v", err)
	}
}
