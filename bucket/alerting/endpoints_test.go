package alerting_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// TestEndpoints creates, changes and deletes endpoints.
func TestEndpoints(t *testing.T) {
	each(t, func(w *world) {
		e := w.endpoint(alert.Endpoint{Tenant: "shop", Types: []string{alert.TypeFiring}, Description: "ü", CreatedBy: "jane"})
		got, err := w.p.Endpoint(w.Ctx, e.ID)
		w.OK(err)
		if fmt.Sprint(got) != fmt.Sprint(e) || e.CreatedAt.IsZero() {
			t.Errorf("%+v, want %+v", got, e)
		}
		off, url, types := false, "https://example.org/x", []string{}
		got, err = w.p.ChangeEndpoint(w.Ctx, e.ID, alert.EndpointChange{URL: &url, Types: &types, Enabled: &off})
		w.OK(err)
		if got.URL != url || len(got.Types) > 0 || got.Disabled != alert.ByOperator || got.Description != "ü" {
			t.Errorf("%+v", got)
		}
		bad := "ftp://example.org"
		if _, err := w.p.ChangeEndpoint(w.Ctx, e.ID, alert.EndpointChange{URL: &bad}); !budget.Is(err, budget.Invalid) {
			t.Error(err)
		}
		for range alert.MaxEndpoints - 1 {
			w.endpoint(alert.Endpoint{Tenant: "shop"})
		}
		if _, err := w.p.CreateEndpoint(w.Ctx, alert.Endpoint{Tenant: "shop"}); !budget.Is(err, budget.TooManyWebhooks) {
			t.Error(err)
		}
		w.endpoint(alert.Endpoint{})
		w.OK(w.p.DeleteEndpoint(w.Ctx, e.ID))
		if err := w.p.DeleteEndpoint(w.Ctx, e.ID); !budget.Is(err, budget.WebhookNotFound) {
			t.Error(err)
		}
		for tenant, want := range map[string]int{"shop": alert.MaxEndpoints - 1, "": alert.MaxEndpoints, "none": 0} {
			list, err := w.p.Endpoints(w.Ctx, tenant)
			if err != nil || len(list) != want {
				t.Errorf("%q: %d, %v", tenant, len(list), err)
			}
		}
	})
}

// attempt claims the only due delivery, records an attempt with a status, and returns the endpoint.
func (w *world) attempt(status int) alert.Endpoint {
	w.Helper()
	due, err := w.p.Due(w.Ctx, 10)
	w.OK(err)
	if len(due) != 1 {
		w.Fatalf("%d deliveries are due", len(due))
	}
	d, _, ok, err := w.p.Claim(w.Ctx, due[0], time.Minute)
	w.OK(err)
	if _, _, again, err := w.p.Claim(w.Ctx, due[0], time.Minute); !ok || again || err != nil {
		w.Fatalf("claimed %t and %t, %v", ok, again, err)
	}
	if more, err := w.p.Due(w.Ctx, 10); err != nil || len(more) > 0 {
		w.Errorf("a claimed delivery is due: %v, %v", more, err)
	}
	_, e, err := w.p.Finish(w.Ctx, d, alert.Attempt{At: w.DB.Now(), Status: status, Error: "it answered"}, 0)
	w.OK(err)
	return e
}

func (w *world) delivery(e alert.Endpoint) alert.Delivery {
	w.Helper()
	list, err := w.p.Deliveries(w.Ctx, e.ID, "", 1)
	w.OK(err)
	if len(list) != 1 {
		w.Fatal("no delivery")
	}
	return list[0]
}

// TestSchedule lets all attempts of a delivery fail, sends the message again, and lets it succeed.
func TestSchedule(t *testing.T) {
	each(t, func(w *world) {
		e := w.endpoint(alert.Endpoint{})
		made, err := w.p.Test(w.Ctx, e.ID)
		w.OK(err)
		for i, pause := range []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
			5 * time.Hour, 10 * time.Hour, 10 * time.Hour} {
			w.attempt(500)
			d := w.delivery(e)
			if d.State != alert.Pending || d.Tries != i+1 || !d.DueAt.Equal(engine.FromMS(engine.ToMS(w.DB.Now().Add(pause)))) {
				t.Fatalf("%d: %+v", i, d)
			}
			w.Clock.Advance(pause - time.Millisecond)
			if due, err := w.p.Due(w.Ctx, 10); err != nil || len(due) > 0 {
				t.Fatalf("%d: due too early: %v", i, due)
			}
			w.Clock.Advance(time.Millisecond)
		}
		w.attempt(500)
		if d := w.delivery(e); d.State != alert.Failed || !d.DueAt.IsZero() || len(d.Attempts) != 8 {
			t.Errorf("%+v", d)
		}
		again, err := w.p.Resend(w.Ctx, e.ID, made.Message.ID)
		w.OK(err)
		if after := w.attempt(204); !after.FailingSince.IsZero() {
			t.Errorf("%+v", after)
		}
		d := w.delivery(e)
		if d.State != alert.Delivered || d.Message.ID != again.Message.ID || len(d.Attempts) != 9 || !d.Attempts[8].Succeeded() {
			t.Errorf("%+v", d)
		}
		for _, missing := range [][2]string{{e.ID, "msg_x"}, {"ep_x", made.Message.ID}} {
			if _, err := w.p.Resend(w.Ctx, missing[0], missing[1]); !budget.Is(err, budget.DeliveryNotFound) &&
				!budget.Is(err, budget.WebhookNotFound) {
				t.Errorf("%v: %v", missing, err)
			}
		}
	})
}

