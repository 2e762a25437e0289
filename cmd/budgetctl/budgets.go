package main

import (
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const createHelp = `Creates a budget and shows it. Repeating the same definition changes nothing and
shows the existing budget. Another definition under the same name is refused (name_taken).

A budget of type promo hands out everything at once. One of type daily has a rule and releases its
total period by period:
  --every hour|day|week|month  the total in equal parts up to --end, or --quantity per period
  --window FROM-TO=QUANTITY    segments of every day, in order; repeatable
  --rule free                  one period, from the start to the end
--unused says what happens to units that a period did not use: they are spread over the remaining
periods (spread, the default), added to the next one (next), or lost (forfeit). --late-refund says
the same of a refund after its period is over: back to the total for later periods (total), next or
forfeit. Periods follow the clock of --timezone, where a day may have 23 or 25 hours.

An --unlimited budget has no total and no type. Only its limits bound deductions.
` + limitsHelp

const createExample = `  budgetctl create spring-sale --total 1000000 --type promo --buckets 8
  budgetctl create coupons --total 50000 --type promo --unit amount --end 2027-01-01T00:00:00Z
  # 3,650,000 over the 365 days of 2027: 10,000 a day
  budgetctl create year --total 3650000 --every day --start 2027-01-01T00:00:00Z \
      --end 2028-01-01T00:00:00Z
  # at most 500 an hour, until all are gone
  budgetctl create hourly --total 100000 --every hour --quantity 500 --unused next
  # 10,000 every night and 5,000 every evening
  budgetctl create nights --total 1000000 --window 00:00-06:00=10000 --window 18:00-24:00=5000 \
    --timezone Europe/Berlin
  # 5 coupons per user and day, 3 per phone and week
  budgetctl create gifts --total 100000 --type promo \
    --limit name=per-user,dimension=user,window=day,max=5,timezone=Asia/Shanghai \
    --limit name=per-phone,dimension=phone,window=week,max=3
  # 200 of the units of org, or what it has, if that is at least 50
  budgetctl create team-1 --parent org --total 200 --at-least 50 --end 2027-01-01T00:00:00Z
  # what user-1 spends is taken from its organisation and its team too
  budgetctl create user-1 --total 500 --type promo --also-charges org,team-1
  # an ad that each user sees twice in 8 hours
  budgetctl create ad-1 --unlimited --limit name=cap,dimension=user,window=sliding:8h/10m,max=2`

// creation holds the flags of create that are not members of the request.
type creation struct {
	request                                             client.CreateRequest
	rule                                                ruleFlags
	limits                                              limitFlags
	total, sharding, unit, kind, durability, start, end string
	lateRefund, onLoss, atLeast                         string
}

func (a *app) createCommand() *cobra.Command {
	var c creation
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a budget",
		Long:    createHelp,
		Example: createExample,
		Args:    arguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&c.total, "total", "",
		"total quantity in minor units (required without --unlimited)")
	flags.StringVar(&c.request.Parent, "parent", "",
		"a budget whose units become the total; the child is of type promo and ends no later")
	flags.StringVar(&c.atLeast, "at-least", "",
		"with --parent: accept a smaller total, of so many units, if the parent has less")
	flags.StringVar(&c.request.TTL, "ttl", "",
		"with --parent: end so long after now, such as 15m or 1d, by the server's clock")
	flags.StringSliceVar(&c.request.AlsoCharges, "also-charges", nil,
		"budgets that each deduction is also taken from, all or none, such as org,team-1")
	flags.StringVar(&c.kind, "type", "",
		"when units are handed out: promo or daily (required, unless a rule says daily)")
	flags.StringVar(&c.unit, "unit", "count", "what is counted: count or amount")
	flags.StringVar(&c.durability, "durability", "", "when \"accepted\" is sent: ledger or store")
	flags.StringVar(&c.request.GLCode, "gl-code", "", "ledger account")
	flags.IntVar(&c.request.BucketQuantity, "buckets", 0,
		"number of buckets (default one per 1,000 units, or per 1,000,000 for amounts)")
	flags.StringVar(&c.sharding, "sharding", "",
		"most that one apply may take; 0: no bound (default 0)")
	flags.IntVar(&c.request.AdjustCnt, "adjust-cnt", 0,
		"how often one bucket may apply for units that no bucket had; 0: no bound")
	flags.StringVar(&c.start, "start", "", "first instant, RFC 3339 with zone (default now)")
	flags.StringVar(&c.end, "end", "never", "end, exclusive, RFC 3339 with zone")
	flags.BoolVar(&c.request.AllowPast, "allow-past", false, "accept an --end that has passed")
	flags.BoolVar(&c.request.DryRun, "dry-run", false,
		"create nothing: show the budget as it would be, and what its first and last periods would get")
	flags.StringVar(&c.onLoss, "on-loss", "",
		"store mode: what happens to units of a store that lost its memory: quarantine or assume_unused")
	choose(cmd, "on-loss", "quarantine", "assume_unused")
	flags.StringVar(&c.request.Timezone, "timezone", "",
		"IANA zone of the periods and limits, such as Europe/Berlin (default UTC)")
	c.rule.add(cmd)
	lateRefundFlag(cmd, &c.lateRefund)
	c.limits.add(cmd)
	flags.BoolVar(&c.request.Unlimited, "unlimited", false,
		"no total: only the limits bound what is deducted")
	flags.StringVar(&c.request.RoutingDimension, "routing-dimension", "",
		"dimension whose value selects the bucket if a request has no key; in store mode that of "+
			"all limits")
	choose(cmd, "type", "promo", "daily")
	choose(cmd, "unit", "count", "amount")
	choose(cmd, "durability", "ledger", "store")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c.request.Name = args[0]
		if err := c.read(cmd); err != nil {
			return err
		}
		return call(a, cmd, func(ctx context.Context, to *client.Client) (*client.Budget, error) {
			return to.Create(ctx, c.request)
		}, view)
	}
	return cmd
}

