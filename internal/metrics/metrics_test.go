package metrics_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/metrics"
)

func TestMetrics(t *testing.T) {
	m := metrics.New("v1.2.3")
	m.Request("POST /v1/budgets/{budget}/deduct", 200, 3*time.Millisecond)
	m.Request("", 404, time.Millisecond)
	m.Deduction("", false)
	m.Deduction("", true)
	for _, code := range []budget.Code{budget.Invalid, budget.BudgetExhausted, budget.RequestConflict, budget.Unavailable,
		budget.OutcomeUnknown} {
		m.Deduction(code, false)
	}
	m.InFlight(7)
	m.LaneCall("redis-a", 128, 2*time.Millisecond)
	m.Commit(100, 2, 10, 20*time.Millisecond)
	m.Moved("apply", 500)
	m.Failed("sql", budget.Unavailable)
	m.Fenced()
	m.Discrepancies(0)

	server := httptest.NewServer(m.Handler())
	defer server.Close()
	answer, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`budgetd_build_info{go="go`, `version="v1.2.3"} 1`,
		`budgetd_http_request_duration_seconds_bucket{method="POST",route="/v1/budgets/{budget}/deduct",status="200",le="0.0025"} 0`,
		`budgetd_http_request_duration_seconds_bucket{method="POST",route="/v1/budgets/{budget}/deduct",status="200",le="0.005"} 1`,
		`budgetd_http_request_duration_seconds_count{method="none",route="none",status="404"} 1`,
		`budgetd_deductions_total{code="",outcome="accepted"} 1`, `budgetd_deductions_total{code="",outcome="replayed"} 1`,
		`budgetd_deductions_total{code="invalid",outcome="faulty"} 1`,
		`budgetd_deductions_total{code="budget_exhausted",outcome="refused"} 1`,
		`budgetd_deductions_total{code="request_conflict",outcome="conflict"} 1`,
		`budgetd_deductions_total{code="unavailable",outcome="unavailable"} 1`,
		`budgetd_deductions_total{code="outcome_unknown",outcome="unknown"} 1`,
		`budgetd_http_requests_in_flight 7`, `budgetd_lane_call_operations_sum{instance="redis-a"} 128`,
		`budgetd_commit_rows_sum 100`, `budgetd_duplicate_executions_total 2`, `budgetd_duplicate_units_returned_total 10`,
		`budgetd_moved_units_total{step="apply"} 500`, `budgetd_errors_total{code="unavailable",where="sql"} 1`,
		`budgetd_fenced_buckets_total 1`, `budgetd_audit_discrepancies_total 0`, `go_goroutines `,
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no %s", line)
		}
	}
	for _, line := range strings.Split(string(text), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "budgetd_") &&
			!strings.HasPrefix(line, "go_") && !strings.HasPrefix(line, "process_") && !strings.HasPrefix(line, "promhttp_") {
			t.Errorf("not ours: %s", line)
		}
	}
}
