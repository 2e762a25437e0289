package httpapi

import (
	"context"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/auth"
)

// Names resolves budgets that callers name by id.
type Names interface {
	// Belongs reports whether a tenant has a budget with an id. It always asks the database, so
	// that a budget of another tenant takes as long as one that does not exist. Error: Unavailable.
	Belongs(ctx context.Context, tenant string, id int64) (bool, error)
	// Inside returns the ids of the budgets that are at the top of a subtree or below it, in the order
	// of refs, and 0 for the others. It always asks the database, so that a budget outside takes as
	// long as one that does not exist. Error: Unavailable.
	Inside(ctx context.Context, top int64, refs []bucket.BudgetRef) ([]int64, error)
	// InsideNow is Inside for one budget that this node knows, at most a second old. It returns 0 if
	// the database must be asked.
	InsideNow(top int64, ref bucket.BudgetRef) int64
	// NameOf returns the name of a budget. The name may be up to a second old. Errors:
	// BudgetNotFound, Unavailable.
	NameOf(ctx context.Context, ref bucket.BudgetRef) (string, error)
}

// AuditLog writes and reads the audit log.
type AuditLog interface {
	// Append adds the row of a call whose transaction did not add one. Errors: Unavailable,
	// OutcomeUnknown.
	Append(ctx context.Context, row auditlog.Row) error
	// Read reads rows in the order of the query, and the ends of the log. Error: Unavailable.
	Read(ctx context.Context, q auditlog.Query) (auditlog.Page, error)
}

// admission decides who may make which call on which target.
type admission struct {
	auth  *auth.Service
	names Names
	log   AuditLog
	// owned caches the budgets, by id, that were found to belong to a tenant. That never changes.
	owned *lru.Cache[ownership, struct{}]
	// met caches the references that were found to be inside a subtree. A name may have moved.
	met *lru.Cache[inSubtree, struct{}]
}

// inSubtree is a reference to a budget, and the top of the subtree that it is in.
type inSubtree struct {
	ref bucket.BudgetRef
	top int64
}

// ownership is a budget and its tenant.
type ownership struct {
	tenant string
	id     int64
}

// newAdmission returns an admission. Without Auth it admits every caller to every call.
func newAdmission(c Config) admission {
	const remembered = 10_000
	out := admission{auth: c.Auth, names: c.Names, log: c.AuditLog}
	if out.auth == nil {
		out.auth = &auth.Service{Open: true}
	}
	out.owned, _ = lru.New[ownership, struct{}](remembered) // fails only for a size below 1
	out.met, _ = lru.New[inSubtree, struct{}](remembered)
	return out
}

// admit authenticates the caller and refuses a call that the caller may not make. Errors:
// unauthenticated, unavailable, rate_limited, forbidden.
func (d *data) admit(c *auth.Caller) *budget.Error {
	call, g := &d.route.access, d.api.admission.auth
	p, err := g.Identify(c, call)
	if err == nil && p != nil {
		d.principal = p
		if err = auth.Permit(p, call); err == nil && call.Over == access.Installation {
			err = d.may(call, access.Target{}, nil)
		}
		if err != nil && !g.Open && call.Administrative() {
			g.Refusals.Forbid(d.began.UnixMilli(), p.Scope.Tenant, p.Name, p.KeyID,
				auth.SourceOf(c.Remote), call.Op)
		}
	}
	if err == nil {
		return nil
	}
	refused := errorOf(err, d.route.op, false)
	if d.route.op == "deduct" {
		d.api.observeDeduction(d.ctx, nil, nil, refused)
	}
	return refused
}

// may returns nil if the caller may make a call on a target. notFound returns the answer for a
// target outside the caller's scope.
func (d *data) may(call *access.Call, t access.Target, notFound func() error) error {
	if d.principal == nil || d.principal.May(*call, t) == access.Allowed {
		return nil
	}
	return auth.Judge(d.principal, *call, t, notFound)
}

// more refuses callers who may only make the call in its usual form. Error: forbidden.
func (d *data) more(ref bucket.BudgetRef) error {
	if d.principal == nil || d.principal.Role.Includes(d.route.access.More) {
		return nil
	}
	return auth.Judge(d.principal, d.route.access, access.Target{Tenant: ref.Tenant,
		Budget: ref.Name, More: true}, func() error { return noBudget(d.route.op, ref) })
}

// onTenant returns an error if the caller may not make the call on a tenant. Error: forbidden.
func (d *data) onTenant(tenant string) error {
	return d.may(&d.route.access, access.Target{Tenant: tenant}, nil)
}

// within returns the reference of a budget in the caller's scope: that of a delegate by its id. A
// budget outside the scope is answered like one that does not exist. Errors: BudgetNotFound,
// Unavailable; Forbidden for a call that a delegate makes only below the top of its subtree.
func (d *data) within(op string, ref bucket.BudgetRef) (bucket.BudgetRef, error) {
	if d.principal != nil && d.principal.Scope.Subtree != 0 {
		return d.inside(op, ref)
	}
	return ref, d.covered(op, ref)
}

// covered returns nil if a budget is in a scope without a subtree.
func (d *data) covered(op string, ref bucket.BudgetRef) error {
	p := d.principal
	if p == nil || p.Scope.All() {
		return nil
	}
	switch {
	case ref.ID == 0 && p.Scope.Covers(ref.Tenant, ref.Name):
		return nil
	case ref.ID == 0, !p.Scope.CoversTenant(ref.Tenant):
		return noBudget(op, ref)
	}
	names, key := d.api.admission.names, ownership{ref.Tenant, ref.ID}
	if !d.api.admission.owned.Contains(key) {
		belongs, err := names.Belongs(d.ctx, ref.Tenant, ref.ID)
		if err != nil {
			return err
		}
		if !belongs {
			return noBudget(op, ref)
		}
		d.api.admission.owned.Add(key, struct{}{})
	}
	if len(p.Scope.Budgets) == 0 {
		return nil
	}
	name, err := names.NameOf(d.ctx, ref)
	if err == nil && !p.Scope.Covers(ref.Tenant, name) {
		err = noBudget(op, ref)
	}
	return err
}

