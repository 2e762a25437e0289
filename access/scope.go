package access

import (
	"slices"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// Scope is the set of budgets that a principal may act on: those of one tenant or all, optionally
// limited by name patterns. The zero Scope covers everything.
type Scope struct {
	// Tenant is the only tenant; "" means all.
	Tenant string
	// Budgets are at most MaxPatterns name patterns; a budget is covered if one matches. None
	// covers every budget of the tenant.
	Budgets []string
	// Subtree is the id of a budget of the tenant; the scope is this one and those below it. 0 means
	// no such bound. It is that of a Delegate, and of no other role.
	Subtree int64
}

// MaxPatterns bounds the patterns of one scope.
const MaxPatterns = 32

// All reports whether s covers the whole installation.
func (s Scope) All() bool { return s.Tenant == "" && len(s.Budgets) == 0 && s.Subtree == 0 }

// CoversTenant reports whether s covers budgets of a tenant.
func (s Scope) CoversTenant(tenant string) bool { return s.Tenant == "" || s.Tenant == tenant }

// Covers reports whether s covers a budget. A subtree covers none: a name does not say where a
// budget is.
func (s Scope) Covers(tenant, name string) bool {
	return s.CoversTenant(tenant) && s.coversName(name)
}

func (s Scope) coversName(name string) bool {
	if len(s.Budgets) == 0 || s.Subtree != 0 {
		return s.Subtree == 0
	}
	return slices.ContainsFunc(s.Budgets, func(p string) bool { return matches(p, name) })
}

// Includes reports whether s covers every budget that other covers. It may return false if only a
// union of patterns covers, but never true if a budget is not covered. A key may issue keys with
// the scopes that its own includes.
func (s Scope) Includes(other Scope) bool {
	if s.Tenant != "" && s.Tenant != other.Tenant {
		return false
	}
	if s.Subtree != 0 {
		return s.Subtree == other.Subtree
	}
	if len(s.Budgets) == 0 {
		return true
	}
	for _, pattern := range other.Budgets {
		// A star in other's pattern stands for any text, which only a star in ours matches.
		if !s.coversName(pattern) {
			return false
		}
	}
	return len(other.Budgets) > 0
}

// Check returns the faults of s by field, or nil.
func (s Scope) Check() []budget.FieldError {
	var faults []budget.FieldError
	if why := budget.CheckName(s.Tenant); s.Tenant != "" && why != "" {
		faults = append(faults, budget.FieldError{Field: "tenant", Message: why})
	}
	if s.Subtree != 0 && (s.Subtree < 0 || s.Tenant == "" || len(s.Budgets) > 0) {
		faults = append(faults, budget.FieldError{Field: "subtree",
			Message: "is a budget of one tenant, and has no patterns beside it"})
	}
	if len(s.Budgets) > MaxPatterns {
		faults = append(faults, budget.FieldError{Field: "budgets", Message: "at most 32 patterns"})
	}
	for _, pattern := range s.Budgets {
		if !isPattern(pattern) {
			faults = append(faults, budget.FieldError{Field: "budgets",
				Message: "a pattern is 1 to 63 of a-z, 0-9, - and *, such as spring-*"})
			break
		}
	}
	return faults
}

func isPattern(text string) bool {
	const maxLength = 63
	return text != "" && len(text) <= maxLength &&
		strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-*") == ""
}

// matches reports whether a pattern matches a name; a star matches any text, even the empty one.
// The time is bounded by the product of both lengths.
func matches(pattern, name string) bool {
	p, n, star, resume := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0: // let the last star take one byte more
			resume++
			p, n = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
