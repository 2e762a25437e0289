// Package metrics exports the counts of the HTTP interface and the service to Prometheus. Names
// start with budgetd_, quantities are base units (seconds, minor units), and no label takes its
// values from callers, except for the names of a bounded number of budgets.
package metrics

import (
	"context"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Metrics observes a process and exports what it counts. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	deductions       *prometheus.CounterVec
	requests         *prometheus.HistogramVec
	inFlight         prometheus.Gauge
	partitionCalls   *prometheus.HistogramVec
	partitionBatches *prometheus.HistogramVec
	commits          prometheus.Observer
	commitRows       prometheus.Observer
	moved            *prometheus.CounterVec
	failures         *prometheus.CounterVec
	halted           prometheus.Counter
	discrepancies    prometheus.Gauge
	gap              prometheus.Gauge
	stranded         prometheus.Gauge
	recyclable       prometheus.Gauge
	holdsOpen        prometheus.Gauge
	holdsExpired     prometheus.Counter
	atRisk           prometheus.Gauge
	moves            *prometheus.CounterVec
	unfinished       *prometheus.GaugeVec
	lag              *prometheus.GaugeVec
	scripts          *prometheus.GaugeVec
	budgets          *budgets
	alerts

	byRequest   children[requestLabels, prometheus.Observer]
	byOutcome   children[outcomeLabels, prometheus.Counter]
	byPartition children[bucket.Partition, partitionObservers]
}

// The keys of cached requests and deductions, and what is cached of a partition.
type (
	requestLabels struct {
		pattern string
		status  int
	}
	outcomeLabels struct {
		code     budget.Code
		replayed bool
	}
	partitionObservers struct{ calls, operations prometheus.Observer }
)

var _ bucket.Observer = (*Metrics)(nil) // and httpapi.Observer; package daemon checks that

const namespace = "budgetd"

// Buckets of the histograms: half a millisecond to ten seconds, and 1 to 4,096.
var (
	seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	counts  = prometheus.ExponentialBuckets(1, 2, 13)
)

// New returns the metrics of a process that runs this version of budgetd.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.gauge("build_info", "Always 1; the labels say what runs.",
		prometheus.Labels{"version": version, "go": runtime.Version()}).Set(1)
	m.deductions = m.counters("deductions_total",
		"Deductions by outcome; code is empty for accepted ones.", "outcome", "code")
	m.requests = m.histograms("http_request_duration_seconds",
		"Time until an HTTP request was answered.", seconds, "method", "route", "status")
	m.inFlight = m.gauge("http_requests_in_flight", "HTTP requests being answered.", nil)
	m.partitionCalls = m.histograms("partition_call_duration_seconds",
		"Time of one call of a partition.", seconds, "store", "partition")
	m.partitionBatches = m.histograms("partition_call_operations",
		"Operations in one call of a partition.", counts, "store", "partition")
	m.commits = m.histograms("commit_duration_seconds",
		"Time of one transaction of the ledger.", seconds).WithLabelValues()
	m.commitRows = m.histograms("commit_rows",
		"Ledger rows in one transaction.", counts).WithLabelValues()
	m.moved = m.counters("moved_units_total",
		"Minor units moved between total and buckets, by step.", "step")
	m.failures = m.counters("errors_total", "Calls of stores and of SQL that failed.", "where", "code")
	m.halted = m.counters("halted_buckets_total",
		"Buckets that were halted because their figures disagree.").WithLabelValues()
	m.discrepancies = m.gauge("audit_discrepancies",
		"Figures that differ from the sum of their rows; must stay 0.", nil)
	m.gap = m.gauge("conservation_gap_units",
		"Minor units by which figures differ from the sum of their rows; must stay 0.", nil)
	m.stranded = m.gauge("stranded_units",
		"Minor units in buckets that are halted or that this process cannot reach.", nil)
	m.recyclable = m.gauge("recycle_stranded_units",
		"Minor units in buckets with little demand; a recycle moves them.", nil)
	m.holdsOpen = m.gauge("holds_open", "Open holds of all budgets, counted up to 100000.", nil)
	m.holdsExpired = m.counters("holds_expired_total",
		"Holds whose time was over, and whose units this process returned.").WithLabelValues()
	m.atRisk = m.gauge("at_risk_units",
		"Minor units that a loss of every store would quarantine (store mode).", nil)
	m.moves = m.counters("moves_total",
		"Steps that moved units: apply, distribute, recycle, sweep, expire, lose, release.", "step")
	m.scripts = m.gauges("store_scripts",
		"Scripts that the server of a partition keeps; it must not grow.", "store", "partition")
	m.alerts = m.newAlerts()
	m.budgets = newBudgets()
	m.registry.MustRegister(m.budgets)
	m.unfinished = m.gauges("unfinished",
		"Unfinished work at the last pass: epochs, grants, shrinks, halted, returning.", "kind")
	m.lag = m.gauges("sync_lag_seconds",
		"Time since a partition was last synced (store mode).", "store", "partition")
	for _, step := range []string{"apply", "distribute", "recycle", "sweep", "expire", "lose",
		"release"} {
		m.moves.WithLabelValues(step)
		m.moved.WithLabelValues(step)
	}
	m.deductions.WithLabelValues("accepted", "") // so that rates begin at 0
	return m
}

