package daemon

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/config"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/secret"
	"github.com/budgetd/budgetd/trail"
)

// TestAuditLogIsKept: audit_log.keep removes rows that are older, the oldest first, and nothing else;
// 0 keeps all.
func TestAuditLogIsKept(t *testing.T) {
	db, err := openDatabase(t.Context(), config.Database{Driver: config.SQLite,
		DSN: secret.New(filepath.Join(t.TempDir(), "budgetd.db"))}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	b := &books{db: db, refusals: new(trail.Refusals)}
	now := db.Now()
	for n, age := range []time.Duration{3 * time.Hour, 2 * time.Hour, time.Minute} {
		row := trail.Row{AtMS: now.Add(-age).UnixMilli(), Principal: "p", Op: []string{"old", "older", "young"}[n],
			Outcome: trail.Done}
		if err := b.Append(t.Context(), row); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		keep  time.Duration
		first string
	}{{0, "old"}, {4 * time.Hour, "old"}, {time.Hour, "young"}} {
		b.keep = step.keep
		if err := b.prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		page, err := b.Read(t.Context(), httpapi.AuditQuery{Limit: 10})
		if err != nil || len(page.Rows) == 0 || page.Rows[0].Op != step.first {
			t.Errorf("keep %s: %+v, %v", step.keep, page.Rows, err)
		}
	}
}
