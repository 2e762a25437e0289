package httpapi

import (
	"cmp"
	"context"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Movements is the part of the service that moves units between a budget and its buckets. Errors
// are *budget.Error.
type Movements interface {
	Buckets(ctx context.Context, ref bucket.BudgetRef) ([]bucket.BucketView, error)
	Offline(ctx context.Context, ref bucket.BudgetRef, bucketKey string) (bucket.BucketView, error)
	Online(ctx context.Context, ref bucket.BudgetRef, bucketKey string) (bucket.BucketView, error)
	ApplyTo(ctx context.Context, ref bucket.BudgetRef, bucketKey string) (bucket.BucketView, error)
	// Recycle recycles a budget and returns the report.
	Recycle(ctx context.Context, ref bucket.BudgetRef) (bucket.Recycle, error)
	// Recycles reads the recycles below a number, newest first; 0 begins with the newest.
	Recycles(ctx context.Context, ref bucket.BudgetRef, before int64,
		limit int) ([]bucket.Recycle, error)
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
	out := api.BucketList{Buckets: make([]api.Bucket, len(views))}
	for i := range views {
		out.Buckets[i] = bucketOf(&views[i])
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
	if err := c.readOptional(&struct{}{}); err != nil {
		return answer{}, err
	}
	view, err := verb(c.ctx, ref, key)
	return answer{body: bucketOf(&view)}, err
}

// Releases is the part of the service that acts on units whose store lost its memory (store
// mode).
type Releases interface {
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
	out := api.QuarantineList{Quarantines: make([]api.Quarantine, len(list))}
	for i, q := range list {
		out.Held += q.Held()
		out.Quarantines[i] = api.Quarantine{Bucket: q.Key, Epoch: q.Epoch, Quantity: q.Quantity,
			Released: q.Released, Held: q.Held(), Cause: q.Cause, At: inUTC(q.At)}
		out.Quarantines[i].Releases = make([]api.Decision, len(q.Releases))
		for n, r := range q.Releases {
			out.Quarantines[i].Releases[n] = api.Decision{RequestID: r.RequestID,
				Quantity: r.Quantity, Used: r.Used, Reason: r.Reason, By: r.By, At: inUTC(r.At)}
		}
	}
	return answer{body: out}, err
}

func (a *API) release(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	var body api.ReleaseRequest
	if err := c.read(&body); err != nil {
		return answer{}, err
	}
	c.target(ref.Tenant, c.named, body.RequestID)
	done, err := a.service.Release(c.ctx, bucket.ReleaseRequest{
		Budget:    ref,
		RequestID: body.RequestID,
		Quantity:  body.Quantity,
		Used:      body.Used,
		Reason:    body.Reason,
		By:        cmp.Or(c.by(), body.By),
	})
	return answer{body: api.ReleaseAnswer{RequestID: body.RequestID, Released: done.Released,
		Quarantined: done.Quarantined, Replayed: done.Replayed}}, err
}

func (a *API) recycle(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.readOptional(&struct{}{}); err != nil {
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
	out := api.RecyclePage{Recycles: make([]api.Recycle, len(list))}
	for i := range list {
		out.Recycles[i] = recycleOf(&list[i])
	}
	if len(list) == limit {
		out.NextPageToken = pageToken(list[len(list)-1].Number)
	}
	return answer{body: out}, err
}

func recycleOf(r *bucket.Recycle) api.Recycle {
	return api.Recycle{
		Run: r.Number, Cause: string(r.Cause), Buckets: r.Buckets,
		Skipped: r.Skipped, Moved: r.Moved, UnitsBefore: r.Before.Units,
		StrandedBefore: r.Before.Stranded,
		UnitsAfter:     r.After.Units, StrandedAfter: r.After.Stranded,
		BeganAt: inUTC(r.BeganAt), EndedAt: inUTC(r.EndedAt),
	}
}

// homeOf returns the home of a bucket of a budget with that durability. Only store mode keeps
// balances in partitions.
func homeOf(d budget.Durability, p bucket.Partition) api.Home {
	if d != budget.Store {
		return api.Home{}
	}
	return api.Home{Instance: p.Instance, Partition: p.Index}
}

// bucketOf returns the body that shows b.
func bucketOf(b *bucket.BucketView) api.Bucket {
	e := &b.Epoch
	status := "offline"
	if b.Online {
		status = "online"
	}
	return api.Bucket{
		Key: b.Key, Ordinal: b.Ordinal, Status: status, OfflineBy: string(b.OfflineBy),
		Home:  homeOf(b.Durability, b.Partition),
		Epoch: e.Number, EpochStatus: string(e.Status), Incarnation: e.Incarnation,
		Remaining: b.Remaining, OutQuantity: b.OutQuantity, OutCnt: b.OutCnt,
		CollectCnt:  b.CollectCnt,
		Outstanding: e.Outstanding, Held: e.Held, Used: e.Used, Returning: e.Returning,
		Halted: e.Halted, Problem: b.Problem, UpdatedAt: inUTC(b.UpdatedAt),
	}
}