// read completes the request from the flags. An error names the wrong flag.
func (c *creation) read(cmd *cobra.Command) (err error) {
	err = chosen(cmd, "type", "unit", "durability", "late-refund", "on-loss")
	if c.request.TypeRule, err = c.rule.read(cmd, err); err != nil {
		return err
	}
	if c.kind == "" && c.request.TypeRule != nil {
		c.kind = string(budget.Daily)
	}
	if c.request.Limits, err = c.limits.read(cmd); err != nil {
		return err
	}
	if c.kind == "" && c.request.Parent != "" {
		c.kind = string(budget.Promo)
	}
	switch {
	case c.atLeast != "" && c.request.Parent == "":
		return usagef("--at-least belongs to --parent")
	case c.request.TTL != "" && c.request.Parent == "":
		return usagef("--ttl belongs to --parent")
	case c.request.Unlimited && (c.total != "" || c.kind != "" && c.kind != string(budget.Promo)):
		return usagef("--unlimited has no --total, and no --type and rule of a daily budget")
	case c.request.Unlimited:
	case c.total == "" || c.kind == "":
		return usagef("--total and --type are required (a rule, such as --every day, says --type daily)")
	case c.kind == string(budget.Daily) && c.request.TypeRule == nil:
		return usagef("--type daily needs a rule: --every, --window or --rule free")
	case c.kind == string(budget.Promo) && c.request.TypeRule != nil:
		return usagef("--type promo has no rule: it hands out everything at once")
	}
	c.request.Unit, c.request.Type = budget.Unit(c.unit), budget.Type(c.kind)
	c.request.Durability, c.request.LateRefund = budget.Durability(c.durability),
		budget.Where(c.lateRefund)
	c.request.OnLoss = budget.OnLoss(c.onLoss)
	if why := budget.CheckName(c.request.Name); why != "" {
		return usagef("name %q: %s", c.request.Name, why)
	}
	if !c.request.Unlimited {
		if c.request.TotalQuantity, err = amount(c.total); err != nil {
			return err
		}
	}
	if c.atLeast != "" {
		if c.request.AtLeast, err = amount(c.atLeast); err != nil {
			return err
		}
	}
	if err = optionalText("routing-dimension", c.request.RoutingDimension); err != nil {
		return err
	}
	if c.sharding != "" {
		if c.request.ShardingQuantity, err = quantityOrNone("sharding", c.sharding); err != nil {
			return err
		}
	}
	if c.request.BucketQuantity < 0 || c.request.AdjustCnt < 0 {
		return usagef("--buckets and --adjust-cnt must not be negative")
	}
	if c.request.BucketQuantity == 0 && cmd.Flags().Changed("buckets") {
		return usagef("--buckets 0: must be at least 1")
	}
	if c.start != "" {
		if c.request.StartAt, err = instant("start", c.start); err != nil {
			return err
		}
	}
	c.request.EndAt, err = instant("end", c.end)
	return err
}

const setHelp = `Changes what the flags name and leaves the rest. The change takes effect on every
node within a second. --if-version changes only that version ('budgetctl get' shows it).

The flags of a rule (see 'budgetctl create --help') replace the whole rule of a daily budget. The
open period continues if the new rule has one that began at the same time and gets no less.
Otherwise it ends at once, and the following period gets its units less what was used since its
start. So does another --timezone. Limits keep their time zones.

--limit adds a limit or changes the one with its name, --remove-limit removes one, --limits-file
replaces all ([] removes them). The difference is first written to standard error. A limit with the
same name, dimension, window and measure keeps its counts. Any other starts from the true count of
its window: a limit that becomes monthly in mid-month does not begin at 0.

--name, --gl-code, --unit and --start correct mistakes, --start only before the budget begins.
Bucket keys follow the name. API keys that are bound to names do not reach a budget with another
name.
` + limitsHelp

// changes holds the flags of set.
type changes struct {
	rule                      ruleFlags
	limits                    limitChange
	own                       ownFlags
	corrections               corrections
	sharding, end, lateRefund string
	timezone                  string
	adjustCnt, buckets        int
	version                   int64
	charges                   []string
	allowPast                 bool
}

