package client

import (
	"context"
)

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
