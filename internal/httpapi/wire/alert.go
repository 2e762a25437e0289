package wire

import (
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// Thresholds is the body that replaces the thresholds of a budget; nil restores the defaults.
type Thresholds struct{ List []alert.Threshold }

// Member implements strictjson.Body.
func (b *Thresholds) Member(r *strictjson.Reader, name string) bool {
	if name != "thresholds" {
		return false
	}
	if r.Null() {
		return true
	}
	b.List = []alert.Threshold{}
	r.List(name, func(i int) strictjson.Body {
		if i > alert.MaxThresholds { // package alert refuses one too many
			return nil
		}
		b.List = append(b.List, alert.Threshold{})
		return &threshold{b.List, i}
	})
	return true
}

// Check implements strictjson.Body. Package alert reports contradictions.
func (b *Thresholds) Check(r *strictjson.Reader) { r.Require("thresholds") }

// threshold reads the threshold at an index of a body.
type threshold struct {
	of []alert.Threshold
	i  int
}

func (b *threshold) Member(r *strictjson.Reader, name string) bool {
	t := &b.of[b.i]
	switch name {
	case "kind":
		r.Text(name, (*string)(&t.Kind), nil)
	case "of":
		r.Text(name, (*string)(&t.Of), notEmpty)
	case "percent":
		r.Int(name, &t.Percent, 1, 100)
	case "limit":
		r.Text(name, &t.Limit, nil)
	case "value":
		r.Text(name, &t.Value, budget.CheckKey)
	default:
		return false
	}
	return true
}

func (b *threshold) Check(r *strictjson.Reader) { r.Require("kind") }

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

// EndpointRequest is the body that creates an endpoint.
type EndpointRequest struct{ Endpoint alert.Endpoint }

// Member implements strictjson.Body.
func (b *EndpointRequest) Member(r *strictjson.Reader, name string) bool {
	e := &b.Endpoint
	switch name {
	case "tenant":
		r.Text(name, &e.Tenant, budget.CheckName)
	case "url":
		r.Text(name, &e.URL, nil)
	case "secret":
		r.Text(name, &e.Secret, nil)
	case "description":
		r.Text(name, &e.Description, nil)
	case "types":
		r.Strings(name, &e.Types, len(alert.Types()), nil)
	default:
		return false
	}
	return true
}

// Check implements strictjson.Body.
func (b *EndpointRequest) Check(r *strictjson.Reader) {
	r.Require("url", "secret")
	for _, fault := range b.Endpoint.Check() {
		if !r.Has(fault.Field) {
			r.Invalid(fault.Field, "%s", fault.Message)
		}
	}
}

// EndpointChange is the body that changes an endpoint.
type EndpointChange struct{ Change alert.EndpointChange }

// Member implements strictjson.Body. The values are checked with the rest of the endpoint.
func (b *EndpointChange) Member(r *strictjson.Reader, name string) bool {
	text := func(into **string) {
		*into = new(string)
		r.Text(name, *into, nil)
	}
	switch c := &b.Change; name {
	case "url":
		text(&c.URL)
	case "secret":
		text(&c.Secret)
	case "description":
		text(&c.Description)
	case "types":
		c.Types = new([]string)
		r.Strings(name, c.Types, len(alert.Types()), nil)
	case "enabled":
		c.Enabled = new(bool)
		r.Bool(name, c.Enabled)
	default:
		return false
	}
	return true
}

// Check implements strictjson.Body. No member is required.
func (b *EndpointChange) Check(*strictjson.Reader) {}

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
