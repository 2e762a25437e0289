package httpapi

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
)

// Buckets is the part of the service that acts on the buckets of a budget. Errors are
// *budget.Error.
type Buckets interface {
	Buckets(ctx context.Context, ref bucket.BudgetRef) ([]bucket.BucketView, error)
	Offline(ctx context.Context, ref bucket.BudgetRef, bucketKey string) (bucket.BucketView, error)
	Online(ctx context.Context, ref bucket.BudgetRef, bucketKey string) (bucket.BucketView, error)
	ApplyTo(ctx context.Context, ref bucket.BudgetRef, bucketKey string) (bucket.BucketView, error)
}

func (a *API) buckets(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	views, err := a.service.Buckets(c.ctx, ref)
	out := wire.BucketList{Buckets: make([]wire.BucketView, len(views))}
	for i := range views {
		out.Buckets[i] = wire.BucketOf(&views[i])
	}
	return answer{body: out}, err
}

func (a *API) offline(c *call) (answer, error) { return c.onBucket(a.service.Offline) }

func (a *API) online(c *call) (answer, error) { return c.onBucket(a.service.Online) }

func (a *API) apply(c *call) (answer, error) { return c.onBucket(a.service.ApplyTo) }

// bucketVerb is a method of Buckets on one bucket.
type bucketVerb func(context.Context, bucket.BudgetRef, string) (bucket.BucketView, error)

// onBucket calls a method of Buckets on the bucket in the path. The body may be absent or {}.
func (c *call) onBucket(verb bucketVerb) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	key := c.r.PathValue("key")
	if budget.CheckKey(key) != "" {
		return answer{}, budget.Refuse(budget.BucketNotFound, c.route.op,
			"%.80q is not the key of a bucket", key)
	}
	c.target(ref.Tenant, key, "")
	if err := c.readOptional(wire.Empty{}); err != nil {
		return answer{}, err
	}
	view, err := verb(c.ctx, ref, key)
	return answer{body: wire.BucketOf(&view)}, err
}

// Quarantines is the part of the service that acts on units whose store lost its memory (store
// mode).
type Quarantines interface {
	Quarantines(ctx context.Context, ref bucket.BudgetRef) ([]bucket.Quarantine, error)
	// Release carries out an operator's decision, once per request id.
	Release(ctx context.Context, r bucket.ReleaseRequest) (bucket.ReleaseAnswer, error)
}

func (a *API) quarantine(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	list, err := a.service.Quarantines(c.ctx, ref)
	out := quarantineList{Quarantines: make([]quarantineView, len(list))}
	for i, q := range list {
		out.Held += q.Held()
		out.Quarantines[i] = quarantineView{Bucket: q.Key, Epoch: q.Epoch, Quantity: q.Quantity,
			Released: q.Released, Held: q.Held(), Cause: q.Cause, At: wire.InUTC(q.At)}
		out.Quarantines[i].Releases = make([]decisionView, len(q.Releases))
		for n, r := range q.Releases {
			out.Quarantines[i].Releases[n] = decisionView{r.RequestID, r.Quantity, r.Used, r.Reason, r.By,
				wire.InUTC(r.At)}
		}
	}
	return answer{body: out}, err
}

func (a *API) release(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body releaseBody
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	body.request.Budget = ref
	c.target(ref.Tenant, c.named, body.request.RequestID)
	if by := c.by(); by != "" {
		body.request.By = by // overrides the request
	}
	done, err := a.service.Release(c.ctx, body.request)
	return answer{body: releaseView{RequestID: body.request.RequestID, Released: done.Released,
		Quarantined: done.Quarantined, Replayed: done.Replayed}}, err
}

// releaseBody is the body of a release. Without a quantity it releases all that is held.
type releaseBody struct{ request bucket.ReleaseRequest }

func (b *releaseBody) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "request_id":
		r.Text(name, &b.request.RequestID, budget.CheckRequestID)
	case "quantity":
		r.Amount(name, &b.request.Quantity)
	case "reason":
		r.Text(name, &b.request.Reason, budget.CheckKey)
	case "by":
		r.Text(name, &b.request.By, budget.CheckRequestID)
	case "used":
		r.Bool(name, &b.request.Used)
	default:
		return false
	}
	return true
}

