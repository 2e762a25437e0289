package main

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

// anyState is the value of --state that selects all alerts.
const anyState = "any"

func (a *app) alertsCommand() *cobra.Command {
	var q client.AlertQuery
	most := 100
	cmd := &cobra.Command{
		Use:   "alerts",
		Short: "Show which budgets need attention",
		Long: `Shows alerts, the newest first: which thresholds of budgets were crossed, and why an alert
was resolved. Without --state it shows firing alerts.`,
		Example: `  budgetctl alerts
  budgetctl alerts --state any --budget spring-sale`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if q.Budget != "" {
				if err := reference(q.Budget); err != nil {
					return err
				}
			}
			if err := chosen(cmd, "state"); err != nil {
				return err
			}
			if most < 1 || most > 1000 {
				return usagef("--limit %d: must be 1 to 1000", most)
			}
			query := q
			query.PageSize = most
			if query.State == anyState {
				query.State = ""
			}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.AlertPage, error) {
				return c.Alerts(ctx, query)
			}, alertTable)
		},
	}
	cmd.Flags().StringVar(&q.Budget, "budget", "", "only alerts of this budget")
	cmd.Flags().StringVar(&q.State, "state", "firing", "firing, resolved or any")
	cmd.Flags().IntVar(&most, "limit", most, "most alerts, 1 to 1000")
	choose(cmd, "state", "firing", "resolved", anyState)
	return cmd
}

func alertTable(page *client.AlertPage) string {
	rows := make([][]any, len(page.Alerts))
	for n, one := range page.Alerts {
		rows[n] = []any{one.ID, one.State, one.Tenant, one.Budget, one.Threshold, one.Spent, one.Left,
			one.Total, one.FiredAt, one.ResolvedAt, one.Reason}
	}
	return listing([]string{"alert", "state", "tenant", "budget", "threshold", "spent", "left",
		"total", "fired", "resolved", "reason"}, rows)
}

func (a *app) thresholdsCommand() *cobra.Command {
	var add, remove []string
	var none, byDefault bool
	cmd := &cobra.Command{
		Use:   "thresholds BUDGET",
		Short: "Show or change when a budget needs attention",
		Long: `Shows the thresholds of a budget, after changing them if a flag is given:

  used_share/total/80                   80 % of the total are used or held
  used_share/period/80                  the same of the open period
  used_share/limit/LIMIT/VALUE/80       the same of what one value of a limit may take
  exhausted/total  exhausted/period     nothing is left
  projected/total  projected/period     nothing will be left before the end
  stranded_share/25                     25 % of the total are where they cannot be used
  quarantine                            units of a lost store are in quarantine`,
		Example: `  budgetctl thresholds spring-sale
  budgetctl thresholds spring-sale --add used_share/total/75 --remove quarantine
  budgetctl thresholds spring-sale --default`,
		Args: arguments,
	}
	cmd.Flags().StringArrayVar(&add, "add", nil, "threshold to add; may be repeated")
	cmd.Flags().StringArrayVar(&remove, "remove", nil, "threshold to remove; may be repeated")
	cmd.Flags().BoolVar(&none, "none", false, "remove all")
	cmd.Flags().BoolVar(&byDefault, "default", false, "restore the defaults")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		added := make([]client.Threshold, len(add))
		for i, text := range add {
			var err error
			if added[i], err = threshold(text); err != nil {
				return err
			}
		}
		if byDefault && (none || len(add)+len(remove) > 0) {
			return usagef("--default goes with no other flag")
		}
		if err := reference(args[0]); err != nil {
			return err
		}
		ask := func(ctx context.Context, c *client.Client) (*client.Thresholds, error) {
			if byDefault {
				return c.SetThresholds(ctx, args[0], nil)
			}
			now, err := c.Thresholds(ctx, args[0])
			if err != nil || len(add)+len(remove) == 0 && !none {
				return now, err
			}
			list, err := changed(now.Thresholds, added, remove, none)
			if err != nil {
				return nil, err
			}
			return c.SetThresholds(ctx, args[0], list)
		}
		return call(a, cmd, ask, func(t *client.Thresholds) string {
			rows := make([][]any, len(t.Thresholds))
			for i, one := range t.Thresholds {
				rows[i] = []any{one.Name(), !t.Own}
			}
			return listing([]string{"threshold", "default"}, rows)
		})
	}
	return cmd
}

// changed returns a list of thresholds without those that are removed by name, and with those that
// are added. It never returns nil.
func changed(now, add []client.Threshold, remove []string, none bool) ([]client.Threshold, error) {
	list := []client.Threshold{}
	if !none {
		list = append(list, now...)
	}
	for _, name := range remove {
		before := len(list)
		list = slices.DeleteFunc(list, func(t client.Threshold) bool { return t.Name() == name })
		if len(list) == before {
			return nil, usagef("--remove %q: the budget has no such threshold", name)
		}
	}
	for _, t := range add {
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	return list, nil
}

// threshold parses the name of a threshold. The server checks the rest.
func threshold(text string) (t client.Threshold, err error) {
	parts := strings.Split(text, "/")
	t.Kind = parts[0]
	rest := parts[1:]
	if len(rest) > 0 {
		if n, err := strconv.ParseInt(rest[len(rest)-1], 10, 64); err == nil {
			t.Percent, rest = n, rest[:len(rest)-1]
		}
	}
	if len(rest) > 0 {
		t.Of, rest = rest[0], rest[1:]
	}
	if len(rest) > 1 {
		t.Limit, t.Value, rest = rest[0], strings.Join(rest[1:], "/"), nil
	}
	if t.Kind == "" || len(rest) > 0 {
		return t, usagef("--add %q: must be as in used_share/total/80", text)
	}
	return t, nil
}
