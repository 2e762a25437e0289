package metrics_test

import (
	"io"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/ledger"
)

// everything reports one of each event to m, except those of requests and partitions.
func everything(m *metrics.Metrics) {
	m.Unfinished("grants", 3)
	m.Lag(bucket.Partition{Instance: "redis-a", Index: 2}, 1500*time.Millisecond)
	m.Discrepancies(3, 5)
	m.Stranded(77, 0, 55)
	m.AlertsEvaluated(map[alert.Kind]int{alert.UsedShare: 5, "unheard of": 9})
	m.AlertsEvaluated(map[alert.Kind]int{alert.UsedShare: 2, alert.Quarantine: 1})
	m.AlertsFiring(map[alert.Kind]int{alert.Exhausted: 9, alert.Projected: 1})
	m.AlertsFiring(map[alert.Kind]int{alert.Exhausted: 2})
	m.WebhookAttempt(alert.Pending)
	m.WebhookAttempt(alert.Delivered)
	m.WebhookAttempt(alert.Delivered)
	m.WebhooksWaiting(8, 1500*time.Millisecond)
	m.HoldsOpen(12)
	m.HoldsExpired(4)
	m.HoldsExpired(3)
	m.Budgets([]bucket.BudgetFigures{{Tenant: "default", Name: "spring",
		Remaining: 25, Figures: ledger.Figures{Total: 100, Unfunded: 45, Undistributed: 15, InBuckets: 10, Used: 30, Held: 6}}},
		bucket.BudgetFigures{Remaining: 37, Figures: ledger.Figures{Total: 150, Unfunded: 50, Undistributed: 46, InBuckets: 17,
			Used: 30, Held: 8, Returning: 1, Unsettled: 2, Quarantined: 4}})
}

// TestLint checks names, units and help texts by the rules of Prometheus.
func TestLint(t *testing.T) {
	m := metrics.New("v1.2.3")
	m.Request("POST /v1/budgets/{budget}/deduct", 200, 3*time.Millisecond, "")
	m.Failed("sql", budget.Unavailable)
	m.PartitionCall(t.Context(), bucket.Partition{Instance: "redis-a", Index: 2}, 128, 2*time.Millisecond)
	everything(m)
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	for _, f := range families {
		if strings.TrimSpace(f.GetHelp()) == "" {
			t.Errorf("%s has no help text", f.GetName())
		}
	}
	if len(families) < 30 {
		t.Errorf("only %d families were checked", len(families))
	}
	promtool(t, scrape(t, m), "check", "metrics")
}

// promised maps the figures that the contract promises to their metrics.
var promised = map[string]string{
	"deductions by outcome and code": "deductions_total", "latency per route": "http_request_duration_seconds",
	"batch sizes per partition": "partition_call_operations", "rows per commit": "commit_rows",
	"applies, offlines, grants pending": "unfinished", "drain lag": "sync_lag_seconds",
	"at-risk units": "at_risk_units", "quarantined units": "quarantined_units",
	"remaining per budget": "budget_remaining_units", "used per budget": "budget_used_units",
	"recycle runs": "moves_total", "recycled units": "moved_units_total", "stranded units": "stranded_units",
	"audit discrepancies": "audit_discrepancies", "conservation gap": "conservation_gap_units",
	"store and SQL errors": "errors_total", "holds open": "holds_open", "holds expired": "holds_expired_total",
	"thresholds evaluated": "alert_thresholds_evaluated_total", "alerts firing": "alerts_firing",
	"deliveries by result": "webhook_attempts_total", "outbox size": "webhook_outbox_deliveries",
	"outbox age": "webhook_outbox_age_seconds",
}

// bounds names the bounded set that each label's values come from. No value comes from callers.
var bounds = map[string]string{
	"outcome": "accepted, replayed, and one per kind of error", "code": "the error codes", "method": "the routes",
	"route": "the routes", "status": "HTTP", "store": "instances", "partition": "instances[].partitions", "where": "store, sql",
	"step": "the steps", "kind": "what can be half done, alert.Kinds", "state": "alert.DeliveryState", "tenant": "metrics.budgets", "budget": "metrics.budgets",
	"version": "one", "go": "one",
}

// TestContract checks that every promised metric exists, and that each metric has bounded labels
// and a line in the table of docs/OPERATIONS.md.
func TestContract(t *testing.T) {
	labels := known(t)
	for what, name := range promised {
		if labels["budgetd_"+name] == nil {
			t.Errorf("%s: there is no budgetd_%s", what, name)
		}
	}
	documented := read(t, runbook)
	for name, of := range labels {
		short, ours := strings.CutPrefix(name, "budgetd_")
		if !ours || strings.HasSuffix(name, "_bucket") { // the histogram is in the table
			continue
		}
		_, suffix, _ := strings.Cut(short, "_")
		if !strings.Contains(documented, name) && !strings.Contains(documented, "`_"+suffix+"`") {
			t.Errorf("%s is not in %s", name, runbook)
		}
		for label := range of {
			if bounds[label] == "" {
				t.Errorf("%s: bounds has no entry for its label %s", name, label)
			}
		}
	}
}

