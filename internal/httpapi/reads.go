package httpapi

import (
	"context"
	"hash/maphash"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// auditTime bounds an audit, which reads every row of a budget's ledger.
const auditTime = 10 * time.Minute

// Audits is the part of the service that proves that no unit is missing.
type Audits interface {
	// Audit checks a budget on live traffic. A report that is not OK comes without an error.
	Audit(ctx context.Context, ref bucket.BudgetRef) (bucket.AuditReport, error)
	// Resume audits a budget, and resumes a halted bucket if the audit finds nothing wrong in
	// it.
	Resume(ctx context.Context, ref bucket.BudgetRef, key string) (bucket.BucketView, error)
}

// resume may take as long as an audit.
func (a *API) resume(c *call) (answer, error) {
	ctx, cancel := context.WithTimeout(c.work, auditTime)
	defer cancel()
	c.allow(auditTime)
	c.ctx = ctx
	return c.onBucket(a.service.Resume)
}

func (a *API) audit(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(c.work, auditTime)
	defer cancel()
	c.allow(auditTime)
	report, err := a.service.Audit(ctx, ref)
	return answer{body: auditOf(&report)}, err
}

// auditOf returns the body that shows a report.
func auditOf(r *bucket.AuditReport) api.AuditReport {
	f := &r.Figures
	out := api.AuditReport{
		OK: r.OK, Total: unless(r.Unlimited, f.Total),
		Undistributed: unless(r.Unlimited, f.Undistributed),
		NotFunded:     unless(r.Unlimited, f.Unfunded), InTransit: f.InTransit(),
		InBuckets: unless(r.Unlimited, f.InBuckets), Held: f.Held, Used: f.Used,
		Quarantined: f.Quarantined, Forfeited: f.Forfeited, WithChildren: f.Allocated,
		AtRisk: r.AtRisk, Unchecked: r.Unchecked,
		Discrepancies: make([]api.Discrepancy, len(r.Discrepancies)),
	}
	for i, d := range r.Discrepancies {
		out.Discrepancies[i] = api.Discrepancy(d)
	}
	return out
}

// Feeds is the part of the service that reads the change feed.
type Feeds interface {
	// Feed reads a page of a budget's feed. It waits for at least one entry if the request asks for
	// that.
	Feed(ctx context.Context, request bucket.FeedRequest) (bucket.FeedPage, error)
}

// ledger answers a page of the feed. With wait= it may take that much longer than other calls. It
// ends when the caller goes, and returns at once when the node stops.
func (a *API) ledger(c *call) (answer, error) {
	query := c.query("tenant", "after", "tail", "since", "limit", "wait")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	request := bucket.FeedRequest{Budget: ref, After: query.Get("after"),
		Tail: c.entries(query, "tail"), Since: c.instant(query, "since"),
		Limit: c.entries(query, "limit"), Until: a.left}
	if query.Has("wait") {
		wait, err := time.ParseDuration(query.Get("wait"))
		if err != nil || wait < 0 || wait > bucket.MaxFeedWait {
			c.faults.Invalid("wait", "must be a duration of 0s to %s, such as 20s", bucket.MaxFeedWait)
		}
		request.Wait = wait
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	ctx := c.ctx
	if request.Wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(c.work, request.Wait+a.limits.RequestTimeout)
		defer cancel()
		c.allow(request.Wait)
	}
	page, err := a.service.Feed(ctx, request)
	return answer{body: feedOf(&page)}, err
}

// entries reads a number of entries from the query; 0 if it is absent.
func (c *call) entries(query url.Values, name string) int {
	if !query.Has(name) {
		return 0
	}
	n, ok := budget.ParseAmount(query.Get(name))
	if !ok || n > bucket.MaxFeedLimit {
		c.faults.Invalid(name, "must be 1 to %d", bucket.MaxFeedLimit)
		return 0
	}
	return int(n)
}

// allow extends the connection's time limits, which count from the beginning of the request, for a
// call that may take longer. It leaves a connection without limits unchanged.
func (c *call) allow(longer time.Duration) {
	limits, control := &c.api.limits, http.NewResponseController(c.w)
	_ = control.SetReadDeadline(time.Time{}) // the deadline would end the wait
	_ = control.SetWriteDeadline(time.Now().Add(longer + limits.RequestTimeout + limits.WriteTimeout))
}

// Samples is the part of the service that shows figures over time.
type Samples interface {
	// Series reads a budget's figures over a span, and projects when it will be used up.
	Series(ctx context.Context, request bucket.SeriesRequest) (bucket.SeriesAnswer, error)
}

func (a *API) series(c *call) (answer, error) {
	query := c.query("tenant", "from", "to", "step")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	request := bucket.SeriesRequest{Budget: ref}
	request.Span.From, request.Span.To = c.instant(query, "from"), c.instant(query, "to")
	if query.Has("step") {
		step, err := time.ParseDuration(query.Get("step"))
		if err != nil || step <= 0 {
			c.faults.Invalid("step", "must be whole minutes, such as 5m")
		}
		request.Span.Step = step
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	s, err := a.service.Series(c.ctx, request)
	return answer{body: seriesOf(&s)}, err
}

// instant reads a time from the query; the zero time if it is absent.
func (c *call) instant(query url.Values, name string) time.Time {
	if !query.Has(name) {
		return time.Time{}
	}
	var at time.Time
	err := at.UnmarshalText([]byte(query.Get(name)))
	if year := at.UTC().Year(); err != nil || year < 1970 || year > 9998 {
		c.faults.Invalid(name, "must be a time with zone, such as 2026-05-01T12:00:00Z")
		return time.Time{}
	}
	return at
}

func seriesOf(s *bucket.SeriesAnswer) api.Series {
	v := api.Series{From: inUTC(s.Span.From), To: inUTC(s.Span.To),
		StepS:  int64(s.Span.Step / time.Second),
		Points: make([]api.SeriesPoint, len(s.Points)), Now: pointOf(&s.Now, s.Unlimited),
		RatePerS: s.Projection.Rate, Projection: string(s.Projection.Outlook)}
	for i := range s.Points {
		v.Points[i] = pointOf(&s.Points[i], s.Unlimited)
	}
	if at := s.Projection.ExhaustedAt; !at.IsZero() {
		at = inUTC(at).Round(time.Millisecond)
		v.ExhaustedAt = &at
	}
	return v
}

func pointOf(p *series.Point, unlimited bool) api.SeriesPoint {
	return api.SeriesPoint{At: inUTC(p.At), Total: unless(unlimited, p.Total),
		Undistributed: unless(unlimited, p.Undistributed), NotFunded: unless(unlimited, p.NotFunded),
		Released: unless(unlimited, p.Released()), Used: p.Used, Held: p.Held,
		Remaining: unless(unlimited, p.Remaining), InBuckets: unless(unlimited, p.InBuckets),
		InTransit: p.InTransit, Stranded: p.Stranded, Quarantined: p.Quarantined,
		Forfeited: p.Forfeited}
}

// Usages is the part of the service that says what values of dimensions took.
type Usages interface {
	// Usage sums what was counted for values.
	Usage(ctx context.Context, request bucket.UsageRequest) (bucket.Usage, error)
	// Nearest lists the values that are nearest their maximum of a limit.
	Nearest(ctx context.Context, request bucket.NearestRequest) (bucket.Nearest, error)
}

// dimensionPrefix precedes a dimension in a query that has the name of another parameter:
// dimension.from=f1.
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
	return answer{body: api.Usage{Dimensions: dimensions, From: inUTC(request.From),
		To: inUTC(request.To), Calls: got.Calls, Amount: got.Amount,
		RolledBack: got.RolledBack}}, err
}

// usualNearest is how many values a list of the nearest has unless the caller asks for another
// number.
const usualNearest = 20

func (a *API) nearest(c *call) (answer, error) {
	query := c.query("tenant", "limit")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	request := bucket.NearestRequest{Budget: ref, Limit: c.r.PathValue("name"), Most: usualNearest}
	if query.Has("limit") {
		n, ok := budget.ParseAmount(query.Get("limit"))
		if !ok || n > bucket.MaxNearest {
			c.faults.Invalid("limit", "must be 1 to %d", bucket.MaxNearest)
		}
		request.Most = int(n)
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	got, err := a.service.Nearest(c.ctx, request)
	return answer{body: api.Nearest{Values: statesOf(got.Values), Read: got.Read,
		Complete: got.Complete}}, err
}

// dimensions reads a query in which every parameter is a dimension, except the given ones.
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

// readable replaces the bytes of a text that have no JSON form. The API accepts no such text, but
// other programs could write one into the database, and one entry must not stop the feed.
func readable(text string) string { return strings.ToValidUTF8(text, "\ufffd") }

// feedOf returns the body that shows page.
func feedOf(page *bucket.FeedPage) api.LedgerPage {
	out := api.LedgerPage{Entries: make([]api.LedgerEntry, len(page.Entries)), Next: page.Next}
	for i := range page.Entries {
		e, to := &page.Entries[i], &out.Entries[i]
		id, _, isLeg := ledger.Caller(e.RequestID)
		*to = api.LedgerEntry{
			Kind: string(e.Kind), Bucket: e.BucketKey, Entry: e.Entry, RequestID: readable(id),
			OfSet:      isLeg,
			RollbackID: e.RollbackID, Number: e.Number, Amount: e.Amount, Uncollected: e.Uncollected,
			Held:       e.Held,
			Dimensions: dimensionsIn(e.Dimensions), Reference: readable(e.Reference), At: inUTC(e.At),
		}
		switch e.RollbackID {
		case ledger.ConfirmRestID:
			to.RollbackID = ""
		case ledger.CancelID:
			to.RollbackID, to.Cancelled = "", true
		case ledger.GroupRollbackID:
			to.RollbackID, to.OfGroup = "", true
		}
	}
	return out
}

// Gauges has what budgets have left.
type Gauges interface {
	// Gauges appends what budgets of a tenant have left, in the order of their names: nil if that is
	// not known, also for a name that no budget has. It returns at once.
	Gauges(to []*bucket.Gauge, tenant string, names []string) []*bucket.Gauge
}

// mostRemaining bounds the budgets of GET /v1/remaining.
const mostRemaining = 500

// remaining answers what budgets have left, by name. Budgets outside the caller's scope are
// answered like unknown ones.
func (a *API) remaining(c *call) (answer, error) {
	query := c.lists("budget", "tenant")
	tenant, names := c.tenant(query), query["budget"]
	if len(names) == 0 || len(names) > mostRemaining {
		c.faults.Invalid("budget", "must appear 1 to %d times, once for each name", mostRemaining)
	}
	for _, name := range names {
		if why := budget.CheckName(name); why != "" {
			c.faults.Invalid("budget", "%.80q: %s", name, why)
		}
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	if err := c.onTenant(tenant); err != nil {
		return answer{}, err
	}
	slices.Sort(names)
	names = slices.Compact(names)
	out := remaining{names, a.gauges.Gauges(make([]*bucket.Gauge, 0, len(names)), tenant, names)}
	if err := c.lookUpAll(tenant, len(names), func(i int) string { return names[i] }); err != nil {
		return answer{}, err
	}
	for i, name := range names {
		if c.principal != nil && !c.principal.Scope.Covers(tenant, name) &&
			c.known[bucket.BudgetRef{Tenant: tenant, Name: name}] == 0 {
			out.gauges[i] = nil
		}
	}
	return answer{body: out, tag: out.tag()}, nil
}

// remaining is what budgets have left, sorted by name.
type remaining struct {
	names  []string
	gauges []*bucket.Gauge
}

// tag returns a weak ETag of all but the instants: equal figures that were read later are the same.
func (r remaining) tag() string {
	var h maphash.Hash
	h.SetSeed(tags)
	for i, g := range r.gauges {
		_, _ = h.WriteString(r.names[i])
		left := int64(-1)
		if g != nil {
			_, _ = h.WriteString(string(g.Serving))
			if g.Remaining != nil {
				left = *g.Remaining
			}
		}
		maphash.WriteComparable(&h, left)
	}
	return `W/"` + strconv.FormatUint(h.Sum64(), 36) + `"`
}

// tags is the seed of ETags of this process.
var tags = maphash.MakeSeed()
