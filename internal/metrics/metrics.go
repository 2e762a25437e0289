// Package metrics counts for Prometheus what the HTTP interface and the service tell it. Names start
// with budgetd_, quantities are base units (seconds, minor units), and no label takes its values
// from callers.
package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Metrics is the one observer of a process. Safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	deductions    *prometheus.CounterVec
	requests      *prometheus.HistogramVec
	inFlight      prometheus.Gauge
	laneCalls     *prometheus.HistogramVec
	laneBatches   *prometheus.HistogramVec
	commits       prometheus.Observer
	commitRows    prometheus.Observer
	duplicates    prometheus.Counter
	returned      prometheus.Counter
	moved         *prometheus.CounterVec
	failures      *prometheus.CounterVec
	fenced        prometheus.Counter
	discrepancies prometheus.Counter
	unfinished    *prometheus.GaugeVec
	lag           *prometheus.GaugeVec
}

var _ bucket.Observer = (*Metrics)(nil) // and httpapi.Observer, as package daemon relies on

const namespace = "budgetd"

// Buckets of the histograms: half a millisecond to ten seconds, and 1 to 4,096.
var (
	seconds = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	counts  = prometheus.ExponentialBuckets(1, 2, 13)
)

// New makes the metrics of a process that runs this version of budgetd.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))

	m.gauge("build_info", "Always 1; the labels say what runs.",
		prometheus.Labels{"version": version, "go": runtime.Version()}).Set(1)
	m.deductions = m.counters("deductions_total",
		"Deductions by what became of them; code is empty for accepted ones.", "outcome", "code")
	m.requests = m.histograms("http_request_duration_seconds",
		"Time until an HTTP request was answered.", seconds, "method", "route", "status")
	m.inFlight = m.gauge("http_requests_in_flight", "HTTP requests being answered.", nil)
	m.laneCalls = m.histograms("lane_call_duration_seconds",
		"Time of one call of a store.", seconds, "instance")
	m.laneBatches = m.histograms("lane_call_operations",
		"Operations in one call of a store.", counts, "instance")
	m.commits = m.histograms("commit_duration_seconds",
		"Time of one transaction of the ledger.", seconds).WithLabelValues()
	m.commitRows = m.histograms("commit_rows",
		"Ledger rows in one transaction.", counts).WithLabelValues()
	m.duplicates = m.counters("duplicate_executions_total",
		"Deductions that a store made again; their units were returned.").WithLabelValues()
	m.returned = m.counters("duplicate_units_returned_total",
		"Minor units that duplicates gave back.").WithLabelValues()
	m.moved = m.counters("moved_units_total",
		"Minor units moved between total and buckets, by step.", "step")
	m.failures = m.counters("errors_total", "Calls of stores and of SQL that failed.", "where", "code")
	m.fenced = m.counters("fenced_buckets_total",
		"Buckets that were stopped because log and ledger disagree.").WithLabelValues()
	m.discrepancies = m.counters("audit_discrepancies_total",
		"Figures that did not agree in an audit; must stay 0.").WithLabelValues()
	m.unfinished = m.gauges("unfinished",
		"What was found half done at the last look: epochs, grants, shrinks, fenced, returning.", "kind")
	m.lag = m.gauges("log_lag_entries",
		"Log entries that were not in the ledger at the last look.", "instance", "lane")
	m.deductions.WithLabelValues("accepted", "") // there from the start, so that rates begin at 0
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

// Handler answers /metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry,
		promhttp.HandlerOpts{Registry: m.registry, MaxRequestsInFlight: 4})
}

// Request counts an answered HTTP request.
func (m *Metrics) Request(pattern string, status int, took time.Duration) {
	method, route, found := strings.Cut(pattern, " ")
	if !found {
		method, route = "none", "none"
	}
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Observe(took.Seconds())
}

// Deduction counts a deduction by what its code means for the caller.
func (m *Metrics) Deduction(code budget.Code, replayed bool) {
	m.deductions.WithLabelValues(outcomeOf(code, replayed), string(code)).Inc()
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

// InFlight notes how many HTTP requests are being answered.
func (m *Metrics) InFlight(requests int64) { m.inFlight.Set(float64(requests)) }

// LaneCall notes one call of a lane.
func (m *Metrics) LaneCall(instance string, operations int, took time.Duration) {
	m.laneCalls.WithLabelValues(instance).Observe(took.Seconds())
	m.laneBatches.WithLabelValues(instance).Observe(float64(operations))
}

// Commit notes one transaction of the ledger.
func (m *Metrics) Commit(rows, duplicates int, returned int64, took time.Duration) {
	m.commits.Observe(took.Seconds())
	m.commitRows.Observe(float64(rows))
	m.duplicates.Add(float64(duplicates))
	m.returned.Add(float64(returned))
}

// Moved counts units that a step moved.
func (m *Metrics) Moved(step string, units int64) {
	m.moved.WithLabelValues(step).Add(float64(max(units, 0)))
}

// Failed counts a call of a store or of SQL that failed.
func (m *Metrics) Failed(where string, code budget.Code) {
	m.failures.WithLabelValues(where, string(code)).Inc()
}

// Fenced counts a bucket that was fenced.
func (m *Metrics) Fenced() { m.fenced.Inc() }

// Discrepancies counts what an audit found.
func (m *Metrics) Discrepancies(n int) { m.discrepancies.Add(float64(n)) }

// Unfinished notes how much of a kind was found half done.
func (m *Metrics) Unfinished(kind string, n int) { m.unfinished.WithLabelValues(kind).Set(float64(n)) }

// Lag notes how far the ledger was behind the logs of a lane.
func (m *Metrics) Lag(lane bucket.Lane, entries int64) {
	m.lag.WithLabelValues(lane.Instance, strconv.Itoa(lane.Index)).Set(float64(entries))
}
