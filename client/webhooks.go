package client

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

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
	Tenant      string   `json:"tenant,omitzero"`
	URL         string   `json:"url"`
	Secret      string   `json:"secret"`
	Types       []string `json:"types,omitempty"`
	Description string   `json:"description,omitzero"`
}

// WebhookPatch changes the fields that are not nil.
type WebhookPatch struct {
	URL         *string   `json:"url,omitzero"`
	Secret      *string   `json:"secret,omitzero"`
	Types       *[]string `json:"types,omitzero"`
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

// onWebhook returns a call on an endpoint.
func onWebhook(op, method string, body any, segments ...string) call {
	return call{op: op, method: method, path: append([]string{"v1", "webhooks"}, segments...),
		body: body}
}

// Webhooks lists the endpoints of the client's tenant, or of all tenants with "". Errors:
// forbidden.
func (c *Client) Webhooks(ctx context.Context) (*WebhookList, error) {
	what := onWebhook("webhooks", http.MethodGet, nil)
	what.query, what.repeatable = c.inTenant(), true
	var answer WebhookList
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Webhook returns an endpoint. Errors: webhook_not_found.
func (c *Client) Webhook(ctx context.Context, id string) (*Webhook, error) {
	what := onWebhook("webhook", http.MethodGet, nil, id)
	what.repeatable = true
	return c.webhook(ctx, what)
}

// CreateWebhook creates an endpoint. It is not retried, because a repeated call would create
// another one. Errors: forbidden, invalid, too_many_webhooks.
func (c *Client) CreateWebhook(ctx context.Context, request WebhookRequest) (*Webhook, error) {
	return c.webhook(ctx, onWebhook("create webhook", http.MethodPost, request))
}

// ChangeWebhook changes an endpoint, or disables and enables it. Errors: webhook_not_found,
// invalid.
func (c *Client) ChangeWebhook(ctx context.Context, id string, patch WebhookPatch) (
	*Webhook, error,
) {
	what := onWebhook("change webhook", http.MethodPatch, patch, id)
	what.repeatable = true
	return c.webhook(ctx, what)
}

// DeleteWebhook deletes an endpoint and its deliveries, and returns it as it was. Errors:
// webhook_not_found, also if an earlier attempt of this call deleted it.
func (c *Client) DeleteWebhook(ctx context.Context, id string) (*Webhook, error) {
	return c.webhook(ctx, onWebhook("delete webhook", http.MethodDelete, nil, id))
}

func (c *Client) webhook(ctx context.Context, what call) (*Webhook, error) {
	var answer Webhook
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// TestWebhook sends a test message to an endpoint, even to a disabled one. The message may not have
// been sent when the call returns; see Deliveries. Errors: webhook_not_found.
func (c *Client) TestWebhook(ctx context.Context, id string) (*Delivery, error) {
	var answer Delivery
	_, err := c.do(ctx, onWebhook("test webhook", http.MethodPost, struct{}{}, id, "test"), &answer)
	return result(&answer, err)
}

// ResendDelivery sends a message again under its id, with all attempts. Errors: webhook_not_found,
// delivery_not_found.
func (c *Client) ResendDelivery(ctx context.Context, id, message string) (*Delivery, error) {
	what := onWebhook("resend", http.MethodPost, struct{}{}, id, "deliveries", message, "resend")
	what.repeatable = true
	var answer Delivery
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Deliveries returns a page of the deliveries to an endpoint. pageSize 0 means the service's
// default; pageToken is a page's NextPageToken. Errors: webhook_not_found.
func (c *Client) Deliveries(ctx context.Context, id string, pageSize int, pageToken string) (
	*DeliveryPage, error,
) {
	what := onWebhook("deliveries", http.MethodGet, nil, id, "deliveries")
	what.query, what.repeatable = map[string][]string{}, true
	set(what.query, "page_token", pageToken)
	if pageSize > 0 {
		what.query.Set("page_size", strconv.Itoa(pageSize))
	}
	var answer DeliveryPage
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
