package ledger_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/ledger"
)

// books returns a budget of 1,000 with three epochs of two buckets: a closed one, its successor,
// and one that is closing.
func books() (f ledger.Figures, adjusted int64, epochs []ledger.EpochFigures) {
	epochs = []ledger.EpochFigures{
		{Bucket: "b:bucket-0", Row: ledger.Epoch{Number: 1, Status: ledger.Closed, Used: 170,
			Returning: 5, Swept: 45},
			Granted: 400, Closed: 180, Deducted: 220, GivenBack: 50},
		{Bucket: "b:bucket-0", Row: ledger.Epoch{Number: 2, Status: ledger.Open, Outstanding: 90, Used: 6,
			Held: 4},
			Granted: 100, Deducted: 13, GivenBack: 3, BackInO: 3, Held: 4},
		{Bucket: "b:bucket-1", Row: ledger.Epoch{Number: 1, Status: ledger.Closing, Outstanding: 33,
			Used: 60, Returning: 7},
			Granted: 100, Deducted: 67, GivenBack: 7},
	}
	f = ledger.Figures{Total: 1000, Undistributed: 625, InBuckets: 90, Unsettled: 33, Held: 4,
		Used:      236,
		Returning: 12, Online: 2}
	return f, 1000, epochs
}

func TestCheckOfCorrectBooks(t *testing.T) {
	f, adjusted, epochs := books()
	if got := ledger.Check(f, adjusted, epochs); got != nil {
		t.Errorf("%v", got)
	}
	if got := ledger.Check(ledger.Figures{Total: 5, Undistributed: 5}, 5, nil); got != nil {
		t.Errorf("without epochs: %v", got)
	}
	f = ledger.Figures{Total: 10, Undistributed: 4, Quarantined: 0, Forfeited: 6}
	if got := ledger.Check(f, 10, nil); got != nil {
		t.Errorf("with forfeited units: %v", got)
	}
	if f, _, _ := books(); f.InTransit() != 45 || f.OutQuantity() != 375 {
		t.Errorf("in transit %d, handed out %d", f.InTransit(), f.OutQuantity())
	}
}

// TestCheckFindsASingleUnit adds and removes one unit in every column and every row sum.
func TestCheckFindsASingleUnit(t *testing.T) {
	type planted struct {
		ledger.Figures
		adjusted int64
		epochs   []ledger.EpochFigures
	}
	places := map[string]func(p *planted) *int64{
		"T":         func(p *planted) *int64 { return &p.Total },
		"U":         func(p *planted) *int64 { return &p.Undistributed },
		"Q":         func(p *planted) *int64 { return &p.Quarantined },
		"X":         func(p *planted) *int64 { return &p.Forfeited },
		"remaining": func(p *planted) *int64 { return &p.InBuckets },
		"unsettled": func(p *planted) *int64 { return &p.Unsettled },
		"held":      func(p *planted) *int64 { return &p.Held },
		"used":      func(p *planted) *int64 { return &p.Used },
		"returning": func(p *planted) *int64 { return &p.Returning },
		"adjusted":  func(p *planted) *int64 { return &p.adjusted },
	}
	for i, name := range []string{"closed", "open", "closing"} {
		for column, of := range map[string]func(e *ledger.EpochFigures) *int64{
			"O":                 func(e *ledger.EpochFigures) *int64 { return &e.Row.Outstanding },
			"H":                 func(e *ledger.EpochFigures) *int64 { return &e.Row.Held },
			"S":                 func(e *ledger.EpochFigures) *int64 { return &e.Row.Used },
			"R":                 func(e *ledger.EpochFigures) *int64 { return &e.Row.Returning },
			"granted":           func(e *ledger.EpochFigures) *int64 { return &e.Granted },
			"closed":            func(e *ledger.EpochFigures) *int64 { return &e.Closed },
			"swept":             func(e *ledger.EpochFigures) *int64 { return &e.Row.Swept },
			"quarantined":       func(e *ledger.EpochFigures) *int64 { return &e.Quarantined },
			"released":          func(e *ledger.EpochFigures) *int64 { return &e.Released },
			"noted as released": func(e *ledger.EpochFigures) *int64 { return &e.NotedRelease },
			"deducted":          func(e *ledger.EpochFigures) *int64 { return &e.Deducted },
			"given back":        func(e *ledger.EpochFigures) *int64 { return &e.GivenBack },
			"given back into O": func(e *ledger.EpochFigures) *int64 { return &e.BackInO },
			"held, by the rows": func(e *ledger.EpochFigures) *int64 { return &e.Held },
		} {
			places[column+" of the "+name+" epoch"] = func(p *planted) *int64 {
				return of(&p.epochs[i])
			}
		}
	}
	for name, at := range places {
		for _, unit := range []int64{1, -1} {
			f, adjusted, epochs := books()
			p := planted{f, adjusted, epochs}
			*at(&p) += unit
			if got := ledger.Check(p.Figures, p.adjusted, p.epochs); len(got) == 0 {
				t.Errorf("%+d in %s is not found", unit, name)
			}
		}
	}
}

