package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Alerts reads alerts, and reads and writes thresholds. Errors are *budget.Error.
type Alerts interface {
	// Thresholds returns the thresholds of a budget, and whether they are its own.
	Thresholds(ctx context.Context, ref bucket.BudgetRef) ([]alert.Threshold, bool, error)
	// SetThresholds replaces the thresholds of a budget; nil restores the defaults.
	SetThresholds(ctx context.Context, ref bucket.BudgetRef, list []alert.Threshold) error
	// Alerts lists alerts, newest first.
	Alerts(ctx context.Context, q alert.Query) ([]alert.View, error)
}

// Webhooks manages endpoints and their deliveries. Errors are *budget.Error.
type Webhooks interface {
	Endpoints
	Deliveries
}

// Endpoints manages the endpoints to which messages are sent.
type Endpoints interface {
	Endpoints(ctx context.Context, tenant string) ([]alert.Endpoint, error)
	Endpoint(ctx context.Context, id string) (alert.Endpoint, error)
	CreateEndpoint(ctx context.Context, e alert.Endpoint) (alert.Endpoint, error)
	ChangeEndpoint(ctx context.Context, id string, c alert.EndpointChange) (alert.Endpoint, error)
	DeleteEndpoint(ctx context.Context, id string) error
}

// Deliveries reads and makes deliveries to endpoints.
type Deliveries interface {
	// Deliveries reads the deliveries before a message, newest first.
	Deliveries(ctx context.Context, endpoint, before string, limit int) ([]alert.Delivery, error)
	// Test sends a test message. Resend sends a message again.
	Test(ctx context.Context, endpoint string) (alert.Delivery, error)
	Resend(ctx context.Context, endpoint, message string) (alert.Delivery, error)
}

func (a *API) thresholds(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	list, own, err := a.alerts.Thresholds(c.ctx, ref)
	return answer{body: thresholdsOf(list, own)}, err
}

// thresholdsIn returns the thresholds of a body; nil stays nil.
func thresholdsIn(list []api.Threshold) []alert.Threshold {
	if list == nil {
		return nil
	}
	out := make([]alert.Threshold, len(list))
	for i, t := range list {
		out[i] = alert.Threshold{Kind: alert.Kind(t.Kind), Of: alert.Of(t.Of),
			Percent: int(t.Percent), Limit: t.Limit, Value: t.Value}
	}
	return out
}

func (a *API) setThresholds(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.ThresholdsRequest
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	if err := a.alerts.SetThresholds(c.ctx, ref, thresholdsIn(*body.Thresholds)); err != nil {
		return answer{}, err
	}
	list, own, err := a.alerts.Thresholds(c.ctx, ref)
	return answer{body: thresholdsOf(list, own)}, err
}

