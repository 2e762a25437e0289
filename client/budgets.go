package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// CreateRequest defines a budget. Zero fields are left out and take the service's defaults.
// Quantities are minor units, 1 … 9007199254740991.
type CreateRequest struct {
	Name string `json:"name"`
	// Tenant defaults to the client's (WithTenant), and that to the service's "default".
	Tenant        string            `json:"tenant,omitzero"`
	GLCode        string            `json:"gl_code,omitzero"`
	Unit          budget.Unit       `json:"unit"`
	Durability    budget.Durability `json:"durability,omitzero"`
	TotalQuantity int64             `json:"total_quantity,omitzero"`
	Type          budget.Type       `json:"type,omitzero"`
	// BucketQuantity is the number of buckets; 0 means one per 1,000 units, or 1,000,000 for
	// "amount".
	BucketQuantity int `json:"bucket_quantity,omitzero"`
	// ShardingQuantity is the most that one apply may take; 0 means no bound.
	ShardingQuantity int64 `json:"sharding_quantity,omitzero"`
	// AdjustCnt is how often one bucket may apply for units that no bucket had; 0 means no bound.
	AdjustCnt int       `json:"adjust_cnt,omitzero"`
	StartAt   time.Time `json:"start_at,omitzero"`
	EndAt     time.Time `json:"end_at,omitzero"`
	// TypeRule defines the periods of a daily budget, and what each of them gets.
	TypeRule *budget.Rule `json:"type_rule,omitzero"`
	// Timezone is the IANA zone of the periods; "" means UTC.
	Timezone string `json:"timezone,omitzero"`
	// LateRefund is the destination of a refund whose period is over: budget.ToTotal (the default),
	// budget.Next or budget.Forfeit.
	LateRefund budget.Where `json:"late_refund,omitzero"`
	// Unlimited budgets have no total; only limits bound deductions. Type may then be left out.
	Unlimited bool `json:"unlimited,omitzero"`
	// RoutingDimension is the dimension whose value picks the bucket of a request without a key.
	RoutingDimension string `json:"routing_dimension,omitzero"`
	// Limits bound what each value of a dimension may take.
	Limits []Limit `json:"limits,omitempty"`
	// OnLoss is the policy for units whose store lost its memory (store mode); "" means quarantine.
	OnLoss budget.OnLoss `json:"on_loss,omitzero"`
	// AllowPast accepts an end that has passed.
	AllowPast bool `json:"allow_past,omitzero"`
	// DryRun creates nothing: the answer is the budget as it would be, with what its Periods would
	// get.
	DryRun bool `json:"dry_run,omitzero"`
}

// PatchRequest changes a budget; nil and "" leave a field unchanged.
type PatchRequest struct {
	Status budget.Status // budget.Paused or budget.Effective
	// Name, GLCode and Unit correct what was given wrongly; GLCode may become "". A budget that is
	// renamed is another one to keys that are bound to names.
	Name   string
	GLCode *string
	Unit   budget.Unit
	// StartAt is another start while the start is to come; the zero time is now.
	StartAt *time.Time
	// Archived leaves a budget that is over out of lists, or shows it again.
	Archived *bool
	// EndAt pointing to the zero time removes the end.
	EndAt     *time.Time
	AllowPast bool // accepts an end that has passed
	// ShardingQuantity and AdjustCnt: 0 removes the bound.
	ShardingQuantity *int64
	AdjustCnt        *int
	// BucketQuantity is the number of buckets, 1 to 1,024; nil leaves it unchanged.
	BucketQuantity *int
	// TypeRule and Timezone are another rule of a daily budget and another zone. They end the open
	// period, unless it continues under the new rule from the same start and gets no less.
	TypeRule *budget.Rule
	Timezone string
	// LateRefund is budget.ToTotal, budget.Next or budget.Forfeit.
	LateRefund budget.Where
	// Limits replace all of the budget's: an empty list removes them, nil leaves them unchanged.
	Limits []Limit
	// IfVersion applies the change only to that version of the budget, else returns
	// version_conflict; 0 means any version. It is sent as If-Match.
	IfVersion int64
}

