package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

// auditTimeout is as long as the service works on an audit.
const auditTimeout = 10 * time.Minute

func (a *app) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit BUDGET",
		Short: "Prove that no unit was lost or made up",
		Long: `Recomputes a budget's figures from rows and entries, on live traffic, and compares them
with what the columns and the stores hold. Exit status 4: something does not agree.
It reads every row of the budget's ledger and is waited for ten minutes unless --timeout is given.`,
		Example: `  budgetctl audit spring-sale
  budgetctl audit spring-sale -o json`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reference(args[0]); err != nil {
				return err
			}
			if !cmd.Flags().Changed("timeout") {
				a.timeout = auditTimeout
			}
			var report *client.AuditReport
			ask := func(ctx context.Context, c *client.Client) (*client.AuditReport, error) {
				answer, err := c.Audit(ctx, args[0])
				report = answer
				return answer, err
			}
			err := call(a, cmd, ask, proof)
			if err == nil && !report.OK {
				return statusError{fmt.Errorf(
					"budget %s: %d discrepancies; docs/OPERATIONS.md says what to do about each",
					args[0], len(report.Discrepancies)), exitDiscrepancy}
			}
			return err
		},
	}
}

// proof lays out an audit: the equation, and what contradicts it.
func proof(r *client.AuditReport) string {
	text := details(field{"ok", r.OK}, field{"total", r.Total},
		field{"undistributed", r.Undistributed}, field{"not funded", r.NotFunded},
		field{"in transit", r.InTransit},
		field{"remaining", r.Remaining}, field{"held", r.Held}, field{"used", r.Used},
		field{"quarantined", r.Quarantined}, field{"forfeited", r.Forfeited},
		field{"at risk", r.AtRisk})
	if len(r.Unchecked) > 0 {
		text += "\n\nstores that could not be read (their rows were checked): " +
			printable(strings.Join(r.Unchecked, ", "))
	}
	if len(r.Discrepancies) == 0 {
		return text
	}
	rows := make([][]any, len(r.Discrepancies))
	for i, d := range r.Discrepancies {
		rows[i] = []any{d.What, d.Bucket, d.Epoch, d.Recorded, d.Counted}
	}
	header := []string{"discrepancy", "bucket", "epoch", "recorded", "counted"}
	return text + "\n\n" + listing(header, rows)
}
