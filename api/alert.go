package api

import (
	"strconv"
	"strings"
	"time"
)

// Threshold says when a budget needs attention.
type Threshold struct {
	// Kind is used_share, exhausted, projected, stranded_share or quarantine.
	Kind string `json:"kind" check:"required"`
	// Of is total or period, for used_share also limit; "" for the last two kinds.
	Of string `json:"of,omitzero" check:"word"`
	// Percent is 1 to 100, for the shares; else 0.
	Percent int64 `json:"percent,omitzero" check:"1..100"`
	// Limit is the name of a limit of one dimension, Value the watched value.
	Limit string `json:"limit,omitzero"`
	Value string `json:"value,omitzero" check:"key"`
}

// ThresholdsRequest replaces the thresholds of a budget; nil restores the defaults.
type ThresholdsRequest struct {
	Thresholds *[]Threshold `json:"thresholds" check:"required null most=thresholds"`
}

// Thresholds are the thresholds of a budget. Own is false for the defaults.
type Thresholds struct {
	Thresholds []Threshold `json:"thresholds"`
	Own        bool        `json:"own"`
}

// Alert is a crossed threshold. Quantities are in minor units, at the time when it fired.
type Alert struct {
	ID int64 `json:"id"`
	// State is "firing" or "resolved".
	State     string `json:"state"`
	Tenant    string `json:"tenant"`
	Budget    string `json:"budget"`
	Threshold string `json:"threshold"`
	// Period is the number of the period, or 0 if the threshold does not depend on periods. Episode
	// numbers the crossings within it.
	Period  int64 `json:"period,omitzero"`
	Episode int64 `json:"episode"`
	// ToldBy is the alert whose message lists this one; 0 if it had its own message.
	ToldBy  int64     `json:"told_by,omitzero"`
	Total   int64     `json:"total"`
	Spent   int64     `json:"spent"`
	Left    int64     `json:"left"`
	FiredAt time.Time `json:"fired_at"`
	// ResolvedAt is zero while it fires. Reason says why it was resolved.
	ResolvedAt time.Time `json:"resolved_at,omitzero"`
	Reason     string    `json:"reason,omitzero"`
}

// AlertPage is a part of the alerts, newest first.
type AlertPage struct {
	Alerts []Alert `json:"alerts"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}

// Name returns the threshold's name in alerts, such as used_share/total/80.
func (t Threshold) Name() string {
	parts := []string{t.Kind}
	if t.Of != "" {
		parts = append(parts, t.Of)
	}
	if t.Limit != "" {
		parts = append(parts, t.Limit, t.Value)
	}
	if t.Percent != 0 {
		parts = append(parts, strconv.FormatInt(t.Percent, 10))
	}
	return strings.Join(parts, "/")
}

// Webhook is an endpoint to which messages are sent.
type Webhook struct {
	ID string `json:"id"`
	// Tenant is the only tenant whose messages it gets; "" means all.
	Tenant string `json:"tenant,omitzero"`
	URL    string `json:"url"`
	// Secret is the name of a file of the service with the secrets that sign messages.
	Secret string `json:"secret"`
	// Types are some or all of alert.firing, alert.resolved and endpoint.disabled.
	Types       []string `json:"types"`
	Description string   `json:"description,omitzero"`
	Enabled     bool     `json:"enabled"`
	// Disabled is operator, failing or gone; "" while it is enabled.
	Disabled string `json:"disabled,omitzero"`
	// FailingSince is the time of the first failed attempt after the last success; zero if the last
	// attempt succeeded.
	FailingSince time.Time `json:"failing_since,omitzero"`
	CreatedAt    time.Time `json:"created_at"`
	CreatedBy    string    `json:"created_by,omitzero"`
}

// WebhookRequest describes a new endpoint. Types nil means all.
type WebhookRequest struct {
	Tenant      string   `json:"tenant,omitzero" check:"name"`
	URL         string   `json:"url" check:"required"`
	Secret      string   `json:"secret" check:"required"`
	Types       []string `json:"types,omitempty" check:"most=types"`
	Description string   `json:"description,omitzero"`
}

// WebhookPatch changes the fields that are not nil.
type WebhookPatch struct {
	URL         *string   `json:"url,omitzero"`
	Secret      *string   `json:"secret,omitzero"`
	Types       *[]string `json:"types,omitzero" check:"most=types"`
	Description *string   `json:"description,omitzero"`
	// Enabled disables the endpoint, or enables it and clears its failures.
	Enabled *bool `json:"enabled,omitzero"`
}

// WebhookList lists all endpoints.
type WebhookList struct {
	Webhooks []Webhook `json:"webhooks"`
}

// Attempt is one try to deliver a message.
type Attempt struct {
	At time.Time `json:"at"`
	// Status is the HTTP status of the answer; 0 means no answer. Error says what went wrong.
	Status int64  `json:"status,omitzero"`
	Error  string `json:"error,omitzero"`
	TookMS int64  `json:"took_ms"`
}

// Delivery is a message for one endpoint.
type Delivery struct {
	// Message is the id of the message, which the receiver gets as webhook-id.
	Message string `json:"message"`
	Type    string `json:"type"`
	// State is pending, delivered or failed.
	State string `json:"state"`
	// Tries is the number of attempts since the message was sent or resent; Attempts are the last
	// 16.
	Tries         int64     `json:"tries"`
	Attempts      []Attempt `json:"attempts"`
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	CreatedAt     time.Time `json:"created_at"`
}

// DeliveryPage is a part of the deliveries to an endpoint, newest first.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}