// promtool runs Prometheus's own tool with a text as its input, and fails the test if the tool
// does.
func promtool(t *testing.T, text string, args ...string) {
	t.Helper()
	command := exec.Command("promtool", args...)
	command.Stdin = strings.NewReader(text)
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func scrape(t *testing.T, m *metrics.Metrics) string {
	t.Helper()
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
	return string(text)
}

func TestMetrics(t *testing.T) {
	m := metrics.New("v1.2.3")
	m.Request("POST /v1/budgets/{budget}/deduct", 200, 3*time.Millisecond, "")
	m.Request("", 404, time.Millisecond, "")
	m.Deduction("", false, "")
	m.Deduction("", true, "")
	for _, code := range []budget.Code{budget.Invalid, budget.BudgetExhausted, budget.PeriodExhausted, budget.RequestConflict,
		budget.Unavailable, budget.OutcomeUnknown} {
		m.Deduction(code, false, "")
	}
	m.InFlight(7)
	m.PartitionCall(t.Context(), bucket.Partition{Instance: "redis-a", Index: 2}, 128, 2*time.Millisecond)
	m.Commit(t.Context(), 100, 20*time.Millisecond)
	m.Moved("apply", 500)
	m.Failed("sql", budget.Unavailable)
	m.Halted()
	everything(m)

	text := scrape(t, m)
	for _, line := range []string{
		`budgetd_build_info{go="go`, `version="v1.2.3"} 1`,
		`budgetd_http_request_duration_seconds_bucket{method="POST",route="/v1/budgets/{budget}/deduct",status="200",le="0.0025"} 0`,
		`budgetd_http_request_duration_seconds_bucket{method="POST",route="/v1/budgets/{budget}/deduct",status="200",le="0.005"} 1`,
		`budgetd_http_request_duration_seconds_count{method="none",route="none",status="404"} 1`,
		`budgetd_deductions_total{code="",outcome="accepted"} 1`, `budgetd_deductions_total{code="",outcome="replayed"} 1`,
		`budgetd_deductions_total{code="invalid",outcome="faulty"} 1`,
		`budgetd_deductions_total{code="budget_exhausted",outcome="refused"} 1`,
		`budgetd_deductions_total{code="period_exhausted",outcome="refused"} 1`,
		`budgetd_deductions_total{code="request_conflict",outcome="conflict"} 1`,
		`budgetd_deductions_total{code="unavailable",outcome="unavailable"} 1`,
		`budgetd_deductions_total{code="outcome_unknown",outcome="unknown"} 1`,
		`budgetd_http_requests_in_flight 7`, `budgetd_partition_call_operations_sum{partition="2",store="redis-a"} 128`,
		`budgetd_holds_open 12`, `budgetd_holds_expired_total 7`,
		`budgetd_budget_held_units{budget="spring",tenant="default"} 6`, `budgetd_budget_held_units{budget="(other)",tenant=""} 2`,
		`budgetd_moved_units_total{step="apply"} 500`, `budgetd_errors_total{code="unavailable",where="sql"} 1`,
		`budgetd_alert_thresholds_evaluated_total{kind="used_share"} 7`,
		`budgetd_alert_thresholds_evaluated_total{kind="quarantine"} 1`,
		`budgetd_alert_thresholds_evaluated_total{kind="stranded_share"} 0`,
		`budgetd_alerts_firing{kind="exhausted"} 2`, `budgetd_alerts_firing{kind="projected"} 0`,
		`budgetd_webhook_attempts_total{state="delivered"} 2`, `budgetd_webhook_attempts_total{state="pending"} 1`,
		`budgetd_webhook_attempts_total{state="failed"} 0`,
		`budgetd_webhook_outbox_deliveries 8`, `budgetd_webhook_outbox_age_seconds 1.5`,
		`budgetd_audit_discrepancies 3`, `budgetd_conservation_gap_units 5`, `budgetd_stranded_units 77`,
		`budgetd_moves_total{step="apply"} 1`, `budgetd_moves_total{step="release"} 0`,
		`budgetd_budget_total_units{budget="spring",tenant="default"} 100`,
		`budgetd_budget_used_units{budget="spring",tenant="default"} 30`,
		`budgetd_budget_undistributed_units{budget="spring",tenant="default"} 15`,
		`budgetd_budget_not_funded_units{budget="spring",tenant="default"} 45`,
		`budgetd_budget_undistributed_units{budget="(other)",tenant=""} 31`,
		`budgetd_budget_not_funded_units{budget="(other)",tenant=""} 5`,
		`budgetd_budget_in_buckets_units{budget="(other)",tenant=""} 7`,
		`budgetd_budget_remaining_units{budget="spring",tenant="default"} 25`,
		`budgetd_budget_remaining_units{budget="(other)",tenant=""} 12`,
		`budgetd_budget_in_transit_units{budget="(other)",tenant=""} 3`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the metrics lack %s", line)
		}
	}
	if strings.Contains(text, "unheard of") {
		t.Error("an unknown kind of alert has a series")
	}
	for _, line := range strings.Split(text, "\n") {
		if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "budgetd_") &&
			!strings.HasPrefix(line, "go_") && !strings.HasPrefix(line, "process_") && !strings.HasPrefix(line, "promhttp_") {
			t.Errorf("an unexpected metric: %s", line)
		}
	}
}

// BenchmarkObserved measures the metrics of one deduction.
func BenchmarkObserved(b *testing.B) {
	m := metrics.New("test")
	b.ReportAllocs()
	for b.Loop() {
		m.InFlight(1)
		m.Deduction("", false, "")
		m.Request("POST /v1/budgets/{budget}/deduct", 200, time.Millisecond, "")
		m.InFlight(0)
	}
}
