package access

import "fmt"

// Role is what a principal may do. Roles form a chain: each includes those below it.
type Role uint8

// The roles. The zero Role includes nothing.
const (
	// Read sees budgets, deductions and reports.
	Read Role = iota + 1
	// Deduct deducts, holds, confirms, and takes back what the same principal deducted.
	Deduct
	// Rollback takes back what any principal deducted.
	Rollback
	// Operator changes how much there is and where it lies, and pauses.
	Operator
	// Admin creates and changes budgets, issues keys and reads the audit log.
	Admin
)

var roleNames = [...]string{Read: "read", Deduct: "deduct", Rollback: "rollback",
	Operator: "operator", Admin: "admin"}

// Roles returns all roles, the weakest first.
func Roles() []Role { return []Role{Read, Deduct, Rollback, Operator, Admin} }

// ParseRole returns the role of a name; false for any other text.
func ParseRole(name string) (Role, bool) {
	for _, role := range Roles() {
		if roleNames[role] == name {
			return role, true
		}
	}
	return 0, false
}

// Includes reports whether r may do all that other may. The zero Role includes nothing and is
// included by nothing.
func (r Role) Includes(other Role) bool { return other >= Read && r >= other && r <= Admin }

// String returns the role's name, as in keys, JSON and the configuration.
func (r Role) String() string {
	if r < Read || r > Admin {
		return fmt.Sprintf("role(%d)", uint8(r))
	}
	return roleNames[r]
}

// MarshalText writes the role's name. It fails for a value that is no role.
func (r Role) MarshalText() ([]byte, error) {
	if r < Read || r > Admin {
		return nil, fmt.Errorf("access: %d is not a role", uint8(r))
	}
	return []byte(roleNames[r]), nil
}

// UnmarshalText reads a role's name.
func (r *Role) UnmarshalText(text []byte) error {
	role, ok := ParseRole(string(text))
	if !ok {
		return fmt.Errorf("access: %.20q is not a role", text)
	}
	*r = role
	return nil
}
