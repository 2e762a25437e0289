package client

import (
	"context"
)

// Quarantine lists a budget's quarantines. Errors: budget_not_found.
func (c *Client) Quarantine(ctx context.Context, name string) (*QuarantineList, error) {
	var answer QuarantineList
	_, err := c.do(ctx, c.get("quarantine", name, "quarantine"), &answer)
	return result(&answer, err)
}

// ReleaseQuarantine moves quarantined units back to the total, or counts them as used. The same
// request id replays. Errors: budget_not_found, request_conflict, amount_exceeds_remaining (with
// what is held).
func (c *Client) ReleaseQuarantine(ctx context.Context, name string, request ReleaseRequest) (
	*ReleaseAnswer, error,
) {
	what := c.post("release", request, name, "quarantine", "release")
	what.requestID, what.repeatable = request.RequestID, true
	var answer ReleaseAnswer
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
