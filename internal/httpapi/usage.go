package httpapi

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json/jsontext"
)

// Usages are the service's sums over the values of dimensions.
type Usages interface {
	Usage(ctx context.Context, request bucket.UsageRequest) (bucket.Usage, error)
}

// dimensionPrefix names a dimension in a query that is called like another parameter: dimension.from=f1.
const dimensionPrefix = "dimension."

func (a *API) usage(c *call) (answer, error) {
	query, dimensions := c.dimensions("tenant", "from", "to")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	request := bucket.UsageRequest{Budget: ref, Dimensions: dimensions}
	request.From, request.To = c.instant(query, "from"), c.instant(query, "to")
	switch {
	case len(dimensions) == 0:
		c.faults.Invalid("", "name at least one dimension and its value, such as ?user=u1")
	case len(dimensions) > budget.MaxDimensions:
		c.faults.Invalid("", "has more than %d dimensions", budget.MaxDimensions)
	}
	if !request.From.IsZero() && !request.To.IsZero() && !request.To.After(request.From) {
		c.faults.Invalid("to", "must be after from")
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	got, err := a.service.Usage(c.ctx, request)
	return answer{body: usageView{
		Dimensions: jsontext.Value(ledger.Dimensions(dimensions)), From: inUTC(request.From), To: inUTC(request.To),
		Calls: got.Calls, Amount: got.Amount, RolledBack: got.RolledBack}}, err
}

// dimensions reads a query whose parameters, but for the ones named, are dimensions.
func (c *call) dimensions(others ...string) (url.Values, map[string]string) {
	all, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		c.faults.Malformed("", "the query is not well formed")
	}
	rest, dimensions := url.Values{}, map[string]string{}
	for name, values := range all {
		if len(values) > 1 {
			c.faults.Malformed(name, "appears %d times", len(values))
		}
		if slices.Contains(others, name) {
			rest[name] = values
			continue
		}
		dimension := strings.TrimPrefix(name, dimensionPrefix)
		if _, twice := dimensions[dimension]; twice {
			c.faults.Malformed(dimension, "appears twice")
		}
		if why := budget.CheckKey(dimension); why != "" {
			c.faults.Invalid(name, "the name of a dimension %s", why)
		}
		if why := budget.CheckKey(values[0]); why != "" {
			c.faults.Invalid(name, "%s", why)
		}
		dimensions[dimension] = values[0]
	}
	return rest, dimensions
}

// usageView is what was counted for values of dimensions. Amounts are minor units.
type usageView struct {
	Dimensions jsontext.Value `json:"dimensions"`
	// From is the first instant that counts, To the first one that does not; left out: no bound.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Calls is how many deductions, Amount what they deducted, RolledBack what of that was given back.
	Calls      int64 `json:"calls"`
	Amount     int64 `json:"amount"`
	RolledBack int64 `json:"rolled_back"`
}
