package ledger_test

import (
	"testing"

	"github.com/budgetd/budgetd/ledger"
)

// TestQuarantineIsCompared checks that units that are in the column Q but in no row are found, even
// if all other figures agree with the column.
func TestQuarantineIsCompared(t *testing.T) {
	f, adjusted, epochs := books()
	f.Quarantined++
	f.Undistributed--
	found := ledger.Check(f, adjusted, epochs)
	for _, d := range found {
		if d.What == "quarantined" && d.Recorded == 1 && d.Counted == 0 {
			return
		}
	}
	t.Errorf("found %v, want quarantined 1 and 0", found)
}