// patchBody is the JSON of a PatchRequest: null removes an instant.
type patchBody struct {
	Status           budget.Status  `json:"status,omitzero"`
	Name             string         `json:"name,omitzero"`
	GLCode           *string        `json:"gl_code,omitzero"`
	Unit             budget.Unit    `json:"unit,omitzero"`
	StartAt          jsontext.Value `json:"start_at,omitzero"`
	Archived         *bool          `json:"archived,omitzero"`
	EndAt            jsontext.Value `json:"end_at,omitzero"`
	AllowPast        bool           `json:"allow_past,omitzero"`
	ShardingQuantity *int64         `json:"sharding_quantity,omitzero"`
	AdjustCnt        *int           `json:"adjust_cnt,omitzero"`
	BucketQuantity   *int           `json:"bucket_quantity,omitzero"`
	TypeRule         *budget.Rule   `json:"type_rule,omitzero"`
	Timezone         string         `json:"timezone,omitzero"`
	LateRefund       budget.Where   `json:"late_refund,omitzero"`
	Limits           *[]Limit       `json:"limits,omitzero"`
}

func (r PatchRequest) body() (patchBody, error) {
	body := patchBody{Status: r.Status, Name: r.Name, GLCode: r.GLCode, Unit: r.Unit,
		Archived: r.Archived, AllowPast: r.AllowPast, ShardingQuantity: r.ShardingQuantity,
		AdjustCnt: r.AdjustCnt, Timezone: r.Timezone,
		BucketQuantity: r.BucketQuantity, TypeRule: r.TypeRule, LateRefund: r.LateRefund}
	if r.Limits != nil {
		body.Limits = &r.Limits
	}
	var failed error
	at := func(at *time.Time) (text jsontext.Value) {
		switch {
		case at == nil:
		case at.IsZero():
			text = jsontext.Value("null")
		default:
			var err error
			text, err = json.Marshal(at)
			failed = errors.Join(failed, err)
		}
		return text
	}
	body.StartAt, body.EndAt = at(r.StartAt), at(r.EndAt)
	return body, failed
}

// Budget is a budget's definition and its live view. Quantities are minor units.
type Budget struct {
	ID         int64             `json:"id"`
	Tenant     string            `json:"tenant"`
	Name       string            `json:"name"`
	GLCode     string            `json:"gl_code,omitzero"`
	Unit       budget.Unit       `json:"unit"`
	Durability budget.Durability `json:"durability"`
	Type       budget.Type       `json:"type,omitzero"`
	// Unlimited means that there is no total; the figures of what is left are then 0.
	Unlimited        bool   `json:"unlimited,omitzero"`
	RoutingDimension string `json:"routing_dimension,omitzero"`
	// TypeRule, Timezone and LateRefund belong to daily budgets, with defaults written out.
	TypeRule   *budget.Rule `json:"type_rule,omitzero"`
	Timezone   string       `json:"timezone,omitzero"`
	LateRefund budget.Where `json:"late_refund,omitzero"`
	// OnLoss belongs to budgets in store mode.
	OnLoss           budget.OnLoss `json:"on_loss,omitzero"`
	BucketQuantity   int           `json:"bucket_quantity"`
	ShardingQuantity int64         `json:"sharding_quantity,omitzero"`
	AdjustCnt        int           `json:"adjust_cnt,omitzero"`
	StartAt          time.Time     `json:"start_at,omitzero"`
	EndAt            time.Time     `json:"end_at,omitzero"`
	// EffectiveAt is the first instant at which units can be deducted, NextResetAt the beginning of
	// the next period of a daily budget; zero means none.
	EffectiveAt time.Time     `json:"effective_at,omitzero"`
	NextResetAt time.Time     `json:"next_reset_at,omitzero"`
	CreatedAt   time.Time     `json:"created_at,omitzero"`
	UpdatedAt   time.Time     `json:"updated_at,omitzero"`
	Status      budget.Status `json:"status"`
	// Archived budgets are over, and lists leave them out.
	Archived bool `json:"archived,omitzero"`
	// Version increases with every change of the definition.
	Version int64 `json:"version"`

	TotalQuantity int64 `json:"total_quantity"`
	// OutQuantity is what was handed out: total − undistributed − forfeited.
	OutQuantity int64 `json:"out_quantity"`
	// Undistributed is what no bucket holds, NotFunded the part that no period has received.
	Undistributed int64 `json:"undistributed"`
	NotFunded     int64 `json:"not_funded"`
	// PendingShrink is what pending shrinks still wait for.
	PendingShrink int64 `json:"pending_shrink,omitzero"`
	// Remaining is what deductions can take now, InBuckets the part of it in open buckets.
	Remaining int64 `json:"remaining"`
	InBuckets int64 `json:"in_buckets"`
	Held      int64 `json:"held"`
	Used      int64 `json:"used"`
	// InTransit is on the way back to the total.
	InTransit   int64 `json:"in_transit"`
	Quarantined int64 `json:"quarantined"`
	Forfeited   int64 `json:"forfeited"`
	// Period is the open one of a daily budget, or the next if none is open; nil after the last.
	Period *Period `json:"period,omitzero"`
	// Periods are the first ones and the last one, for a dry run only.
	Periods []Planned   `json:"periods,omitempty"`
	Buckets BucketCount `json:"buckets"`
	Limits  []Limit     `json:"limits,omitempty"`

	// ExhaustedAt is when the last unit is used at the recent rate, zero if there is no such instant.
	// Only lists with a Search, Sort or Skip have it.
	ExhaustedAt time.Time `json:"exhausted_at,omitzero"`
	// Refusals is how many deductions the server refused in the last 8 to 15 minutes. Only lists
	// sorted by refusals have it, otherwise it is nil.
	Refusals *int64 `json:"refusals,omitzero"`
}

