package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/ratelimit"
)

// Console serves the operator's page and its files.
type Console interface {
	Index(w http.ResponseWriter, r *http.Request)
	File(w http.ResponseWriter, r *http.Request)
}

// Dashboard supplies the state of all budgets and the recent answers of this node.
type Dashboard interface {
	// Deducted records the outcome of a deduct and returns at once. request is nil if it could not
	// be read, refused is nil if it was accepted.
	Deducted(request *bucket.DeductRequest, refused *budget.Error)
	// Calls returns what this node answered for a budget in the last minute.
	Calls(id int64, tenant, name string) bucket.Answered
	// Rank selects and sorts budgets by the figures of the last pass over all of them.
	Rank(s bucket.Selection) bucket.Ranking
	// Overview summarises all budgets, with at most `most` budgets in each list.
	Overview(most int) bucket.Overview
	// Outcomes returns the number of answers in each of the last full seconds, oldest first.
	Outcomes(most int) []bucket.Second
	// Refused returns the remembered refusals for which fits returns true, newest first.
	Refused(ctx context.Context, fits func(*bucket.Refusal) bool, most int) []bucket.Refusal
}

// registerPage registers the routes of the console if it exists. They are open to all callers: the
// page fetches its data with the key of its user.
func (a *API) registerPage(config Config) {
	pages := map[string]http.HandlerFunc{}
	if config.Console != nil {
		pages["GET /{$}"], pages["GET /assets/{file}"] = config.Console.Index, config.Console.File
	}
	if login := config.Login; login != nil {
		pages["GET /console/login"], pages["GET /console/callback"] = login.Begin, login.Callback
		pages["POST /console/logout"] = login.End
	}
	for pattern, serve := range pages {
		page := route{pattern: pattern}
		page.find()
		a.handle(page, func(c *call) { c.pass(serve, ratelimit.SecurePage) })
	}
	if a.dashboard != nil {
		a.registerStreams()
	}
}

// listed is the number of budgets in each list of an overview, charted the number of seconds in its
// chart.
const listed, charted = 10, 120

// overviewView is the state of the installation as this node sees it.
type overviewView struct {
	// Ready reports whether the node can serve. Reasons say why not, or what is out of reach
	// nevertheless.
	Ready     bool           `json:"ready"`
	Reasons   []string       `json:"reasons"`
	Books     booksView      `json:"books"`
	Instances []api.Instance `json:"instances"`
	// Troubles are what needs a person, the worst first.
	Troubles []troubleView `json:"troubles"`
	// Outcomes are the deductions that this node answered in each of the last seconds.
	Outcomes []secondView `json:"outcomes"`
	// Next lists the budgets that run out first, Refused those with the latest refusals on this
	// node.
	Next    []summaryView `json:"next"`
	Refused []summaryView `json:"refused"`
}

// booksView is the state of all budgets at the last pass over them. Quantities are in minor units.
type booksView struct {
	CheckedAt time.Time             `json:"checked_at,omitzero"`
	Budgets   map[budget.Status]int `json:"budgets"`
	// Serving counts budgets by whether they serve, Quarantined those with units in quarantine.
	Serving       map[bucket.Serving]int `json:"serving"`
	Discrepancies int                    `json:"discrepancies"`
	Gap           int64                  `json:"gap"`
	Halted        int                    `json:"halted"`
	Quarantined   int                    `json:"quarantined"`
}

// troubleView is what has one cause and needs a person.
type troubleView struct {
	Cause    bucket.Cause `json:"cause"`
	Instance string       `json:"instance,omitzero"`
	Budgets  int          `json:"budgets"`
	Buckets  int          `json:"buckets,omitzero"`
	// Unserved counts calls of the last minute on this node.
	Unserved int64       `json:"unserved"`
	Since    time.Time   `json:"since"`
	Worst    []worstView `json:"worst"`
}

// worstView names a budget.
type worstView struct {
	Tenant string `json:"tenant"`
	Name   string `json:"name"`
}

func troublesOf(list []bucket.Trouble) []troubleView {
	out := make([]troubleView, len(list))
	for i, t := range list {
		out[i] = troubleView{t.Cause, t.Instance, t.Budgets, t.Buckets, t.Unserved, inUTC(t.Since),
			make([]worstView, len(t.Worst))}
		for k, ref := range t.Worst {
			out[i].Worst[k] = worstView{ref.Tenant, ref.Name}
		}
	}
	return out
}

