package daemon

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket/sample"
	"github.com/budgetd/budgetd/bucket/usage"
	"github.com/budgetd/budgetd/bucket/warn"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/alerts"
	"github.com/budgetd/budgetd/internal/webhook"
)

func (m *nodeBuilder) warnService(samples *sample.Service,
	looks *usage.Service) *warn.Service {
	return warn.New(warn.Config{Budgets: m.budgets, Ledger: m.alerts, Samples: samples,
		Tallies: looks.Tallies, Now: m.db.Now, Defaults: m.c.Alerts.Defaults,
		Observer: m.observer, Log: m.log})
}

// alertLoops returns the loops that send messages, count those that wait, and remove old ones, and
// the sender, whose workers outlive a run.
func (m *nodeBuilder) alertLoops() (*webhook.Sender, []loop) {
	sender := webhook.New(webhook.Config{Outbox: m.alerts, Allow: m.c.Webhooks.Allow,
		Secrets: m.secrets(), Timeout: m.c.Webhooks.Timeout,
		Agent: "budgetd/" + buildVersion(), Now: time.Now, Clock: m.db.Now,
		Observer: m.observer, Log: m.log})
	prune := func(ctx context.Context) error {
		return warn.Prune(ctx, m.alerts, m.db.Now().Add(-m.c.Alerts.Keep))
	}
	return sender, []loop{{"webhooks", webhook.RunEvery, sender.RunOnce},
		{"alerts", time.Minute, prune}, {"outbox", webhook.CountEvery, sender.CountOnce}}
}

// secrets returns the secrets that sign messages.
func (m *nodeBuilder) secrets() webhook.Secrets {
	return webhook.Secrets{Dir: m.c.Webhooks.SecretsDir}
}

// webhooks manages endpoints and checks that their secrets exist.
type webhooks struct {
	*alerts.Part
	secrets webhook.Secrets
	allow   []netip.Prefix
	log     *slog.Logger
}

// CreateEndpoint stores an endpoint. In addition to the errors of the store it returns Invalid if
// the endpoint's secret cannot sign, or no message can ever be sent to its URL.
func (h webhooks) CreateEndpoint(ctx context.Context, e alert.Endpoint) (alert.Endpoint, error) {
	if err := h.check("create webhook", e.Tenant, &e.URL, &e.Secret); err != nil {
		return e, err
	}
	return h.Part.CreateEndpoint(ctx, e)
}

// ChangeEndpoint changes an endpoint. In addition to the errors of the store it returns Invalid if
// a new secret cannot sign, or no message can ever be sent to a new URL.
func (h webhooks) ChangeEndpoint(ctx context.Context, id string, c alert.EndpointChange) (
	alert.Endpoint, error) {
	before, err := h.Endpoint(ctx, id)
	if err == nil {
		err = h.check("change webhook", before.Tenant, c.URL, c.Secret)
	}
	if err != nil {
		return alert.Endpoint{}, err
	}
	return h.Part.ChangeEndpoint(ctx, id, c)
}

// check refuses a URL to which nothing can be sent, and the name of a secret of the tenant that
// cannot sign. Nil stands for what is not changed. Only the log says why a secret cannot sign.
func (h webhooks) check(op, tenant string, target, name *string) error {
	var faults []budget.FieldError
	if target != nil {
		if err := webhook.Reachable(*target, h.allow); err != nil {
			faults = append(faults, budget.FieldError{Field: "url",
				Message: "no message can be sent to it: " + err.Error()})
		}
	}
	if name != nil && budget.CheckName(*name) == "" { // an invalid name is refused elsewhere
		if err := h.secrets.Check(tenant, *name); err != nil {
			h.log.Warn("webhook secret is not usable", "tenant", tenant, "error", err)
			faults = append(faults, budget.FieldError{Field: "secret",
				Message: "is not usable: the tenant has no secret of that name that can sign; " +
					"the log of budgetd says why"})
		}
	}
	if faults == nil {
		return nil
	}
	return &budget.Error{Code: budget.Invalid, Op: op, Message: "the endpoint has faults",
		Fields: faults}
}
