package access

import "github.com/budgetd/budgetd/budget"

// Codes of refusals that concern who may do what, beside those of package budget.
const (
	// CodeUnauthenticated: nobody is found who makes the call. 401.
	CodeUnauthenticated budget.Code = "unauthenticated"
	// CodeForbidden: the role is too low, or the call is outside the scope. 403.
	CodeForbidden budget.Code = "forbidden"
	// CodeRateLimited: the key makes too many requests; this one did not happen. 429.
	CodeRateLimited budget.Code = "rate_limited"
	// CodeKeyNotFound: there is no key of that id in the scope. 404.
	CodeKeyNotFound budget.Code = "key_not_found"
	// CodeTooManyKeys: the principal has MaxLiveKeys live keys already. 409.
	CodeTooManyKeys budget.Code = "too_many_keys"
	// CodeKeyNotLive: the key is revoked or expired, so it cannot be rotated. 409.
	CodeKeyNotLive budget.Code = "key_not_live"
)
