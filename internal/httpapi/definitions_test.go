package httpapi

import (
	"testing"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/ledger"
)

func TestADefinitionIsReadWhole(t *testing.T) {
	var body creation
	var faults api.Faults
	strictjson.Read([]byte(`{"name": "b", "unit": "count", "type": "daily", "total_quantity": 9,
		"durability": "store", "routing_dimension": "user", "on_loss": "assume_unused", "allow_past": true, "type_rule": {"kind": "calendar",
		"every": "month", "quantity": 3, "unused": "next", "max_rollover": 2, "partial": "whole",
		"anchor": {"day": 31, "hour": 6}}, "limits": [{"name": "l", "dimension": "user", "max": 1,
		"window": {"kind": "calendar", "every": "week", "anchor": {"weekday": "sunday"}}}]}`), &body, &faults)
	if err := faults.Err("create"); err != nil {
		t.Fatal(err)
	}
	d := body.definition
	rule := budget.Rule{Kind: budget.Calendar, Every: budget.Month, Quantity: 3, Unused: budget.Next,
		MaxRollover: 2, Partial: budget.Whole, Anchor: budget.Anchor{Day: 31, Hour: 6}}
	if got := *d.Rule; got.Anchor != rule.Anchor || got.MaxRollover != 2 || got.Partial != budget.Whole {
		t.Errorf("rule %+v, want %+v", got, rule)
	}
	l := d.Limits.List[0]
	if l.Measure != budget.MeasureCount || l.Window.Anchor.Weekday != "sunday" || !d.AllowPast ||
		d.OnLoss != budget.AssumeUnused {
		t.Errorf("%+v with %+v", d, l)
	}
}

// TestFiguresAddUp checks that each unit is in one figure of the views of a budget.
func TestFiguresAddUp(t *testing.T) {
	f := ledger.Figures{Unfunded: 1, Undistributed: 10, InBuckets: 100, Unsettled: 1000, Returning: 1e4, Held: 1e5,
		Used: 1e6, Quarantined: 1e7, Forfeited: 1e8, Total: 111_111_111}
	b := budgetOf(&bucket.View{Figures: f})
	a := auditOf(&bucket.AuditReport{Figures: f})
	for view, parts := range map[string][]int64{
		"get": {*b.TotalQuantity, *b.Undistributed, *b.NotFunded, b.InTransit, *b.InBuckets, b.Held, b.Used,
			b.Quarantined, b.Forfeited},
		"audit": {*a.Total, *a.Undistributed, *a.NotFunded, a.InTransit, *a.InBuckets, a.Held, a.Used,
			a.Quarantined, a.Forfeited},
	} {
		sum := -parts[0]
		for _, units := range parts[1:] {
			sum += units
		}
		if sum != 0 {
			t.Errorf("%s: %d units too many in %d", view, sum, parts)
		}
	}
}
