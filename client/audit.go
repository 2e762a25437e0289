package client

import (
	"context"
	"time"
)

// auditAnswered is the longest time that a service works on an audit.
const auditAnswered = 10 * time.Minute

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
