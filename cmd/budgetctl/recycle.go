package main

import (
	"context"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) recycleCommand() *cobra.Command {
	var history bool
	cmd := &cobra.Command{
		Use:   "recycle BUDGET",
		Short: "Bring a budget's fragments together and hand out by demand",
		Long: `Brings the units of a budget's buckets together and hands them out again by recent demand.
In ledger mode that is one transaction. In store mode it closes and opens the buckets. No call is
refused because of it. Repeating it is harmless. --history shows the recycles so far, the newest
first.`,
		Example: `  budgetctl recycle spring-sale
  budgetctl recycle spring-sale --history -o json`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reference(args[0]); err != nil {
				return err
			}
			if history {
				return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.RecyclePage, error) {
					return c.Recycles(ctx, args[0], 0, "")
				}, func(page *client.RecyclePage) string { return recycleRows(page.Recycles) })
			}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Recycle, error) {
				return c.Recycle(ctx, args[0])
			}, func(run *client.Recycle) string { return recycleRows([]client.Recycle{*run}) })
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "show the recycles so far instead")
	return cmd
}

func recycleRows(runs []client.Recycle) string {
	rows := make([][]any, len(runs))
	for i, r := range runs {
		rows[i] = []any{r.Run, r.Cause, r.Buckets, r.Skipped, r.Moved, r.UnitsBefore, r.StrandedBefore,
			r.UnitsAfter, r.StrandedAfter, r.BeganAt, r.EndedAt}
	}
	return listing([]string{"run", "cause", "buckets", "skipped", "moved", "units before", "stranded",
		"units after", "stranded", "began", "ended"}, rows)
}
