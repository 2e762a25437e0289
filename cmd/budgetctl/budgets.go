package main

import (
	"context"
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) createCommand() *cobra.Command {
	var total, sharding, unit, kind, durability, start, end string
	var request client.CreateRequest
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a budget",
		Long: `Makes a budget and shows it. The same definition again changes nothing and shows the budget
that is there; another definition under the same name is refused (name_taken).`,
		Example: `  budgetctl create spring-sale --total 1000000 --type promo --buckets 8
  budgetctl create coupons --total 50000 --type promo --unit amount --end 2026-12-31T23:59:59Z`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&total, "total", "", "total quantity in minor units (required)")
	flags.StringVar(&kind, "type", "", "when units are handed out: promo or daily (required)")
	flags.StringVar(&unit, "unit", "count", "what is counted: count or amount")
	flags.StringVar(&durability, "durability", "", "when \"accepted\" is sent: ledger or store")
	flags.StringVar(&request.GLCode, "gl-code", "", "ledger account")
	flags.IntVar(&request.BucketQuantity, "buckets", 0,
		"number of buckets (default one per 1,000 units, or per 1,000,000 for amounts)")
	flags.StringVar(&sharding, "sharding", "", "most that one apply may take; 0: no bound (default 0)")
	flags.IntVar(&request.AdjustCnt, "adjust-cnt", 0, "how often one bucket may apply; 0: no bound")
	flags.StringVar(&start, "start", "", "first instant, RFC 3339 with zone (default now)")
	flags.StringVar(&end, "end", "never", "end, exclusive, RFC 3339 with zone")
	choose(cmd, "type", "promo", "daily")
	choose(cmd, "unit", "count", "amount")
	choose(cmd, "durability", "ledger", "store")
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		request.Name = args[0]
		request.Unit, request.Type = budget.Unit(unit), budget.Type(kind)
		request.Durability = budget.Durability(durability)
		if total == "" || kind == "" {
			return usagef("--total and --type are required")
		}
		if why := budget.CheckName(request.Name); why != "" {
			return usagef("name %q: %s", request.Name, why)
		}
		if err := chosen(cmd, "type", "unit", "durability"); err != nil {
			return err
		}
		if request.TotalQuantity, err = amount(total); err != nil {
			return err
		}
		if sharding != "" {
			if request.ShardingQuantity, err = quantityOrNone("sharding", sharding); err != nil {
				return err
			}
		}
		if request.BucketQuantity < 0 || request.AdjustCnt < 0 {
			return usagef("--buckets and --adjust-cnt must not be negative")
		}
		if request.BucketQuantity == 0 && cmd.Flags().Changed("buckets") {
			return usagef("--buckets 0: must be at least 1")
		}
		if start != "" {
			if request.StartAt, err = instant("start", start); err != nil {
				return err
			}
		}
		if request.EndAt, err = instant("end", end); err != nil {
			return err
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Budget, error) {
			return c.Create(ctx, request)
		}, view)
	}
	return cmd
}

func (a *app) getCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get BUDGET",
		Short: "Show a budget: its definition and where its units are",
		Example: `  budgetctl get spring-sale
  budgetctl get spring-sale -o json`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reference(args[0]); err != nil {
				return err
			}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Budget, error) {
				return c.Budget(ctx, args[0])
			}, view)
		},
	}
}

func (a *app) listCommand() *cobra.Command {
	var status, kind string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the tenant's budgets",
		Example: `  budgetctl list --status effective`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := chosen(cmd, "status", "type"); err != nil {
				return err
			}
			filter := client.Filter{Status: budget.Status(status), Type: budget.Type(kind)}
			return call(a, cmd, func(ctx context.Context, c *client.Client) (client.Page, error) {
				page := client.Page{Budgets: []client.Budget{}}
				for b, err := range c.Budgets(ctx, filter) {
					if err != nil {
						return page, err
					}
					page.Budgets = append(page.Budgets, b)
				}
				return page, nil
			}, overview)
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only those: pending, effective, paused or expired")
	cmd.Flags().StringVar(&kind, "type", "", "only those: promo or daily")
	choose(cmd, "status", "pending", "effective", "paused", "expired")
	choose(cmd, "type", "promo", "daily")
	return cmd
}

