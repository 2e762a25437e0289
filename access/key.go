package access

import "time"

// Reason says why a caller is not authenticated. Callers outside see it as the audit log's outcome;
// what an unauthenticated caller is told is Reason.Message.
type Reason string

// The reasons, in the order in which they are found.
const (
	// Accepted is no reason: the caller is authenticated.
	Accepted Reason = ""
	// Missing: there is neither a key nor a client certificate.
	Missing Reason = "missing"
	// Malformed: what was sent does not look like a key.
	Malformed Reason = "malformed"
	// Mistyped: it looks like a key, but its checksum does not fit.
	Mistyped Reason = "mistyped"
	// Stale: the keys in memory are too old to be relied on. The request may be repeated later.
	Stale Reason = "stale"
	// Unknown: there is no key of that id.
	Unknown Reason = "unknown"
	// WrongSecret: there is one, with another secret.
	WrongSecret Reason = "wrong_secret"
	// Revoked: it was revoked.
	Revoked Reason = "revoked"
	// Expired: its time is over.
	Expired Reason = "expired"
	// Unmapped: the client certificate is valid and names no principal of the configuration.
	Unmapped Reason = "unmapped"
)

// Message says what to do about a reason. Unknown and WrongSecret have the same one, so that ids
// cannot be tried; only the holder of the secret hears that a key is revoked or expired.
func (r Reason) Message() string {
	switch r {
	case Missing:
		return "send a key as `Authorization: Bearer bdg_…`, or a client certificate"
	case Malformed:
		return "this is not a key of budgetd: it looks like bdg_<id>_<secret>_<checksum>"
	case Mistyped:
		return "the key's checksum does not fit: it is mistyped or cut off"
	case Stale:
		return "keys cannot be checked while the database is not reachable"
	case Unknown, WrongSecret:
		return "the key is not known"
	case Revoked:
		return "the key is revoked"
	case Expired:
		return "the key is expired"
	case Unmapped:
		return "the client certificate names no principal of the configuration"
	default:
		return ""
	}
}

// Key is what the database keeps of an API key. Times are milliseconds since 1970; 0: none.
type Key struct {
	// ID is the public part, 10 characters of 0-9 and a-z.
	ID string
	// Hash is the SHA-256 of the secret.
	Hash Hash
	// Principal names whose key it is, for rows of the audit log and for own rollbacks.
	Principal string
	Role      Role
	Scope     Scope
	CreatedMS int64
	// CreatedBy is the principal that issued it.
	CreatedBy string
	// ExpiresMS is the first instant at which it is refused.
	ExpiresMS int64
	// LastUsedMS is the hour of its last use, rounded down.
	LastUsedMS int64
	RevokedMS  int64
}

// MaxLiveKeys is how many keys of one principal may be live at a time: two, so that one can be
// exchanged for the other without a gap.
const MaxLiveKeys = 2

// HourMS is the precision of LastUsedMS.
const HourMS = int64(time.Hour / time.Millisecond)

// Check returns Accepted for a key that is live at an instant, and Revoked or Expired otherwise.
func (k *Key) Check(nowMS int64) Reason {
	switch {
	case k.RevokedMS != 0:
		return Revoked
	case k.ExpiresMS != 0 && nowMS >= k.ExpiresMS:
		return Expired
	}
	return Accepted
}

// PrincipalOf returns who acts with the key.
func (k *Key) PrincipalOf() *Principal {
	return &Principal{Name: k.Principal, KeyID: k.ID, Role: k.Role, Scope: k.Scope,
		ExpiresMS: k.ExpiresMS}
}
