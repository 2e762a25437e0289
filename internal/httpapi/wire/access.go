package wire

import (
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/auditlog"
)

// identity is the caller of a request.
type identity struct {
	Principal string    `json:"principal"`
	Role      string    `json:"role"`
	Tenant    string    `json:"tenant,omitzero"`
	Budgets   []string  `json:"budgets,omitempty"`
	KeyID     string    `json:"key_id,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// IdentityOf returns the JSON form of a principal.
func IdentityOf(p *access.Principal) any {
	return &identity{Principal: p.Name, Role: p.Role.String(), Tenant: p.Scope.Tenant,
		Budgets: p.Scope.Budgets, KeyID: p.KeyID, ExpiresAt: ofMS(p.ExpiresMS)}
}

// ofMS converts milliseconds since 1970 to an instant; 0 is the zero time.
func ofMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return InUTC(time.UnixMilli(ms))
}

// Key is the JSON form of an API key, without its secret.
type Key struct {
	ID        string    `json:"id"`
	Principal string    `json:"principal"`
	Role      string    `json:"role"`
	Tenant    string    `json:"tenant,omitzero"`
	Budgets   []string  `json:"budgets,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	// ExpiresAt is the first instant at which the key is refused, LastUsedAt the hour of its last
	// use.
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
}

// KeyOf returns the JSON form of a key.
func KeyOf(k *access.Key) Key {
	return Key{ID: k.ID, Principal: k.Principal, Role: k.Role.String(), Tenant: k.Scope.Tenant,
		Budgets: k.Scope.Budgets, CreatedAt: ofMS(k.CreatedMS), CreatedBy: k.CreatedBy,
		ExpiresAt: ofMS(k.ExpiresMS), LastUsedAt: ofMS(k.LastUsedMS), RevokedAt: ofMS(k.RevokedMS)}
}

// issuedKey is a new key with its token, which is shown only once.
type issuedKey struct {
	Key
	Token string `json:"token"`
}

// IssuedOf returns the JSON form of a new key.
func IssuedOf(k *access.Key, token access.Token) any {
	return &issuedKey{KeyOf(k), token.Reveal()}
}

// KeyPage is a part of the list of keys.
type KeyPage struct {
	Keys          []Key  `json:"keys"`
	NextPageToken string `json:"next_page_token,omitzero"`
}

// auditEntry is a row of the audit log. All of its columns are hashed, so before and after are
// texts, whose bytes do not change.
type auditEntry struct {
	Seq           int64     `json:"seq"`
	At            time.Time `json:"at"`
	Principal     string    `json:"principal"`
	KeyID         string    `json:"key_id"`
	Source        string    `json:"source"`
	Op            string    `json:"op"`
	Tenant        string    `json:"tenant"`
	Target        string    `json:"target"`
	RequestID     string    `json:"request_id"`
	CorrelationID string    `json:"correlation_id"`
	Before        *string   `json:"before"`
	After         *string   `json:"after"`
	Outcome       string    `json:"outcome"`
	Times         int64     `json:"times"`
	Hash          string    `json:"hash"`
}

type auditLogPage struct {
	Entries []auditEntry `json:"entries"`
	Head    string       `json:"head"`
	Removed string       `json:"removed"`
}

// AuditLogOf returns the JSON form of a page of the audit log.
func AuditLogOf(rows []auditlog.Row, head, removed auditlog.Anchor) any {
	out := &auditLogPage{Entries: make([]auditEntry, len(rows)), Head: head.String(),
		Removed: removed.String()}
	for i := range rows {
		r := &rows[i]
		out.Entries[i] = auditEntry{Seq: r.Seq, At: ofMS(r.AtMS), Principal: r.Principal,
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
