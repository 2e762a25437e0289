package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// aDay is a limit as callers write it.
var aDay = client.Limit{Name: "per-user", Dimension: "user", Max: 5, Measure: budget.MeasureCount,
	Window:    client.Window{Kind: budget.WindowCalendar, Every: budget.Day, Timezone: "Europe/Berlin"},
	Overrides: []client.Override{{Value: "thief", Max: new(int64)}, {Values: []string{"staff"}, Exempt: true}}}

const aDayText = `{"name":"per-user","dimension":"user","window":{"kind":"calendar","every":"day","timezone":"Europe/Berlin"},` +
	`"max":5,"measure":"count","overrides":[{"value":"thief","max":0},{"values":["staff"],"exempt":true}]}`

// TestLimitRequests checks what the calls on limits send, and that the limits of a budget are decoded.
func TestLimitRequests(t *testing.T) {
	var got *client.Budget
	off := false
	at := time.Date(2026, 5, 1, 0, 0, 0, 0, time.FixedZone("", 3600))
	tests := []struct {
		name string
		call func(ctx context.Context, c *client.Client) error
		want seen
	}{
		{"create", func(ctx context.Context, c *client.Client) (err error) {
			got, err = c.Create(ctx, client.CreateRequest{Name: "b", Unit: "count", Unlimited: true, RoutingDimension: "user",
				Limits: []client.Limit{aDay, {Name: "x", Dimension: "user+ad", Optional: true, Enforce: &off, Measure: "amount",
					Window: client.Window{Kind: "sliding", Length: "8h", Slot: "10m"}}}})
			return err
		}, seen{"POST", "/v1/budgets", `{"name":"b","tenant":"games","unit":"count","unlimited":true,"routing_dimension":"user",` +
			`"limits":[` + aDayText + `,{"name":"x","dimension":"user+ad","optional":true,"window":{"kind":"sliding","length":"8h",` +
			`"slot":"10m"},"max":0,"measure":"amount","enforce":false}]}`, "application/json", ""}},
		{"other limits", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{Limits: []client.Limit{aDay}, IfVersion: 3})
			return err
		}, seen{"PATCH", "/v1/budgets/b?tenant=games", `{"limits":[` + aDayText + `]}`, "application/json", `"3"`}},
		{"no limits", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{Limits: []client.Limit{}})
			return err
		}, seen{"PATCH", "/v1/budgets/b?tenant=games", `{"limits":[]}`, "application/json", ""}},
		{"a limit that leaves out what has a default", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{Limits: []client.Limit{{Name: "x", Dimension: "user", Max: 4,
				Window: client.Window{Kind: "lifetime"}}}})
			return err
		}, seen{"PATCH", "/v1/budgets/b?tenant=games", `{"limits":[{"name":"x","dimension":"user","window":{"kind":"lifetime"},` +
			`"max":4}]}`, "application/json", ""}},
		{"limits left as they are", func(ctx context.Context, c *client.Client) error {
			_, err := c.Patch(ctx, "b", client.PatchRequest{Status: budget.Paused})
			return err
		}, seen{"PATCH", "/v1/budgets/b?tenant=games", `{"status":"paused"}`, "application/json", ""}},
		{"dry run", func(ctx context.Context, c *client.Client) error {
			_, err := c.DryRun(ctx, "b", client.DeductRequest{RequestID: "o1", Amount: 5, Counts: map[string]int64{"x": 0}})
			return err
		}, seen{"POST", "/v1/budgets/b/deduct?tenant=games", `{"request_id":"o1","amount":5,"counts":{"x":0},"dry_run":true}`,
			"application/json", ""}},
		{"usage", func(ctx context.Context, c *client.Client) error {
			_, err := c.Usage(ctx, "b", client.UsageRequest{Dimensions: map[string]string{"from": "a b"}, From: at})
			return err
		}, seen{"GET", "/v1/budgets/b/usage?dimension.from=a+b&from=2026-05-01T00%3A00%3A00%2B01%3A00&tenant=games", "", "", ""}},
		{"nearest", func(ctx context.Context, c *client.Client) error {
			_, err := c.Nearest(ctx, "b", "per user", 5)
			return err
		}, seen{"GET", "/v1/budgets/b/limits/per%20user/nearest?limit=5&tenant=games", "", "", ""}},
		{"overrides", func(ctx context.Context, c *client.Client) error {
			_, err := c.Overrides(ctx, "b", "per-user", client.OverrideQuery{Values: []string{"a", "b"}, PageSize: 5, PageToken: "t"})
			return err
		}, seen{"GET", "/v1/budgets/b/limits/per-user/overrides?page_size=5&page_token=t&tenant=games&value=a&value=b", "", "", ""}},
		{"overrides are set", func(ctx context.Context, c *client.Client) error {
			_, err := c.SetOverrides(ctx, "b", "per-user", aDay.Overrides...)
			return err
		}, seen{"PUT", "/v1/budgets/b/limits/per-user/overrides?tenant=games",
			`{"overrides":[{"value":"thief","max":0},{"values":["staff"],"exempt":true}]}`, "application/json", ""}},
		{"an override is removed", func(ctx context.Context, c *client.Client) error {
			_, err := c.RemoveOverride(ctx, "b", "per-user", "vip")
			return err
		}, seen{"DELETE", "/v1/budgets/b/limits/per-user/overrides?tenant=games&value=vip", "", "", ""}},
		{"nearest, usual number", func(ctx context.Context, c *client.Client) error {
			_, err := c.Nearest(ctx, "b", "per-user", 0)
			return err
		}, seen{"GET", "/v1/budgets/b/limits/per-user/nearest?tenant=games", "", "", ""}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := newScripted(t, answer(200, `{"name":"b","unlimited":true,"total_quantity":null,"remaining":null,"limits":[`+
				aDayText+`]}`))
			c, _ := impatient(t, server.URL, client.WithTenant("games"))
			if err := test.call(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]seen{test.want}, server.log(), cmpopts.EquateComparable(seen{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	if diff := cmp.Diff(&client.Budget{Name: "b", Unlimited: true, Limits: []client.Limit{aDay}}, got); diff != "" {
		t.Error(diff)
	}
}

const exceeded = `{"status":429,"code":"limit_exceeded","detail":"D","limit":"per-user","dimension":"user","value":"u1","used":5,
	"max":5,"reset_at":"2026-05-02T00:00:00Z","retry_after":5400.5}`

// checkExceeded checks that an error is a final refusal with the limit, its value, usage and end.
func checkExceeded(t *testing.T, err error) {
	t.Helper()
	var p *client.Problem
	five := int64(5)
	want := &client.LimitState{Name: "per-user", Dimension: "user", Value: "u1", Used: 5, Max: &five,
		ResetAt: time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC)}
	if !errors.As(err, &p) || client.KindOf(err) != budget.Refused || p.Code != budget.LimitExceeded ||
		p.RetryAfter != 5400500*time.Millisecond {
		t.Fatalf("%#v", err)
	}
	if diff := cmp.Diff(want, p.Limit); diff != "" {
		t.Error(diff)
	}
}

// TestCheck checks that results are decoded.
func TestCheck(t *testing.T) {
	server := newScripted(t, answer(200, `{"results":[{"outcome":"would_be_accepted","amount":1,"budget_remaining":null,
		"unlimited":true,"limits":[{"name":"x","dimension":"user","value":"u1","used":9,"exempt":true}]},`+exceeded+`]}`))
	c, _ := impatient(t, server.URL)
	results, err := c.Check(t.Context(), []client.CheckItem{{Budget: "a", Amount: 1}, {Budget: "b", Amount: 2}})
	if err != nil || len(results) != 2 {
		t.Fatal(err, results)
	}
	want := &client.Foreseen{Outcome: "would_be_accepted", Amount: 1, Unlimited: true, Limits: []client.LimitState{
		{Name: "x", Dimension: "user", Value: "u1", Used: 9, Exempt: true}}}
	if diff := cmp.Diff(want, results[0].Answer); diff != "" || results[0].Err != nil {
		t.Error(diff, results[0].Err)
	}
	checkExceeded(t, results[1].Err)
}

func TestChecksThatChangeNothing(t *testing.T) {
	ctx := t.Context()
	server := newScripted(t, lost, lost, lost, lost)
	c, _ := impatient(t, server.URL)
	if _, err := c.DryRun(ctx, "a", client.DeductRequest{RequestID: "o1", Amount: 1}); client.KindOf(err) != budget.NotDone {
		t.Errorf("a failed dry run must count as not done: %v", err)
	}
	asked := len(server.log())
	if _, err := c.Check(ctx, make([]client.CheckItem, client.MaxChecks+1)); client.KindOf(err) != budget.Faulty {
		t.Error(err)
	}
	got, err := c.Check(ctx, nil)
	if diff := cmp.Diff([]client.CheckResult(nil), got, cmpopts.EquateEmpty()); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if n := len(server.log()); n != asked {
		t.Errorf("%d requests were sent", n-asked)
	}
}
