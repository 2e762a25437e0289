package manage

import (
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger/books"
)

// The conditions of a page of budgets. Those of a status are budget.Definition.StatusAt in SQL.
const (
	selectPage = `SELECT ` + rows.BudgetColumns + ` FROM budget_management_bucket
		WHERE tenant >= ? AND (tenant > ? OR name > ?)`
	whereIDs    = ` AND id IN (?`
	whereTenant = ` AND tenant = ?`
	whereType   = ` AND type = ?`
	whereParent = ` AND parent_id IN (SELECT p.id FROM budget_management_bucket p
		WHERE p.name = ? AND p.tenant = budget_management_bucket.tenant)`
	whereBelow  = ` AND (id = ? OR ancestors >= ? AND ancestors < ?)`
	notArchived = ` AND is_archived = 0`
	pageOrder   = ` ORDER BY tenant, name LIMIT ?`

	whereExpired   = ` AND end_ms <> 0 AND end_ms <= ?`
	whereRunning   = ` AND (end_ms = 0 OR end_ms > ?)`
	wherePaused    = whereRunning + ` AND is_paused = 1`
	wherePending   = whereRunning + ` AND is_paused = 0 AND start_ms > ?`
	whereEffective = whereRunning + ` AND is_paused = 0 AND start_ms <= ?`
)

// pageQuery collects the conditions of a page.
type pageQuery struct {
	text strings.Builder
	args []any
}

// add appends a condition, or the end of the query, with its parameters.
func (q *pageQuery) add(text string, args ...any) {
	q.text.WriteString(text)
	q.args = append(q.args, args...)
}

// ids adds the condition that the budget is one of ids.
func (q *pageQuery) ids(ids []int64) {
	q.text.WriteString(whereIDs + strings.Repeat(`, ?`, len(ids)-1) + `)`)
	for _, id := range ids {
		q.args = append(q.args, id)
	}
}

// status adds the condition that the budget has a status at an instant. Error: Invalid.
func (q *pageQuery) status(status budget.Status, now int64) error {
	switch status {
	case "":
	case budget.Expired:
		q.add(whereExpired, now)
	case budget.Paused:
		q.add(wherePaused, now)
	case budget.Pending:
		q.add(wherePending, now, now)
	case budget.Effective:
		q.add(whereEffective, now, now)
	default:
		return budget.Refuse(budget.Invalid, "list", "there is no status %q", status)
	}
	return nil
}

// Budgets reads a page of budgets with their figures, sorted by tenant and name. The status is that
// at SQL's time. Errors: Invalid for an unknown status, Unavailable.
func (l *Ledger) Budgets(ctx context.Context, page bucket.Page) (out []bucket.View, err error) {
	q, now := &pageQuery{}, l.db.Now()
	tenant := []byte(page.After.Tenant)
	q.add(selectPage, tenant, tenant, []byte(page.After.Name))
	if len(page.IDs) > 0 {
		q.ids(page.IDs)
	}
	if page.Tenant != "" {
		q.add(whereTenant, []byte(page.Tenant))
	}
	if page.Subtree != 0 {
		prefix, err := l.below(ctx, page.Subtree)
		if err != nil {
			return nil, err
		}
		q.add(whereBelow, page.Subtree, []byte(prefix), []byte(after(prefix)))
	}
	if page.Type != "" {
		q.add(whereType, string(page.Type))
	}
	if page.Parent != "" {
		q.add(whereParent, []byte(page.Parent))
	}
	if !page.Archived {
		q.add(notArchived)
	}
	if err := q.status(page.Status, engine.ToMS(now)); err != nil {
		return nil, err
	}
	q.add(pageOrder, page.Size)
	err = l.db.Read(ctx, "list", func(r *engine.Reader) error {
		var read []books.Budget
		if err := r.List(&read, q.text.String(), q.args...); err != nil {
			return err
		}
		out, err = views(r, read)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].At(now)
	}
	return out, nil
}

