package daemon

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/budgetd/budgetd/bucket/alerting"
	"github.com/budgetd/budgetd/bucket/sample"
	"github.com/budgetd/budgetd/internal/webhook"
)

func (m *nodeBuilder) alertingService(samples *sample.Service) *alerting.Service {
	secrets := m.secrets()
	outbox := &alerting.Outbox{DB: m.db, Random: rand.Reader, Signs: secrets.Check, Log: m.log,
		Reachable: func(url string) error { return webhook.Reachable(url, m.c.Webhooks.Allow) }}
	return alerting.New(alerting.Config{DB: m.db, Budgets: m.budgets, Outbox: outbox,
		LastSamples: samples.Last, SamplesAt: samples.At, Usages: m.commit.Usages,
		Defaults: m.c.Alerts.Defaults, Observer: m.observer, Log: m.log})
}

// alertLoops returns the loops that send messages, count those that wait, and remove old ones, and
// the sender, whose workers outlive a run.
func (m *nodeBuilder) alertLoops(alerts *alerting.Service) (*webhook.Sender, []loop) {
	sender := webhook.New(webhook.Config{Outbox: alerts.Outbox, Allow: m.c.Webhooks.Allow,
		Secrets: m.secrets(), Timeout: m.c.Webhooks.Timeout,
		Agent: "budgetd/" + buildVersion(), Now: time.Now, Clock: m.db.Now,
		Observer: m.observer, Log: m.log})
	prune := func(ctx context.Context) error {
		return alerts.Prune(ctx, m.db.Now().Add(-m.c.Alerts.Keep))
	}
	return sender, []loop{{"webhooks", webhook.RunEvery, sender.RunOnce},
		{"alerts", time.Minute, prune}, {"outbox", webhook.CountEvery, sender.CountOnce}}
}

// secrets returns the secrets that sign messages.
func (m *nodeBuilder) secrets() webhook.Secrets {
	return webhook.Secrets{Dir: m.c.Webhooks.SecretsDir}
}
