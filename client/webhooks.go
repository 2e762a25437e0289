package client

import (
	"context"
	"net/http"
	"strconv"
)

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
