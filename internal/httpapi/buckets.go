package httpapi

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/ledger"
)

// Buckets are the service's verbs on the buckets of a budget. Errors are *budget.Error.
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
	out := bucketList{Buckets: make([]bucketView, len(views))}
	for i := range views {
		out.Buckets[i] = bucketOf(&views[i])
	}
	return answer{body: out}, err
}

func (a *API) offline(c *call) (answer, error) { return c.onBucket(a.service.Offline) }
func (a *API) online(c *call) (answer, error)  { return c.onBucket(a.service.Online) }
func (a *API) apply(c *call) (answer, error)   { return c.onBucket(a.service.ApplyTo) }

// bucketVerb is a method of Buckets on one bucket.
type bucketVerb func(context.Context, bucket.BudgetRef, string) (bucket.BucketView, error)

// onBucket runs a verb on the bucket that the path names. Its body may be absent or {}.
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
	if err := c.readOptional(empty{}); err != nil {
		return answer{}, err
	}
	view, err := verb(c.ctx, ref, key)
	return answer{body: bucketOf(&view)}, err
}

// empty is a body without members.
type empty struct{}

func (empty) Member(*strictjson.Reader, string) bool { return false }
func (empty) Check(*strictjson.Reader)               {}

// bucketView is a bucket as answered. Quantities are minor units; outstanding, held, used and
// returning are its newest epoch's, by the ledger.
type bucketView struct {
	Key     string `json:"key"`
	Ordinal int    `json:"ordinal"`
	Status  string `json:"status"`
	// OfflineBy is "operator" or "service".
	OfflineBy   bucket.OfflineBy `json:"offline_by,omitzero"`
	Instance    string           `json:"instance"`
	Lane        int              `json:"lane"`
	Epoch       int64            `json:"epoch"`
	EpochStatus ledger.Status    `json:"epoch_status,omitzero"`
	Activation  int64            `json:"activation,omitzero"`
	Remaining   int64            `json:"remaining"`
	OutQuantity int64            `json:"out_quantity"`
	OutCnt      int              `json:"out_cnt"`
	Outstanding int64            `json:"outstanding"`
	Held        int64            `json:"held"`
	Used        int64            `json:"used"`
	Returning   int64            `json:"returning"`
	// Fenced says why the bucket is stopped.
	Fenced    string    `json:"fenced,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

type bucketList struct {
	Buckets []bucketView `json:"buckets"`
}

func bucketOf(b *bucket.BucketView) bucketView {
	e := &b.Epoch
	status := "offline"
	if b.Online {
		status = "online"
	}
	return bucketView{
		Key: b.Key, Ordinal: b.Ordinal, Status: status, OfflineBy: b.OfflineBy,
		Instance: b.Lane.Instance, Lane: b.Lane.Index,
		Epoch: e.Number, EpochStatus: e.Status, Activation: e.Activation,
		Remaining: b.Remaining, OutQuantity: b.OutQuantity, OutCnt: b.OutCnt,
		Outstanding: e.Outstanding, Held: e.Held, Used: e.Used, Returning: e.Returning,
		Fenced: e.Fenced, UpdatedAt: inUTC(b.UpdatedAt),
	}
}
