package wire_test

import (
	"github.com/budgetd/budgetd/api"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
	"github.com/budgetd/budgetd/ledger"
)

// today is a view of a budget that gives 800 a day, after a change from 1,000 when 600 were used.
func today() bucket.View {
	start := time.Date(2027, 1, 2, 0, 0, 0, 0, time.UTC)
	v := bucket.View{Status: budget.Effective,
		Definition: budget.Definition{Name: "days", Type: budget.Daily, Durability: budget.Ledger,
			CreatedAt: start.Add(-time.Hour), TotalQuantity: 10_000,
			Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 800}},
		Period: budget.Period{Number: 3, Start: start, End: start.AddDate(0, 0, 1)}}
	v.Figures = ledger.Figures{PeriodUnits: 200, PeriodUsed: 50, PeriodBefore: 600, Period: v.Period}
	return v
}

func TestThePeriodShowsTheFiguresOfItsDay(t *testing.T) {
	v := today()
	p := wire.BudgetOf(&v).Period
	if p.Total != 800 || p.Used != 650 {
		t.Errorf("total %d, used %d; want 800, 650", p.Total, p.Used)
	}
}

func TestABudgetSaysWhenItBeginsAndIsResetAgain(t *testing.T) {
	v := today()
	b := wire.BudgetOf(&v)
	if !b.EffectiveAt.Equal(v.Definition.CreatedAt) || !b.NextResetAt.Equal(v.Period.End) {
		t.Errorf("effective at %s, reset at %s", b.EffectiveAt, b.NextResetAt)
	}
	v.Definition.StartAt = v.Period.Start
	v.Definition.EndAt = v.Period.End
	b = wire.BudgetOf(&v)
	if !b.EffectiveAt.Equal(v.Period.Start) || !b.NextResetAt.IsZero() {
		t.Errorf("of the last period: effective at %s, reset at %s", b.EffectiveAt, b.NextResetAt)
	}
	v.Status = budget.Pending
	if b = wire.BudgetOf(&v); !b.NextResetAt.Equal(v.Period.Start) {
		t.Errorf("before the first period: reset at %s", b.NextResetAt)
	}
}

func TestOnLossIsShownInStoreMode(t *testing.T) {
	v := today()
	if got := wire.BudgetOf(&v).OnLoss; got != "" {
		t.Errorf("in ledger mode: %q", got)
	}
	v.Definition.Durability = budget.Store
	if got := wire.BudgetOf(&v).OnLoss; got != budget.Quarantine {
		t.Errorf("by default: %q", got)
	}
}

func TestADefinitionIsReadWhole(t *testing.T) {
	var d wire.Definition
	var faults api.Faults
	strictjson.Read([]byte(`{"name": "b", "unit": "count", "type": "daily", "total_quantity": 9,
		"durability": "store", "routing_dimension": "user", "on_loss": "assume_unused", "allow_past": true, "type_rule": {"kind": "calendar",
		"every": "month", "quantity": 3, "unused": "next", "max_rollover": 2, "partial": "whole",
		"anchor": {"day": 31, "hour": 6}}, "limits": [{"name": "l", "dimension": "user", "max": 1,
		"window": {"kind": "calendar", "every": "week", "anchor": {"weekday": "sunday"}}}]}`), &d, &faults)
	if err := faults.Err("create"); err != nil {
		t.Fatal(err)
	}
	rule := budget.Rule{Kind: budget.Calendar, Every: budget.Month, Quantity: 3, Unused: budget.Next,
		MaxRollover: 2, Partial: budget.Whole, Anchor: budget.Anchor{Day: 31, Hour: 6}}
	if got := *d.Rule; got.Anchor != rule.Anchor || got.MaxRollover != 2 || got.Partial != budget.Whole {
		t.Errorf("rule %+v, want %+v", got, rule)
	}
	l := d.Limits.List[0]
	if l.Measure != budget.MeasureCount || l.Window.Anchor.Weekday != "sunday" || !d.AllowPast ||
		d.OnLoss != budget.AssumeUnused {
		t.Errorf("%+v with %+v", d.Definition, l)
	}
}
