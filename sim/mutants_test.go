//go:build mutants

package sim

import (
	"fmt"
	"testing"
)

// TestSeedsUntilOneFails runs seeds one after the other and ends at the first that fails: for what has to be seen
// failing while a safeguard is off (docs/MUTANTS.md). It is in a test build of its own because TestSimulation runs the
// same seeds.
func TestSeedsUntilOneFails(t *testing.T) {
	const seeds = 100
	for seed := uint64(0); seed < seeds && !t.Failed(); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { one(t, seed) })
	}
}
