package api

import (
	"time"
)

// Identity is the caller of a call, as the service sees it.
type Identity struct {
	// Principal is the name in the audit log; "anonymous" on a server without authentication.
	Principal string `json:"principal"`
	// Role is read, deduct, rollback, operator or admin: each includes those before it. A delegate
	// stands beside these.
	Role string `json:"role"`
	// Tenant is the only tenant; "" means all. Budgets are name patterns; none means all budgets.
	Tenant  string   `json:"tenant,omitzero"`
	Budgets []string `json:"budgets,omitempty"`
	// Subtree is the id of the budget at the top of a delegate's subtree; "" without a subtree.
	Subtree string `json:"subtree,omitzero"`
	// KeyID is the key of the call; "" for a client certificate or a session.
	KeyID string `json:"key_id,omitzero"`
	// ExpiresAt is when the credentials expire; zero means never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// Key is an API key without its secret.
type Key struct {
	ID        string   `json:"id"`
	Principal string   `json:"principal"`
	Role      string   `json:"role"`
	Tenant    string   `json:"tenant,omitzero"`
	Budgets   []string `json:"budgets,omitempty"`
	// Subtree is the id of the budget at the top of a delegate's subtree; "" without a subtree.
	Subtree   string    `json:"subtree,omitzero"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	// ExpiresAt is the first instant at which it is refused; zero means never.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// LastUsedAt is the hour of its last use; zero means unused.
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
}

// IssuedKey is a new key. Token is returned only this once; the service stores only its hash.
type IssuedKey struct {
	Key
	Token string `json:"token"`
}

// KeyRequest describes a new key.
type KeyRequest struct {
	Principal string   `json:"principal" check:"required principal"`
	Role      string   `json:"role" check:"required role"`
	Tenant    string   `json:"tenant,omitzero" check:"name"`
	Budgets   []string `json:"budgets,omitempty" check:"most=patterns"`
	// Subtree is the name or the id of a budget, for a delegate only.
	Subtree   string    `json:"subtree,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// RotateRequest says how long the earlier key stays valid.
type RotateRequest struct {
	// Overlap is a duration such as "24h"; "" means the server's default of 24 hours.
	Overlap string `json:"overlap,omitzero" check:"overlap"`
}

// KeyPage is a part of the list of keys.
type KeyPage struct {
	Keys []Key `json:"keys"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}

// AuditLogEntry is one administrative call or refused authentication. All columns are hashed, so
// before and after are texts and not JSON: they must be preserved byte by byte.
type AuditLogEntry struct {
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
	// Before and After are the definition as JSON; nil if the object did not or does not exist.
	Before *string `json:"before"`
	After  *string `json:"after"`
	// Outcome is "done" or the code of the error.
	Outcome string `json:"outcome"`
	// Times is the number of equal refusals that the entry stands for.
	Times int64 `json:"times"`
	// Hash chains the entry to all before it, hexadecimal.
	Hash string `json:"hash"`
}

// AuditLogPage is a part of the audit log. Head is its end, Removed the last entry that
// audit_log.keep removed, both as NUMBER:HASH.
type AuditLogPage struct {
	Entries []AuditLogEntry `json:"entries"`
	Head    string          `json:"head"`
	Removed string          `json:"removed"`
}
