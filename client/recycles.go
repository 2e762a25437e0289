package client

import (
	"context"
	"strconv"
	"time"
)

// Recycle is a run that brings the units of a budget's buckets together and hands them out again by
// recent demand. Quantities are in minor units.
type Recycle struct {
	// Run is its number among the budget's runs.
	Run int64 `json:"run"`
	// Cause is "operator", "schedule" or "automatic".
	Cause string `json:"cause"`
	// Skipped of the Buckets could not be recycled.
	Buckets int `json:"buckets"`
	Skipped int `json:"skipped"`
	// Moved is the number of units that came back to the total.
	Moved int64 `json:"moved"`
	// The units of buckets and total at the beginning and the end, and how many of them were in
	// buckets with little demand.
	UnitsBefore    int64 `json:"units_before"`
	StrandedBefore int64 `json:"stranded_before"`
	UnitsAfter     int64 `json:"units_after"`
	StrandedAfter  int64 `json:"stranded_after"`

	BeganAt time.Time `json:"began_at"`
	EndedAt time.Time `json:"ended_at"`
}

// RecyclePage is a part of a budget's recycles, newest first.
type RecyclePage struct {
	Recycles []Recycle `json:"recycles"`
	// NextPageToken requests the next page; "" on the last page.
	NextPageToken string `json:"next_page_token,omitzero"`
}

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
