package httpapi

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/limit"
)

// Budgets are the service's verbs on budgets. Errors are *budget.Error.
type Budgets interface {
	// Create makes a budget, or answers the one that is already there with this definition (created is
	// false). BucketQuantity 0 asks for the default.
	Create(ctx context.Context, d budget.Definition) (v bucket.View, created bool, err error)
	// List fills a page: fewer than its size are the last ones.
	List(ctx context.Context, page bucket.Page) ([]bucket.View, error)
	View(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error)
	Change(ctx context.Context, ref bucket.BudgetRef, change bucket.Change) (bucket.View, error)
	// Adjust appends, or shrinks by a negative quantity, and returns when that is done.
	Adjust(ctx context.Context, request bucket.AdjustRequest) (bucket.View, error)
}

func (a *API) create(c *call) (answer, error) {
	c.query()
	var body definition
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	view, created, err := a.service.Create(c.ctx, body.Definition)
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

func (a *API) view(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	view, err := a.service.View(c.ctx, ref)
	return answer{body: budgetOf(&view), version: view.Definition.Version}, err
}

func (a *API) change(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body change
	body.IfVersion = c.ifMatch()
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	view, err := a.service.Change(c.ctx, ref, body.Change)
	return answer{body: budgetOf(&view), version: view.Definition.Version}, err
}

func (a *API) adjust(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body adjustment
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	view, err := a.service.Adjust(c.ctx, bucket.AdjustRequest{
		Budget: ref, RequestID: body.requestID, Quantity: body.quantity,
	})
	out := adjusted{
		RequestID: body.requestID, Quantity: body.quantity, State: bucket.AdjustmentDone,
		Replayed: view.Replayed, budgetView: budgetOf(&view),
	}
	return answer{body: out, version: view.Definition.Version}, err
}

// The number of budgets in a page.
const defaultPageSize, maxPageSize = 100, 1000

// everyTenant is asked for to list budgets across tenants; no tenant can be called that.
const everyTenant = "*"

func (a *API) list(c *call) (answer, error) {
	query := c.query("tenant", "status", "type", "page_size", "page_token")
	page := bucket.Page{Size: defaultPageSize}
	if query.Get("tenant") != everyTenant {
		page.Tenant = c.tenant(query)
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
	if query.Has("page_size") {
		size, ok := budget.ParseAmount(query.Get("page_size"))
		if !ok || size > maxPageSize {
			c.faults.Invalid("page_size", "must be 1 to %d", maxPageSize)
		}
		page.Size = int(size)
	}
	if query.Has("page_token") {
		after, ok := parsePageToken(query.Get("page_token"))
		if !ok {
			c.faults.Invalid("page_token", "is not a next_page_token of an earlier page")
		}
		page.AfterID = after
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	views, err := a.service.List(c.ctx, page)
	out := budgetPage{Budgets: make([]budgetView, len(views))}
	for i := range views {
		out.Budgets[i] = budgetOf(&views[i])
	}
	if len(views) == page.Size {
		out.NextPageToken = pageToken(views[len(views)-1].Definition.ID)
	}
	return answer{body: out}, err
}

// pageTokenFormat begins every token, so that a later form can be told.
const pageTokenFormat = "1:"

// pageToken names the last budget of a page; callers must not look into it.
func pageToken(id int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(pageTokenFormat + strconv.FormatInt(id, 10)))
}

func parsePageToken(token string) (id int64, ok bool) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(token)
	digits, found := strings.CutPrefix(string(text), pageTokenFormat)
	if err != nil || !found {
		return 0, false
	}
	return budget.ParseAmount(digits)
}

// ifMatch reads the version that a change must meet: 0 when there is no condition, or it is "*".
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

// definition is the body of a create.
type definition struct{ budget.Definition }

func (d *definition) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "name":
		r.Text(name, &d.Name, nil)
	case "tenant":
		r.Text(name, &d.Tenant, nil)
	case "gl_code":
		r.Text(name, &d.GLCode, nil)
	case "unit":
		r.Text(name, (*string)(&d.Unit), nil)
	case "durability":
		r.Text(name, (*string)(&d.Durability), nil)
	case "type":
		r.Text(name, (*string)(&d.Type), nil)
	case "total_quantity":
		r.Amount(name, &d.TotalQuantity)
	case "bucket_quantity":
		r.Int(name, &d.BucketQuantity, 1, budget.MaxBuckets)
	case "sharding_quantity":
		r.Integer(name, &d.ShardingQuantity, 0, budget.MaxAmount)
	case "adjust_cnt":
		r.Int(name, &d.AdjustCnt, 0, maxAdjustCnt)
	case "start_at":
		r.Time(name, &d.StartAt)
	case "end_at":
		r.Time(name, &d.EndAt)
	case "timezone":
		r.Text(name, &d.Timezone, checkZone)
	case "type_rule":
		d.Rule = readRule(r, name)
	case "late_refund":
		r.Text(name, (*string)(&d.LateRefund), notEmpty)
	case "limits":
		if list := readLimits(r, name); len(list) > 0 {
			d.Limits = &budget.Limits{List: list}
		}
	case "unlimited":
		r.Bool(name, &d.Unlimited)
	case "routing_dimension":
		r.Text(name, &d.RoutingDimension, budget.CheckKey)
	default:
		return false
	}
	return true
}

