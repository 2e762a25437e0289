package main

import (
	"context"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

// corrections are the flags of set that correct mistakes made at the creation.
type corrections struct{ name, glCode, unit, start string }

func (c *corrections) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&c.name, "name", "", "another name, unique within the tenant")
	flags.StringVar(&c.glCode, "gl-code", "", "ledger account; may become empty")
	flags.StringVar(&c.unit, "unit", "", "what is counted: count or amount; no quantity changes")
	flags.StringVar(&c.start, "start", "",
		"first instant, RFC 3339 with zone, while the start is to come")
	choose(cmd, "unit", "count", "amount")
}

// read completes the request of a set. given reports whether a flag was given.
func (c *corrections) read(cmd *cobra.Command, request *client.PatchRequest) (
	given bool, err error) {
	if err := chosen(cmd, "unit"); err != nil {
		return false, err
	}
	flags := cmd.Flags()
	if flags.Changed("name") {
		if why := budget.CheckName(c.name); why != "" {
			return false, usagef("--name %q: %s", c.name, why)
		}
		request.Name, given = c.name, true
	}
	if flags.Changed("gl-code") {
		request.GLCode, given = &c.glCode, true
	}
	if flags.Changed("unit") {
		request.Unit, given = budget.Unit(c.unit), true
	}
	if flags.Changed("start") {
		at, err := instant("start", c.start)
		if err != nil {
			return false, err
		}
		request.StartAt, given = &at, true
	}
	return given, nil
}

func (a *app) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "delete BUDGET",
		Short: "Delete a budget that never had a deduction",
		Long: `Deletes a budget that was made by mistake, and shows it as it was. Its name is free
afterwards. It is refused (has_deductions) for a budget that has or had deductions: give that an end
and archive it. A budget in store mode must be paused first, with every bucket offline (in_use).`,
		Example:           `  budgetctl delete sprnig-sale`,
		Args:              arguments,
		ValidArgsFunction: a.completeBudgets,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reference(args[0]); err != nil {
				return err
			}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Budget, error) {
				return c.Delete(ctx, args[0])
			}, view)
		},
	}
}

func (a *app) closeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "close BUDGET",
		Short: "End a budget that was carved out of another",
		Long: `Ends a budget that has a parent, and its children. What they neither use nor hold goes
back to the parent at once, holds when they end. A repeated close changes nothing.`,
		Example:           `  budgetctl close team-1`,
		Args:              arguments,
		ValidArgsFunction: a.completeBudgets,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reference(args[0]); err != nil {
				return err
			}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Budget, error) {
				return c.Close(ctx, args[0])
			}, view)
		},
	}
}

func (a *app) archiveCommand() *cobra.Command {
	undo := false
	cmd := &cobra.Command{
		Use:   "archive BUDGET",
		Short: "Hide a budget that is over from lists",
		Long: `Hides a budget that is over from lists; 'budgetctl list --archived' shows it. All its rows
stay, and it can be read, audited and rolled back as before. It is refused (budget_not_over) while
the budget has not ended or has open holds. --undo shows the budget again.`,
		Example: `  budgetctl archive spring-sale
  budgetctl archive spring-sale --undo`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			archived := !undo
			return a.patch(cmd, args[0], client.PatchRequest{Archived: &archived})
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "show it in lists again")
	return cmd
}
