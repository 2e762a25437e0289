package bucket

import (
	"context"
	"testing"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// growing is the ledger of one epoch, each of whose rows is one unit, and which grows by so many with each part that is
// counted.
type growing struct {
	SQL
	rows, by int64
	parts    []Part
}

// Recount adds up a part.
func (g *growing) Recount(_ context.Context, part Part) (Recounted, bool, error) {
	g.parts = append(g.parts, part)
	var r Recounted
	r.Figures.Deducted = max(min(part.UpTo, g.rows)-part.From, 0)
	if part.End {
		r.Figures.Row = ledger.Epoch{DrainedSeq: g.rows, Used: g.rows}
		r.Figures.Granted = g.rows
	}
	g.rows += g.by
	return r, true, nil
}

// TestRecountOfGrowingEpoch: no statement counts more than a part, however much is added meanwhile; an epoch is compared
// once it was counted whole, and left when it grows faster than it is counted.
func TestRecountOfGrowingEpoch(t *testing.T) {
	for _, test := range []struct {
		what        string
		listed, by  int64
		parts, ends int
		whole       bool
	}{
		{"nothing is added", 12_000, 0, 3, 1, true},
		{"it ends with a part", 10_000, 0, 2, 1, true},
		{"one part is added", 12_000, 1_000, 3, 1, true},     // 14,000 at the third
		{"it is caught up with", 30_000, 2_000, 10, 4, true}, // to 40,000, 44,000, 46,000 and 48,000
		{"it grows as fast as it is counted", 30_000, 5_000, 11, 2, false},
		{"it grows faster", 20_000, 20_000, 16, 2, false},
		{"rows of which there are none", 1 << 50, 0, 3, 1, true},
	} {
		g := &growing{rows: test.listed, by: test.by}
		s := &Service{sql: g, set: Settings{StepTimeout: time.Minute}}
		c := &s.recounting
		c.listed = []EpochOf{{Row: ledger.Epoch{DrainedSeq: test.listed}}}
		if test.listed == 1<<50 {
			g.rows = 4_000
		}
		for len(c.listed) > 0 && len(g.parts) < 100 {
			s.recountNext(context.Background())
		}
		at, ends := int64(0), 0
		for _, p := range g.parts {
			if p.From != at || (p.UpTo-p.From != recountPart && p.UpTo != 1<<50) {
				t.Errorf("%s: %+v after %d", test.what, p, at)
			}
			if at = p.UpTo; p.End {
				ends++
			}
		}
		if whole := at >= g.rows-g.by; len(g.parts) != test.parts || ends != test.ends || whole != test.whole || c.at != 0 {
			t.Errorf("%s: %d parts, %d to the end, all of them %v, then at %d", test.what, len(g.parts), ends, whole, c.at)
		}
	}
}
