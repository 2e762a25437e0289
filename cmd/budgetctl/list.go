package main

import (
	"context"
	"strings"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

// orders are the values of list's --sort, each also with a minus in front.
var orders = []string{"name", "remaining", "used_share", "end", "refusals", "exhausted_at"}

const listHelp = `Lists budgets by id. --sort orders them by name, remaining, used_share, end,
refusals (on this node, in the last 8 to 15 minutes) or exhausted_at (when the last unit is used at
the recent rate). A minus in front reverses the order. A sorted or searched list shows when a budget
will be used up.`

func (a *app) listCommand() *cobra.Command {
	var filter client.Filter
	var most int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tenant's budgets, or search and sort them",
		Long:  listHelp,
		Example: `  budgetctl list --status effective
  budgetctl list --search sale --sort exhausted_at --limit 10
  budgetctl list --sort=-refusals`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := chosen(cmd, "status", "type", "sort"); err != nil {
				return err
			}
			if most < 0 || cmd.Flags().Changed("limit") && most == 0 {
				return usagef("--limit %d: must be at least 1", most)
			}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (client.Page, error) {
				page := client.Page{Budgets: []client.Budget{}}
				for b, err := range c.Budgets(ctx, filter) {
					if err != nil {
						return page, err
					}
					page.Budgets = append(page.Budgets, b)
					if len(page.Budgets) == most {
						break
					}
				}
				return page, nil
			}, func(page client.Page) string { return overview(page, filter) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar((*string)(&filter.Status), "status", "",
		"only those: pending, effective, paused or expired")
	flags.StringVar((*string)(&filter.Type), "type", "", "only those: promo or daily")
	flags.StringVar(&filter.Parent, "parent", "", "only the children of this budget")
	flags.BoolVar(&filter.Archived, "archived", false, "archived budgets too")
	flags.StringVar(&filter.Search, "search", "", "only names that contain this")
	flags.StringVar(&filter.Sort, "sort", "", "order: "+strings.Join(orders, ", ")+
		"; with a minus in front the other way round")
	flags.IntVar(&most, "limit", 0, "the most budgets; all if it is not given")
	choose(cmd, "status", "pending", "effective", "paused", "expired")
	choose(cmd, "type", "promo", "daily")
	choose(cmd, "sort", append(orders, reversed(orders)...)...)
	return cmd
}

// reversed returns the names of the reverse orders.
func reversed(orders []string) []string {
	out := make([]string, len(orders))
	for i, order := range orders {
		out[i] = "-" + order
	}
	return out
}

// overview formats a list of budgets. A list that was searched or sorted has more columns.
func overview(page client.Page, filter client.Filter) string {
	header := []string{"name", "id", "type", "status", "total", "undistributed", "remaining",
		"opens at", "used", "in transit", "online", "offline"}
	refusals := strings.TrimPrefix(filter.Sort, "-") == "refusals"
	ranked := filter.Search != "" || filter.Sort != ""
	if ranked {
		header = append(header, "used up at")
	}
	if refusals {
		header = append(header, "refusals")
	}
	rows := make([][]any, len(page.Budgets))
	for i, b := range page.Budgets {
		rows[i] = []any{b.Name, b.ID, b.Type, b.Status, orUnlimited(b.TotalQuantity),
			orUnlimited(b.Undistributed), orUnlimited(b.Remaining),
			clockOf(b.Timezone)(b.OpensAt), b.Used, b.InTransit, b.Buckets.Online,
			b.Buckets.Offline}
		if ranked {
			rows[i] = append(rows[i], clockOf(b.Timezone)(b.ExhaustedAt))
		}
		if refusals {
			n := 0
			if b.Refusals != nil {
				n = *b.Refusals
			}
			rows[i] = append(rows[i], n)
		}
	}
	return listing(header, rows)
}
