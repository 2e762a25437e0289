package client

import (
	"context"
	"strconv"
	"time"
)

// Recycle is a run that takes a budget's buckets offline and opens them again, one after the other,
// and hands out by recent demand. Quantities are minor units.
type Recycle struct {
	// Run is its number among the budget's runs.
	Run int64 `json:"run"`
	// Status is "running" or "done".
	Status string `json:"status"`
	// Cause is "operator", "schedule" or "automatic".
	Cause string `json:"cause"`
	// Done of so many buckets are behind it, of which Skipped could not be recycled.
	Buckets int `json:"buckets"`
	Done    int `json:"done"`
	Skipped int `json:"skipped"`
	// Moved units came back to the total.
	Moved int64 `json:"moved"`
	// What buckets and total held when it began and ended, and how much of it lay where few asked for
	// it.
	UnitsBefore    int64 `json:"units_before"`
	StrandedBefore int64 `json:"stranded_before"`
	UnitsAfter     int64 `json:"units_after"`
	StrandedAfter  int64 `json:"stranded_after"`

	BeganAt time.Time `json:"began_at"`
	// EndedAt is zero while it is running.
	EndedAt time.Time `json:"ended_at,omitzero"`
}

// Running reports whether the recycle goes on.
func (r *Recycle) Running() bool { return r.Status != "done" }

// RecyclePage is a part of a budget's recycles, the newest first.
type RecyclePage struct {
	Recycles []Recycle `json:"recycles"`
	// NextPageToken asks for the following page; "" after the last.
	NextPageToken string `json:"next_page_token,omitzero"`
}

// recycleAnswered is how long a service works at most before it says how far a recycle has come:
// its http.request_timeout, 15 s unless configured otherwise.
const recycleAnswered = 15 * time.Second

// Recycle recycles a budget and returns the report, or, where that takes longer than the service
// answers one call, how far it has come: it goes on then, see Recycles. It has no request id, so a
// lost answer is not repeated. Errors: budget_not_found, recycle_running.
func (c *Client) Recycle(ctx context.Context, name string) (*Recycle, error) {
	what := c.post("recycle", nil, name, "recycle")
	what.longer = recycleAnswered
	var answer Recycle
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Recycles returns one page of a budget's recycles: pageSize 0 is the service's own size, pageToken
// a page's NextPageToken. Errors: budget_not_found.
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
