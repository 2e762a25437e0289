package main

import (
	"context"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) quarantineCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "quarantine BUDGET",
		Short: "Show units whose store lost its memory",
		Long: `Shows what buckets of a budget in store mode held, beyond the ledger, when their stores
lost their memory. It is not known how much of it was sold, so it is not handed out again.
"release" gives back what was not sold. Below are the releases: who decided what, when and why.`,
		Example: `  budgetctl quarantine spring-sale`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reference(args[0]); err != nil {
				return err
			}
			ask := func(ctx context.Context, c *client.Client) (*client.QuarantineList, error) {
				return c.Quarantine(ctx, args[0])
			}
			return call(a, cmd, ask, func(list *client.QuarantineList) string {
				rows := make([][]any, len(list.Quarantines))
				for i, q := range list.Quarantines {
					rows[i] = []any{q.Bucket, q.Epoch, q.Quantity, q.Released, q.Held, q.At, q.Cause}
				}
				text := listing([]string{"bucket", "epoch", "quantity", "released", "held", "at", "cause"},
					rows)
				if decided := decisions(list); len(decided) > 0 {
					text += "\n\n" + listing([]string{"released", "quantity", "bucket", "decision", "by", "reason",
						"request id"}, decided)
				}
				return text
			})
		},
	}
}

// decisions are the rows of a budget's releases.
func decisions(list *client.QuarantineList) (rows [][]any) {
	for _, q := range list.Quarantines {
		for _, r := range q.Releases {
			decision := "not sold: given back"
			if r.Used {
				decision = "sold: used"
			}
			rows = append(rows, []any{r.At, r.Quantity, q.Bucket, decision, r.By, r.Reason, r.RequestID})
		}
	}
	return rows
}

func (a *app) releaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release BUDGET QUANTITY",
		Short: "Give quarantined units back to a budget, or count them as used",
		Long: `Gives units back to a budget that were quarantined when a store lost its memory. First
make sure, from your own records, that they were not sold. With --used they count as used instead.
QUANTITY is a number of units or "all". The service records who decided, when and why. Without
--request-id an id is generated and shown: if the outcome is unknown, repeat the command with it,
and the units are released once.`,
		Example: `  budgetctl release spring-sale 850 --by jane \
      --reason "50 of 900 are in the shop's orders"
  budgetctl release spring-sale all --by jane --request-id incident-7 \
      --reason "the shop was closed"`,
		Args: arguments,
	}
	id := requestIDFlag(cmd)
	var request client.ReleaseRequest
	cmd.Flags().StringVar(&request.Reason, "reason", "", "why this is known (needed)")
	cmd.Flags().BoolVar(&request.Used, "used", false, "the units were sold: count them as used")
	cmd.Flags().StringVar(&request.By, "by", "", "who decides")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if args[1] != "all" {
			request.Quantity, err = amount(args[1])
		}
		if err == nil && request.Reason == "" {
			err = usagef("--reason is needed: it is kept with the release")
		}
		if err := firstOf(reference(args[0]), err, id.check(cmd)); err != nil {
			return err
		}
		request.RequestID = id.value()
		ask := func(ctx context.Context, c *client.Client) (*client.ReleaseAnswer, error) {
			answer, err := c.ReleaseQuarantine(ctx, args[0], request)
			return answer, id.advise(err, "")
		}
		return call(a, cmd, ask, func(answer *client.ReleaseAnswer) string {
			return details(field{"request id", answer.RequestID}, field{"released", answer.Released},
				field{"in quarantine", answer.Quarantined}, field{"replayed", answer.Replayed})
		})
	}
	return cmd
}
