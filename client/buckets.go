package client

import (
	"context"
	"time"
)

// Bucket is one shard of a budget. Quantities are minor units.
type Bucket struct {
	// Key names the bucket within its budget.
	Key     string `json:"key"`
	Ordinal int    `json:"ordinal"`
	// Status is "online" or "offline".
	Status string `json:"status"`
	// OfflineBy is "operator" or "service" while offline.
	OfflineBy string `json:"offline_by,omitzero"`
	Home      Home   `json:"home"`
	Epoch     int64  `json:"epoch"`
	// EpochStatus is opening, open, closing, closed or lost.
	EpochStatus string `json:"epoch_status,omitzero"`
	// Incarnation is the partition's incarnation under which the epoch was opened.
	Incarnation int64 `json:"incarnation,omitzero"`
	// Remaining is what the bucket holds according to the ledger.
	Remaining int64 `json:"remaining"`
	// OutQuantity is all that it ever got. OutCnt is how often it applied for units that no bucket had
	// (adjust_cnt bounds it), CollectCnt how often it got units of other buckets; both since its last
	// recycle or the beginning of its period.
	OutQuantity int64 `json:"out_quantity"`
	OutCnt      int64 `json:"out_cnt"`
	CollectCnt  int64 `json:"collect_cnt"`
	// Outstanding, Held, Used and Returning are the newest epoch's in the database.
	Outstanding int64 `json:"outstanding"`
	Held        int64 `json:"held"`
	Used        int64 `json:"used"`
	Returning   int64 `json:"returning"`
	// Halted says why nothing may move on this bucket until Resume; "" means that it may.
	Halted string `json:"halted,omitzero"`
	// Problem says why its store does not answer the server; "" if it does.
	Problem   string    `json:"problem,omitzero"`
	UpdatedAt time.Time `json:"updated_at,omitzero"`
}

// BucketList is the buckets of one budget, in order of creation.
type BucketList struct {
	Buckets []Bucket `json:"buckets"`
}

// Buckets returns a budget's buckets, online and offline. Errors: budget_not_found.
func (c *Client) Buckets(ctx context.Context, name string) (*BucketList, error) {
	var answer BucketList
	_, err := c.do(ctx, c.get("buckets", name, "buckets"), &answer)
	return result(&answer, err)
}

// Offline closes a bucket and returns its units to the total. It is idempotent. Errors:
// budget_not_found, bucket_not_found, last_bucket (the last online bucket of an effective budget
// stays).
func (c *Client) Offline(ctx context.Context, name, key string) (*Bucket, error) {
	return c.bucketCall(ctx, name, key, "offline", true)
}

// Online opens a bucket again, empty, and lets it apply. It is idempotent. Errors:
// budget_not_found, bucket_not_found.
func (c *Client) Online(ctx context.Context, name, key string) (*Bucket, error) {
	return c.bucketCall(ctx, name, key, "online", true)
}

// Resume audits the budget and resumes a halted bucket without discrepancies. The audit reads
// every row of the budget. Errors: budget_not_found, bucket_not_found, bucket_halted with the
// discrepancies.
func (c *Client) Resume(ctx context.Context, name, key string) (*Bucket, error) {
	return c.bucketCall(ctx, name, key, "resume", true)
}

// Apply lets a bucket take units from the total under the budget's rule. It has no request id, so
// it is not retried after a lost answer: check Buckets. Errors: budget_not_found, bucket_not_found,
// budget_exhausted.
func (c *Client) Apply(ctx context.Context, name, key string) (*Bucket, error) {
	return c.bucketCall(ctx, name, key, "apply", false)
}

func (c *Client) bucketCall(ctx context.Context, name, key, verb string, repeatable bool) (
	*Bucket, error,
) {
	what := c.post(verb, nil, name, "buckets", key, verb)
	what.repeatable = repeatable
	var answer Bucket
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
