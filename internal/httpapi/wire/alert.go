package wire

import (
	"time"

	"github.com/budgetd/budgetd/alert"
)

type thresholdsView struct {
	Thresholds []alert.Threshold `json:"thresholds"`
	// Own is false for the defaults.
	Own bool `json:"own"`
}

// ThresholdsOf returns the JSON form of a budget's thresholds.
func ThresholdsOf(list []alert.Threshold, own bool) any {
	return &thresholdsView{append([]alert.Threshold{}, list...), own}
}

// Alert is the JSON form of an alert. Quantities are in minor units, at the time when it fired.
type Alert struct {
	ID        int64  `json:"id"`
	State     string `json:"state"`
	Tenant    string `json:"tenant"`
	Budget    string `json:"budget"`
	Threshold string `json:"threshold"`
	Period    int64  `json:"period,omitzero"`
	Episode   int64  `json:"episode"`
	// ToldBy is the alert whose message lists this one; absent if it had its own message.
	ToldBy     int64        `json:"told_by,omitzero"`
	Total      int64        `json:"total"`
	Spent      int64        `json:"spent"`
	Left       int64        `json:"left"`
	FiredAt    time.Time    `json:"fired_at"`
	ResolvedAt time.Time    `json:"resolved_at,omitzero"`
	Reason     alert.Reason `json:"reason,omitzero"`
}

// AlertPage is a part of the list of alerts.
type AlertPage struct {
	Alerts        []Alert `json:"alerts"`
	NextPageToken string  `json:"next_page_token,omitzero"`
}

// Add appends an alert to a page.
func (p *AlertPage) Add(v *alert.View) {
	out := Alert{ID: v.ID, State: alert.StateResolved, Tenant: v.Tenant, Budget: v.Name,
		Threshold: v.Threshold, Period: v.Period, Episode: v.Episode, Total: v.Units.Total,
		Spent: v.Units.Spent, Left: v.Units.Left, FiredAt: InUTC(v.FiredAt),
		ResolvedAt: InUTC(v.ResolvedAt), Reason: v.Reason}
	if v.Firing() {
		out.State = alert.StateFiring
	}
	if v.ToldBy != v.ID {
		out.ToldBy = v.ToldBy
	}
	p.Alerts = append(p.Alerts, out)
}

// Endpoint is the JSON form of an endpoint.
type Endpoint struct {
	ID          string   `json:"id"`
	Tenant      string   `json:"tenant,omitzero"`
	URL         string   `json:"url"`
	Secret      string   `json:"secret"`
	Types       []string `json:"types"`
	Description string   `json:"description,omitzero"`
	Enabled     bool     `json:"enabled"`
	// Disabled says why it gets no messages.
	Disabled     alert.Disabled `json:"disabled,omitzero"`
	FailingSince time.Time      `json:"failing_since,omitzero"`
	CreatedAt    time.Time      `json:"created_at"`
	CreatedBy    string         `json:"created_by,omitzero"`
}

// EndpointList is the answer to a list of endpoints.
type EndpointList struct {
	Webhooks []Endpoint `json:"webhooks"`
}

// EndpointOf returns the JSON form of an endpoint.
func EndpointOf(e *alert.Endpoint) Endpoint {
	types := e.Types
	if len(types) == 0 {
		types = alert.Types()
	}
	return Endpoint{ID: e.ID, Tenant: e.Tenant, URL: e.URL, Secret: e.Secret, Types: types,
		Description: e.Description, Enabled: e.Disabled == "", Disabled: e.Disabled,
		FailingSince: InUTC(e.FailingSince), CreatedAt: InUTC(e.CreatedAt), CreatedBy: e.CreatedBy}
}

type attemptView struct {
	At     time.Time `json:"at"`
	Status int       `json:"status,omitzero"`
	Error  string    `json:"error,omitzero"`
	TookMS int64     `json:"took_ms"`
}

// Delivery is the JSON form of a delivery.
type Delivery struct {
	Message string              `json:"message"`
	Type    string              `json:"type"`
	State   alert.DeliveryState `json:"state"`
	// Tries is the number of attempts since the message was sent or resent. Attempts are the last
	// ones.
	Tries         int           `json:"tries"`
	Attempts      []attemptView `json:"attempts"`
	NextAttemptAt time.Time     `json:"next_attempt_at,omitzero"`
	CreatedAt     time.Time     `json:"created_at"`
}

// DeliveryPage is a part of the deliveries of an endpoint.
type DeliveryPage struct {
	Deliveries    []Delivery `json:"deliveries"`
	NextPageToken string     `json:"next_page_token,omitzero"`
}

// DeliveryOf returns the JSON form of a delivery.
func DeliveryOf(d *alert.Delivery) Delivery {
	out := Delivery{Message: d.Message.ID, Type: d.Message.Type, State: d.State, Tries: d.Tries,
		Attempts: make([]attemptView, len(d.Attempts)), NextAttemptAt: InUTC(d.DueAt),
		CreatedAt: InUTC(d.Message.CreatedAt)}
	for i, a := range d.Attempts {
		out.Attempts[i] = attemptView{InUTC(a.At.Truncate(time.Millisecond)), a.Status, a.Error,
			a.Took.Milliseconds()}
	}
	return out
}