// views reads the limits, then the figures, of budget rows.
func views(r *engine.Reader, read []books.Budget) ([]bucket.View, error) {
	var ids, limited []int64
	for i := range read {
		ids = append(ids, read[i].ID)
		if read[i].LimitsVersion > 0 {
			limited = append(limited, read[i].ID)
		}
	}
	limits, err := rows.LimitsOf(r, limited)
	if err != nil {
		return nil, err
	}
	figures, err := figuresByID(r, ids)
	if err != nil {
		return nil, err
	}
	out := make([]bucket.View, len(read))
	for i := range read {
		d := read[i].Definition()
		d.Limits = limits[d.ID]
		out[i] = viewOf(d, figures[d.ID])
	}
	return out, nil
}

// Belongs reports whether a tenant has a budget with an id. It always asks the database. Error:
// Unavailable.
func (s *Service) Belongs(ctx context.Context, tenant string, id int64) (bool, error) {
	return s.Ledger.Belongs(ctx, tenant, id)
}

const selectInside = `SELECT id, name FROM budget_management_bucket
	WHERE tenant = ? AND (id = ? OR ancestors >= ? AND ancestors < ?) AND `

// inside reads which budgets of a tenant are at the top of a subtree or below it, in two statements
// whatever there is.
func (l *Ledger) inside(ctx context.Context, tenant string, top int64, refs []bucket.BudgetRef) (
	found []struct {
		ID   int64  `db:"id"`
		Name []byte `db:"name"`
	}, err error) {
	prefix, err := l.below(ctx, top)
	if err != nil {
		return nil, err
	}
	named := "(id IN (0" + strings.Repeat(", ?", len(refs)) + ") OR name IN (''" +
		strings.Repeat(", ?", len(refs)) + "))"
	args := []any{[]byte(tenant), top, []byte(prefix), []byte(after(prefix))}
	for _, ref := range refs {
		args = append(args, ref.ID)
	}
	for _, ref := range refs {
		args = append(args, []byte(ref.Name))
	}
	err = l.db.Read(ctx, "read", func(r *engine.Reader) error {
		found = nil // of an attempt that failed
		return r.List(&found, selectInside+named, args...)
	})
	return found, err
}

// Inside returns the ids of the budgets that are at the top of a subtree or below it, in the order
// of refs, which name budgets of one tenant, and 0 for the others. It always asks the database.
// Error: Unavailable.
func (s *Service) Inside(ctx context.Context, top int64, refs []bucket.BudgetRef) ([]int64, error) {
	ids := make([]int64, 0, len(refs))
	for refs := range slices.Chunk(refs, engine.ListChunk) {
		found, err := s.Ledger.inside(ctx, refs[0].Tenant, top, refs)
		if err != nil {
			return nil, err
		}
		in := make(map[bucket.BudgetRef]int64, 2*len(found))
		for _, row := range found {
			in[bucket.BudgetRef{Tenant: refs[0].Tenant, ID: row.ID}] = row.ID
			in[bucket.BudgetRef{Tenant: refs[0].Tenant, Name: string(row.Name)}] = row.ID
		}
		for _, ref := range refs {
			ids = append(ids, in[ref])
		}
	}
	return ids, nil
}

// InsideNow returns the id of a budget that is at the top of a subtree or below it, as this node
// knows it, at most a second old; 0 if the database must be asked.
func (s *Service) InsideNow(top int64, ref bucket.BudgetRef) int64 {
	if b := s.Budgets.Fresh(ref); b != nil && b.IsWithin(top) {
		return b.ID
	}
	return 0
}

// NameOf returns the name of a budget, which may be up to a second old. Errors: BudgetNotFound,
// Unavailable.
func (s *Service) NameOf(ctx context.Context, ref bucket.BudgetRef) (string, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return "", err
	}
	return b.Name, nil
}
