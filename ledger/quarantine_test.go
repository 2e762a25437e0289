package ledger_test

import (
	"testing"

	"github.com/budgetd/budgetd/ledger"
)

// TestQuarantineIsCompared: units that are in Q by the column and not by the rows are found, also
// where all other figures agree with the column.
func TestQuarantineIsCompared(t *testing.T) {
	f, adjusted, epochs := accounts()
	f.Quarantined++
	f.Undistributed--
	found := ledger.Check(f, adjusted, epochs)
	for _, d := range found {
		if d.What == "quarantined" && d.Recorded == 1 && d.Counted == 0 {
			return
		}
	}
	t.Errorf("found %v", found)
}
