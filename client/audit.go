package client

import (
	"context"
	"time"
)

// auditAnswered is the longest time that a service works on an audit.
const auditAnswered = 10 * time.Minute

// AuditReport is the conservation proof of one budget at one instant: the total is the sum of the
// other quantities except NotFunded and AtRisk, each recomputed from rows and entries. Quantities
// are minor units.
type AuditReport struct {
	OK            bool  `json:"ok"`
	Total         int64 `json:"total"`
	Undistributed int64 `json:"undistributed"`
	// NotFunded is the part of Undistributed that no period has received.
	NotFunded   int64 `json:"not_funded"`
	InTransit   int64 `json:"in_transit"`
	InBuckets   int64 `json:"in_buckets"`
	Held        int64 `json:"held"`
	Used        int64 `json:"used"`
	Quarantined int64 `json:"quarantined"`
	Forfeited   int64 `json:"forfeited"`
	// AtRisk is what the loss of a store would quarantine now.
	AtRisk        int64         `json:"at_risk"`
	Discrepancies []Discrepancy `json:"discrepancies"`
	// Unchecked lists buckets whose store could not be read; their rows were checked.
	Unchecked []string `json:"unchecked,omitempty"`
}

// Discrepancy is a figure that disagrees with its rows.
type Discrepancy struct {
	// Bucket is the bucket; "" means the budget as a whole.
	Bucket string `json:"bucket,omitzero"`
	Epoch  int64  `json:"epoch,omitzero"`
	// What names the figure, Recorded is its column, Counted the result of its rows.
	What     string `json:"what"`
	Recorded int64  `json:"recorded"`
	Counted  int64  `json:"counted"`
}

// Audit checks a budget under live traffic and moves nothing. A report that is not OK is not an
// error. It reads every row of the budget's ledger: millions take seconds, and an attempt may take
// ten minutes. Errors: budget_not_found, unavailable.
func (c *Client) Audit(ctx context.Context, name string) (*AuditReport, error) {
	var answer AuditReport
	what := c.get("audit", name, "audit")
	what.longer = auditAnswered
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
