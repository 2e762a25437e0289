package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
)

// Keys manages API keys. Errors are *budget.Error.
type Keys interface {
	// List reads at most limit keys after an id, sorted by id, of a tenant or, if it is "", of all
	// tenants.
	List(ctx context.Context, tenant, after string, limit int) ([]access.Key, error)
	// Key reads a key. Errors: KeyNotFound, Unavailable.
	Key(ctx context.Context, id string) (access.Key, error)
	// Issue creates a key for a principal with a role, a scope and an expiry. It returns the key's
	// token, which is not stored. Errors: TooManyKeys, Unavailable, OutcomeUnknown.
	Issue(ctx context.Context, key access.Key) (access.Token, access.Key, error)
	// Rotate creates a key like a live one, which stays valid for overlap. by has the creator of
	// the new key and its latest expiry; 0 means none. Errors: KeyNotFound, KeyNotLive, TooManyKeys,
	// Unavailable, OutcomeUnknown.
	Rotate(ctx context.Context, id string, by access.Key, overlap time.Duration) (access.Token,
		access.Key, error)
	// Revoke ends the validity of a key. Errors: KeyNotFound, Unavailable, OutcomeUnknown.
	Revoke(ctx context.Context, id string) (access.Key, error)
}

// Login logs persons in to the console.
type Login interface {
	Begin(w http.ResponseWriter, r *http.Request)
	Callback(w http.ResponseWriter, r *http.Request)
	End(w http.ResponseWriter, r *http.Request)
}

func (a *API) whoami(c *call) (answer, error) {
	c.query()
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	p := c.principal
	return answer{body: api.Identity{Principal: p.Name, Role: p.Role.String(), Tenant: p.Scope.Tenant,
		Budgets: p.Scope.Budgets, Subtree: subtreeOf(p.Scope), KeyID: p.KeyID,
		ExpiresAt: ofMS(p.ExpiresMS)}}, nil
}

// keyTenant returns the tenant of a query about keys: the caller's, or "" for all tenants. Error:
// forbidden.
func (c *call) keyTenant(asked string) (string, error) {
	if asked == "" {
		asked = c.principal.Scope.Tenant
	} else if why := budget.CheckName(asked); why != "" {
		c.faults.Invalid("tenant", "%s", why)
	}
	return asked, c.onTenant(asked)
}

func (a *API) listKeys(c *call) (answer, error) {
	query := c.query("tenant", "page_size", "page_token")
	tenant, err := c.keyTenant(query.Get("tenant"))
	if err != nil {
		return answer{}, err
	}
	limit, after := c.pageSize(query), query.Get("page_token")
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	keys, err := a.keys.List(c.ctx, tenant, after, limit)
	out := api.KeyPage{Keys: make([]api.Key, 0, len(keys))}
	for i := range keys {
		if c.principal.Scope.Includes(keys[i].Scope) {
			out.Keys = append(out.Keys, keyOf(&keys[i]))
		}
	}
	if len(keys) == limit {
		out.NextPageToken = keys[len(keys)-1].ID
	}
	return answer{body: out}, err
}

// keyRequest is the body of a request for a key.
type keyRequest struct {
	api.KeyRequest `json:",inline"`
}

func (b *keyRequest) key() access.Key {
	role, _ := access.ParseRole(b.Role)
	key := access.Key{Principal: b.Principal, Role: role,
		Scope: access.Scope{Tenant: b.Tenant, Budgets: b.Budgets}}
	if !b.ExpiresAt.IsZero() {
		key.ExpiresMS = b.ExpiresAt.UnixMilli()
	}
	return key
}

// Validate checks the scope of the key.
func (b *keyRequest) Validate(o *api.Object) {
	o.Merge(b.key().Scope.Check())
	delegate := b.Role == access.Delegate.String()
	if delegate != (b.Subtree != "") || delegate && len(b.Budgets) > 0 {
		o.Invalid("subtree", "a delegate has a subtree and no budgets, and no other role has one")
	}
}

