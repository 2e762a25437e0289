package main

import (
	"context"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) appendCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "append BUDGET QUANTITY",
		Short: "Add to a budget's total",
		Long: `Adds to a budget's total. Without --request-id an id is generated and shown: if the outcome
is unknown, repeat the command with it, and the units are added once.`,
		Example: `  budgetctl append spring-sale 5000
  budgetctl append spring-sale 5000 --request-id refill-2026-05-01`,
	}
	return a.adjustment(cmd, +1)
}

func (a *app) shrinkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "shrink BUDGET QUANTITY",
		Short: "Take from a budget's total what is not used",
		Long: `Takes units from a budget's total. It is refused if fewer are neither used nor held.
Without --request-id an id is generated and shown: if the outcome is unknown, repeat the command
with it, and the units are taken once.`,
		Example: `  budgetctl shrink spring-sale 500
  budgetctl shrink spring-sale 500 --request-id cut-2026-05-01`,
	}
	return a.adjustment(cmd, -1)
}

// adjustment completes append (sign +1) and shrink (sign -1).
func (a *app) adjustment(cmd *cobra.Command, sign int64) *cobra.Command {
	id := requestIDFlag(cmd)
	cmd.Args = arguments
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		quantity, err := amount(args[1])
		if err := firstOf(reference(args[0]), err, id.check(cmd)); err != nil {
			return err
		}
		request := client.AppendRequest{RequestID: id.value(), Quantity: sign * quantity}
		ask := func(ctx context.Context, c *client.Client) (*client.Adjustment, error) {
			answer, err := c.Append(ctx, args[0], request)
			return answer, id.advise(err, "")
		}
		return call(a, cmd, ask, func(answer *client.Adjustment) string {
			return details(field{"request id", answer.RequestID}, field{"quantity", answer.Quantity},
				field{"state", answer.State}, field{"replayed", answer.Replayed},
				field{"total", orUnlimited(answer.TotalQuantity)},
				field{"undistributed", orUnlimited(answer.Undistributed)},
				field{"remaining", orUnlimited(answer.Remaining)},
				field{"opens at", clockOf(answer.Timezone)(answer.OpensAt)},
				field{"used", answer.Used})
		})
	}
	return cmd
}