func (b *releaseBody) Check(r *strictjson.Reader) { r.Require("request_id", "reason") }

// quarantineView is what an epoch held when its store lost its memory. Quantities are in minor
// units.
type quarantineView struct {
	Bucket   string    `json:"bucket"`
	Epoch    int64     `json:"epoch"`
	Quantity int64     `json:"quantity"`
	Released int64     `json:"released"`
	Held     int64     `json:"held"`
	Cause    string    `json:"cause"`
	At       time.Time `json:"at"`
	// Releases are the decisions by which units left it, the oldest first.
	Releases []decisionView `json:"releases"`
}

// decisionView is an operator's decision on units in quarantine.
type decisionView struct {
	RequestID string    `json:"request_id"`
	Quantity  int64     `json:"quantity"`
	Used      bool      `json:"used"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

type quarantineList struct {
	// Held is what is in quarantine now, by the listed rows.
	Held        int64            `json:"held"`
	Quarantines []quarantineView `json:"quarantines"`
}

type releaseView struct {
	RequestID string `json:"request_id"`
	// Released units went back to the total. Quarantined units are still held.
	Released    int64 `json:"released"`
	Quarantined int64 `json:"quarantined"`
	Replayed    bool  `json:"replayed"`
}

// Recycles is the part of the service that recycles budgets.
type Recycles interface {
	// Recycle recycles a budget and returns the report.
	Recycle(ctx context.Context, ref bucket.BudgetRef) (bucket.Recycle, error)
	// Recycles reads the recycles below a number, newest first; 0 begins with the newest.
	Recycles(ctx context.Context, ref bucket.BudgetRef, before int64,
		limit int) ([]bucket.Recycle, error)
}

func (a *API) recycle(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.readOptional(wire.Empty{}); err != nil {
		return answer{}, err
	}
	run, err := a.service.Recycle(c.ctx, ref)
	return answer{body: recycleOf(&run)}, err
}

func (a *API) recycles(c *call) (answer, error) {
	query := c.query("tenant", "page_size", "page_token")
	ref, err := c.budget(query)
	if err != nil {
		return answer{}, err
	}
	limit, before := c.pageSize(query), int64(0)
	if query.Has("page_token") {
		number, ok := parsePageToken(query.Get("page_token"))
		if !ok {
			c.faults.Invalid("page_token", "is not a next_page_token of an earlier page")
		}
		before = number
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	list, err := a.service.Recycles(c.ctx, ref, before, limit)
	out := recyclePage{Recycles: make([]recycleView, len(list))}
	for i := range list {
		out.Recycles[i] = recycleOf(&list[i])
	}
	if len(list) == limit {
		out.NextPageToken = pageToken(list[len(list)-1].Number)
	}
	return answer{body: out}, err
}

// recycleView is the JSON form of a recycle. Quantities are in minor units.
type recycleView struct {
	Run int64 `json:"run"`
	// Cause is "operator", "schedule" or "automatic".
	Cause bucket.RecycleCause `json:"cause"`
	// Skipped of the Buckets could not be recycled.
	Buckets int `json:"buckets"`
	Skipped int `json:"skipped"`
	// Moved is the number of units that came back to the total.
	Moved          int64 `json:"moved"`
	UnitsBefore    int64 `json:"units_before"`
	StrandedBefore int64 `json:"stranded_before"`
	UnitsAfter     int64 `json:"units_after"`
	StrandedAfter  int64 `json:"stranded_after"`

	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at"`
}

type recyclePage struct {
	Recycles      []recycleView `json:"recycles"`
	NextPageToken string        `json:"next_page_token,omitzero"`
}

func recycleOf(r *bucket.Recycle) recycleView {
	return recycleView{
		Run: r.Number, Cause: r.Cause, Buckets: r.Buckets,
		Skipped: r.Skipped, Moved: r.Moved, UnitsBefore: r.Before.Units,
		StrandedBefore: r.Before.Stranded,
		UnitsAfter:     r.After.Units, StrandedAfter: r.After.Stranded,
		BeganAt: wire.InUTC(r.BeganAt), EndedAt: wire.InUTC(r.EndedAt),
	}
}