func (a *API) createKey(c *call) (answer, error) {
	c.query()
	var body keyRequest
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	tenant, err := c.keyTenant(body.Tenant)
	if err != nil {
		return answer{}, err
	}
	key := body.key()
	if key.Role == access.Delegate {
		tenant = cmp.Or(tenant, budget.DefaultTenant)
		if key.Scope.Subtree, err = c.budgetID(body.Subtree, tenant); err != nil {
			return answer{}, err
		}
	}
	if key.Scope.Tenant = tenant; len(key.Scope.Budgets) == 0 && key.Scope.Subtree == 0 {
		key.Scope.Budgets = c.principal.Scope.Budgets
	}
	c.target(tenant, key.Principal, "")
	if !c.principal.MayIssue(key.Role, key.Scope) {
		return answer{}, budget.Refuse(budget.Forbidden, c.route.op,
			"a key has at most the role, the tenant and the budgets of the key that issues it")
	}
	if why := access.CheckIssued(key.Principal, c.principal); why != "" {
		c.faults.Invalid("principal", "%s", why)
	}
	if key.ExpiresMS != 0 && key.ExpiresMS <= c.began.UnixMilli() {
		c.faults.Invalid("expires_at", "must be in the future")
	}
	key.ExpiresMS = cmp.Or(key.ExpiresMS, c.lastExpiry())
	if last := c.lastExpiry(); last != 0 && key.ExpiresMS > last {
		c.faults.Invalid("expires_at", "must not be after the expiry of the key that issues it")
	}
	if err := c.faults.Err(c.route.op); err != nil {
		return answer{}, err
	}
	key.CreatedBy = c.principal.Name
	token, made, err := a.keys.Issue(c.ctx, key)
	return answer{status: http.StatusCreated,
		body: api.IssuedKey{Key: keyOf(&made), Token: token.Reveal()}}, err
}

// lastExpiry is the latest expiry of the keys that the caller may issue, in ms since 1970: that of
// its own key, if it has one. 0 means none.
func (c *call) lastExpiry() int64 {
	if c.principal.KeyID == "" {
		return 0 // a person's session ends sooner than the keys that the person issues
	}
	return c.principal.ExpiresMS
}

// key reads the key in the path if it is in the caller's scope. Errors: KeyNotFound, Unavailable.
func (c *call) key() (access.Key, error) {
	id := c.r.PathValue("id")
	key, err := c.api.keys.Key(c.ctx, id)
	if err == nil && !c.principal.Scope.Includes(key.Scope) {
		err = budget.Refuse(budget.KeyNotFound, c.route.op, "there is no key %.20q", id)
	}
	if err == nil {
		c.target(key.Scope.Tenant, key.ID, "")
	}
	return key, err
}

func (a *API) revokeKey(c *call) (answer, error) {
	c.query()
	c.target("", c.r.PathValue("id"), "")
	if err := c.readOptional(&struct{}{}); err != nil {
		return answer{}, err
	}
	key, err := c.key()
	if err != nil {
		return answer{}, err
	}
	key, err = a.keys.Revoke(c.ctx, key.ID)
	return answer{body: keyOf(&key)}, err
}

func (a *API) rotateKey(c *call) (answer, error) {
	c.query()
	c.target("", c.r.PathValue("id"), "")
	var body api.RotateRequest
	if err := c.readOptional(&body); err != nil {
		return answer{}, err
	}
	overlap, _ := time.ParseDuration(cmp.Or(body.Overlap, defaultOverlap))
	key, err := c.key()
	if err != nil {
		return answer{}, err
	}
	token, made, err := a.keys.Rotate(c.ctx, key.ID, access.Key{CreatedBy: c.principal.Name,
		ExpiresMS: c.lastExpiry()}, overlap)
	return answer{status: http.StatusCreated,
		body: api.IssuedKey{Key: keyOf(&made), Token: token.Reveal()}}, err
}

