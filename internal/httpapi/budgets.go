package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/access"
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Budgets is the part of the service that acts on budgets. Errors are *budget.Error.
type Budgets interface {
	// Create creates a budget, or returns the existing one with the same definition and false.
	// BucketQuantity 0 means the default.
	Create(ctx context.Context, d budget.Definition) (v bucket.View, created bool, err error)
	// List returns a page. A page with fewer budgets than its size is the last one.
	List(ctx context.Context, page bucket.Page) ([]bucket.View, error)
	View(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error)
	Change(ctx context.Context, ref bucket.BudgetRef, change bucket.Change) (bucket.View, error)
	// Delete deletes a budget without deductions and returns it as it was.
	Delete(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error)
	// Adjust appends units, or shrinks the budget if the quantity is negative.
	Adjust(ctx context.Context, request bucket.AdjustRequest) (bucket.View, error)
}

// Families closes budgets.
type Families interface {
	// Close ends a child and its children, and gives back what they have left.
	Close(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error)
}

func (a *API) create(c *call) (answer, error) {
	c.query()
	body := creation{}
	body.Tenant = c.tenant(nil)
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	c.target(body.Tenant, body.Name, "")
	if err := c.mayCreate(&body.definition); err != nil {
		return answer{}, err
	}
	view, created, err := a.service.Create(c.ctx, body.definition)
	if err != nil {
		return answer{}, err
	}
	id := strconv.FormatInt(view.Definition.ID, 10)
	out := answer{body: budgetOf(&view), version: view.Definition.Version}
	if created {
		out.status, out.location = http.StatusCreated, "/v1/budgets/"+id
	}
	return out, nil
}

// mayCreate returns nil if the caller may create a budget. Errors: Forbidden; BudgetNotFound for a
// parent that is outside a delegate's subtree.
func (c *call) mayCreate(d *budget.Definition) error {
	if c.principal != nil && c.principal.Scope.Subtree != 0 {
		return c.mayCarve(d)
	}
	err := c.may(&c.route.access, access.Target{Tenant: d.Tenant, Budget: d.Name}, nil)
	if err != nil {
		return err
	}
	if d.ParentName != "" { // its units must be in the caller's scope too
		t := access.Target{Tenant: d.Tenant, Budget: d.ParentName, More: true}
		if err := c.may(&c.route.access, t, func() error {
			return budget.Refuse(budget.Forbidden, c.route.op,
				"the parent is outside the budgets of the key")
		}); err != nil {
			return err
		}
	}
	return c.mayCharge(d.Tenant, d.AlsoCharges.Names)
}

// mayCarve returns nil if a delegate may create a budget: out of one of its subtree, and with no
// charge on others. It sets the parent's id, so that no budget that just took the name gives units.
func (c *call) mayCarve(d *budget.Definition) error {
	if err := c.onTenant(d.Tenant); err != nil {
		return err
	}
	if d.ParentName == "" || len(d.AlsoCharges.Names) > 0 {
		return budget.Refuse(budget.Forbidden, c.route.op,
			"a delegate creates budgets with a parent in its subtree that charge no others")
	}
	parent, err := c.within(c.route.op, bucket.BudgetRef{Tenant: d.Tenant, Name: d.ParentName})
	d.Parent = parent.ID
	return err
}

// mayCharge refuses budgets in also_charges that are outside the caller's scope.
func (c *call) mayCharge(tenant string, names []string) error {
	for _, name := range names {
		t := access.Target{Tenant: tenant, Budget: name, More: true}
		if err := c.may(&c.route.access, t, func() error {
			return budget.Refuse(budget.Forbidden, c.route.op,
				"budgets in also_charges are outside the budgets of the key")
		}); err != nil {
			return err
		}
	}
	return nil
}

func (a *API) view(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	view, err := a.service.View(c.ctx, ref)
	return answer{body: c.shown(a.called(&view)), version: view.Definition.Version}, err
}

