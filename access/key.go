package access

import "time"

// Reason says why a caller is not authenticated. The audit log records it as the outcome; the
// caller gets Reason.Message.
type Reason string

// The reasons, in order of precedence.
const (
	// Accepted means that the caller is authenticated.
	Accepted Reason = ""
	// Missing means that the request has neither a key nor a client certificate.
	Missing Reason = "missing"
	// Malformed means that the text is not in the form of a key.
	Malformed Reason = "malformed"
	// Mistyped means that the text has the form of a key, but the wrong checksum.
	Mistyped Reason = "mistyped"
	// Stale means that the keys in memory are too old. The request may be repeated later.
	Stale Reason = "stale"
	// Unknown means that there is no key with that id.
	Unknown Reason = "unknown"
	// WrongSecret means that the key has another secret.
	WrongSecret Reason = "wrong_secret"
	// Revoked means that the key was revoked.
	Revoked Reason = "revoked"
	// Expired means that the key has expired.
	Expired Reason = "expired"
	// Unmapped means that the client certificate is valid, but no configured principal has it.
	Unmapped Reason = "unmapped"
)

// Message tells the caller what to do. It is the same for Unknown and WrongSecret, so that ids
// cannot be probed; only the holder of the secret learns that a key is revoked or expired.
func (r Reason) Message() string {
	switch r {
	case Missing:
		return "send a key as `Authorization: Bearer bdg_…`, or a client certificate"
	case Malformed:
		return "this is not a budgetd key: keys look like bdg_<id>_<secret>_<checksum>"
	case Mistyped:
		return "the key's checksum is wrong: the key is mistyped or truncated"
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

// Key is an API key as stored in the database. Times are milliseconds since 1970; 0 means none.
type Key struct {
	// ID is the public part, 10 characters of 0-9 and a-z.
	ID string
	// Hash is the SHA-256 of the secret.
	Hash Hash
	// Principal is the holder, for the audit log and for rollbacks of the holder's own deductions.
	Principal string
	Role      Role
	Scope     Scope
	CreatedMS int64
	// CreatedBy is the principal that issued it.
	CreatedBy string
	// ExpiresMS is the first instant at which the key is refused.
	ExpiresMS int64
	// LastUsedMS is the hour of its last use, rounded down.
	LastUsedMS int64
	RevokedMS  int64
}

// MaxLiveKeys is the number of live keys that a principal may have: two, so that a key can be
// rotated without a gap.
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

// EndedBefore reports whether the key was revoked or expired before an instant.
func (k *Key) EndedBefore(ms int64) bool {
	return k.RevokedMS != 0 && k.RevokedMS < ms || k.ExpiresMS != 0 && k.ExpiresMS < ms
}

// PrincipalOf returns the principal that the key authenticates.
func (k *Key) PrincipalOf() *Principal {
	return &Principal{Name: k.Principal, KeyID: k.ID, Role: k.Role, Scope: k.Scope,
		ExpiresMS: k.ExpiresMS}
}