// TestCheckFindsMovedUnits plants errors that leave the budget's sum unchanged.
func TestCheckFindsMovedUnits(t *testing.T) {
	for name, test := range map[string]struct {
		plant func(f *ledger.Figures, e []ledger.EpochFigures)
		want  string
	}{
		"a sweep that was counted twice": {func(f *ledger.Figures, e []ledger.EpochFigures) {
			f.Undistributed++
			f.InBuckets--
			e[1].Row.Outstanding--
		}, "bucket b:bucket-0, epoch 2: outstanding is recorded as 89, its rows give 90"},
		"a deduction without a row": {func(f *ledger.Figures, e []ledger.EpochFigures) {
			e[1].Row.Outstanding--
			e[1].Row.Used++
			f.InBuckets--
			f.Used++
		}, "bucket b:bucket-0, epoch 2: used is recorded as 7, its rows give 6"},
		"a rollback without a row": {func(f *ledger.Figures, e []ledger.EpochFigures) {
			e[2].Row.Used--
			e[2].Row.Returning++
			f.Used--
			f.Returning++
		}, "bucket b:bucket-1, epoch 1: returning is recorded as 8, its rows give 7"},
		"a rollback into O that went into R": {func(_ *ledger.Figures, e []ledger.EpochFigures) {
			e[1].BackInO -= 2
		}, "bucket b:bucket-0, epoch 2: returning is recorded as 0, its rows give 2"},
		"a unit in U that is still in its bucket": {func(f *ledger.Figures, _ []ledger.EpochFigures) {
			f.Undistributed++
			f.InBuckets--
		}, "budget: undistributed is recorded as 626, its rows give 625"},
		"units between two buckets": {func(_ *ledger.Figures, e []ledger.EpochFigures) {
			e[1].Row.Outstanding--
			e[2].Row.Outstanding++
		}, "bucket b:bucket-1, epoch 1: outstanding is recorded as 34, its rows give 33"},
		"an append without a row": {func(f *ledger.Figures, _ []ledger.EpochFigures) {
			f.Total++
			f.Undistributed++
		}, "budget: total is recorded as 1001, its rows give 1000"},
		"a negative epoch": {func(f *ledger.Figures, e []ledger.EpochFigures) {
			e[1].Row.Outstanding, e[1].Deducted, e[1].Row.Used = -1, 104, 97
			f.InBuckets, f.Used = -1, 327
		}, "bucket b:bucket-0, epoch 2: outstanding is recorded as -1, its rows give -1"},
		"negative undistributed units": {func(f *ledger.Figures, e []ledger.EpochFigures) {
			e[1].Granted, e[1].Row.Outstanding = 726, 716
			f.Undistributed, f.InBuckets = -1, 716
		}, "budget: undistributed is recorded as -1, its rows give -1"},
	} {
		t.Run(name, func(t *testing.T) {
			f, adjusted, epochs := books()
			test.plant(&f, epochs)
			var found []string
			for _, d := range ledger.Check(f, adjusted, epochs) {
				found = append(found, d.String())
			}
			if !slices.Contains(found, test.want) {
				t.Errorf("found\n%s\nnot %s", strings.Join(found, "\n"), test.want)
			}
		})
	}
}

// TestCheckColumnsFindsASingleUnit adds and removes a unit everywhere. A unit in the wrong column
// is not found; only the rows reveal it.
func TestCheckColumnsFindsASingleUnit(t *testing.T) {
	_, _, epochs := books()
	for i := range epochs {
		if got := ledger.CheckColumns(&epochs[i]); got != nil {
			t.Errorf("correct columns: %v", got)
		}
	}
	for name, at := range map[string]func(e *ledger.EpochFigures) *int64{
		"O":       func(e *ledger.EpochFigures) *int64 { return &e.Row.Outstanding },
		"H":       func(e *ledger.EpochFigures) *int64 { return &e.Row.Held },
		"S":       func(e *ledger.EpochFigures) *int64 { return &e.Row.Used },
		"R":       func(e *ledger.EpochFigures) *int64 { return &e.Row.Returning },
		"closed":  func(e *ledger.EpochFigures) *int64 { return &e.Closed },
		"swept":   func(e *ledger.EpochFigures) *int64 { return &e.Row.Swept },
		"granted": func(e *ledger.EpochFigures) *int64 { return &e.Granted },
	} {
		for _, unit := range []int64{1, -1} {
			_, _, epochs := books()
			*at(&epochs[0]) += unit
			got := ledger.CheckColumns(&epochs[0])
			if len(got) != 1 || got[0].Bucket != "b:bucket-0" || got[0].Epoch != 1 || got[0].Gap() != 1 {
				t.Errorf("%+d in %s: %+v", unit, name, got)
			}
		}
	}
}

func TestCheckBudget(t *testing.T) {
	f, adjusted, _ := books()
	f.PendingShrink = 30
	if got := ledger.CheckBudget(f, adjusted, 30); got != nil {
		t.Errorf("correct columns: %v", got)
	}
	for name, at := range map[string]func(f *ledger.Figures, adjusted, shrinks *int64) *int64{
		"T":              func(f *ledger.Figures, _, _ *int64) *int64 { return &f.Total },
		"U":              func(f *ledger.Figures, _, _ *int64) *int64 { return &f.Undistributed },
		"Q":              func(f *ledger.Figures, _, _ *int64) *int64 { return &f.Quarantined },
		"X":              func(f *ledger.Figures, _, _ *int64) *int64 { return &f.Forfeited },
		"used":           func(f *ledger.Figures, _, _ *int64) *int64 { return &f.Used },
		"pending shrink": func(f *ledger.Figures, _, _ *int64) *int64 { return &f.PendingShrink },
		"adjusted":       func(_ *ledger.Figures, adjusted, _ *int64) *int64 { return adjusted },
		"its shrinks":    func(_ *ledger.Figures, _, shrinks *int64) *int64 { return shrinks },
	} {
		for _, unit := range []int64{1, -1} {
			f, adjusted, _ := books()
			f.PendingShrink = 30
			shrinks := int64(30)
			*at(&f, &adjusted, &shrinks) += unit
			if got := ledger.CheckBudget(f, adjusted, shrinks); len(got) == 0 || got[0].Bucket != "" {
				t.Errorf("%+d in %s: %+v", unit, name, got)
			}
		}
	}
}
