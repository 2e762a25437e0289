//go:build !mutants

package safeguard

import "testing"

// TestNothingIsOff: without the tag every safeguard is on, whatever the environment says.
func TestNothingIsOff(t *testing.T) {
	for _, name := range Names() {
		t.Setenv("BUDGETD_MUTANT", string(name))
		if Off(name) {
			t.Errorf("%s is off", name)
		}
		if got := Swap(name, "text", "text", "other"); got != "text" {
			t.Errorf("%s swaps: %q", name, got)
		}
	}
}