// pageOf reads a page of budgets. A delegate is not told which budgets of its subtree are the
// children of one outside.
func (c *call) pageOf(page bucket.Page) ([]bucket.View, error) {
	if page.Subtree != 0 && page.Parent != "" {
		_, err := c.within(c.route.op, bucket.BudgetRef{Tenant: page.Tenant, Name: page.Parent})
		if budget.Is(err, budget.BudgetNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return c.api.service.List(c.ctx, page)
}

// subtree returns the top of the caller's subtree, 0 without one.
func (c *call) subtree() int64 {
	if c.principal == nil {
		return 0
	}
	return c.principal.Scope.Subtree
}

// shown leaves out the name of the parent that is outside a delegate's subtree.
func (c *call) shown(b api.Budget) api.Budget {
	if top := c.subtree(); top != 0 && b.ID == top {
		b.Parent = ""
	}
	return b
}

// called returns the body that shows v, with what this node answered for it lately.
func (a *API) called(v *bucket.View) api.Budget {
	out, d := budgetOf(v), &v.Definition
	if a.dashboard == nil {
		return out
	}
	if n := a.dashboard.Calls(d.ID, d.Tenant, d.Name); n != (bucket.Answered{}) {
		calls := api.Calls(n)
		out.Calls = &calls
	}
	return out
}

// deleteBudget deletes a budget and returns it as it was.
func (a *API) deleteBudget(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	view, err := a.service.Delete(c.ctx, ref)
	return answer{body: budgetOf(&view)}, err
}

func (a *API) closeBudget(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.readOptional(&struct{}{}); err != nil {
		return answer{}, err
	}
	view, err := a.service.Close(c.ctx, ref)
	return answer{body: budgetOf(&view), version: view.Definition.Version}, err
}

func (a *API) change(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body patch
	body.IfVersion = c.ifMatch()
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	if status := (bucket.Change{Paused: body.change.Paused,
		IfVersion: body.IfVersion}); body.change != status {
		if err := c.more(ref); err != nil {
			return answer{}, err
		}
	}
	if body.Name != "" { // the new name must be in the caller's scope too
		t := access.Target{Tenant: ref.Tenant, Budget: body.Name, More: true}
		if err := c.may(&c.route.access, t, func() error {
			return budget.Refuse(budget.Forbidden, c.route.op,
				"the new name is outside the budgets of the key")
		}); err != nil {
			return answer{}, err
		}
	}
	if err := c.mayCharge(ref.Tenant, body.AlsoCharges); err != nil {
		return answer{}, err
	}
	view, err := a.service.Change(c.ctx, ref, body.change)
	return answer{body: budgetOf(&view), version: view.Definition.Version}, err
}

func (a *API) adjust(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.AppendRequest
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	c.target(ref.Tenant, c.named, body.RequestID)
	view, err := a.service.Adjust(c.ctx, bucket.AdjustRequest{
		Budget: ref, RequestID: body.RequestID, Quantity: body.Quantity,
	})
	out := api.Adjustment{
		RequestID: body.RequestID, Quantity: body.Quantity, State: string(bucket.AdjustmentDone),
		Replayed: view.Replayed, Budget: budgetOf(&view),
	}
	return answer{body: out, version: view.Definition.Version}, err
}

// The number of budgets in a page.
const defaultPageSize, maxPageSize = 100, 1000

// everyTenant lists the budgets of all tenants. It is not a valid name of a tenant.
const everyTenant = "*"

func (a *API) list(c *call) (answer, error) {
	query := c.query("tenant", "status", "type", "page_size", "page_token", "archived", "q", "sort",
		"skip", "parent", "trouble")
	page := bucket.Page{Size: c.pageSize(query), Parent: query.Get("parent"), Subtree: c.subtree()}
	if query.Get("tenant") != everyTenant {
		page.Tenant = c.tenant(query)
	} else if c.principal != nil {
		page.Tenant = c.principal.Scope.Tenant // "" means all tenants
	}
	if err := c.onTenant(page.Tenant); err != nil {
		return answer{}, err
	}
	if query.Has("archived") {
		page.Archived = query.Get("archived") == "true"
		if !page.Archived && query.Get("archived") != "false" {
			c.faults.Invalid("archived", "must be true or false")
		}
	}
	if query.Has("status") {
		page.Status = budget.Status(query.Get("status"))
		switch page.Status {
		case budget.Pending, budget.Effective, budget.Paused, budget.Expired:
		default:
			c.faults.Invalid("status", `must be "pending", "effective", "paused" or "expired"`)
		}
	}
	if query.Has("type") {
		page.Type = budget.Type(query.Get("type"))
		if page.Type != budget.Promo && page.Type != "daily" {
			c.faults.Invalid("type", `must be "promo" or "daily"`)
		}
	}
	if a.dashboard != nil && (query.Has("q") || query.Has("sort") || query.Has("skip") ||
		query.Has("trouble")) {
		if query.Has("parent") {
			c.faults.Invalid("parent", "cannot be given with q, sort, skip or trouble")
		}
		return a.rank(c, page)
	}
	if query.Has("page_token") {
		after, ok := parseBudgetToken(query.Get("page_token"))
		if !ok {
			c.faults.Invalid("page_token", "is not a next_page_token of an earlier page")
		}
		page.After = after
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	views, err := c.pageOf(page)
	out := api.Page{Budgets: make([]api.Budget, 0, len(views))}
	for i := range views {
		d := &views[i].Definition
		if c.principal == nil || page.Subtree != 0 || c.principal.Scope.Covers(d.Tenant, d.Name) {
			out.Budgets = append(out.Budgets, c.shown(budgetOf(&views[i])))
		}
	}
	if len(views) == page.Size {
		out.NextPageToken = budgetToken(&views[len(views)-1].Definition)
	}
	return answer{body: out}, err
}

// pageTokenFormat begins every token, so that a later form can be recognised.
const pageTokenFormat = "1:"

// budgetToken encodes the last budget of a page. It is opaque to callers.
func budgetToken(d *budget.Definition) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pageTokenFormat + d.Tenant + "/" + d.Name))
}

