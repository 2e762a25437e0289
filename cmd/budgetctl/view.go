package main

import (
	"context"
	"strings"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/iana"
	"github.com/spf13/cobra"
)

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
				b, err := c.Budget(ctx, args[0])
				if err == nil && a.output == "table" {
					err = addOverrides(ctx, c, b)
				}
				return b, err
			}, view)
		},
	}
}

// view formats one budget, with its times in its zone.
func view(b *client.Budget) string {
	local := clockOf(b.Timezone)
	from := b.EffectiveAt
	if from.IsZero() {
		from = b.StartAt
	}
	status := string(b.Status)
	if b.Archived {
		status += ", archived"
	}
	fields := []field{
		{"name", b.Name}, {"id", b.ID}, {"tenant", b.Tenant}, {"status", status},
		{"type", b.Type}, {"unit", b.Unit}, {"durability", b.Durability}, {"version", b.Version},
		{"gl code", b.GLCode}, {"effective from", local(from)},
		{"end", orNever(local(b.EndAt))},
	}
	if b.Parent != "" {
		fields = append(fields, field{"parent", b.Parent})
	}
	fields = append(fields, charges(b)...)
	if b.OnLoss != "" {
		fields = append(fields, field{"on loss", b.OnLoss})
	}
	if b.TypeRule != nil {
		fields = append(fields, field{"rule", ruleText(b.TypeRule)},
			field{"late refund", b.LateRefund})
	}
	if b.Timezone != "" {
		fields = append(fields, field{"timezone", b.Timezone + "; times are shown in it"})
	}
	if b.RoutingDimension != "" {
		fields = append(fields, field{"routing dimension", b.RoutingDimension})
	}
	for _, l := range b.Limits {
		fields = append(fields, field{"limit " + l.Name, limitText(l)})
		for _, o := range l.Overrides {
			fields = append(fields, field{"override " + l.Name + "=" + strings.Join(valueOf(o), "+"),
				overrideText(o)})
		}
	}
	fields = append(fields, []field{
		{"sharding quantity", bound(b.ShardingQuantity)}, {"adjust cnt", bound(int64(b.AdjustCnt))},
		{"buckets", b.BucketQuantity}, {"buckets online", b.Buckets.Online},
		{"buckets offline", b.Buckets.Offline},
		{"remaining", orUnlimited(b.Remaining)}, {"opens at", local(b.OpensAt)},
		{"out", orUnlimited(b.OutQuantity)},
		{"pending shrink", b.PendingShrink},
		{"total", orUnlimited(b.TotalQuantity)}, // the sum of those that follow, as in audit
		{"undistributed", orUnlimited(b.Undistributed)}, {"not funded", orUnlimited(b.NotFunded)},
		{"in transit", b.InTransit}, {"in buckets", orUnlimited(b.InBuckets)}, {"held", b.Held},
		{"used", b.Used}, {"quarantined", b.Quarantined}, {"forfeited", b.Forfeited},
	}...)
	if b.Allocated > 0 {
		fields = append(fields, field{"allocated to children", b.Allocated})
	}
	if b.Buckets.Unreachable > 0 {
		fields = append(fields, field{"buckets out of reach", b.Buckets.Unreachable})
	}
	if b.Period != nil {
		fields = append(fields, field{"next reset", orNever(local(b.NextResetAt))},
			field{"period", b.Period.Number}, field{"period start", local(b.Period.Start)},
			field{"period end", local(b.Period.End)}, field{"period total", b.Period.Total},
			field{"period used", b.Period.Used})
	}
	return details(fields...) + planText(b.Periods, local)
}

// clockOf returns the function that gives an instant the clock of a zone. "", and a zone that this
// budgetctl does not know, leave it as the server shows it.
func clockOf(name string) func(time.Time) time.Time {
	zone, err := iana.Zone(name)
	return func(at time.Time) time.Time {
		if at.IsZero() || name == "" || name == "UTC" || err != nil {
			return at
		}
		return at.In(zone)
	}
}

// planText formats the periods of a dry run's budget.
func planText(periods []client.Planned, local func(time.Time) time.Time) string {
	if len(periods) == 0 {
		return ""
	}
	rows := make([][]any, len(periods))
	for i, p := range periods {
		rows[i] = []any{p.Number, local(p.Start), orNever(local(p.End)), p.Quantity}
	}
	return "\n\n" + listing([]string{"period", "start", "end", "quantity"}, rows)
}

// orNever formats an instant; zero means never.
func orNever(at time.Time) any {
	if at.IsZero() {
		return "never"
	}
	return at
}

// orUnlimited formats a quantity that an unlimited budget lacks.
func orUnlimited(n *int64) any {
	if n == nil {
		return "unlimited"
	}
	return *n
}

// bound formats a bound; 0 means no bound.
func bound(n int64) any {
	if n == 0 {
		return "no bound"
	}
	return n
}

// charges are the fields of a budget that charges others.
func charges(b *client.Budget) (fields []field) {
	if len(b.AlsoCharges) > 0 {
		fields = append(fields, field{"also charges", strings.Join(b.AlsoCharges, ", ")})
	}
	if b.Usable != nil {
		fields = append(fields, field{"usable", *b.Usable})
	}
	return fields
}
