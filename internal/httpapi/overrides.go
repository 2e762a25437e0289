package httpapi

import (
	"context"
	"encoding/base64"
	"net/url"
	"strings"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// OverrideList is the part of the service that reads and changes the overrides of limits.
type OverrideList interface {
	// Override sets and removes overrides, and returns those that were set.
	Override(ctx context.Context, request bucket.OverrideRequest) (bucket.Overrides, error)
	// Overrides reads a page. A page with fewer overrides than its size is the last one.
	Overrides(ctx context.Context, request bucket.OverridesRequest) (bucket.Overrides, error)
}

func (a *API) listOverrides(c *call) (answer, error) {
	query := c.lists("value", "tenant", "page_size", "page_token")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	request := bucket.OverridesRequest{Budget: ref, Limit: c.r.PathValue("name"),
		Most: c.pageSize(query), Values: c.values(query)}
	if query.Has("page_token") {
		after, ok := parseKeyToken(query.Get("page_token"))
		if !ok {
			c.faults.Invalid("page_token", "is not a next_page_token of an earlier page")
		}
		request.After = after
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	got, err := a.service.Overrides(c.ctx, request)
	page := pageOf(&got)
	if len(got.List) == request.Most && request.Values == nil {
		page.NextPageToken = keyToken(got.Last)
	}
	return answer{body: page}, err
}

func (a *API) setOverrides(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.OverridesRequest
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	list := body.Overrides
	if list == nil {
		list = []api.Override{body.One()}
	}
	return a.override(c, bucket.OverrideRequest{Budget: ref, Set: overridesIn(list)})
}

func (a *API) removeOverride(c *call) (answer, error) {
	query := c.lists("value", "tenant")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	request := bucket.OverrideRequest{Budget: ref, Remove: c.values(query)}
	if request.Remove == nil {
		c.faults.Invalid("value", "is missing")
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	return a.override(c, request)
}

func (a *API) override(c *call, request bucket.OverrideRequest) (answer, error) {
	request.Limit = c.r.PathValue("name")
	got, err := a.service.Override(c.ctx, request)
	return answer{body: pageOf(&got)}, err
}

// values reads the value of a dimension, or one for each of a combined one; nil if it is absent.
func (c *call) values(query url.Values) []string {
	if !query.Has("value") {
		return nil
	}
	for _, value := range query["value"] {
		if why := budget.CheckKey(value); why != "" {
			c.faults.Invalid("value", "%s", why)
		}
	}
	return query["value"]
}

// overridesIn returns the overrides of a body; nil stays nil.
func overridesIn(list []api.Override) []budget.Override {
	if list == nil {
		return nil
	}
	out := make([]budget.Override, len(list))
	for i, o := range list {
		out[i] = budget.Override{Value: o.Value, Values: o.Values, Exempt: o.Exempt}
		if o.Max != nil {
			out[i].Max = *o.Max
		}
	}
	return out
}

func pageOf(got *bucket.Overrides) api.OverridePage {
	page := api.OverridePage{Overrides: make([]api.Override, len(got.List)), OverrideCount: got.Count}
	for i, o := range got.List {
		page.Overrides[i] = api.Override{Value: o.Value, Values: o.Values, Exempt: o.Exempt}
		if !o.Exempt {
			page.Overrides[i].Max = &got.List[i].Max
		}
	}
	return page
}

// keyToken encodes the key of the last override of a page. It is opaque to callers.
func keyToken(key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pageTokenFormat + key))
}

func parseKeyToken(token string) (key string, ok bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	key, found := strings.CutPrefix(string(text), pageTokenFormat)
	return key, err == nil && found && key != "" && keyToken(key) == token // base64 skips line breaks
}