// maxAdjustCnt is the most applications that a bucket can be allowed.
const maxAdjustCnt = 1_000_000_000

// Check fills in what may be left out and judges the whole, except the number of buckets, which the
// service chooses when it is left out.
func (d *definition) Check(r *strictjson.Reader) {
	r.Require("name", "unit")
	switch {
	case !d.Unlimited:
		r.Require("type", "total_quantity")
	case r.Seen("total_quantity"):
		r.Invalid("total_quantity", "does not go together with unlimited: leave it out")
	}
	if d.Unlimited && !r.Seen("type") {
		d.Type = budget.Promo
	}
	if !r.Seen("tenant") {
		d.Tenant = budget.DefaultTenant
	}
	if !r.Seen("durability") {
		d.Durability = budget.Ledger
	}
	whole := d.Definition
	if !r.Seen("bucket_quantity") {
		whole.BucketQuantity = 1
	}
	if !d.Unlimited && whole.TotalQuantity == 0 && !r.Seen("total_quantity") {
		whole.TotalQuantity = 1
	}
	whole.Rule = judged(r, whole.Rule)
	mergeBelow(r, limit.CheckDefinition(whole))
	mergeBelow(r, allocation.CheckDefinition(whole))
}

// change is the body of a PATCH.
type change struct{ bucket.Change }

func (d *change) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "status":
		d.Paused = new(bool)
		r.Text(name, new(string), func(status string) string {
			*d.Paused = status == string(budget.Paused)
			if !*d.Paused && status != string(budget.Effective) {
				return `must be "paused" or "effective"`
			}
			return ""
		})
	case "end_at":
		d.EndAt = new(time.Time)
		if !r.Null() {
			r.Time(name, d.EndAt)
		}
	case "sharding_quantity":
		d.ShardingQuantity = new(int64)
		r.Integer(name, d.ShardingQuantity, 0, budget.MaxAmount)
	case "adjust_cnt":
		d.AdjustCnt = new(int)
		r.Int(name, d.AdjustCnt, 0, maxAdjustCnt)
	case "bucket_quantity":
		d.BucketQuantity = new(int)
		r.Int(name, d.BucketQuantity, 1, budget.MaxBuckets)
	case "type_rule":
		d.Rule = readRule(r, name)
	case "late_refund":
		d.LateRefund = new(budget.Where)
		r.Text(name, (*string)(d.LateRefund), checkLateRefund)
	case "limits":
		list := readLimits(r, name)
		d.Limits = &list
	default:
		return false
	}
	return true
}

func (d *change) Check(r *strictjson.Reader) {
	if d.EndAt != nil {
		r.Merge(budget.CheckSpan(time.Time{}, *d.EndAt))
	}
	if d.Rule != nil {
		r.Merge(allocation.CheckRule(*judged(r, d.Rule)))
	}
	if d.Limits != nil {
		mergeBelow(r, limit.CheckDefinition(budget.Definition{Limits: &budget.Limits{List: *d.Limits}}))
	}
	if r.None() {
		r.Invalid("", "names nothing to change")
	}
}

// adjustment is the body of an append.
type adjustment struct {
	requestID string
	quantity  int64
}

func (d *adjustment) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "request_id":
		r.Text(name, &d.requestID, budget.CheckRequestID)
	case "quantity":
		r.Integer(name, &d.quantity, -budget.MaxAmount, budget.MaxAmount)
	default:
		return false
	}
	return true
}

func (d *adjustment) Check(r *strictjson.Reader) {
	r.Require("request_id", "quantity")
	if d.quantity == 0 && !r.Has("quantity") {
		r.Invalid("quantity", "must not be 0: positive appends, negative shrinks")
	}
}
