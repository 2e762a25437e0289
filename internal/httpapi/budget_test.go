package httpapi

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
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
	p := budgetOf(&v).Period
	if p.Total != 800 || p.Used != 650 {
		t.Errorf("total %d, used %d; want 800, 650", p.Total, p.Used)
	}
}

func TestABudgetSaysWhenItBeginsAndIsResetAgain(t *testing.T) {
	v := today()
	b := budgetOf(&v)
	if !b.EffectiveAt.Equal(v.Definition.CreatedAt) || !b.NextResetAt.Equal(v.Period.End) {
		t.Errorf("effective at %s, reset at %s", b.EffectiveAt, b.NextResetAt)
	}
	v.Definition.StartAt = v.Period.Start
	v.Definition.EndAt = v.Period.End
	b = budgetOf(&v)
	if !b.EffectiveAt.Equal(v.Period.Start) || !b.NextResetAt.IsZero() {
		t.Errorf("of the last period: effective at %s, reset at %s", b.EffectiveAt, b.NextResetAt)
	}
	v.Status = budget.Pending
	if b = budgetOf(&v); !b.NextResetAt.Equal(v.Period.Start) {
		t.Errorf("before the first period: reset at %s", b.NextResetAt)
	}
}

func TestOnLossIsShownInStoreMode(t *testing.T) {
	v := today()
	if got := budgetOf(&v).OnLoss; got != "" {
		t.Errorf("in ledger mode: %q", got)
	}
	v.Definition.Durability = budget.Store
	if got := budgetOf(&v).OnLoss; got != budget.Quarantine {
		t.Errorf("by default: %q", got)
	}
}
