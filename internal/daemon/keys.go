package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/secret"
	sqlaccess "github.com/budgetd/budgetd/internal/sql/access"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// firstFromFile stores the key in keys.first_admin_file if there are no keys.
func firstFromFile(ctx context.Context, k *sqlaccess.Keys, file string, log *slog.Logger) error {
	if file == "" {
		return nil
	}
	source, err := secret.File(file)
	if err != nil {
		return fmt.Errorf("keys.first_admin_file: %w", err)
	}
	token, why := access.ParseToken(source.Now().Reveal())
	if why != access.Accepted {
		return fmt.Errorf("keys.first_admin_file: %s", why.Message())
	}
	made, err := k.First(ctx, token, "keys.first_admin_file")
	if made {
		log.Info("the key of the first administrator is kept", "key", token.ID(), "file", file)
	}
	return err
}

// names resolves budgets that callers name by id.
type names struct {
	definitions *manage.Ledger
	budgets     *bucket.Budgets
}

// Belongs reports whether a tenant has a budget with an id.
func (n *names) Belongs(ctx context.Context, tenant string, id int64) (bool, error) {
	return n.definitions.Belongs(ctx, tenant, id)
}

// NameOf returns the name of a budget.
func (n *names) NameOf(ctx context.Context, ref bucket.BudgetRef) (string, error) {
	b, err := n.budgets.Find(ctx, ref)
	if err != nil {
		return "", err
	}
	return b.Name, nil
}

// auditLog reads and writes the audit log.
type auditLog struct {
	db       *engine.DB
	refusals *auditlog.Refusals
	keep     time.Duration
}

// Append adds a row in a transaction of its own.
func (l *auditLog) Append(ctx context.Context, row auditlog.Row) error {
	return l.db.Attest(ctx, row)
}

// Read reads a page.
func (l *auditLog) Read(ctx context.Context,
	q httpapi.AuditQuery) (page httpapi.AuditPage, err error) {
	query := auditlog.Query{After: q.After, Before: q.Before, Principal: q.Principal,
		Tenant: q.Tenant, Op: q.Op, NewestFirst: q.NewestFirst, Limit: q.Limit}
	if !q.From.IsZero() {
		query.FromMS = q.From.UnixMilli()
	}
	if !q.To.IsZero() {
		query.ToMS = q.To.UnixMilli()
	}
	err = l.db.Snapshot(ctx, "audit log", func(r *engine.Reader) error {
		if page.Head, page.Removed, err = auditlog.Ends(ctx, r.Plain()); err != nil {
			return err
		}
		page.Rows, err = auditlog.Read(ctx, r.Plain(), query)
		return err
	})
	return page, err
}

// noteRefusals appends the row of the refusals that wait longest: one at most, so that a flood of
// refusals costs no more than one link of the chain per call.
func (l *auditLog) noteRefusals(ctx context.Context) error {
	row, found := l.refusals.Take()
	if !found {
		return nil
	}
	err := l.db.Attest(ctx, row)
	if err != nil {
		l.refusals.Return(row)
	}
	return err
}

// prune removes rows that are older than audit_log.keep, at most 1,000 at a time.
func (l *auditLog) prune(ctx context.Context) error {
	if l.keep == 0 {
		return nil
	}
	return l.db.Write(ctx, "prune the audit log", func(t *engine.Tx) error {
		now := t.Now.UnixMilli()
		return t.PruneAuditLog(now-l.keep.Milliseconds(), auditlog.Row{AtMS: now, Principal: "budgetd"})
	})
}
