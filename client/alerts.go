package client

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Threshold says when a budget needs attention.
type Threshold struct {
	// Kind is used_share, exhausted, projected, stranded_share or quarantine.
	Kind string `json:"kind"`
	// Of is total or period, for used_share also limit; "" for the last two kinds.
	Of string `json:"of,omitzero"`
	// Percent is 1 to 100, for the shares; else 0.
	Percent int64 `json:"percent,omitzero"`
	// Limit is the name of a limit of one dimension, Value the watched value.
	Limit string `json:"limit,omitzero"`
	Value string `json:"value,omitzero"`
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

// Thresholds are the thresholds of a budget. Own is false for the defaults.
type Thresholds struct {
	Thresholds []Threshold `json:"thresholds"`
	Own        bool        `json:"own"`
}

// Thresholds returns the thresholds of a budget. Errors: budget_not_found.
func (c *Client) Thresholds(ctx context.Context, name string) (*Thresholds, error) {
	var answer Thresholds
	_, err := c.do(ctx, c.get("thresholds", name, "thresholds"), &answer)
	return result(&answer, err)
}

// SetThresholds replaces the thresholds of a budget; nil restores the defaults. Errors:
// budget_not_found, invalid, ledger_mode_only.
func (c *Client) SetThresholds(ctx context.Context, name string, list []Threshold) (
	*Thresholds, error,
) {
	body := map[string]any{"thresholds": nil}
	if list != nil {
		body["thresholds"] = list
	}
	what := c.post("set thresholds", body, name, "thresholds")
	what.method, what.repeatable = http.MethodPut, true
	var answer Thresholds
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
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

// AlertQuery selects alerts; zero fields select all.
type AlertQuery struct {
	Budget string
	// State is "firing" or "resolved".
	State     string
	PageSize  int
	PageToken string
}

// AlertPage is a part of the alerts, newest first.
type AlertPage struct {
	Alerts []Alert `json:"alerts"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}

// Alerts returns a page of the alerts of the client's tenant, or of all tenants with "". Errors:
// budget_not_found, forbidden.
func (c *Client) Alerts(ctx context.Context, q AlertQuery) (*AlertPage, error) {
	query := c.inTenant()
	set(query, "budget", q.Budget)
	set(query, "state", q.State)
	set(query, "page_token", q.PageToken)
	if q.PageSize > 0 {
		query.Set("page_size", strconv.Itoa(q.PageSize))
	}
	var answer AlertPage
	_, err := c.do(ctx, call{op: "alerts", method: http.MethodGet, path: []string{"v1", "alerts"},
		query: query, repeatable: true}, &answer)
	return result(&answer, err)
}
