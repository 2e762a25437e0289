package main

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) nearestCommand() *cobra.Command {
	most := 20
	cmd := &cobra.Command{
		Use:   "nearest BUDGET LIMIT",
		Short: "Show the users, devices, … that are nearest the maximum of a limit",
		Long: `Lists the values that have used the largest share of their maximum in the present window.
It reads the counts of at most 10,000 values, in ledger mode only. For one value, also in store
mode, use 'budgetctl check'.`,
		Example: `  budgetctl nearest spring-sale per-user
  budgetctl nearest spring-sale per-user --limit 100`,
		Args: arguments,
	}
	cmd.Flags().IntVar(&most, "limit", most, "most values, 1 to 1000")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if most < 1 || most > 1000 {
			return usagef("--limit %d: must be 1 to 1000", most)
		}
		if err := reference(args[0]); err != nil {
			return err
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Nearest, error) {
			return c.Nearest(ctx, args[0], args[1], most)
		}, nearestTable)
	}
	return cmd
}

func nearestTable(n *client.Nearest) string {
	rows := make([][]any, len(n.Values))
	for i, v := range n.Values {
		most := any("exempt")
		if v.Max != nil {
			most = *v.Max
		}
		rows[i] = []any{v.Dimension + "=" + v.Value, v.Used, most, orNever(v.ResetAt)}
	}
	read := fmt.Sprintf("%s values were read", grouped(int64(n.Read)))
	if n.Complete {
		read += ": all that have counts."
	} else {
		read += ". Others may have used more."
	}
	return listing([]string{"value", "used", "max", "resets"}, rows) + "\n" + read
}