func (a *API) listAlerts(c *call) (answer, error) {
	query := c.query("tenant", "budget", "state", "page_size", "page_token")
	tenant, err := c.keyTenant(query.Get("tenant"))
	if err != nil {
		return answer{}, err
	}
	q := alert.Query{Tenant: tenant, State: query.Get("state"), Limit: c.pageSize(query)}
	if q.State != "" && q.State != alert.StateFiring && q.State != alert.StateResolved {
		c.faults.Invalid("state", "must be firing or resolved")
	}
	if query.Has("page_token") {
		before, ok := parsePageToken(query.Get("page_token"))
		if !ok {
			c.faults.Invalid("page_token", "is not a next_page_token of an earlier page")
		}
		q.Before = before
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	if name := query.Get("budget"); name != "" {
		if q.Budget, err = c.budgetID(name, c.tenant(query)); err != nil {
			return answer{}, err
		}
	}
	views, err := a.alerts.Alerts(c.ctx, q)
	out := api.AlertPage{Alerts: []api.Alert{}}
	for i := range views {
		if c.principal == nil || c.principal.Scope.Covers(views[i].Tenant, views[i].Name) {
			out.Alerts = append(out.Alerts, alertOf(&views[i]))
		}
	}
	if len(views) == q.Limit {
		out.NextPageToken = pageToken(views[len(views)-1].ID)
	}
	return answer{body: out}, err
}

// budgetID returns the id of the budget that a query names. Errors: BudgetNotFound, Unavailable.
func (c *call) budgetID(name, tenant string) (int64, error) {
	ref, err := refOf(c.route.op, tenant, name)
	if err == nil {
		ref, err = c.within(c.route.op, ref)
	}
	if err != nil {
		return 0, err
	}
	view, err := c.api.service.View(c.ctx, ref)
	return view.Definition.ID, err
}

func (a *API) listWebhooks(c *call) (answer, error) {
	query := c.query("tenant")
	tenant, err := c.keyTenant(query.Get("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	list, err := a.webhooks.Endpoints(c.ctx, tenant)
	out := api.WebhookList{Webhooks: []api.Webhook{}}
	for i := range list {
		if c.manages(list[i].Tenant) {
			out.Webhooks = append(out.Webhooks, webhookOf(&list[i]))
		}
	}
	return answer{body: out}, err
}

// manages reports whether all budgets of a tenant, or of all tenants, are in the caller's scope. An
// endpoint gets messages about all of them.
func (c *call) manages(tenant string) bool {
	return c.principal == nil || c.principal.Scope.Includes(access.Scope{Tenant: tenant})
}

// webhookRequest is the body that creates an endpoint.
type webhookRequest struct {
	api.WebhookRequest `json:",inline"`
}

func (b *webhookRequest) endpoint() alert.Endpoint {
	return alert.Endpoint{Tenant: b.Tenant, URL: b.URL, Secret: b.Secret, Types: b.Types,
		Description: b.Description}
}

// Validate checks the endpoint.
func (b *webhookRequest) Validate(o *api.Object) {
	e := b.endpoint()
	o.Merge(e.Check())
}

func (a *API) createWebhook(c *call) (answer, error) {
	c.query()
	var body webhookRequest
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	e := body.endpoint()
	tenant, err := c.keyTenant(e.Tenant)
	if err != nil {
		return answer{}, err
	}
	c.target(tenant, "", "")
	if !c.manages(tenant) {
		return answer{}, budget.Refuse(budget.Forbidden, c.route.op,
			"an endpoint gets messages about all budgets of a tenant, the key has some of them")
	}
	e.Tenant, e.CreatedBy = tenant, c.by()
	made, err := a.webhooks.CreateEndpoint(c.ctx, e)
	return answer{status: http.StatusCreated, body: webhookOf(&made)}, err
}

// endpoint reads the endpoint in the path if it is in the caller's scope. Errors: WebhookNotFound,
// Unavailable.
func (c *call) endpoint() (alert.Endpoint, error) {
	id := c.r.PathValue("id")
	c.target("", id, "")
	e, err := c.api.webhooks.Endpoint(c.ctx, id)
	if err == nil && !c.manages(e.Tenant) {
		err = budget.Refuse(budget.WebhookNotFound, c.route.op, "there is no endpoint %.40q", id)
	}
	if err == nil {
		c.target(e.Tenant, id, "")
	}
	return e, err
}

func (a *API) webhook(c *call) (answer, error) {
	c.query()
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	e, err := c.endpoint()
	return answer{body: webhookOf(&e)}, err
}

func (a *API) changeWebhook(c *call) (answer, error) {
	c.query()
	var body api.WebhookPatch
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	e, err := c.endpoint()
	if err != nil {
		return answer{}, err
	}
	e, err = a.webhooks.ChangeEndpoint(c.ctx, e.ID, alert.EndpointChange(body))
	return answer{body: webhookOf(&e)}, err
}

// deleteWebhook deletes an endpoint and returns it as it was.
func (a *API) deleteWebhook(c *call) (answer, error) {
	c.query()
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	e, err := c.endpoint()
	if err != nil {
		return answer{}, err
	}
	return answer{body: webhookOf(&e)}, a.webhooks.DeleteEndpoint(c.ctx, e.ID)
}

func (a *API) testWebhook(c *call) (answer, error) {
	return c.deliver(func(e alert.Endpoint) (alert.Delivery, error) {
		return a.webhooks.Test(c.ctx, e.ID)
	})
}

func (a *API) resend(c *call) (answer, error) {
	return c.deliver(func(e alert.Endpoint) (alert.Delivery, error) {
		return a.webhooks.Resend(c.ctx, e.ID, c.r.PathValue("message"))
	})
}

// deliver queues a message for the endpoint in the path. The message may not have been sent when
// the call is answered.
func (c *call) deliver(do func(alert.Endpoint) (alert.Delivery, error)) (answer, error) {
	c.query()
	if err := c.readOptional(&struct{}{}); err != nil {
		return answer{}, err
	}
	e, err := c.endpoint()
	if err != nil {
		return answer{}, err
	}
	d, err := do(e)
	return answer{status: http.StatusAccepted, body: deliveryOf(&d)}, err
}

func (a *API) deliveries(c *call) (answer, error) {
	query := c.query("page_size", "page_token")
	limit := c.pageSize(query)
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	e, err := c.endpoint()
	if err != nil {
		return answer{}, err
	}
	list, err := a.webhooks.Deliveries(c.ctx, e.ID, query.Get("page_token"), limit)
	out := api.DeliveryPage{Deliveries: make([]api.Delivery, len(list))}
	for i := range list {
		out.Deliveries[i] = deliveryOf(&list[i])
	}
	if len(list) == limit {
		out.NextPageToken = list[len(list)-1].Message.ID
	}
	return answer{body: out}, err
}

func thresholdsOf(list []alert.Threshold, own bool) api.Thresholds {
	out := api.Thresholds{Thresholds: make([]api.Threshold, len(list)), Own: own}
	for i, t := range list {
		out.Thresholds[i] = api.Threshold{Kind: string(t.Kind), Of: string(t.Of),
			Percent: int64(t.Percent), Limit: t.Limit, Value: t.Value}
	}
	return out
}

func alertOf(v *alert.View) api.Alert {
	out := api.Alert{ID: v.ID, State: alert.StateResolved, Tenant: v.Tenant, Budget: v.Name,
		Threshold: v.Threshold, Period: v.Period, Episode: v.Episode, Total: v.Units.Total,
		Spent: v.Units.Spent, Left: v.Units.Left, FiredAt: inUTC(v.FiredAt),
		ResolvedAt: inUTC(v.ResolvedAt), Reason: string(v.Reason)}
	if v.Firing() {
		out.State = alert.StateFiring
	}
	if v.ToldBy != v.ID {
		out.ToldBy = v.ToldBy
	}
	return out
}

func webhookOf(e *alert.Endpoint) api.Webhook {
	types := e.Types
	if len(types) == 0 {
		types = alert.Types()
	}
	return api.Webhook{ID: e.ID, Tenant: e.Tenant, URL: e.URL, Secret: e.Secret, Types: types,
		Description: e.Description, Enabled: e.Disabled == "", Disabled: string(e.Disabled),
		FailingSince: inUTC(e.FailingSince), CreatedAt: inUTC(e.CreatedAt), CreatedBy: e.CreatedBy}
}

func deliveryOf(d *alert.Delivery) api.Delivery {
	out := api.Delivery{Message: d.Message.ID, Type: d.Message.Type, State: string(d.State),
		Tries: int64(d.Tries), Attempts: make([]api.Attempt, len(d.Attempts)),
		NextAttemptAt: inUTC(d.DueAt), CreatedAt: inUTC(d.Message.CreatedAt)}
	for i, a := range d.Attempts {
		out.Attempts[i] = api.Attempt{At: inUTC(a.At.Truncate(time.Millisecond)),
			Status: int64(a.Status), Error: a.Error, TookMS: a.Took.Milliseconds()}
	}
	return out
}
