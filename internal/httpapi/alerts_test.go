package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
)

func (f *fake) Thresholds(_ context.Context, ref bucket.BudgetRef) ([]alert.Threshold, bool, error) {
	return []alert.Threshold{{Kind: alert.UsedShare, Of: alert.Limit, Percent: 80, Limit: "per-user", Value: "u1"},
		{Kind: alert.Quarantine}}, true, f.note("thresholds %+v", ref)
}

func (f *fake) SetThresholds(_ context.Context, ref bucket.BudgetRef, list []alert.Threshold) error {
	return f.note("set thresholds %+v %+v default %t", ref, list, list == nil)
}

func (f *fake) Alerts(_ context.Context, q alert.Query) ([]alert.View, error) {
	fires := alert.View{Tenant: "default", Name: "sale", State: alert.State{ID: 12, ToldBy: 12,
		Threshold: "exhausted/period", Period: 3, Episode: 2, FiredAt: at, Units: alert.Units{Total: 1000, Spent: 1000}}}
	done := alert.View{Tenant: "default", Name: "sale", State: alert.State{ID: 11, ToldBy: 12,
		Threshold: "used_share/total/80", Episode: 1, FiredAt: at, ResolvedAt: at.Add(time.Second),
		Reason: alert.TotalRaised, Units: alert.Units{Total: 1000, Spent: 800, Left: 200}}}
	return []alert.View{fires, done}, f.note("alerts %+v", q)
}

var anEndpoint = alert.Endpoint{ID: "ep_1", Tenant: "acme", URL: "https://example.com/x", Secret: "shop",
	Description: "on call", Disabled: alert.Failing, FailingSince: at, CreatedAt: at, CreatedBy: "jane"}

func (f *fake) Endpoints(_ context.Context, tenant string) ([]alert.Endpoint, error) {
	return []alert.Endpoint{anEndpoint, {ID: "ep_2", URL: "https://example.com/", Secret: "shop", CreatedAt: at}},
		f.note("endpoints %q", tenant)
}

func (f *fake) Endpoint(_ context.Context, id string) (alert.Endpoint, error) {
	return anEndpoint, f.note("endpoint %s", id)
}

func (f *fake) CreateEndpoint(_ context.Context, e alert.Endpoint) (alert.Endpoint, error) {
	err := f.note("create endpoint %+v", e)
	e.ID, e.CreatedAt = "ep_3", at
	return e, err
}

func (f *fake) ChangeEndpoint(_ context.Context, id string, c alert.EndpointChange) (alert.Endpoint, error) {
	e := anEndpoint
	c.Apply(&e)
	return e, f.note("change endpoint %s", id)
}

func (f *fake) DeleteEndpoint(_ context.Context, id string) error {
	return f.note("delete endpoint %s", id)
}

var aDelivery = alert.Delivery{Endpoint: "ep_1", Message: alert.Message{ID: "msg_1", Type: alert.TypeFiring,
	CreatedAt: at}, State: alert.Pending, Tries: 2, DueAt: at.Add(5 * time.Minute), Attempts: []alert.Attempt{
	{At: at, Error: "EOF", Took: 1500 * time.Microsecond}, {At: at.Add(time.Second), Status: 500, Error: "it answered 500"}}}

func (f *fake) Deliveries(_ context.Context, endpoint, before string, limit int) ([]alert.Delivery, error) {
	return []alert.Delivery{aDelivery}, f.note("deliveries of %s before %q limit %d", endpoint, before, limit)
}

func (f *fake) Test(_ context.Context, id string) (alert.Delivery, error) {
	return alert.Delivery{Endpoint: id, Message: alert.Message{ID: "msg_2", Type: alert.TypeTest, CreatedAt: at},
		State: alert.Pending, DueAt: at}, f.note("test %s", id)
}

func (f *fake) Resend(_ context.Context, id, message string) (alert.Delivery, error) {
	return aDelivery, f.note("resend %s %s", id, message)
}