func (a *app) setCommand() *cobra.Command {
	var c changes
	cmd := &cobra.Command{
		Use:   "set BUDGET",
		Short: "Change a budget's definition",
		Long:  setHelp,
		Example: `  budgetctl set spring-sale --end 2027-01-01T00:00:00Z
  budgetctl set spring-sale --sharding 5000 --adjust-cnt 20 --if-version 3
  budgetctl set spring-sale --buckets 32
  budgetctl set hourly --every hour --quantity 800 --unused next
  budgetctl set gifts --limits-file limits.yaml`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.BoolVar(&c.allowPast, "allow-past", false, "accept an --end that has passed")
	flags.StringVar(&c.end, "end", "", "new end, exclusive, RFC 3339 with zone, or never")
	flags.StringVar(&c.sharding, "sharding", "", "most that one apply may take; 0: no bound")
	flags.IntVar(&c.adjustCnt, "adjust-cnt", 0,
		"how often one bucket may apply for units that no bucket had; 0: no bound")
	flags.IntVar(&c.buckets, "buckets", 0, "number of buckets, 1 to 1,024")
	flags.StringVar(&c.timezone, "timezone", "", "zone of the periods, such as Europe/Berlin")
	flags.Int64Var(&c.version, "if-version", 0, "change only this version")
	flags.StringSliceVar(&c.charges, "also-charges", nil,
		`budgets that each deduction is also taken from; "" for none`)
	c.rule.add(cmd)
	lateRefundFlag(cmd, &c.lateRefund)
	c.limits.add(cmd)
	c.own.add(cmd)
	c.corrections.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		own, err := c.own.read()
		if err != nil {
			return err
		}
		if c.own.given() && !c.others(cmd) {
			return call(a, cmd, func(ctx context.Context, to *client.Client) (*client.Budget, error) {
				if err := a.changeOverrides(ctx, to, args[0], own); err != nil {
					return nil, err
				}
				return to.Budget(ctx, args[0])
			}, view)
		}
		request, err := c.read(cmd)
		if err != nil {
			return err
		}
		if c.own.given() {
			return usagef("--override and --remove-override change nothing else in the same call")
		}
		if c.limits.given(cmd) {
			return a.patchLimits(cmd, args[0], &c.limits, request.Limits, request)
		}
		return a.patch(cmd, args[0], request)
	}
	return cmd
}

// others reports whether flags change anything but single overrides.
func (c *changes) others(cmd *cobra.Command) (some bool) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		some = some || f.Changed && f.Name != "override" && f.Name != "remove-override"
	})
	return some
}

// read makes the request from the flags. An error names the wrong flag.
func (c *changes) read(cmd *cobra.Command) (request client.PatchRequest, err error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	request = client.PatchRequest{IfVersion: c.version, LateRefund: budget.Where(c.lateRefund),
		Timezone: c.timezone, AllowPast: c.allowPast}
	if request.TypeRule, err = c.rule.read(cmd, chosen(cmd, "late-refund")); err != nil {
		return request, err
	}
	if request.Limits, err = c.limits.read(cmd); err != nil {
		return request, err
	}
	corrected, err := c.corrections.read(cmd, &request)
	if err != nil {
		return request, err
	}
	some := slices.ContainsFunc([]string{"end", "sharding", "adjust-cnt", "buckets", "late-refund",
		"timezone", "also-charges"}, given)
	if !some && !corrected && request.TypeRule == nil && !c.limits.given(cmd) {
		return request, usagef("nothing to change: give --end, --sharding, --adjust-cnt, --buckets, " +
			"--late-refund, --timezone, --also-charges, --limit, --remove-limit, --limits-file, a rule " +
			"such as --every, or what is corrected: --name, --gl-code, --unit or --start")
	}
	if given("if-version") && c.version < 1 {
		return request, usagef("--if-version %d: must be at least 1", c.version)
	}
	if given("end") {
		at, err := instant("end", c.end)
		if err != nil {
			return request, err
		}
		request.EndAt = &at
	}
	if given("also-charges") {
		request.AlsoCharges = append([]string{}, c.charges...)
	}
	if given("sharding") {
		n, err := quantityOrNone("sharding", c.sharding)
		if err != nil {
			return request, err
		}
		request.ShardingQuantity = &n
	}
	if given("adjust-cnt") {
		if c.adjustCnt < 0 {
			return request, usagef("--adjust-cnt %d: must not be negative", c.adjustCnt)
		}
		request.AdjustCnt = &c.adjustCnt
	}
	if given("buckets") {
		if c.buckets < 1 {
			return request, usagef("--buckets %d: must be at least 1", c.buckets)
		}
		request.BucketQuantity = &c.buckets
	}
	return request, nil
}

func (a *app) statusCommand(verb string, status budget.Status, short string) *cobra.Command {
	return &cobra.Command{
		Use:     verb + " BUDGET",
		Short:   short,
		Example: "  budgetctl " + verb + " spring-sale",
		Args:    arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.patch(cmd, args[0], client.PatchRequest{Status: status})
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

// choose sets the values that a flag may have, for completion and for chosen.
func choose(cmd *cobra.Command, flag string, values ...string) {
	must(cmd.Flags().SetAnnotation(flag, "values", values))
	must(cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// chosen refuses a flag whose value choose does not allow.
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
