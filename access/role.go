package access

import "fmt"

// Role is the set of calls that a principal may make. Roles form a chain: each includes those below
// it. Delegate stands beside the chain.
type Role uint8

// The roles. The zero Role includes nothing.
const (
	// Read sees budgets, deductions and reports.
	Read Role = iota + 1
	// Deduct deducts, holds, confirms, and rolls back its own deductions.
	Deduct
	// Rollback rolls back any principal's deductions.
	Rollback
	// Operator moves, adds and removes units, and pauses budgets.
	Operator
	// Admin creates and changes budgets, issues keys and reads the audit log.
	Admin
	// Delegate carves budgets out of one budget and out of those below it, deducts from them, rolls
	// back its own deductions, and appends to, shrinks, closes and reads them.
	Delegate
)

var roleNames = [...]string{Read: "read", Deduct: "deduct", Rollback: "rollback",
	Operator: "operator", Admin: "admin", Delegate: "delegate"}

// Roles returns the roles of the chain, lowest first.
func Roles() []Role { return []Role{Read, Deduct, Rollback, Operator, Admin} }

// ParseRole returns the role with a name. ok is false for any other text.
func ParseRole(name string) (Role, bool) {
	for role := Read; role <= Delegate; role++ {
		if roleNames[role] == name {
			return role, true
		}
	}
	return 0, false
}

// Includes reports whether r may do everything that other may. The zero Role neither includes nor
// is included; Delegate includes nothing and is not included.
func (r Role) Includes(other Role) bool { return other >= Read && r >= other && r <= Admin }

// Permits reports whether r may make a call in its usual form.
func (r Role) Permits(c *Call) bool {
	return r.Includes(c.Least) || r == Delegate && c.Delegates != NoDelegate
}

// String returns the role's name, as in keys, JSON and the configuration.
func (r Role) String() string {
	if r < Read || r > Delegate {
		return fmt.Sprintf("role(%d)", uint8(r))
	}
	return roleNames[r]
}

// MarshalText returns the role's name. It returns an error for an invalid role.
func (r Role) MarshalText() ([]byte, error) {
	if r < Read || r > Delegate {
		return nil, fmt.Errorf("access: %d is not a role", uint8(r))
	}
	return []byte(roleNames[r]), nil
}

// UnmarshalText parses a role's name.
func (r *Role) UnmarshalText(text []byte) error {
	role, ok := ParseRole(string(text))
	if !ok {
		return fmt.Errorf("access: %.20q is not a role", text)
	}
	*r = role
	return nil
}
