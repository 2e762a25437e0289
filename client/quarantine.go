package client

import (
	"context"
	"time"
)

// Quarantine is what a bucket in store mode still held according to SQL when its store lost its
// memory. Quantities are in minor units.
type Quarantine struct {
	Bucket   string `json:"bucket"`
	Epoch    int64  `json:"epoch"`
	Quantity int64  `json:"quantity"`
	Released int64  `json:"released"`
	// Held is quantity − released: the units still in quarantine.
	Held int64 `json:"held"`
	// Cause says why it is unknown whether the units were sold.
	Cause string    `json:"cause"`
	At    time.Time `json:"at"`
	// Releases are the decisions by which units left it, the oldest first.
	Releases []Decision `json:"releases"`
}

// Decision is an operator's decision on quarantined units: how many, whether they count as used or
// went back to the total, why, and who decided it.
type Decision struct {
	RequestID string    `json:"request_id"`
	Quantity  int64     `json:"quantity"`
	Used      bool      `json:"used"`
	Reason    string    `json:"reason"`
	By        string    `json:"by"`
	At        time.Time `json:"at"`
}

// QuarantineList lists all quarantines of a budget, including those that are empty by now.
type QuarantineList struct {
	Held        int64        `json:"held"`
	Quarantines []Quarantine `json:"quarantines"`
}

// Quarantine lists a budget's quarantines. Errors: budget_not_found.
func (c *Client) Quarantine(ctx context.Context, name string) (*QuarantineList, error) {
	var answer QuarantineList
	_, err := c.do(ctx, c.get("quarantine", name, "quarantine"), &answer)
	return result(&answer, err)
}

// ReleaseRequest is an operator's decision on quarantined units.
type ReleaseRequest struct {
	// RequestID makes the release take effect once.
	RequestID string `json:"request_id"`
	// Quantity is the number of units; 0 means all that are held.
	Quantity int64 `json:"quantity,omitzero"`
	// Used counts the units as used, because they were sold. Otherwise they return to the total.
	Used bool `json:"used,omitzero"`
	// Reason and By are stored with the release.
	Reason string `json:"reason"`
	By     string `json:"by,omitzero"`
}

// ReleaseAnswer is the result of a release. Quantities are in minor units.
type ReleaseAnswer struct {
	RequestID   string `json:"request_id"`
	Released    int64  `json:"released"`
	Quarantined int64  `json:"quarantined"`
	Replayed    bool   `json:"replayed"`
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
