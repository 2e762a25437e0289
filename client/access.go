package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Whoami returns the identity of the client's key or certificate. Errors: unauthenticated.
func (c *Client) Whoami(ctx context.Context) (*Identity, error) {
	var answer Identity
	_, err := c.do(ctx, call{op: "whoami", method: http.MethodGet, path: []string{"v1", "whoami"},
		repeatable: true}, &answer)
	return result(&answer, err)
}

// Keys returns a page of the keys of the client's tenant, or of all tenants with "". Errors:
// forbidden.
func (c *Client) Keys(ctx context.Context, pageSize int, pageToken string) (*KeyPage, error) {
	query := c.inTenant()
	set(query, "page_token", pageToken)
	if pageSize > 0 {
		query.Set("page_size", strconv.Itoa(pageSize))
	}
	var answer KeyPage
	_, err := c.do(ctx, call{op: "keys", method: http.MethodGet, path: []string{"v1", "keys"},
		query:      query,
		repeatable: true}, &answer)
	return result(&answer, err)
}

// CreateKey issues a key. It is not retried: if the answer is lost, so is the secret; find the key
// with Keys and revoke it. Errors: forbidden (more than the caller's own role or scope),
// too_many_keys, invalid.
func (c *Client) CreateKey(ctx context.Context, request KeyRequest) (*IssuedKey, error) {
	var answer IssuedKey
	_, err := c.do(ctx, call{op: "create key", method: http.MethodPost, path: []string{"v1", "keys"},
		body: request}, &answer)
	return result(&answer, err)
}

// RevokeKey revokes a key, which every node refuses within a second. A revoked key stays unchanged.
// Errors: key_not_found.
func (c *Client) RevokeKey(ctx context.Context, id string) (*Key, error) {
	var answer Key
	what := onKey("revoke key", id, "revoke", struct{}{})
	what.repeatable = true
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// RotateKey issues another key like a live one, which then expires. Like CreateKey it is not
// retried. Errors: key_not_found, key_not_live, too_many_keys.
func (c *Client) RotateKey(
	ctx context.Context, id string, request RotateRequest,
) (*IssuedKey, error) {
	var answer IssuedKey
	_, err := c.do(ctx, onKey("rotate key", id, "rotate", request), &answer)
	return result(&answer, err)
}

func onKey(op, id, verb string, body any) call {
	return call{op: op, method: http.MethodPost, path: []string{"v1", "keys", id, verb}, body: body}
}

// MaxAuditLogPage is the most entries of one page of the audit log.
const MaxAuditLogPage = 1000

// AuditLogQuery selects entries; zero fields select all.
type AuditLogQuery struct {
	// After and Before are the numbers of the entries around those that are wanted.
	After     int64
	Before    int64
	From, To  time.Time
	Principal string
	Tenant    string
	// Target is the name of a budget, an instance or a key.
	Target string
	Op     string
	// NewestFirst reverses the numerical order. Before, set to the last entry's number, then
	// continues.
	NewestFirst bool
	// Limit is the most entries, at most MaxAuditLogPage; 0 means the server's default of 100.
	Limit int
}

// AuditLog returns a page of the audit log, in numerical order or the newest entries first. Errors:
// forbidden, invalid.
func (c *Client) AuditLog(ctx context.Context, q AuditLogQuery) (*AuditLogPage, error) {
	query := url.Values{}
	set(query, "principal", q.Principal)
	set(query, "tenant", q.Tenant)
	set(query, "target", q.Target)
	set(query, "op", q.Op)
	if q.NewestFirst {
		query.Set("sort", "-seq")
	}
	for name, number := range map[string]int64{"after": q.After, "before": q.Before,
		"limit": int64(q.Limit)} {
		if number != 0 {
			query.Set(name, strconv.FormatInt(number, 10))
		}
	}
	for name, at := range map[string]time.Time{"from": q.From, "to": q.To} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	var answer AuditLogPage
	_, err := c.do(ctx, call{op: "audit log", method: http.MethodGet,
		path:  []string{"v1", "audit-log"},
		query: query, repeatable: true}, &answer)
	return result(&answer, err)
}
