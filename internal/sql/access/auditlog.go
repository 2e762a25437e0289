package access

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// AuditLog reads and writes the audit log. It is safe for concurrent use.
type AuditLog struct {
	DB *engine.DB
	// Refusals are those that have no row yet.
	Refusals *auditlog.Refusals
	// Keep is how long rows are kept; 0 means for as long as the database.
	Keep time.Duration
}

// Append adds a row in a transaction of its own. Errors: Unavailable, OutcomeUnknown.
func (l *AuditLog) Append(ctx context.Context, row auditlog.Row) error {
	return l.DB.Attest(ctx, row)
}

// Read reads a page and the ends of the log, as of one instant. Error: Unavailable.
func (l *AuditLog) Read(ctx context.Context, q auditlog.Query) (page auditlog.Page, err error) {
	err = l.DB.Snapshot(ctx, "audit log", func(r *engine.Reader) error {
		if page.Head, page.Removed, err = auditlog.Ends(ctx, r.Plain()); err != nil {
			return err
		}
		page.Rows, err = auditlog.Read(ctx, r.Plain(), q)
		return err
	})
	return page, err
}

// NoteRefusals appends the row of the refusals that wait longest: one at most, so that a flood of
// refusals costs no more than one link of the chain per call. Errors: Unavailable, OutcomeUnknown.
func (l *AuditLog) NoteRefusals(ctx context.Context) error {
	row, found := l.Refusals.Take()
	if !found {
		return nil
	}
	err := l.DB.Attest(ctx, row)
	if err != nil {
		l.Refusals.Return(row)
	}
	return err
}

// Prune removes rows that are older than Keep, at most 1,000 at a time. Errors: Unavailable,
// OutcomeUnknown.
func (l *AuditLog) Prune(ctx context.Context) error {
	if l.Keep == 0 {
		return nil
	}
	return l.DB.Write(ctx, "prune the audit log", func(t *engine.Tx) error {
		now := t.Now.UnixMilli()
		return t.PruneAuditLog(now-l.Keep.Milliseconds(), auditlog.Row{AtMS: now, Principal: "budgetd"})
	})
}
