package bucket

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

func TestFindings(t *testing.T) {
	var f findings
	sums := func(now time.Duration, wantN int, wantGap int64) {
		t.Helper()
		if n, gap := f.sums(now); n != wantN || gap != wantGap {
			t.Errorf("at %s: %d and %d units, want %d and %d", now, n, gap, wantN, wantGap)
		}
	}
	sums(0, 0, 0)
	for _, note := range []struct {
		key   findingKey
		gap   int64
		fresh bool
	}{
		{findingKey{1, 7, 1, "outstanding"}, 1, true},
		{findingKey{1, 7, 1, "used"}, 1, true}, // the same unit
		{findingKey{1, 7, 1, "outstanding"}, 1, false},
		{findingKey{1, 0, 0, "conservation"}, 1, true}, // explained by the bucket
		{findingKey{2, 0, 0, "conservation"}, 5, true},
		{findingKey{0, 9, 3, "log"}, 1, true}, // of a budget that is not known
	} {
		if fresh := f.note(note.key, note.gap, time.Minute); fresh != note.fresh {
			t.Errorf("%+v: fresh %v", note.key, fresh)
		}
	}
	sums(time.Minute, 5, 1+5+1)
	if !f.of(7) || f.of(8) {
		t.Error("of whom a discrepancy is known")
	}
	f.note(findingKey{1, 7, 1, "outstanding"}, 3, 2*time.Minute)
	sums(11*time.Minute, 5, 3+5+1)
	sums(11*time.Minute+1, 1, 3) // only what was seen again
	sums(12*time.Minute+1, 0, 0)
}

// TestWatched: rows stay in the window for one to two windows, and a young epoch is counted whole.
func TestWatched(t *testing.T) {
	read := func(seq int64) ledger.StoreRead { return ledger.StoreRead{Seq: seq} }
	w := newlyWatched(read(100), 100)
	if w.from != read(0) || w.middle != read(0) {
		t.Errorf("a young epoch: %+v", w)
	}
	for _, step := range []struct{ seq, from, middle int64 }{
		{99, 0, 0}, {100, 0, 100}, {150, 0, 100}, {205, 100, 205}, {1000, 205, 1000},
	} {
		if w = w.right(read(step.seq), 100); w.from != read(step.from) || w.middle != read(step.middle) {
			t.Errorf("at %d: %+v, want %d and %d", step.seq, w, step.from, step.middle)
		}
	}
	if w = newlyWatched(read(101), 100); w.from != read(101) {
		t.Errorf("an old epoch: %+v", w)
	}
}

func TestWatchedLag(t *testing.T) {
	at := func(drained, seq int64) *liveRead {
		return &liveRead{EpochOf: EpochOf{Row: ledger.Epoch{DrainedSeq: drained}}, in: Balance{Seq: seq}}
	}
	w := watched{}
	for i, step := range []struct {
		drained, seq int64
		behind       int64
		since        time.Duration
	}{
		{5, 5, 0, 0},
		{5, 9, 9, 1},   // behind for the first time
		{8, 12, 9, 1},  // entry 9 still is
		{9, 12, 12, 3}, // that one came, others have not
		{12, 12, 0, 3},
	} {
		w = w.note(at(step.drained, step.seq), time.Duration(i))
		if w.behind != step.behind || w.since != step.since {
			t.Errorf("step %d: %+v, want %d since %d", i, w, step.behind, step.since)
		}
	}
}

func TestLargestBudgetsAreShown(t *testing.T) {
	k := bookkeeping{}
	for i := range int64(50) {
		k.add(&Book{Name: "b", Figures: ledger.Figures{Total: i * 37 % 50, Used: 1}}, 3)
	}
	k.show(3)
	if len(k.shown) != 3 || k.shown[0].Figures.Total != 49 || k.shown[2].Figures.Total != 47 {
		t.Errorf("shown %+v", k.shown)
	}
	if k.all.Total != 49*50/2 || k.all.Used != 50 {
		t.Errorf("all %+v", k.all)
	}
	for range 3 { // their totals would not even fit
		k.add(&Book{Unlimited: true, Durability: budget.Store, Figures: ledger.Figures{Total: budget.MaxAmount,
			Undistributed: 1 << 50, Remaining: 1 << 51, Unsettled: 1, Unfunded: 1, Used: 5, Returning: 1,
			Quarantined: 1 << 51, Forfeited: 1 << 50}}, 60)
	}
	if k.all.Total != 49*50/2 || k.all.Quarantined+k.all.Forfeited != 0 || k.all.Used != 65 || k.all.Returning != 3 || k.all.Remaining+k.all.Undistributed != 0 || k.atRisk != 0 {
		t.Errorf("with unlimited ones: %+v, at risk %d", k.all, k.atRisk)
	}
	none := bookkeeping{}
	none.add(&Book{Figures: ledger.Figures{Total: 5}}, 0)
	if none.show(0); len(none.shown) != 0 || none.all.Total != 5 {
		t.Errorf("none: %+v", none)
	}
}
