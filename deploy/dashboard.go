// Package deploy holds the files for monitoring systems: rules for Prometheus, and a dashboard for
// Grafana, which Dashboard generates.
package deploy

import (
	"bytes"
	"encoding/json"
	"strings"
)

// panel is one panel of the dashboard. Its unit is one of Grafana's.
type panel struct {
	title, help, kind, unit string
	queries                 []query
}

// query is a PromQL expression and the legend of its series.
type query struct{ expr, legend string }

// row is a titled row of panels. A gauge describes the installation, so panels show its maximum
// over the nodes. A counter belongs to a node, so they show the sum.
type row struct {
	title  string
	panels []panel
}

// stat returns a panel with one figure that is green at 0 and red above.
func stat(title, help, expr string) panel {
	return panel{title, help, "stat", "locale", []query{{expr, ""}}}
}

// lines returns a panel with a line for each series.
func lines(title, help, unit string, queries ...query) panel {
	return panel{title, help, "timeseries", unit, queries}
}

// quantiles returns the median and the 99th percentile of a histogram, by labels.
func quantiles(histogram, by, legend string) []query {
	of := func(q string) string {
		return "histogram_quantile(" + q + ", sum by (le" + by + ") (rate(" + histogram +
			"_bucket[$__rate_interval])))"
	}
	return []query{{of("0.5"), legend + "p50"}, {of("0.99"), legend + "p99"}}
}

// perSecond returns the rate of a counter, summed by labels.
func perSecond(counter, by, legend string) query {
	return query{"sum by (" + by + ") (rate(" + counter + "[$__rate_interval]))", legend}
}

// most returns the maximum of a gauge over the nodes.
func most(gauge, by, legend string) query {
	return query{"max by (" + by + ") (" + gauge + ")", legend}
}

const ofBudgets = `{budget=~"$budget"}`

// rows is the dashboard, beginning with the question that is asked first.
var rows = []row{
	{"Is every unit accounted for?", []panel{
		stat("Discrepancies", "Figures that differ from the sum of their rows. Must stay 0.",
			"max(budgetd_audit_discrepancies)"),
		stat("Conservation gap", "Minor units by which figures differ. Must stay 0.",
			"max(budgetd_conservation_gap_units)"),
		stat("Halted buckets", "Buckets that are stopped until an operator decides.",
			`max(budgetd_unfinished{kind="halted"})`),
		stat("Quarantined units", "Units of lost buckets that wait for an operator.",
			"max(budgetd_quarantined_units)"),
		stat("Stranded units", "Units in buckets that are halted or out of reach.",
			"max(budgetd_stranded_units)"),
		stat("At-risk units", "Units that a loss of every store would quarantine.",
			"max(budgetd_at_risk_units)"),
	}},
	{"What are callers answered?", []panel{
		lines("Deductions by outcome", "unavailable and unknown had to be repeated.", "ops",
			perSecond("budgetd_deductions_total", "outcome", "{{outcome}}")),
		lines("Refusals by code", "Why deductions were refused.", "ops",
			perSecond(`budgetd_deductions_total{outcome="refused"}`, "code", "{{code}}")),
		lines("Latency of deduct", "Until the answer was ready.", "s",
			quantiles(`budgetd_http_request_duration_seconds`, ", route", "{{route}} ")...),
		lines("HTTP requests by status", "All routes.", "reqps",
			perSecond("budgetd_http_request_duration_seconds_count", "status", "{{status}}")),
		lines("HTTP requests in flight", "By node.", "short",
			query{"budgetd_http_requests_in_flight", "{{instance}}"}),
		lines("Failed calls of stores and SQL", "A failing store concerns store mode only.",
			"ops", perSecond("budgetd_errors_total", "where, code", "{{where}} {{code}}")),
	}},
	{"Flights and stores", []panel{
		lines("Time of a flight", "One transaction of the ledger.", "s",
			quantiles("budgetd_commit_duration_seconds", "", "")...),
		lines("Rows per flight", "Many callers share one transaction.", "short",
			quantiles("budgetd_commit_rows", "", "")...),
		lines("Time of a store's call", "By store.", "s",
			quantiles("budgetd_partition_call_duration_seconds", ", store", "{{store}} ")...),
		lines("Operations per store's call", "By store.", "short",
			quantiles("budgetd_partition_call_operations", ", store", "{{store}} ")...),
		lines("Sync lag", "Time since SQL last heard of a partition (store mode).", "s",
			most("budgetd_sync_lag_seconds", "store, partition", "{{store}}/{{partition}}")),
	}},
	{"Units", []panel{
		lines("Remaining by budget", "What deductions can take now, minor units.", "locale",
			most("budgetd_budget_remaining_units"+ofBudgets, "tenant, budget", "{{budget}}")),
		lines("Used share by budget", "Of the total.", "percentunit",
			query{"max by (tenant, budget) (budgetd_budget_used_units" + ofBudgets +
				" / (budgetd_budget_total_units" + ofBudgets + " > 0))", "{{budget}}"}),
		lines("Held by budget", "Neither used nor free, minor units.", "locale",
			most("budgetd_budget_held_units"+ofBudgets, "tenant, budget", "{{budget}}")),
		lines("Moved units by step", "Between total and buckets, minor units a second.", "locale",
			perSecond("budgetd_moved_units_total", "step", "{{step}}")),
		lines("Unfinished work", "Short peaks are normal.", "short",
			most("budgetd_unfinished", "kind", "{{kind}}")),
		lines("Holds", "Open holds, and those that expired.", "short",
			query{"max(budgetd_holds_open)", "open"},
			query{"sum(rate(budgetd_holds_expired_total[$__rate_interval]))", "expired per second"}),
	}},
	{"Alerts", []panel{
		lines("Alerts that fire", "By kind of threshold.", "short",
			most("budgetd_alerts_firing", "kind", "{{kind}}")),
		lines("Evaluated thresholds", "By kind. At 0 no alert would fire.", "ops",
			perSecond("budgetd_alert_thresholds_evaluated_total", "kind", "{{kind}}")),
		lines("Attempts to deliver", "A pending delivery is tried again, a failed one is not.", "ops",
			perSecond("budgetd_webhook_attempts_total", "state", "{{state}}")),
		lines("Deliveries that wait", "In the outbox.", "short",
			query{"max(budgetd_webhook_outbox_deliveries)", "waiting"}),
		lines("Oldest message that waits", "Since it was written.", "s",
			query{"max(budgetd_webhook_outbox_age_seconds)", "age"}),
	}},
	{"Processes", []panel{
		lines("Processor time", "Of one core, by node.", "percentunit",
			query{`rate(process_cpu_seconds_total{job=~".*budgetd.*"}[$__rate_interval])`, "{{instance}}"}),
		lines("Memory", "Resident, by node.", "bytes",
			query{`process_resident_memory_bytes{job=~".*budgetd.*"}`, "{{instance}}"}),
		lines("Versions", "Number of nodes by version.", "short",
			query{"count by (version) (budgetd_build_info)", "{{version}}"}),
	}},
}

