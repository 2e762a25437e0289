package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

// auditTimeout is the service's own bound for an audit.
const auditTimeout = 10 * time.Minute

func (a *app) auditCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "audit BUDGET",
		Short: "Prove that no unit was lost or invented",
		Long: `Recomputes a budget's figures from its rows, on live traffic, and compares them with the
columns and the stores. Exit status 4 means a discrepancy. It reads every row of the budget's
ledger, so the command waits up to ten minutes unless --timeout is given. With --all it audits every
budget of the tenant, one after the other, and names at the end those that could not be audited.`,
		Example: `  budgetctl audit spring-sale
  budgetctl audit spring-sale -o json
  budgetctl audit --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			if all && len(args) == 0 {
				return nil
			}
			return arguments(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if all {
				return a.auditAll(cmd, args)
			}
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
	cmd.Flags().BoolVar(&all, "all", false, "audit every budget of the tenant")
	return cmd
}

// auditRow is the audit of one of several budgets.
type auditRow struct {
	Budget             string `json:"budget"`
	client.AuditReport `json:",inline"`
}

// auditAll audits the budgets of the tenant.
func (a *app) auditAll(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef("--all audits every budget: %q is one argument too many", args[0])
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if !cmd.Flags().Changed("timeout") {
		a.timeout = auditTimeout
	}
	list := struct {
		Audits []auditRow `json:"audits"`
	}{Audits: []auditRow{}}
	wrong, failed, status := 0, 0, exitDone
	defer a.waiting()() // many short calls take long too
	for b, err := range c.Budgets(cmd.Context(), client.Filter{Archived: true}) {
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), a.timeout)
		report, err := c.Audit(ctx, strconv.FormatInt(b.ID, 10))
		cancel()
		switch {
		case client.CodeOf(err) != "": // an answer about this budget
			fmt.Fprintf(a.stderr, "budget %s was not audited: %v\n", b.Name, err)
			failed, status = failed+1, max(status, exitStatus(err))
			continue
		case err != nil:
			return err
		}
		wrong += len(report.Discrepancies)
		list.Audits = append(list.Audits, auditRow{b.Name, *report})
	}
	err = a.show(list, func() string {
		rows := make([][]any, len(list.Audits))
		for i, r := range list.Audits {
			rows[i] = []any{r.Budget, r.OK, orUnlimited(r.Total), r.Used, len(r.Discrepancies),
				len(r.Unchecked)}
		}
		return listing([]string{"budget", "ok", "total", "used", "discrepancies", "unchecked"}, rows)
	})
	switch {
	case err != nil || wrong == 0 && failed == 0:
		return err
	case wrong == 0:
		return statusError{fmt.Errorf("%d budgets were not audited", failed), status}
	}
	return statusError{fmt.Errorf("%d discrepancies: 'budgetctl audit NAME' lists those of a budget; "+
		"%d budgets were not audited", wrong, failed), exitDiscrepancy}
}

// proof formats an audit: the equation and the discrepancies.
func proof(r *client.AuditReport) string {
	fields := []field{{"ok", r.OK}, {"total", orUnlimited(r.Total)},
		{"undistributed", orUnlimited(r.Undistributed)}, {"not funded", orUnlimited(r.NotFunded)},
		{"in transit", r.InTransit}, {"in buckets", orUnlimited(r.InBuckets)}, {"held", r.Held},
		{"used", r.Used}, {"quarantined", r.Quarantined}, {"forfeited", r.Forfeited}}
	if r.WithChildren > 0 {
		fields = append(fields, field{"with children", r.WithChildren})
	}
	text := details(append(fields, field{"at risk", r.AtRisk})...)
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
