package client

import (
	"context"
	"strconv"
	"time"
)

// recycleAnswered is the service's default http.request_timeout, which ends a recycle.
const recycleAnswered = 15 * time.Second

// Recycle recycles a budget and returns the report. A recycle has no request id, so a lost answer
// is not retried; Recycles shows whether it was done, and repeating it is harmless. Errors:
// budget_not_found, budget_expired.
func (c *Client) Recycle(ctx context.Context, name string) (*Recycle, error) {
	what := c.post("recycle", nil, name, "recycle")
	what.longer = recycleAnswered
	var answer Recycle
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Recycles returns one page of a budget's recycles. pageSize 0 means the service's default;
// pageToken is a page's NextPageToken. Errors: budget_not_found.
func (c *Client) Recycles(
	ctx context.Context, name string, pageSize int, pageToken string,
) (*RecyclePage, error) {
	what := c.get("recycles", name, "recycles")
	set(what.query, "page_token", pageToken)
	if pageSize != 0 {
		what.query.Set("page_size", strconv.Itoa(pageSize))
	}
	var answer RecyclePage
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