// defaultOverlap is how long a rotated key stays valid.
const defaultOverlap = "24h"

// entryNumber reads a parameter that is the number of an entry of the audit log; 0 without it.
func (c *call) entryNumber(query url.Values, name string) int64 {
	if !query.Has(name) {
		return 0
	}
	number, ok := budget.ParseAmount(query.Get(name))
	if !ok {
		c.faults.Invalid(name, "must be the number of an entry")
	}
	return number
}

// auditLog answers a page of the audit log.
func (a *API) auditLog(c *call) (answer, error) {
	query := c.query("after", "before", "from", "to", "principal", "tenant", "target", "op", "sort",
		"limit")
	q := auditlog.Query{Principal: query.Get("principal"), Tenant: query.Get("tenant"),
		Target: query.Get("target"), Op: query.Get("op"),
		FromMS: toMS(c.instant(query, "from")), ToMS: toMS(c.instant(query, "to")),
		After: c.entryNumber(query, "after"), Before: c.entryNumber(query, "before"),
		Limit: defaultPageSize}
	switch sort := query.Get("sort"); {
	case sort == "-seq":
		q.NewestFirst = true
	case query.Has("sort") && sort != "seq":
		c.faults.Invalid("sort", "must be seq, or -seq for the newest entries first")
	}
	if query.Has("limit") {
		limit, ok := budget.ParseAmount(query.Get("limit"))
		if !ok || limit > maxPageSize {
			c.faults.Invalid("limit", "must be 1 to %d", maxPageSize)
		}
		q.Limit = int(limit)
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	if err := c.may(&c.route.access, access.Target{}, nil); err != nil {
		return answer{}, err
	}
	page, err := a.admission.log.Read(c.ctx, q)
	return answer{body: auditLogOf(&page)}, err
}

// toMS converts an instant to milliseconds since 1970; the zero time is 0.
func toMS(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// ofMS converts milliseconds since 1970 to an instant; 0 is the zero time.
func ofMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return inUTC(time.UnixMilli(ms))
}

func keyOf(k *access.Key) api.Key {
	return api.Key{ID: k.ID, Principal: k.Principal, Role: k.Role.String(), Tenant: k.Scope.Tenant,
		Budgets: k.Scope.Budgets, Subtree: subtreeOf(k.Scope), CreatedAt: ofMS(k.CreatedMS),
		CreatedBy: k.CreatedBy,
		ExpiresAt: ofMS(k.ExpiresMS), LastUsedAt: ofMS(k.LastUsedMS), RevokedAt: ofMS(k.RevokedMS)}
}

// subtreeOf returns the id of the top of a subtree, "" without one.
func subtreeOf(s access.Scope) string {
	if s.Subtree == 0 {
		return ""
	}
	return strconv.FormatInt(s.Subtree, 10)
}

func auditLogOf(page *auditlog.Page) api.AuditLogPage {
	out := api.AuditLogPage{Entries: make([]api.AuditLogEntry, len(page.Rows)),
		Head: page.Head.String(), Removed: page.Removed.String()}
	for i := range page.Rows {
		r := &page.Rows[i]
		out.Entries[i] = api.AuditLogEntry{Seq: r.Seq, At: ofMS(r.AtMS), Principal: r.Principal,
			KeyID: r.KeyID, Source: r.Source, Op: r.Op, Tenant: r.Tenant, Target: r.Target,
			RequestID: r.RequestID, CorrelationID: r.CorrelationID, Before: definition(r.Before),
			After: definition(r.After), Outcome: r.Outcome, Times: r.Times, Hash: r.Hash.String()}
	}
	return out
}

// definition returns a definition as text, or nil if there was none before or after.
func definition(text []byte) *string {
	if text == nil {
		return nil
	}
	out := string(text)
	return &out
}
