package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/budgetd/budgetd/client"
)

// bulkTimeout is the service's own bound for a change of many budgets.
const bulkTimeout = 10 * time.Minute

// bulkFlags say which budgets a bulk changes.
type bulkFlags struct {
	filter   client.BulkFilter
	expected int64
	id       *idFlag
}

func (a *app) bulkCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bulk",
		Short: "Pause, resume or append to many budgets",
		Long: `Makes the same change to every budget of the tenant that --match and --type select.
It shows those that failed. Nothing is changed unless there are --expect of them. If the command is
interrupted, repeat it with its --request-id: it goes on where it stopped, and appends once to each
budget.`,
		Example: `  budgetctl bulk pause --tenant shop --expect 409
  budgetctl bulk append 500 --match summer- --expect 12 --request-id refill-7`,
	}
	for _, verb := range []struct{ name, use, short, example string }{
		{"pause", "pause", "Refuse deductions from many budgets", "--tenant shop --expect 409"},
		{"resume", "resume", "Resume many budgets", "--tenant shop --expect 409"},
		{"append", "append QUANTITY", "Add to the totals of many budgets",
			"500 --match summer- --expect 12"},
	} {
		one := a.bulkVerb(verb.name, verb.use, verb.short)
		one.Example = "  budgetctl bulk " + verb.name + " " + verb.example
		cmd.AddCommand(one)
	}
	return cmd
}

// bulkVerb is the command of one action.
func (a *app) bulkVerb(action, use, short string) *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{Use: use, Short: short, Args: arguments}
	f.id = requestIDFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.filter.Search, "match", "", "only names that contain this")
	flags.StringVar(&f.filter.Type, "type", "", "only promo or daily budgets")
	flags.Int64Var(&f.expected, "expect", 0, "how many budgets these are")
	choose(cmd, "type", "promo", "daily")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := firstOf(chosen(cmd, "type"), f.id.check(cmd)); err != nil {
			return err
		}
		if f.expected < 1 || f.expected > client.MaxBulk {
			return usagef("--expect must be 1 to %d: how many budgets are to change", client.MaxBulk)
		}
		request := client.BulkRequest{RequestID: f.id.value(), Filter: f.filter,
			Expected: f.expected, Action: action}
		if action == "append" {
			quantity, err := amount(args[0])
			if err != nil {
				return err
			}
			request.Quantity = quantity
		}
		return a.bulk(cmd, request, f.id)
	}
	return cmd
}

// bulk sends a request. It fails if a budget failed or is left.
func (a *app) bulk(cmd *cobra.Command, request client.BulkRequest, id *idFlag) error {
	if !cmd.Flags().Changed("timeout") {
		a.timeout = bulkTimeout
	}
	var last *client.BulkAnswer
	err := call(a, cmd, func(ctx context.Context, c *client.Client) (*client.BulkAnswer, error) {
		answer, err := c.ChangeMany(ctx, request)
		last = answer
		return answer, id.advise(err, "")
	}, bulkDone)
	if err == nil && last.Failed+last.Left > 0 {
		return id.advise(fmt.Errorf("%d budgets failed and %d are left", last.Failed, last.Left), "")
	}
	return err
}

// bulkDone formats what became of many budgets: the sums, and those that failed.
func bulkDone(b *client.BulkAnswer) string {
	out := details(field{"request id", b.RequestID}, field{"done", b.Done},
		field{"unchanged", b.Unchanged}, field{"failed", b.Failed}, field{"left", b.Left})
	var rows [][]any
	for _, row := range b.Rows {
		if row.Outcome != "done" && row.Outcome != "unchanged" {
			rows = append(rows, []any{row.Tenant, row.Budget, row.Outcome, row.Detail})
		}
	}
	if len(rows) == 0 {
		return out
	}
	return out + "\n" + listing([]string{"tenant", "budget", "outcome", "detail"}, rows)
}