// secondView counts the answers of one second.
type secondView struct {
	At       time.Time `json:"at"`
	Accepted int       `json:"accepted"`
	Refused  int       `json:"refused"`
	Limited  int       `json:"limited"`
	Failed   int       `json:"failed"`
	Faulty   int       `json:"faulty"`
}

// summaryView is the state of a budget. Quantities are in minor units.
type summaryView struct {
	Tenant      string              `json:"tenant"`
	Name        string              `json:"name"`
	Unit        budget.Unit         `json:"unit"`
	Serving     bucket.Serving      `json:"serving"`
	Total       *int64              `json:"total_quantity"`
	Remaining   *int64              `json:"remaining"`
	OpensAt     time.Time           `json:"opens_at,omitzero"`
	Held        int64               `json:"held"`
	Used        int64               `json:"used"`
	RatePerS    float64             `json:"rate_per_s"`
	ExhaustedAt time.Time           `json:"exhausted_at,omitzero"`
	Refusals    map[budget.Code]int `json:"refusals,omitempty"`
}

func summariesOf(list []bucket.Summary) []summaryView {
	out := make([]summaryView, len(list))
	for i := range list {
		s := &list[i]
		out[i] = summaryView{Tenant: s.Tenant, Name: s.Name, Unit: s.Unit, Serving: s.Serving,
			Total: unless(s.Unlimited, s.Total), Remaining: unless(s.Unlimited, s.Remaining),
			OpensAt: inUTC(s.OpensAt), Held: s.Held, Used: s.Used, RatePerS: s.Rate,
			ExhaustedAt: inUTC(s.ExhaustedAt).Round(time.Second), Refusals: s.Refusals}
	}
	return out
}

// overview reads the whole overview once.
func (a *API) overview(ctx context.Context) (*overviewView, error) {
	partitions, err := a.service.Partitions(ctx)
	s := a.dashboard.Overview(listed)
	out := &overviewView{Reasons: a.service.Ready(ctx), Instances: a.instancesOf(partitions).Instances,
		Books: booksView{CheckedAt: inUTC(s.At), Budgets: s.Statuses, Serving: s.Serving,
			Discrepancies: s.Discrepancies, Gap: s.Gap, Halted: s.Halted, Quarantined: s.Quarantined},
		Troubles: troublesOf(s.Troubles), Next: summariesOf(s.Next), Refused: summariesOf(s.Refused)}
	out.Ready = len(out.Reasons) == 0 && !a.leaving.Load()
	if err != nil && out.Ready {
		return nil, err
	}
	out.Reasons = append(append([]string{}, out.Reasons...), a.service.Missing()...)
	for _, one := range a.dashboard.Outcomes(charted) {
		out.Outcomes = append(out.Outcomes, secondView{one.At.UTC(), one.Accepted, one.Refused,
			one.Limited, one.Failed, one.Faulty})
	}
	return out, nil
}