// TestDisabledByOperator checks that what waits for an endpoint when an operator disables it, and what
// is written meanwhile, is sent once the endpoint is enabled.
func TestDisabledByOperator(t *testing.T) {
	each(t, func(w *world) {
		b := w.Create("a", 1000, 1)
		e := w.endpoint(alert.Endpoint{})
		enable := func(on bool) {
			_, err := w.p.ChangeEndpoint(w.Ctx, e.ID, alert.EndpointChange{Enabled: &on})
			w.OK(err)
		}
		due := func(when string, want int) {
			w.Helper()
			found, _, err := w.p.Waiting(w.Ctx, 10)
			w.OK(err)
			if found != want {
				t.Errorf("%s: %d deliveries are due, want %d", when, found, want)
			}
		}
		w.use(b, 850)
		w.pass(w.a)
		due("an alert fires", 1)
		enable(false)
		w.Clock.Advance(time.Hour)
		due("disabled", 0)
		w.use(b, 150)
		w.Clock.Advance(time.Minute)
		w.pass(w.a)
		due("another fires meanwhile", 0)
		waiting := len(w.sent(e))
		enable(true)
		due("enabled", waiting)
		if waiting < 2 {
			t.Errorf("%d messages waited: %v", waiting, w.sent(e))
		}
	})
}

// TestDisabled checks that an endpoint is disabled after five days of failures, and when it answers
// that it is gone.
func TestDisabled(t *testing.T) {
	each(t, func(w *world) {
		e := w.endpoint(alert.Endpoint{Tenant: "shop"})
		test := func() {
			w.Helper()
			_, err := w.p.Test(w.Ctx, e.ID)
			w.OK(err)
		}
		test()
		w.attempt(0)
		w.Exec([]any{`UPDATE webhook_delivery SET due_ms = NULL`})
		w.Clock.Advance(alert.DisableAfter - time.Second)
		test()
		if after := w.attempt(500); after.Disabled != "" {
			t.Errorf("%+v", after)
		}
		w.Exec([]any{`UPDATE webhook_delivery SET due_ms = NULL`})
		watcher, stranger := w.endpoint(alert.Endpoint{}), w.endpoint(alert.Endpoint{Tenant: "other"})
		w.Clock.Advance(time.Second)
		test()
		if after := w.attempt(500); after.Disabled != alert.Failing {
			t.Errorf("%+v", after)
		}
		w.same("told", w.sent(watcher), []string{"endpoint.disabled"})
		w.same("not told", w.sent(stranger), nil)
		if d := w.delivery(e); d.State != alert.Failed {
			t.Errorf("%+v", d)
		}
		w.attempt(200) // the watcher's
		test()
		w.attempt(200) // a disabled endpoint gets tests and stays disabled
		on := true
		if got, err := w.p.Endpoint(w.Ctx, e.ID); err != nil || got.Disabled != alert.Failing {
			t.Errorf("%+v, %v", got, err)
		}
		got, err := w.p.ChangeEndpoint(w.Ctx, e.ID, alert.EndpointChange{Enabled: &on})
		if err != nil || got.Disabled != "" || !got.FailingSince.IsZero() {
			t.Errorf("%+v, %v", got, err)
		}
		test()
		if after := w.attempt(410); after.Disabled != alert.Gone {
			t.Errorf("%+v", after)
		}
	})
}

// TestDeletedMeanwhile deletes an endpoint during an attempt.
func TestDeletedMeanwhile(t *testing.T) {
	each(t, func(w *world) {
		e := w.endpoint(alert.Endpoint{})
		d, err := w.p.Test(w.Ctx, e.ID)
		w.OK(err)
		w.OK(w.p.DeleteEndpoint(w.Ctx, e.ID))
		if _, _, ok, err := w.p.Claim(context.Background(), alert.Due{Endpoint: e.ID, Message: d.Message.ID, At: d.DueAt},
			time.Minute); ok || err != nil {
			t.Errorf("%t, %v", ok, err)
		}
		state, _, err := w.p.Finish(w.Ctx, d, alert.Attempt{At: w.DB.Now(), Status: 200}, 0)
		if state != "" || err != nil {
			t.Errorf("%q, %v", state, err)
		}
	})
}