func (a *app) setCommand() *cobra.Command {
	var sharding, end string
	var adjustCnt int
	var version int64
	cmd := &cobra.Command{
		Use:   "set BUDGET",
		Short: "Change a budget's definition",
		Long: `Changes what the flags name and leaves the rest. The change holds on every node within a
second. With --if-version it is made only to that version, as 'budgetctl get' shows it.`,
		Example: `  budgetctl set spring-sale --end 2026-12-31T23:59:59Z
  budgetctl set spring-sale --sharding 5000 --adjust-cnt 20 --if-version 3`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&end, "end", "", "new end, exclusive, RFC 3339 with zone, or never")
	flags.StringVar(&sharding, "sharding", "", "most that one apply may take; 0: no bound")
	flags.IntVar(&adjustCnt, "adjust-cnt", 0, "how often one bucket may apply; 0: no bound")
	flags.Int64Var(&version, "if-version", 0, "change only this version")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given := func(name string) bool { return cmd.Flags().Changed(name) }
		request := client.PatchRequest{IfVersion: version}
		if !given("end") && !given("sharding") && !given("adjust-cnt") {
			return usagef("nothing to change: give --end, --sharding or --adjust-cnt")
		}
		if given("if-version") && version < 1 {
			return usagef("--if-version %d: must be at least 1", version)
		}
		if given("end") {
			at, err := instant("end", end)
			if err != nil {
				return err
			}
			request.EndAt = &at
		}
		if given("sharding") {
			n, err := quantityOrNone("sharding", sharding)
			if err != nil {
				return err
			}
			request.ShardingQuantity = &n
		}
		if given("adjust-cnt") {
			if adjustCnt < 0 {
				return usagef("--adjust-cnt %d: must not be negative", adjustCnt)
			}
			request.AdjustCnt = &adjustCnt
		}
		return a.patch(cmd, args[0], request)
	}
	return cmd
}

func (a *app) pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "pause BUDGET",
		Short:   "Refuse deductions until the budget is resumed",
		Example: `  budgetctl pause spring-sale`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.patch(cmd, args[0], client.PatchRequest{Status: budget.Paused})
		},
	}
}

func (a *app) resumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "resume BUDGET",
		Short:   "Make a paused budget effective again",
		Example: `  budgetctl resume spring-sale`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.patch(cmd, args[0], client.PatchRequest{Status: budget.Effective})
		},
	}
}

func (a *app) patch(cmd *cobra.Command, name string, request client.PatchRequest) error {
	if err := reference(name); err != nil {
		return err
	}
	return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Budget, error) {
		return c.Patch(ctx, name, request)
	}, view)
}

// choose limits a flag to some values, for completion and for chosen.
func choose(cmd *cobra.Command, flag string, values ...string) {
	must(cmd.Flags().SetAnnotation(flag, "values", values))
	must(cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// chosen refuses values of flags other than those of choose.
func chosen(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		flag := cmd.Flags().Lookup(name)
		if flag.Changed && !contains(flag, flag.Value.String()) {
			return usagef("--%s %q: must be one of %s", name, flag.Value,
				strings.Join(flag.Annotations["values"], ", "))
		}
	}
	return nil
}

func contains(flag *pflag.Flag, value string) bool {
	for _, v := range flag.Annotations["values"] {
		if v == value {
			return true
		}
	}
	return false
}

// view lays out one budget.
func view(b *client.Budget) string {
	fields := []field{
		{"name", b.Name}, {"id", b.ID}, {"tenant", b.Tenant}, {"status", b.Status},
		{"type", b.Type}, {"unit", b.Unit}, {"durability", b.Durability}, {"version", b.Version},
		{"gl code", b.GLCode}, {"start", b.StartAt}, {"end", b.EndAt},
		{"sharding quantity", bound(b.ShardingQuantity)}, {"adjust cnt", bound(int64(b.AdjustCnt))},
		{"buckets online", b.Buckets.Online}, {"buckets offline", b.Buckets.Offline},
		{"total", b.TotalQuantity}, {"out", b.OutQuantity}, {"undistributed", b.Undistributed},
		{"pending shrink", b.PendingShrink}, {"remaining", b.Remaining}, {"held", b.Held},
		{"used", b.Used},
		{"in transit", b.InTransit}, {"quarantined", b.Quarantined}, {"forfeited", b.Forfeited},
	}
	if b.Period != nil {
		fields = append(fields, field{"period start", b.Period.Start}, field{"period end", b.Period.End},
			field{"period total", b.Period.Total}, field{"period used", b.Period.Used})
	}
	return details(fields...)
}

// bound shows a quantity whose 0 means that there is no bound.
func bound(n int64) any {
	if n == 0 {
		return "no bound"
	}
	return n
}

// overview lays out a list of budgets.
func overview(page client.Page) string {
	rows := make([][]any, len(page.Budgets))
	for i, b := range page.Budgets {
		rows[i] = []any{b.Name, b.ID, b.Type, b.Status, b.TotalQuantity, b.Undistributed, b.Remaining,
			b.Used, b.InTransit, b.Buckets.Online, b.Buckets.Offline}
	}
	return listing([]string{"name", "id", "type", "status", "total", "undistributed", "remaining",
		"used", "in transit", "online", "offline"}, rows)
}
