package alert

import (
	"bytes"
	"encoding/json"
	"time"
)

// The types of messages.
const (
	// TypeFiring and TypeResolved report a transition, TypeDisabled a disabled endpoint. TypeTest
	// is the type of a test.
	TypeFiring   = "alert.firing"
	TypeResolved = "alert.resolved"
	TypeDisabled = "endpoint.disabled"
	TypeTest     = "test"
)

// Types returns the types that an endpoint can select. A test goes to the endpoint for which it was
// requested, whatever its types.
func Types() []string { return []string{TypeFiring, TypeResolved, TypeDisabled} }

// Subject is a budget and what is decided about it.
type Subject struct {
	Budget       int64
	Tenant, Name string
	Thresholds   []Threshold
	Figures      Figures
}

// Message is a message to endpoints. Tenant "" means all tenants.
type Message struct {
	ID, Type, Tenant string
	Body             []byte
	CreatedAt        time.Time
}

// envelope is the form of a body that Standard Webhooks recommends.
type envelope struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

type alertData struct {
	AlertID   int64   `json:"alert_id"`
	Tenant    string  `json:"tenant"`
	Budget    string  `json:"budget"`
	BudgetID  int64   `json:"budget_id"`
	Threshold string  `json:"threshold"`
	Kind      Kind    `json:"kind"`
	Of        Of      `json:"of,omitempty"`
	Percent   int     `json:"percent,omitempty"`
	Limit     string  `json:"limit,omitempty"`
	Value     string  `json:"value,omitempty"`
	Period    int64   `json:"period,omitempty"`
	Episode   int64   `json:"episode"`
	FiredAt   string  `json:"fired_at"`
	Resolved  string  `json:"resolved_at,omitempty"`
	Reason    Reason  `json:"reason,omitempty"`
	Figures   figures `json:"figures"`
	// Also lists the other thresholds that changed for the same reason.
	Also []string `json:"also"`
}

// figures are in minor units, at the time of the decision.
type figures struct {
	Total       int64    `json:"total"`
	Spent       int64    `json:"spent"`
	Left        int64    `json:"left"`
	Quarantined int64    `json:"quarantined"`
	Stranded    *int64   `json:"stranded,omitempty"`
	Rate        *float64 `json:"rate_per_second,omitempty"`
}

// Tell returns the message about a transition whose state has its ID. It must not be called for a
// transition that another message lists.
func (s *Subject) Tell(t Transition) (kind string, body []byte) {
	at, kind := t.State.FiredAt, TypeFiring
	if !t.State.Firing() {
		at, kind = t.State.ResolvedAt, TypeResolved
	}
	units := s.Figures.unitsOf(t.threshold)
	data := alertData{AlertID: t.State.ID, Tenant: s.Tenant, Budget: s.Name, BudgetID: s.Budget,
		Threshold: t.State.Threshold, Kind: t.threshold.Kind, Of: t.threshold.Of,
		Percent: t.threshold.Percent, Limit: t.threshold.Limit, Value: t.threshold.Value,
		Period: t.State.Period, Episode: t.State.Episode, FiredAt: instant(t.State.FiredAt),
		Resolved: instant(t.State.ResolvedAt), Reason: t.State.Reason,
		Also: append([]string{}, t.Also...),
		Figures: figures{Total: units.Total, Spent: units.Spent, Left: units.Left,
			Quarantined: s.Figures.Quarantined}}
	if s.Figures.Sampled {
		data.Figures.Stranded = &s.Figures.Stranded
	}
	if s.Figures.HasRate {
		data.Figures.Rate = &s.Figures.Rate
	}
	return kind, Body(kind, at, data)
}

// Body encodes a message.
func Body(kind string, at time.Time, data any) []byte {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(envelope{kind, at.UTC(), data}); err != nil {
		panic(err) // texts and numbers always have a JSON form
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// instant formats a time as the API does; "" for the zero time.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