// object is a JSON object.
type object = map[string]any

// Dashboard returns the dashboard as JSON that Grafana imports.
func Dashboard() []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(object{
		"title": "budgetd", "uid": "budgetd", "tags": []string{"budgetd"}, "schemaVersion": 39,
		"refresh": "10s", "time": object{"from": "now-1h", "to": "now"}, "editable": true,
		"templating": object{"list": []object{
			{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
			{"name": "budget", "type": "query", "label": "Budget", "multi": true, "includeAll": true,
				"allValue": ".*", "refresh": 2, "datasource": source,
				"current": object{"text": "All", "value": "$__all"},
				"query":   "label_values(budgetd_budget_total_units, budget)"},
		}},
		"panels": panels(),
	}); err != nil {
		panic(err) // maps of texts and numbers always have a JSON form
	}
	return out.Bytes()
}

var source = object{"type": "prometheus", "uid": "${datasource}"}

// panels places the rows on Grafana's grid, which has 24 columns.
func panels() (out []object) {
	y := 0
	add := func(p object, x, w, h int) {
		p["id"], p["gridPos"] = len(out)+1, object{"x": x, "y": y, "w": w, "h": h}
		out = append(out, p)
	}
	for _, r := range rows {
		add(object{"type": "row", "title": r.title, "panels": []object{}}, 0, 24, 1)
		y++
		width, height := 8, 8
		if r.panels[0].kind == "stat" {
			width, height = 4, 4
		}
		for i, p := range r.panels {
			add(p.object(), i*width%24, width, height)
			if (i+1)*width%24 == 0 || i == len(r.panels)-1 {
				y += height
			}
		}
	}
	return out
}

func (p *panel) object() object {
	targets := make([]object, len(p.queries))
	for i, q := range p.queries {
		targets[i] = object{"refId": string(rune('A' + i)), "expr": q.expr, "legendFormat": q.legend,
			"datasource": source,
			"exemplar":   p.unit == "s" || strings.Contains(q.expr, "budgetd_deductions_total")}
	}
	defaults := object{"unit": p.unit, "min": 0}
	if p.kind == "stat" {
		defaults["thresholds"] = object{"mode": "absolute", "steps": []object{
			{"color": "green", "value": nil}, {"color": "red", "value": 1}}}
	}
	return object{"type": p.kind, "title": p.title, "description": p.help, "datasource": source,
		"targets": targets, "fieldConfig": object{"defaults": defaults, "overrides": []object{}}}
}
