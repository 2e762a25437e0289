package main

import (
	"context"
	"strings"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

const seriesHelp = `Shows what a budget released, used and still had over time, and when it will
be used up at the rate of the last 15 minutes.

--from and --to are times with zone, or how long ago, such as 24h. The default is the last hour.
--step is in whole minutes; the default is the fewest that give at most 1440 points. The server
keeps points as long as its setting series.keep says.

Stranded units cannot be used now: they are in buckets that are halted or cannot be reached, or they
are fragments, which a request brings together when it needs them.`

func (a *app) seriesCommand() *cobra.Command {
	var from, to string
	var step time.Duration
	cmd := &cobra.Command{
		Use:   "series BUDGET",
		Short: "Show a budget's figures over time, and when it will be used up",
		Long:  seriesHelp,
		Example: `  budgetctl series spring-sale
  budgetctl series spring-sale --from 24h --step 1h
  budgetctl series spring-sale --from 2026-05-01T00:00:00Z --to 2026-05-02T00:00:00Z -o json`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "beginning, or how long ago (default 1h before --to)")
	flags.StringVar(&to, "to", "", "end, or how long ago (default now)")
	flags.DurationVar(&step, "step", 0, "time between two points, whole minutes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		now, span := time.Now(), client.SeriesSpan{Step: step}
		var fromErr, toErr, stepErr error
		span.From, fromErr = past("from", from, now)
		span.To, toErr = past("to", to, now)
		if flags.Changed("step") && (step < time.Minute || step%time.Minute != 0) {
			stepErr = usagef("--step %s: must be whole minutes, 1m at least", step)
		}
		if err := firstOf(reference(args[0]), fromErr, toErr, stepErr); err != nil {
			return err
		}
		return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.Series, error) {
			return c.Series(ctx, args[0], span)
		}, seriesTable)
	}
	return cmd
}

// past parses a time with zone or a duration before now; "" gives the zero time.
func past(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, usagef(
			"--%s %q: must be a time with zone such as 2027-01-01T00:00:00Z, or how long ago, such as 24h",
			flag, text)
	}
	return at, nil
}

// seriesTable formats a series, oldest first and the present figures last.
func seriesTable(s *client.Series) string {
	rows := make([][]any, 0, len(s.Points)+1)
	for _, p := range append(s.Points[:len(s.Points):len(s.Points)], s.Now) {
		rows = append(rows, []any{p.At, orUnlimited(p.Released), p.Used, p.Held,
			orUnlimited(p.Remaining), p.InTransit, p.Stranded})
	}
	return listing([]string{"at", "released", "used", "held", "remaining", "in transit", "stranded"},
		rows) + "\n\n" +
		details(field{"rate per second", s.RatePerS}, field{"exhausted", exhaustion(s)})
}

// exhaustion formats when a budget will be used up.
func exhaustion(s *client.Series) string {
	if s.ExhaustedAt != nil {
		return s.ExhaustedAt.Format(time.RFC3339)
	}
	return strings.ReplaceAll(s.Projection, "_", " ")
}
