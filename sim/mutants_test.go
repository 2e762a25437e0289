//go:build mutants

package sim

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// TestSeedsUntilOneFails runs seeds side by side and ends with the first that fails: for what has to be seen
// failing while a safeguard is off (docs/MUTANTS.md). It is in a test build of its own because TestSimulation runs the
// same seeds.
func TestSeedsUntilOneFails(t *testing.T) {
	const seeds = 600
	var failed atomic.Bool
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			if failed.Load() {
				return
			}
			one(t, seed)
			if t.Failed() {
				failed.Store(true)
			}
		})
	}
}