// inside is within for a delegate.
func (d *data) inside(op string, ref bucket.BudgetRef) (bucket.BudgetRef, error) {
	id, known := d.known[ref]
	if !known {
		if err := d.lookUp([]bucket.BudgetRef{ref}); err != nil {
			return ref, err
		}
		id = d.known[ref]
	}
	switch {
	case id == 0:
		return ref, noBudget(op, ref)
	case id == d.principal.Scope.Subtree && d.route.access.Delegates == access.Below:
		return ref, budget.Refuse(budget.Forbidden, op,
			"it moves units of the parent, which is outside the subtree of the key")
	}
	return bucket.BudgetRef{Tenant: ref.Tenant, ID: id}, nil
}

// lookUp finds out in one step which budgets are in the subtree of a delegate. For other callers it
// does nothing. Error: Unavailable.
func (d *data) lookUp(refs []bucket.BudgetRef) error {
	if d.principal == nil || d.principal.Scope.Subtree == 0 {
		return nil
	}
	d.known = make(map[bucket.BudgetRef]int64, len(refs))
	top, m := d.principal.Scope.Subtree, &d.api.admission
	var ask []bucket.BudgetRef
	for _, ref := range refs {
		if !d.principal.Scope.CoversTenant(ref.Tenant) {
			continue
		}
		if m.met.Contains(inSubtree{ref, top}) { // no other is looked for in memory: that takes less time
			d.known[ref] = m.names.InsideNow(top, ref)
		}
		if d.known[ref] == 0 {
			ask = append(ask, ref)
		}
	}
	if len(ask) == 0 {
		return nil
	}
	ids, err := m.names.Inside(d.ctx, top, ask)
	for i := range ids {
		if d.known[ask[i]] = ids[i]; ids[i] != 0 {
			m.met.Add(inSubtree{ask[i], top}, struct{}{})
		}
	}
	return err
}

// lookUpAll is lookUp for n texts that name budgets of a tenant.
func (d *data) lookUpAll(tenant string, n int, text func(int) string) error {
	if d.principal == nil || d.principal.Scope.Subtree == 0 {
		return nil
	}
	refs := make([]bucket.BudgetRef, 0, n)
	for i := range n {
		if ref, err := refOf(d.route.op, tenant, text(i)); err == nil {
			refs = append(refs, ref)
		}
	}
	return d.lookUp(refs)
}

// noBudget returns the service's answer for a budget that does not exist.
func noBudget(op string, ref bucket.BudgetRef) error {
	if ref.ID != 0 {
		return budget.Refuse(budget.BudgetNotFound, op, "tenant %q has no budget %d", ref.Tenant, ref.ID)
	}
	return budget.Refuse(budget.BudgetNotFound, op, "tenant %q has no budget %q", ref.Tenant, ref.Name)
}

// by returns the principal to whom a deduction belongs, or "" on a server without authentication.
func (d *data) by() string {
	if d.principal == nil || d.api.admission.auth.Open {
		return ""
	}
	return d.principal.Name
}

// onlyBy returns the principal whose deductions and holds the caller may act on. "" means those of
// every principal.
func (d *data) onlyBy() string {
	if d.principal == nil || d.principal.Role.Includes(d.route.access.More) {
		return ""
	}
	return d.principal.Name
}

// record begins the row of an administrative call. The call's transaction appends it.
func (c *call) record(source string) {
	m := &c.work.marks
	c.entry = auditlog.NewEntry(auditlog.Row{AtMS: c.began.UnixMilli(), Principal: c.principal.Name,
		KeyID: c.principal.KeyID, Source: source, Op: c.route.op, CorrelationID: m.correlation})
	c.ctx = auditlog.NewContext(c.ctx, c.entry)
}

// target sets the target of an administrative call. Its transaction may replace it.
func (d *data) target(tenant, name, requestID string) {
	if d.entry != nil {
		d.entry.Change(tenant, name, nil, nil)
		d.entry.Ask(requestID)
	}
}

// appendTime bounds appending a row on its own.
const appendTime = 2 * time.Second

// appendEntry appends the row of an administrative call if no transaction has done so, and logs the
// call. If that fails, it logs an error and leaves the answer to the call unchanged.
func (c *call) appendEntry(err *budget.Error) {
	outcome := auditlog.Done
	if err != nil {
		outcome = string(err.Code)
	}
	row, left := c.entry.End(outcome)
	attrs := []slog.Attr{slog.String("op", row.Op), slog.String("principal", row.Principal),
		slog.String("key", row.KeyID), slog.String("source", row.Source),
		slog.String("tenant", row.Tenant), slog.String("target", row.Target),
		slog.String("request_id", row.RequestID), slog.String("outcome", outcome)}
	c.api.log.LogAttrs(c.ctx, slog.LevelInfo, "administrative call", attrs...)
	if !left || c.api.admission.log == nil {
		return
	}
	c.appendRow(row, attrs...)
}

// appendRow appends a row to the audit log on its own. If that fails, it logs an error.
func (c *call) appendRow(row auditlog.Row, attrs ...slog.Attr) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.work), appendTime)
	defer cancel()
	if failed := c.api.admission.log.Append(ctx, row); failed != nil {
		c.api.log.LogAttrs(ctx, slog.LevelError, "administrative call not in the audit log",
			append(attrs, slog.Any("error", failed))...)
	}
}
