package access

import (
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// Principal is an authenticated caller. It is immutable, so calls may share it.
type Principal struct {
	// Name is recorded with deductions and in the audit log.
	Name string
	// KeyID is the key that authenticated it; "" for a client certificate, a console session, and a
	// server without authentication.
	KeyID string
	Role  Role
	Scope Scope
	// ExpiresMS is when it must authenticate again, in ms since 1970; 0 means never.
	ExpiresMS int64
}

// Anonymous is the caller on a server without authentication. It may do everything.
var Anonymous = &Principal{Name: "anonymous", Role: Admin}

// MaxPrincipal is the longest name of a principal, in bytes.
const MaxPrincipal = 128

// CheckPrincipal returns what is wrong with the name of a principal, or "".
func CheckPrincipal(name string) string {
	if len(name) > MaxPrincipal {
		return "must be at most 128 bytes"
	}
	return budget.CheckRequestID(name)
}

// CheckIssued returns what is wrong with the principal of a key that issuer issues, or "". Names
// that budgetd itself gives to persons, nodes and the first administrator would let a key pass for
// them in the audit log, and act on their deductions.
func CheckIssued(name string, issuer *Principal) string {
	folded := strings.ToLower(strings.TrimSpace(name))
	switch {
	case strings.HasPrefix(folded, "oidc:"), strings.HasPrefix(folded, "budgetd"),
		folded == Anonymous.Name:
		return "is a name that budgetd itself gives"
	case folded == FirstPrincipal && !issuer.Scope.All():
		return "is the name of the first administrator: only a key for all tenants can issue this one"
	}
	return ""
}

// FirstPrincipal is the principal of the first key.
const FirstPrincipal = "admin"

// Target is what a request acts on.
type Target struct {
	// Tenant and Budget are the resolved names; "" if the call names none.
	Tenant, Budget string
	// More means that the request needs Call.More, for the reason in Call.When.
	More bool
}

// Decision says whether a principal may make a call.
type Decision uint8

// The decisions.
const (
	// Forbidden means that the role is too low, or the call is outside the scope whether or not the
	// target exists. It is the zero value, so an unset decision allows nothing.
	Forbidden Decision = iota
	// Hidden means that the target is outside the scope. The answer must equal that for a missing
	// target.
	Hidden
	// Allowed means that the call may proceed.
	Allowed
)

// May decides whether p may make a call on a target. It checks the role before the scope, so
// Forbidden never depends on what exists.
func (p *Principal) May(c Call, t Target) Decision {
	if c.Over == Nobody {
		return Allowed
	}
	least := c.Least
	if t.More && c.More != 0 {
		least = c.More
	}
	if p == nil || !p.Role.Includes(least) && (t.More && c.More != 0 || !p.delegate(&c)) {
		return Forbidden
	}
	switch c.Over {
	case Installation:
		if !p.Scope.All() {
			return Forbidden
		}
	case Tenant:
		if !p.Scope.CoversTenant(t.Tenant) || t.Budget != "" && !p.Scope.coversName(t.Budget) {
			return Forbidden
		}
	case Budget:
		if !p.Scope.Covers(t.Tenant, t.Budget) {
			return Hidden
		}
	}
	return Allowed
}

// Permits reports whether p may make a call in its usual form, somewhere.
func (p *Principal) Permits(c *Call) bool {
	return c.Over == Nobody || p.Role.Includes(c.Least) || p.delegate(c)
}

// delegate reports whether p is a Delegate that may make a call.
func (p *Principal) delegate(c *Call) bool {
	return p.Role == Delegate && p.Scope.Subtree > 0 && c.Delegates != NoDelegate
}

// MayIssue reports whether p may issue a key with a role and a scope: neither may exceed p's own.
// An admin of all budgets of a tenant may delegate each of them.
func (p *Principal) MayIssue(role Role, scope Scope) bool {
	return p.Role.Includes(Admin) && (p.Role.Includes(role) || role == Delegate) &&
		p.Scope.Includes(scope)
}
