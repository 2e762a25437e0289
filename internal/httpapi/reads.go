package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
	"github.com/go-json-experiment/json/jsontext"
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

// auditReport is the answer to an audit. Quantities are in minor units. Undistributed is F + U and
// NotFunded the F of it, so that the total is the sum of the others, as in every view.
type auditReport struct {
	OK            bool                 `json:"ok"`
	Total         int64                `json:"total"`
	Undistributed int64                `json:"undistributed"`
	NotFunded     int64                `json:"not_funded"`
	InTransit     int64                `json:"in_transit"`
	InBuckets     int64                `json:"in_buckets"`
	Held          int64                `json:"held"`
	Used          int64                `json:"used"`
	Quarantined   int64                `json:"quarantined"`
	Forfeited     int64                `json:"forfeited"`
	AtRisk        int64                `json:"at_risk"`
	Discrepancies []ledger.Discrepancy `json:"discrepancies"`
	// Unchecked lists buckets whose store could not be read. Their rows were checked.
	Unchecked []string `json:"unchecked,omitempty"`
}

func auditOf(r *bucket.AuditReport) auditReport {
	f := &r.Figures
	return auditReport{
		OK: r.OK, Total: f.Total, Undistributed: f.Unfunded + f.Undistributed,
		NotFunded: f.Unfunded, InTransit: f.InTransit(),
		InBuckets: f.InBuckets, Held: f.Held, Used: f.Used, Quarantined: f.Quarantined,
		Forfeited: f.Forfeited, AtRisk: r.AtRisk, Discrepancies: r.Discrepancies, Unchecked: r.Unchecked,
	}
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
	return answer{body: wire.FeedOf(&page)}, err
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

// Series is the part of the service that shows figures over time.
type Series interface {
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

// seriesView is the JSON form of a budget's figures over time.
type seriesView struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// StepS is the time between two points, in seconds.
	StepS  int64         `json:"step_s"`
	Points []seriesPoint `json:"points"`
	// Now holds the present figures, from which the projection starts.
	Now seriesPoint `json:"now"`
	// RatePerS is the recent spending in minor units per second.
	RatePerS float64 `json:"rate_per_s"`
	// ExhaustedAt is null unless Projection is "projected".
	ExhaustedAt *time.Time     `json:"exhausted_at"`
	Projection  series.Outlook `json:"projection"`
}

// seriesPoint is a budget's figures at an instant, in minor units.
type seriesPoint struct {
	At            time.Time `json:"at"`
	Total         int64     `json:"total"`
	Undistributed int64     `json:"undistributed"`
	NotFunded     int64     `json:"not_funded"`
	Released      int64     `json:"released"`
	Used          int64     `json:"used"`
	Held          int64     `json:"held"`
	Remaining     int64     `json:"remaining"`
	InBuckets     int64     `json:"in_buckets"`
	InTransit     int64     `json:"in_transit"`
	Stranded      int64     `json:"stranded"`
	Quarantined   int64     `json:"quarantined"`
	Forfeited     int64     `json:"forfeited"`
}

func seriesOf(s *bucket.SeriesAnswer) seriesView {
	v := seriesView{From: wire.InUTC(s.Span.From), To: wire.InUTC(s.Span.To),
		StepS:  int64(s.Span.Step / time.Second),
		Points: make([]seriesPoint, len(s.Points)), Now: pointOf(&s.Now), RatePerS: s.Projection.Rate,
		Projection: s.Projection.Outlook}
	for i := range s.Points {
		v.Points[i] = pointOf(&s.Points[i])
	}
	if at := s.Projection.ExhaustedAt; !at.IsZero() {
		at = wire.InUTC(at).Round(time.Millisecond)
		v.ExhaustedAt = &at
	}
	return v
}

func pointOf(p *series.Point) seriesPoint {
	return seriesPoint{At: wire.InUTC(p.At), Total: p.Total, Undistributed: p.Undistributed,
		NotFunded: p.NotFunded, Released: p.Released(), Used: p.Used, Held: p.Held,
		Remaining: p.Remaining(), InBuckets: p.InBuckets, InTransit: p.InTransit, Stranded: p.Stranded,
		Quarantined: p.Quarantined, Forfeited: p.Forfeited}
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
	return answer{body: usageView{
		Dimensions: jsontext.Value(ledger.Dimensions(dimensions)), From: wire.InUTC(request.From),
		To:    wire.InUTC(request.To),
		Calls: got.Calls, Amount: got.Amount, RolledBack: got.RolledBack}}, err
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
	return answer{body: wire.NearestOf(&got)}, err
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

// usageView is the sum over values of dimensions. Amounts are in minor units.
type usageView struct {
	Dimensions jsontext.Value `json:"dimensions"`
	// From is the first instant of the span, To the first one after it. An absent bound means none.
	From time.Time `json:"from,omitzero"`
	To   time.Time `json:"to,omitzero"`
	// Calls is the number of deductions, Amount their sum, RolledBack what of it was given back.
	Calls      int64 `json:"calls"`
	Amount     int64 `json:"amount"`
	RolledBack int64 `json:"rolled_back"`
}
