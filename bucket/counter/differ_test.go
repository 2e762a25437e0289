package counter

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// TestDiffer checks that an audit of store mode finds each figure of an entry that differs from
// SQL's grants, or is below what SQL has seen of it.
func TestDiffer(t *testing.T) {
	const granted = 40
	for _, tt := range []struct {
		name   string
		change func(e *bucket.Entry)
		what   string // of the discrepancy; "": none
	}{
		{"nothing", func(*bucket.Entry) {}, ""},
		{"more was taken since the last sync", func(e *bucket.Entry) { e.Taken, e.Balance = 16, 29 }, ""},
		{"a unit appears", func(e *bucket.Entry) { e.Balance++ },
			"grants and given back, balance and taken"},
		{"a unit is lost", func(e *bucket.Entry) { e.Balance-- },
			"grants and given back, balance and taken"},
		{"less was taken than SQL knows of", func(e *bucket.Entry) { e.Taken, e.Balance = 14, 31 }, "taken"},
		{"less was given back", func(e *bucket.Entry) { e.GivenBack, e.Balance = 4, 29 }, "given back"},
		{"there is no entry", func(e *bucket.Entry) { e.Verdict = bucket.Lost }, ledger.EntryInStore},
		{"it has ended meanwhile", func(e *bucket.Entry) { e.Verdict, e.Balance = bucket.Closed, 7 }, ""},
	} {
		bk := &bucket.Bucket{Key: "b"}
		bk.Epoch.Outstanding, bk.Epoch.Taken, bk.Epoch.GivenBack = 30, 15, 5
		e := &bucket.Entry{Verdict: bucket.Accepted, Balance: 30, Taken: 15, GivenBack: 5}
		tt.change(e)
		found := differ(bk, e, granted)
		if tt.what == "" && len(found) > 0 || tt.what != "" && (len(found) != 1 || found[0].What != tt.what) {
			t.Errorf("%s: %v, want %q", tt.name, found, tt.what)
		}
	}
}