// refusals answers the recent refusals that this node remembers: those of a request id, of a value
// of any dimension, of a budget, or all.
func (a *API) refusals(c *call) (answer, error) {
	query := c.query("tenant", "budget", "request_id", "value", "limit")
	tenant, most := query.Get("tenant"), 100
	if query.Has("tenant") {
		tenant = c.tenant(query)
		if err := c.onTenant(tenant); err != nil {
			return answer{}, err
		}
	}
	if query.Has("limit") {
		limit, ok := budget.ParseAmount(query.Get("limit"))
		if !ok || limit > maxPageSize {
			c.faults.Invalid("limit", "must be 1 to %d", maxPageSize)
		}
		most = int(limit)
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	id, value, name := query.Get("request_id"), query.Get("value"), query.Get("budget")
	fits := func(r *bucket.Refusal) bool {
		return (id == "" || r.Request.RequestID == id) && (value == "" || carries(&r.Request, value))
	}
	out := api.RefusalList{Refusals: []api.Refusal{}}
	for _, r := range a.dashboard.Refused(c.ctx, fits, 16*maxPageSize) {
		of := &r.Request.Budget
		if tenant != "" && of.Tenant != tenant || name != "" && of.Name != name ||
			c.principal != nil && !c.principal.Scope.Covers(of.Tenant, of.Name) {
			continue
		}
		if out.Refusals = append(out.Refusals, refusalOf(&r)); len(out.Refusals) == most {
			break
		}
	}
	return answer{body: out}, nil
}

// carries reports whether a request has a value in any dimension or as its key.
func carries(r *bucket.DeductRequest, value string) bool {
	if r.Key == value {
		return true
	}
	for _, v := range r.Dimensions {
		if v == value {
			return true
		}
	}
	return false
}

func refusalOf(r *bucket.Refusal) api.Refusal {
	q := &r.Request
	out := api.Refusal{At: r.At.UTC(), Tenant: q.Budget.Tenant, Budget: q.Budget.Name,
		RequestID: q.RequestID, Amount: q.Amount, Key: q.Key, Dimensions: q.Dimensions,
		Hold: q.HoldTTL != 0, Reference: q.Reference, RoutingKey: r.RoutingKey,
		Problem: *ProblemOf(r.Err)}
	if r.Bucket != nil {
		home := homeOf(r.Durability, r.Bucket.Partition)
		out.Bucket, out.Home = r.Bucket.Key, &home
	}
	return out
}

// ranks are the orders of a list.
var ranks = []bucket.RankBy{bucket.ByName, bucket.ByRemaining, bucket.ByUsedShare, bucket.ByEnd,
	bucket.ByRefusals, bucket.ByExhaustion, bucket.ByServing, bucket.ByHeld, bucket.ByUsed,
	bucket.ByTotal}

// causes are what a list can be restricted to.
var causes = []bucket.Cause{bucket.LostStore, bucket.Undecided, bucket.Stopped, bucket.Refusing,
	bucket.Waiting}

// rank reads a page of budgets for a search or an order: parameters q, trouble, sort (descending
// after a minus) and skip.
func (a *API) rank(c *call, page bucket.Page) (answer, error) {
	if page.Subtree != 0 {
		return answer{}, budget.Refuse(budget.Forbidden, c.route.op,
			"a delegate's list cannot be searched or sorted: leave out q, sort, skip and trouble")
	}
	query := c.query("tenant", "status", "type", "page_size", "archived", "q", "sort", "skip",
		"trouble")
	s := bucket.Selection{Tenant: page.Tenant, Type: page.Type, Status: page.Status,
		Search: query.Get("q"), Archived: page.Archived, Size: page.Size, By: bucket.ByName}
	if c.principal != nil {
		s.Covers = c.principal.Scope.Covers
	}
	if query.Has("sort") {
		by := query.Get("sort")
		if s.Descending = by != "" && by[0] == '-'; s.Descending {
			by = by[1:]
		}
		if s.By = bucket.RankBy(by); !slices.Contains(ranks, s.By) {
			c.faults.Invalid("sort", "must be one of %q, with a minus in front to reverse the order", ranks)
		}
	}
	if query.Has("trouble") {
		cause, instance, _ := strings.Cut(query.Get("trouble"), ":")
		if s.Trouble, s.Instance = bucket.Cause(cause), instance; !slices.Contains(causes, s.Trouble) {
			c.faults.Invalid("trouble", "must be one of %q, store_down with :INSTANCE", causes)
		}
	}
	if skip := query.Get("skip"); skip != "" && skip != "0" {
		n, ok := budget.ParseAmount(skip)
		if !ok {
			c.faults.Invalid("skip", "must be a number of budgets, from 0")
		}
		s.Skip = int(min(n, 1<<31-1))
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	found := a.dashboard.Rank(s)
	out := api.Page{Budgets: []api.Budget{}, Total: &found.Total, Tenants: found.Tenants,
		RankedAt: inUTC(found.At)}
	if len(found.Budgets) == 0 {
		return answer{body: out}, nil
	}
	ids := make([]int64, len(found.Budgets))
	for i := range ids {
		ids[i] = found.Budgets[i].ID
	}
	views, err := a.service.List(c.ctx, bucket.Page{IDs: ids, Size: len(ids),
		Archived: page.Archived})
	byID := make(map[int64]*bucket.View, len(views))
	for i := range views {
		byID[views[i].Definition.ID] = &views[i]
	}
	for _, r := range found.Budgets {
		if v := byID[r.ID]; v != nil {
			row := a.called(v)
			row.ExhaustedAt, row.Refusals = inUTC(r.ExhaustedAt), r.Refusals
			out.Budgets = append(out.Budgets, row)
		}
	}
	return answer{body: out}, err
}
