package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/budgetd/budgetd/alert"
)

// alerts holds the metrics of thresholds and webhooks. It implements warn.Observer and
// webhook.Observer; package daemon checks that.
type alerts struct {
	evaluated *prometheus.CounterVec
	firing    *prometheus.GaugeVec
	passed    prometheus.Gauge
	attempts  *prometheus.CounterVec
	waiting   prometheus.Gauge
	oldest    prometheus.Gauge
}

// newAlerts registers the metrics with every value of their labels, so that rates begin at 0.
func (m *Metrics) newAlerts() alerts {
	a := alerts{
		evaluated: m.counters("alert_thresholds_evaluated_total",
			"Thresholds that this process compared with the figures of their budgets.", "kind"),
		firing: m.gauges("alerts_firing",
			"Alerts of all budgets that fire, as the last pass over all budgets found them.", "kind"),
		passed: m.gauge("alerts_evaluated_timestamp_seconds",
			"When this process last compared all budgets with their thresholds, in Unix time; "+
				"at first its start.", nil),
		attempts: m.counters("webhook_attempts_total",
			"Attempts to deliver a message, by the state of the delivery after it: pending is tried again.",
			"state"),
		waiting: m.gauge("webhook_outbox_deliveries",
			"Deliveries that wait for an attempt, counted up to 100000.", nil),
		oldest: m.gauge("webhook_outbox_age_seconds",
			"Age of the oldest message that waits to be delivered; 0 if none waits.", nil),
	}
	a.passed.SetToCurrentTime()
	for _, kind := range alert.Kinds() {
		a.evaluated.WithLabelValues(string(kind))
		a.firing.WithLabelValues(string(kind))
	}
	for _, state := range []alert.DeliveryState{alert.Pending, alert.Delivered, alert.Failed} {
		a.attempts.WithLabelValues(string(state))
	}
	return a
}

// AlertsEvaluated counts thresholds that were compared with figures.
func (a *alerts) AlertsEvaluated(thresholds map[alert.Kind]int) {
	for _, kind := range alert.Kinds() {
		a.evaluated.WithLabelValues(string(kind)).Add(float64(thresholds[kind]))
	}
}

// AlertsFiring sets the number of alerts that fire after a pass over all budgets.
func (a *alerts) AlertsFiring(alerts map[alert.Kind]int) {
	a.passed.SetToCurrentTime()
	for _, kind := range alert.Kinds() {
		a.firing.WithLabelValues(string(kind)).Set(float64(alerts[kind]))
	}
}

// WebhookAttempt counts an attempt to deliver a message.
func (a *alerts) WebhookAttempt(state alert.DeliveryState) {
	a.attempts.WithLabelValues(string(state)).Inc()
}

// WebhooksWaiting sets what waits in the outbox.
func (a *alerts) WebhooksWaiting(n int, oldest time.Duration) {
	a.waiting.Set(float64(n))
	a.oldest.Set(oldest.Seconds())
}
