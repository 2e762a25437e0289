package access

import "github.com/budgetd/budgetd/budget"

// Principal is who makes a call. It is never changed once made, so that calls may share it.
type Principal struct {
	// Name is kept with deductions and in the audit log.
	Name string
	// KeyID is the key that it came with; "" for a client certificate, a session, and the principal
	// of a server without authentication.
	KeyID string
	Role  Role
	Scope Scope
	// ExpiresMS is when it must authenticate again, milliseconds since 1970; 0: never.
	ExpiresMS int64
}

// Anonymous is everybody on a server without authentication. It may do everything.
var Anonymous = &Principal{Name: "anonymous", Role: Admin}

// MaxPrincipal is the longest name of a principal, bytes.
const MaxPrincipal = 128

// CheckPrincipal returns what is wrong with the name of a principal, "" if nothing.
func CheckPrincipal(name string) string {
	if len(name) > MaxPrincipal {
		return "must be at most 128 bytes"
	}
	return budget.CheckRequestID(name)
}

// Target is what one request wants to act on.
type Target struct {
	// Tenant and Budget are those of the budget, resolved; "" where the call names none.
	Tenant, Budget string
	// More: the request needs Call.More, for the reason that Call.When states.
	More bool
}

// Decision is the answer to whether a principal may make a call.
type Decision uint8

// The decisions.
const (
	// Forbidden: the role is too low, or the call is outside the scope whatever exists. Zero, so
	// that a decision that nobody made allows nothing.
	Forbidden Decision = iota
	// Hidden: the target is outside the scope. The answer is the one for a target that does not
	// exist.
	Hidden
	// Allowed: the call may go on.
	Allowed
)

// May decides whether p may make a call on a target. The role is judged before the scope: Forbidden
// never depends on what exists.
func (p *Principal) May(c Call, t Target) Decision {
	if c.Over == Nobody {
		return Allowed
	}
	least := c.Least
	if t.More && c.More != 0 {
		least = c.More
	}
	if p == nil || !p.Role.Includes(least) {
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

// TenantOf returns the tenant that a call means which asked for one ("" for none): that of the
// principal, else the default. False: the principal may not act in the tenant asked for.
func (p *Principal) TenantOf(asked string) (string, bool) {
	switch {
	case asked == "" && p.Scope.Tenant != "":
		return p.Scope.Tenant, true
	case asked == "":
		return budget.DefaultTenant, true
	}
	return asked, p.Scope.CoversTenant(asked)
}

// MayIssue reports whether p may issue a key of a role and a scope: neither may be beyond its own.
func (p *Principal) MayIssue(role Role, scope Scope) bool {
	return p.Role.Includes(Admin) && p.Role.Includes(role) && p.Scope.Includes(scope)
}

// Owns reports whether p is who made a deduction. One that was made without authentication is
// nobody's: taking it back needs the role rollback.
func (p *Principal) Owns(deductedBy string) bool { return deductedBy != "" && deductedBy == p.Name }
