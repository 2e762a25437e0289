package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/cmd/budgetctl/replay"
	"github.com/spf13/cobra"
)

// maxConcurrency bounds the concurrent calls.
const maxConcurrency = 1024

const replayHelp = `Replays a log of web requests against a budget. It makes one deduction per line,
keyed by the line's client, and rolls back every Nth accepted one. FILE is tab-separated. Its header
names the columns: "client", "bytes" for --amount bytes, and those of --dimension. A line without a
value in such a column has no such dimension. Limits count at the time of the replay, whatever times
the log has.

The request id of a line consists of --id-prefix and the number of the line, so replaying the file
again deducts nothing twice. Deductions of an earlier replay count as replayed and are not rolled
back; the same holds for a deduction whose first answer was lost. Use another prefix for another
file.

Refusals because the budget is used up (budget_exhausted, period_exhausted, limit_exceeded) are
expected and counted. After 100 other errors the replay stops. The exit status says what the worst
of them was.`

func (a *app) replayCommand() *cobra.Command {
	var unit string
	plan := replay.Plan{}
	cmd := &cobra.Command{
		Use:   "replay FILE BUDGET",
		Short: "Replay a log of web requests against a budget",
		Long:  replayHelp,
		Example: `  budgetctl replay examples/web-requests.tsv web-demo
  budgetctl replay examples/web-requests.tsv traffic --amount bytes --batch 100 --concurrency 4
  budgetctl replay examples/web-requests.tsv calls --dimension user=client`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&unit, "amount", "one", "units per line: one, or its bytes (0 bytes: skipped)")
	flags.StringToStringVar(&plan.Dimensions, "dimension", nil,
		"column that has whom a line is for, name=column; repeatable")
	flags.IntVar(&plan.RollbackEvery, "rollback-every", 20,
		"roll back every Nth accepted deduction; 0: none")
	flags.IntVar(&plan.Concurrency, "concurrency", 16, "concurrent calls")
	flags.IntVar(&plan.Batch, "batch", 1, "deductions per call")
	flags.StringVar(&plan.IDPrefix, "id-prefix", "replay", "beginning of the request ids")
	choose(cmd, "amount", "one", "bytes")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plan.Budget, plan.Bytes, plan.Timeout = args[1], unit == "bytes", a.timeout
		err := firstOf(chosen(cmd, "amount"), reference(args[1]),
			checkDimensions(plan.Dimensions), checkPlan(plan))
		if err != nil {
			return err
		}
		return a.replay(cmd.Context(), args[0], plan)
	}
	return cmd
}

// maxPrefixBytes leaves room for "-" and a line number in a request id.
const maxPrefixBytes = budget.MaxRequestIDBytes - 20

func checkPlan(plan replay.Plan) error {
	switch why := budget.CheckRequestID(plan.IDPrefix); {
	case plan.RollbackEvery < 0:
		return usagef("--rollback-every %d: must not be negative", plan.RollbackEvery)
	case plan.Concurrency < 1 || plan.Concurrency > maxConcurrency:
		return usagef("--concurrency %d: must be 1 to %d", plan.Concurrency, maxConcurrency)
	case plan.Batch < 1 || plan.Batch > client.MaxBatch:
		return usagef("--batch %d: must be 1 to %d", plan.Batch, client.MaxBatch)
	case why != "":
		return usagef("--id-prefix %q: %s", plan.IDPrefix, why)
	case len(plan.IDPrefix) > maxPrefixBytes:
		return usagef("--id-prefix is longer than %d bytes", maxPrefixBytes)
	}
	return nil
}

// replay checks the file and the budget, replays, and shows the report, also that of an incomplete
// replay.
func (a *app) replay(ctx context.Context, path string, plan replay.Plan) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return usagef("FILE: %v", err)
	}
	defer file.Close()
	total, err := replay.Count(file, plan)
	if err != nil {
		return fmt.Errorf("%s: %w; nothing was sent", path, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%s: it must be a file that can be read twice: %w", path, err)
	}
	first, done := a.bounded(ctx)
	_, err = c.Budget(first, plan.Budget)
	if done(); err != nil {
		return err
	}
	bar := a.newProgress(total)
	report, err := replay.Run(ctx, c, plan, file, bar.show)
	bar.finish()
	if shown := a.show(report, func() string { return replayed(report) }); shown != nil {
		return shown
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return verdict(report)
}

// verdict returns the error that gives a replay its exit status. It is nil only if every call had
// an expected outcome and the log was replayed to its end.
func verdict(r replay.Report) error {
	if r.Worst == nil {
		if r.Complete {
			return nil
		}
		return errors.New("interrupted; the same command resumes where it stopped")
	}
	samples := make([]string, len(r.Samples))
	for i, err := range r.Samples {
		samples[i] = err.Error()
	}
	return statusError{fmt.Errorf("%d unexpected outcomes, such as: %s", sum(r.Unexpected),
		strings.Join(samples, "; ")), exitStatus(r.Worst)}
}

func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// replayed formats a report.
func replayed(r replay.Report) string {
	fields := []field{{"budget", r.Budget}, {"complete", r.Complete}, {"deductions", r.Deductions},
		{"skipped lines", r.Skipped}, {"accepted", r.Accepted}, {"replayed", r.Replayed},
		{"rolled back", r.RolledBack}, {"units accepted", r.AcceptedUnits},
		{"units rolled back", r.RolledBackUnits}}
	for _, code := range slices.Sorted(maps.Keys(r.Refused)) {
		fields = append(fields, field{"refused: " + code, r.Refused[code]})
	}
	for _, code := range slices.Sorted(maps.Keys(r.Unexpected)) {
		fields = append(fields, field{"unexpected: " + code, r.Unexpected[code]})
	}
	return details(append(fields, field{"duration s", r.DurationS}, field{"rate per s", r.RatePerS},
		field{"latency p50 ms", r.LatencyP50MS}, field{"latency p99 ms", r.LatencyP99MS})...)
}
