//go:build mutants

package safeguard

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// chosen is the safeguard that is off in this process; "": none.
var chosen = choose(os.Getenv("BUDGETD_MUTANT"))

// choose panics for a name that no safeguard has: a run with it would prove nothing.
func choose(text string) Name {
	if name := Name(text); text == "" || slices.Contains(Names(), name) {
		return name
	}
	panic(fmt.Sprintf("BUDGETD_MUTANT is %q, which is no safeguard: %q", text, Names()))
}

// Off reports whether a safeguard is switched off.
func Off(name Name) bool { return name == chosen }

// Swap returns text with old replaced by another piece while the safeguard is off. It panics unless
// old is in the text exactly once, also while it is on.
func Swap(name Name, text, old, instead string) string {
	if n := strings.Count(text, old); n != 1 {
		panic(fmt.Sprintf("safeguard %s: %q is %d times in the text that begins %.60q", name, old, n, text))
	}
	if !Off(name) {
		return text
	}
	return strings.Replace(text, old, instead, 1)
}
