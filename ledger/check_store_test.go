package ledger_test

import (
	"testing"

	"github.com/budgetd/budgetd/ledger"
)

// crossed are two reads of a store and the ledger a moment after the second: 3 entries and a grant have
// come since.
func crossed() (from, to ledger.StoreRead, f ledger.SpanFigures) {
	from = ledger.StoreRead{Seq: 10, GrantSeq: 1, Balance: 60, Granted: 100, Deducted: 40}
	to = ledger.StoreRead{Seq: 20, GrantSeq: 2, Balance: 75, Granted: 150, Deducted: 75}
	f = ledger.SpanFigures{
		Row: ledger.Epoch{Number: 4, Status: ledger.Open, DrainedSeq: 24, Outstanding: 90, Held: 2, Used: 70,
			Returning: 3},
		Swept: 5, Granted: 50, GrantedAfter: 20, Deducted: 35, DeductedAfter: 5,
	}
	return from, to, f
}

func TestCheckStore(t *testing.T) {
	from, to, f := crossed()
	if got := ledger.CheckStore("b", from, to, &f); got != nil {
		t.Errorf("a store that agrees: %v", got)
	}
	whole := f
	whole.Granted, whole.Deducted = 150, 75
	if got := ledger.CheckStore("b", ledger.StoreRead{}, to, &whole); got != nil {
		t.Errorf("counted from the start: %v", got)
	}
	none := f
	none.Granted, none.Deducted = 0, 0
	if got := ledger.CheckStore("b", to, to, &none); got != nil {
		t.Errorf("with nothing between: %v", got)
	}
}

// TestCheckStoreFindsASingleUnit plants one unit in every figure of both sides.
func TestCheckStoreFindsASingleUnit(t *testing.T) {
	type planted struct {
		from, to ledger.StoreRead
		ledger.SpanFigures
	}
	for name, at := range map[string]func(p *planted) *int64{
		"balance":          func(p *planted) *int64 { return &p.to.Balance },
		"granted":          func(p *planted) *int64 { return &p.to.Granted },
		"deducted":         func(p *planted) *int64 { return &p.to.Deducted },
		"granted before":   func(p *planted) *int64 { return &p.from.Granted },
		"deducted before":  func(p *planted) *int64 { return &p.from.Deducted },
		"O":                func(p *planted) *int64 { return &p.Row.Outstanding },
		"H":                func(p *planted) *int64 { return &p.Row.Held },
		"S":                func(p *planted) *int64 { return &p.Row.Used },
		"R":                func(p *planted) *int64 { return &p.Row.Returning },
		"closed":           func(p *planted) *int64 { return &p.Closed },
		"swept":            func(p *planted) *int64 { return &p.Swept },
		"a grant":          func(p *planted) *int64 { return &p.SpanFigures.Granted },
		"a later grant":    func(p *planted) *int64 { return &p.GrantedAfter },
		"an entry":         func(p *planted) *int64 { return &p.SpanFigures.Deducted },
		"an entry after s": func(p *planted) *int64 { return &p.DeductedAfter },
	} {
		for _, unit := range []int64{1, -1} {
			var p planted
			p.from, p.to, p.SpanFigures = crossed()
			*at(&p) += unit
			got := ledger.CheckStore("b:bucket-0", p.from, p.to, &p.SpanFigures)
			if len(got) == 0 || got[0].Bucket != "b:bucket-0" || got[0].Epoch != 4 || got[0].Gap() != 1 {
				t.Errorf("%+d in %s: %+v", unit, name, got)
			}
		}
	}
}

func TestReaches(t *testing.T) {
	for name, test := range map[string]struct {
		row  ledger.Epoch
		want bool
	}{
		"drained":         {ledger.Epoch{Status: ledger.Open, DrainedSeq: 5}, true},
		"drained further": {ledger.Epoch{Status: ledger.Closing, DrainedSeq: 6}, true},
		"behind":          {ledger.Epoch{Status: ledger.Open, DrainedSeq: 4}, false},
		"fenced":          {ledger.Epoch{Status: ledger.Open, DrainedSeq: 5, Fenced: "broken"}, false},
		"opening":         {ledger.Epoch{Status: ledger.Opening, DrainedSeq: 5}, false},
		"closed":          {ledger.Epoch{Status: ledger.Closed, DrainedSeq: 5}, false},
		"lost":            {ledger.Epoch{Status: ledger.Lost, DrainedSeq: 5}, false},
	} {
		f := ledger.SpanFigures{Row: test.row}
		if got := f.Reaches(5); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