// Period is a span of time whose units are handed out within it.
type Period struct {
	// Number counts the budget's periods from 1.
	Number int64 `json:"number"`
	// Start is its first instant, End the first one after it; zero means unbounded.
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
	// Total is what it got, Used the used part of it.
	Total int64 `json:"total"`
	Used  int64 `json:"used"`
}

// Planned is a period of a budget that was not created, and what it would get, in minor units.
type Planned struct {
	Number   int64     `json:"number"`
	Start    time.Time `json:"start,omitzero"`
	End      time.Time `json:"end,omitzero"`
	Quantity int64     `json:"quantity"`
}

// BucketCount is how many of a budget's buckets serve, and how many do not.
type BucketCount struct {
	Online  int `json:"online"`
	Offline int `json:"offline"`
	// Unreachable is how many are on stores that the server cannot reach, for a single budget only.
	Unreachable int `json:"unreachable,omitzero"`
}

// Create creates a budget and returns it. The same definition again returns the existing budget;
// another definition under a taken name is name_taken.
func (c *Client) Create(ctx context.Context, request CreateRequest) (*Budget, error) {
	if request.Tenant == "" {
		request.Tenant = c.tenant
	}
	var answer Budget
	_, err := c.do(ctx, call{
		op: "create", method: http.MethodPost, path: []string{"v1", "budgets"},
		body: request, repeatable: true,
	}, &answer)
	return result(&answer, err)
}

// Budget returns a budget by its name or id. Errors: budget_not_found.
func (c *Client) Budget(ctx context.Context, name string) (*Budget, error) {
	var answer Budget
	_, err := c.do(ctx, c.get("get", name), &answer)
	return result(&answer, err)
}