func parseBudgetToken(token string) (after bucket.BudgetRef, ok bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	place, found := strings.CutPrefix(string(text), pageTokenFormat)
	tenant, name, cut := strings.Cut(place, "/")
	if err != nil || !found || !cut || budget.CheckName(tenant) != "" || budget.CheckName(name) != "" {
		return after, false
	}
	d := budget.Definition{Tenant: tenant, Name: name}
	// base64 skips line breaks.
	return bucket.BudgetRef{Tenant: tenant, Name: name}, budgetToken(&d) == token
}

// pageToken encodes the last number of a page. It is opaque to callers.
func pageToken(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pageTokenFormat + strconv.FormatInt(id, 10)))
}

func parsePageToken(token string) (id int64, ok bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	digits, found := strings.CutPrefix(string(text), pageTokenFormat)
	if err != nil || !found {
		return 0, false
	}
	id, ok = budget.ParseAmount(digits)
	return id, ok && pageToken(id) == token // base64 skips line breaks
}

// ifMatch reads the version that a change requires. It returns 0 without a condition, and for "*".
func (c *call) ifMatch() int64 {
	values := c.r.Header["If-Match"]
	if len(values) == 0 || len(values) == 1 && values[0] == "*" {
		return 0
	}
	if len(values) == 1 {
		text, opened := strings.CutPrefix(values[0], `"`)
		text, closed := strings.CutSuffix(text, `"`)
		if version, ok := budget.ParseAmount(text); ok && opened && closed {
			return version
		}
	}
	c.faults.Malformed("If-Match", `must be one ETag of this budget, such as "3", or *`)
	return 0
}