func (m *Metrics) gauge(name, help string, labels prometheus.Labels) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: name, Help: help, ConstLabels: labels})
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histograms(name, help string, buckets []float64,
	labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

// Handler returns the handler of /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry,
		promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: 4,
			EnableOpenMetrics: true}) // exemplars need this format
}

// Request counts an answered HTTP request.
func (m *Metrics) Request(pattern string, status int, took time.Duration, trace string) {
	observe(m.byRequest.of(requestLabels{pattern, status}, func() prometheus.Observer {
		method, route, found := strings.Cut(pattern, " ")
		if !found {
			method, route = "none", "none"
		}
		return m.requests.WithLabelValues(method, route, strconv.Itoa(status))
	}), took, trace)
}

// observe adds a duration to a histogram, with its trace, if any, as an exemplar.
func observe(in prometheus.Observer, took time.Duration, trace string) {
	if of, can := in.(prometheus.ExemplarObserver); can && trace != "" {
		of.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	in.Observe(took.Seconds())
}

// traceOf returns the id of the trace of a call if it is sampled, else "".
func traceOf(ctx context.Context) string {
	if c := trace.SpanContextFromContext(ctx); c.IsSampled() {
		return c.TraceID().String()
	}
	return ""
}

// Deduction counts a deduction by the kind of its code, with its trace, if any, as an exemplar.
func (m *Metrics) Deduction(code budget.Code, replayed bool, trace string) {
	of := m.byOutcome.of(outcomeLabels{code, replayed}, func() prometheus.Counter {
		return m.deductions.WithLabelValues(outcomeOf(code, replayed), string(code))
	})
	if adder, can := of.(prometheus.ExemplarAdder); can && trace != "" {
		adder.AddWithExemplar(1, prometheus.Labels{"trace_id": trace})
		return
	}
	of.Inc()
}

func outcomeOf(code budget.Code, replayed bool) string {
	switch {
	case code == "" && replayed:
		return "replayed"
	case code == "":
		return "accepted"
	}
	switch code.Kind() {
	case budget.Faulty:
		return "faulty"
	case budget.Refused:
		return "refused"
	case budget.Conflict:
		return "conflict"
	case budget.NotDone:
		return "unavailable"
	default:
		return "unknown"
	}
}

// InFlight sets the number of HTTP requests in progress.
func (m *Metrics) InFlight(requests int64) { m.inFlight.Set(float64(requests)) }

// PartitionCall records one call of a partition.
func (m *Metrics) PartitionCall(ctx context.Context, partition bucket.Partition, operations int,
	took time.Duration) {
	of := m.byPartition.of(partition, func() partitionObservers {
		index := strconv.Itoa(partition.Index)
		return partitionObservers{m.partitionCalls.WithLabelValues(partition.Instance, index),
			m.partitionBatches.WithLabelValues(partition.Instance, index)}
	})
	observe(of.calls, took, traceOf(ctx))
	of.operations.Observe(float64(operations))
}

// Commit records one flight.
func (m *Metrics) Commit(ctx context.Context, rows int, took time.Duration) {
	observe(m.commits, took, traceOf(ctx))
	m.commitRows.Observe(float64(rows))
}

// Moved counts a step and the units that it moved.
func (m *Metrics) Moved(step string, units int64) {
	m.moves.WithLabelValues(step).Inc()
	m.moved.WithLabelValues(step).Add(float64(max(units, 0)))
}

// Failed counts a failed call of a store or of SQL.
func (m *Metrics) Failed(where string, code budget.Code) {
	m.failures.WithLabelValues(where, string(code)).Inc()
}

// Halted counts a bucket that was halted.
func (m *Metrics) Halted() { m.halted.Inc() }

// Unfinished sets the amount of unfinished work of a kind.
func (m *Metrics) Unfinished(kind string, n int) {
	m.unfinished.WithLabelValues(kind).Set(float64(n))
}

// Discrepancies sets the number of known discrepancies and the units by which they differ in sum.
func (m *Metrics) Discrepancies(discrepancies int, gap int64) {
	m.discrepancies.Set(float64(discrepancies))
	m.gap.Set(float64(gap))
}

// Budgets sets the figures of the largest budgets, and the sums over all.
func (m *Metrics) Budgets(largest []bucket.BudgetFigures, all bucket.BudgetFigures) {
	m.budgets.latest.Store(&figures{largest, all})
}

// Stranded sets the units that are out of reach, those that a recycle would move, and those that a
// loss of every store would quarantine.
func (m *Metrics) Stranded(unreachable, recyclable, atRisk int64) {
	m.stranded.Set(float64(unreachable))
	m.recyclable.Set(float64(recyclable))
	m.atRisk.Set(float64(atRisk))
}

// Scripts sets the number of scripts that the server of a partition keeps.
func (m *Metrics) Scripts(partition bucket.Partition, n int) {
	m.scripts.WithLabelValues(partition.Instance, strconv.Itoa(partition.Index)).Set(float64(n))
}

// HoldsExpired counts holds that this node expired.
func (m *Metrics) HoldsExpired(n int) { m.holdsExpired.Add(float64(n)) }

// HoldsOpen sets the number of open holds of all budgets.
func (m *Metrics) HoldsOpen(n int) { m.holdsOpen.Set(float64(n)) }

// Lag sets the time since a partition was last synced.
func (m *Metrics) Lag(partition bucket.Partition, age time.Duration) {
	m.lag.WithLabelValues(partition.Instance, strconv.Itoa(partition.Index)).Set(age.Seconds())
}