// Patch changes a budget and returns the result; the change applies on every node within a second.
// Without IfVersion and Name a lost answer is retried; with them the outcome stays unknown, because
// the first attempt may have changed the version or the name. Errors: budget_not_found, invalid,
// version_conflict, name_taken, budget_not_over.
func (c *Client) Patch(ctx context.Context, name string, request PatchRequest) (*Budget, error) {
	body, err := request.body()
	if err != nil {
		return nil, fmt.Errorf("patch: request cannot be written: %w", err)
	}
	what := c.post("patch", body, name)
	what.method, what.repeatable = http.MethodPatch, request.IfVersion == 0 && request.Name == ""
	if request.IfVersion != 0 {
		what.header = http.Header{"If-Match": {fmt.Sprintf(`"%d"`, request.IfVersion)}}
	}
	var answer Budget
	_, err = c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Filter selects a page of budgets; zero fields select everything.
type Filter struct {
	Status    budget.Status
	Type      budget.Type
	PageSize  int
	PageToken string // a page's NextPageToken
	// Archived lists archived budgets too.
	Archived bool
	// Search is a part of the name.
	Search string
	// Sort is name, remaining, used_share, end, refusals or exhausted_at; a minus in front reverses
	// the order. "" orders by tenant and name.
	Sort string
	// Skip is how many budgets to leave out. With a Search, Sort or Skip the pages have no tokens.
	Skip int
}

// ranked reports whether the server searches and sorts budgets for the filter.
func (filter *Filter) ranked() bool {
	return filter.Search != "" || filter.Sort != "" || filter.Skip != 0
}

// Page is a part of the list of budgets.
type Page struct {
	// Total is how many budgets were found, RankedAt when the server last looked at all budgets for
	// their order. Both are only for a Search, Sort or Skip.
	Total    *int64    `json:"total,omitzero"`
	RankedAt time.Time `json:"ranked_at,omitzero"`
	Budgets  []Budget  `json:"budgets"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}

// List returns one page of the tenant's budgets.
func (c *Client) List(ctx context.Context, filter Filter) (*Page, error) {
	query := c.inTenant()
	set(query, "status", string(filter.Status))
	set(query, "type", string(filter.Type))
	set(query, "page_token", filter.PageToken)
	set(query, "q", filter.Search)
	set(query, "sort", filter.Sort)
	if filter.Skip != 0 {
		query.Set("skip", strconv.Itoa(filter.Skip))
	}
	if filter.Archived {
		query.Set("archived", "true")
	}
	if filter.PageSize != 0 {
		query.Set("page_size", strconv.Itoa(filter.PageSize))
	}
	var answer Page
	_, err := c.do(ctx, call{
		op: "list", method: http.MethodGet, path: []string{"v1", "budgets"}, query: query,
		repeatable: true,
	}, &answer)
	return result(&answer, err)
}

// rankedPage is the size of the pages of Budgets with a Search, Sort or Skip, unless it is given.
const rankedPage = 100

// Budgets iterates over all pages. It stops after an error, which comes with a zero Budget. It
// returns an error instead of looping if the service repeats a page token. With a Search, Sort or
// Skip, a budget may be missing or come twice if the order changes meanwhile.
func (c *Client) Budgets(ctx context.Context, filter Filter) iter.Seq2[Budget, error] {
	if filter.ranked() && filter.PageSize == 0 {
		filter.PageSize = rankedPage
	}
	return func(yield func(Budget, error) bool) {
		filter := filter
		for {
			page, err := c.List(ctx, filter)
			if err != nil {
				yield(Budget{}, err)
				return
			}
			for _, b := range page.Budgets {
				if !yield(b, nil) {
					return
				}
			}
			if filter.ranked() && page.Total != nil {
				filter.Skip += filter.PageSize
				if int64(filter.Skip) >= *page.Total {
					return
				}
				continue
			}
			if page.NextPageToken == "" {
				return
			}
			if page.NextPageToken == filter.PageToken {
				yield(Budget{}, fmt.Errorf("list: the service repeats page token %q", filter.PageToken))
				return
			}
			filter.PageToken = page.NextPageToken
		}
	}
}

// get returns a read below /v1/budgets/.
func (c *Client) get(op string, segments ...string) call {
	return call{
		op: op, method: http.MethodGet, path: append([]string{"v1", "budgets"}, segments...),
		query: c.inTenant(), repeatable: true,
	}
}

// post returns a change below /v1/budgets/ that must not be retried blindly.
func (c *Client) post(op string, body any, segments ...string) call {
	return call{
		op: op, method: http.MethodPost, path: append([]string{"v1", "budgets"}, segments...),
		query: c.inTenant(), body: body,
	}
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// result drops the answer of a failed call, so that no caller reads a partial answer.
func result[T any](answer *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return answer, nil
}
