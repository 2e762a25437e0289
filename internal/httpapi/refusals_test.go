package httpapi

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// TestProblemSaysWhen checks that a refusal says when to retry and which limits it is about, or
// that a retry can never succeed.
func TestProblemSaysWhen(t *testing.T) {
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	states := []budget.LimitState{{Limit: "month", Used: 1, Max: 1, Asked: 1, ResetAt: at},
		{Limit: "day", Used: 1, Max: 1, Asked: 1, ResetAt: at.Add(-time.Hour)}}
	p := ProblemOf(&budget.Error{Code: budget.LimitExceeded, Limit: &states[0], Limits: states,
		RetryAfter: time.Hour})
	if p.Limit != "month" || len(p.Limits) != 2 || p.Limits[1].Name != "day" || p.Limits[1].Asked != 1 ||
		!p.ResetAt.Equal(at) || p.RetryAfter != 3600 || p.Never {
		t.Errorf("%+v", p)
	}
	p = ProblemOf(&budget.Error{Code: budget.LimitExceeded, Limit: &budget.LimitState{Max: 5, Asked: 6},
		Never: true})
	if !p.Never || p.RetryAfter != 0 || p.WholeRetryAfter() != 0 || !p.ResetAt.IsZero() {
		t.Errorf("%+v", p)
	}
	p = ProblemOf(&budget.Error{Code: budget.BudgetNotEffective, StartAt: at, RetryAfter: time.Hour})
	if !p.StartAt.Equal(at) || p.RetryAfter != 3600 {
		t.Errorf("%+v", p)
	}
}

// TestProblemSaysWhy checks that an unavailable answer has its reason, a detail and a time to
// retry.
func TestProblemSaysWhy(t *testing.T) {
	for _, reason := range []budget.Reason{"", budget.ReasonOverloaded, budget.ReasonCollecting,
		budget.ReasonDatabaseDown, budget.ReasonStoreDown, budget.ReasonOffline} {
		p := ProblemOf(&budget.Error{Code: budget.Unavailable, Reason: reason})
		if p.Reason != reason || p.Detail == "" || p.RetryAfter <= 0 {
			t.Errorf("%q: %+v", reason, p)
		}
	}
	p := ProblemOf(&budget.Error{Code: budget.Unavailable, Message: "the disk is full",
		Reason: budget.ReasonDatabaseDown})
	if p.Detail != "the disk is full" {
		t.Errorf("%+v", p)
	}
}
