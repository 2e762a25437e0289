package client

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/budget"
)

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
	what := c.post("patch", request, name)
	what.method, what.repeatable = http.MethodPatch, request.IfVersion == 0 && request.Name == ""
	if request.IfVersion != 0 {
		what.header = http.Header{"If-Match": {fmt.Sprintf(`"%d"`, request.IfVersion)}}
	}
	var answer Budget
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Filter selects a page of budgets; zero fields select everything.
type Filter struct {
	Status    budget.Status
	Type      budget.Type
	PageSize  int
	PageToken string // a page's NextPageToken
	// Parent lists the children of a budget only. It cannot be given with Search, Sort or Skip.
	Parent string
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

// List returns one page of the tenant's budgets.
func (c *Client) List(ctx context.Context, filter Filter) (*Page, error) {
	query := c.inTenant()
	set(query, "status", string(filter.Status))
	set(query, "type", string(filter.Type))
	set(query, "parent", filter.Parent)
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
				if filter.Skip >= *page.Total {
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

// Units returns a quantity of a budget, 0 for nil: an unlimited budget has no total.
func Units(quantity *int64) int64 {
	if quantity == nil {
		return 0
	}
	return *quantity
}

// MaxRemaining is the most names of one call of Remaining.
const MaxRemaining = 500

// Gauge is what a budget has left, as a node knows it.
type Gauge = api.Gauge

// Remaining returns what budgets have left, by name, for pages that list many. The figures are the
// node's, about a second old; the call waits for no database. A name is nil until the node has read
// it, within a second of the first call, and for a name that the caller has no budget of. Errors:
// Invalid for more than MaxRemaining names or a malformed one.
func (c *Client) Remaining(ctx context.Context, names ...string) (map[string]*Gauge, error) {
	if len(names) == 0 {
		return nil, nil
	}
	query := c.inTenant()
	query["budget"] = names
	var answer api.RemainingList
	_, err := c.do(ctx, call{op: "remaining", method: http.MethodGet,
		path: []string{"v1", "remaining"}, query: query, repeatable: true}, &answer)
	return answer.Budgets, err
}
