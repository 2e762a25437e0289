package httpapi

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// auditTime bounds an audit, which reads every row of a budget's ledger.
const auditTime = 10 * time.Minute

// Audits is the service's proof of conservation.
type Audits interface {
	// Audit checks a budget on live traffic; a report that is not OK is no error.
	Audit(ctx context.Context, ref bucket.BudgetRef) (bucket.AuditReport, error)
}

func (a *API) audit(c *call) (answer, error) {
	ref, err := c.budget(c.query("tenant"))
	if err != nil {
		return answer{}, err
	}
	if err := c.nothing(); err != nil {
		return answer{}, err
	}
	ctx, cancel := context.WithTimeout(c.work, auditTime)
	defer cancel()
	c.allow(auditTime)
	report, err := a.service.Audit(ctx, ref)
	return answer{body: auditOf(&report)}, err
}

// auditReport is the answer to an audit. Quantities are minor units. Undistributed is F + U, of which
// NotFunded is F, so that the total is the sum of the others as in every view.
type auditReport struct {
	OK            bool                 `json:"ok"`
	Total         int64                `json:"total"`
	Undistributed int64                `json:"undistributed"`
	NotFunded     int64                `json:"not_funded"`
	InTransit     int64                `json:"in_transit"`
	Remaining     int64                `json:"remaining"`
	Held          int64                `json:"held"`
	Used          int64                `json:"used"`
	Quarantined   int64                `json:"quarantined"`
	Forfeited     int64                `json:"forfeited"`
	AtRisk        int64                `json:"at_risk"`
	Discrepancies []ledger.Discrepancy `json:"discrepancies"`
	// Unchecked lists buckets whose store could not be read; their rows were checked.
	Unchecked []string `json:"unchecked,omitempty"`
}

func auditOf(r *bucket.AuditReport) auditReport {
	f := &r.Figures
	return auditReport{
		OK: r.OK, Total: f.Total, Undistributed: f.Unfunded + f.Undistributed,
		NotFunded: f.Unfunded, InTransit: f.InTransit(),
		Remaining: f.Remaining, Held: f.Held, Used: f.Used, Quarantined: f.Quarantined,
		Forfeited: f.Forfeited, AtRisk: r.AtRisk, Discrepancies: r.Discrepancies, Unchecked: r.Unchecked,
	}
}
