// Package safeguard names what keeps the invariants, so that each can be switched off alone and a test
// has to notice (docs/MUTANTS.md: which invariant, what goes wrong, which test).
//
// A site asks at the place of the safeguard and is otherwise as it would be without:
//
//	case o.Number <= e.grantSeq && !safeguard.Off(safeguard.GrantNumbers):
//
// In an ordinary build Off is the constant false and Swap its text. Both are inlined and the compiler
// drops what depends on them: the functions of package ledger are, to the byte, as large with their
// sites as without, and no symbol of this package is in budgetd (go tool nm -size). A site asks for its
// safeguard first where the rest of its condition has a cost. Built with -tags mutants, the safeguard
// that the environment variable BUDGETD_MUTANT names is off for the life of the process.
// `go run ./internal/safeguard/mutants` switches them off one after the other.
package safeguard