// TestWebhooksOfTenants checks that a key of one tenant sees and creates only endpoints of that
// tenant. A key of some budgets can create none, because an endpoint gets the messages of all
// budgets.
func TestWebhooksOfTenants(t *testing.T) {
	service, server, ring, rows := locked(t)
	ask := func(name, method, path, body string) (int, string) {
		t.Helper()
		answer, text := ask(t, server, method, path, body, "Authorization", "Bearer "+ring.tokens[name])
		return answer.StatusCode, text
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{{"GET", "/v1/webhooks/ep_1", 404}, {"DELETE", "/v1/webhooks/ep_1", 404}, {"POST", "/v1/webhooks/ep_1/test", 404},
		{"GET", "/v1/webhooks/ep_1/deliveries", 404}, {"POST", "/v1/webhooks/ep_1/deliveries/m/resend", 404},
		{"GET", "/v1/webhooks?tenant=acme", 403}, {"GET", "/v1/alerts?tenant=acme", 403}} {
		if status, text := ask("shop", c.method, c.path, ""); status != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
	if status, text := ask("shop", "GET", "/v1/webhooks", ""); status != 200 || strings.Contains(text, "ep_") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask("shop", "GET", "/v1/alerts", ""); status != 200 || strings.Contains(text, "sale") {
		t.Errorf("alerts of another tenant: %d %s", status, text)
	}
	service.taken()
	if status, text := ask("shop", "POST", "/v1/webhooks", bodies["create webhook"]); status != 201 ||
		!strings.Contains(text, `"tenant":"shop"`) {
		t.Errorf("%d %s", status, text)
	}
	if asked := fmt.Sprint(service.taken()); !strings.Contains(asked, "Tenant:shop") || !strings.Contains(asked, "CreatedBy:shop") {
		t.Error(asked)
	}
	if status, text := ask("some", "POST", "/v1/webhooks", bodies["create webhook"]); status != http.StatusForbidden {
		t.Errorf("a key of some budgets: %d %s", status, text)
	}
	last := rows.rows[len(rows.rows)-1]
	if last.Op != "create webhook" || last.Principal != "some" || last.Outcome != "forbidden" {
		t.Errorf("%+v", last)
	}
}

// TestAlertsRefuse checks that an invalid request names its field and does not reach the service.
func TestAlertsRefuse(t *testing.T) {
	service, server, _ := start(t)
	for _, c := range []struct{ method, path, body, field string }{
		{"PUT", "/v1/budgets/sale/thresholds", `{}`, "thresholds"},
		{"PUT", "/v1/budgets/sale/thresholds", `{"thresholds":[{"of":"total"}]}`, "thresholds[0].kind"},
		{"PUT", "/v1/budgets/sale/thresholds", `{"thresholds":[{"kind":"used_share","percent":0}]}`, "thresholds[0].percent"},
		{"PUT", "/v1/budgets/sale/thresholds", `{"thresholds":[{"kind":"used_share","percent":50.5}]}`, "thresholds[0].percent"},
		{"GET", "/v1/alerts?state=open", "", "state"},
		{"GET", "/v1/alerts?page_token=7", "", "page_token"},
		{"POST", "/v1/webhooks", `{"url":"ftp://x","secret":"../etc"}`, "url"},
		{"POST", "/v1/webhooks", `{"url":"https://u:p@x/","secret":"../etc"}`, "secret"},
		{"POST", "/v1/webhooks", `{"url":"https://x/","secret":"s","types":["test"]}`, "types"},
		{"POST", "/v1/webhooks", `{"url":"https://x/"}`, "secret"},
	} {
		answer, text := ask(t, server, c.method, c.path, c.body)
		if answer.StatusCode != 422 && answer.StatusCode != 400 || !strings.Contains(text, `"field":"`+c.field+`"`) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, answer.StatusCode, text)
		}
	}
	if asked := service.taken(); len(asked) > 0 {
		t.Errorf("the service was asked: %q", asked)
	}
}
