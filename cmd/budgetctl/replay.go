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

// maxConcurrency bounds the calls under way at a time.
const maxConcurrency = 1024

const replayHelp = `Replays a log of web requests against a budget: one deduction per line, keyed by
the line's client, and every so many accepted ones given back. FILE is tab-separated; its header
names the columns "client" and "bytes".

The request id of a line is made of --id-prefix and the number of the line, so replaying the
file again deducts nothing twice; what an earlier replay deducted is counted as replayed and not
rolled back, and so is what may be its: a deduction whose first answer was lost. Replay another
file with another prefix.

Refusals because the budget is used up (budget_exhausted, period_exhausted, limit_exceeded) are
counted and expected. Anything else is not: the exit status then tells what it was, and after 100
of them the replay stops.`

func (a *app) replayCommand() *cobra.Command {
	var unit, progress string
	plan := replay.Plan{}
	cmd := &cobra.Command{
		Use:   "replay FILE BUDGET",
		Short: "Replay a log of web requests against a budget",
		Long:  replayHelp,
		Example: `  budgetctl replay examples/web-requests.tsv web-demo
  budgetctl replay examples/web-requests.tsv traffic --amount bytes --batch 100 --concurrency 4`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.StringVar(&unit, "amount", "one", "units per line: one, or its bytes (0 bytes: skipped)")
	flags.IntVar(&plan.RollbackEvery, "rollback-every", 20,
		"give every Nth accepted deduction back; 0: none")
	flags.IntVar(&plan.Concurrency, "concurrency", 16, "calls under way at a time")
	flags.IntVar(&plan.Batch, "batch", 1, "deductions per call")
	flags.StringVar(&plan.IDPrefix, "id-prefix", "replay", "begin of the request ids")
	flags.StringVar(&progress, "progress", "auto",
		"show progress: auto (on a terminal), always or never")
	choose(cmd, "amount", "one", "bytes")
	choose(cmd, "progress", "auto", "always", "never")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plan.Budget, plan.Bytes, plan.Timeout = args[1], unit == "bytes", a.timeout
		err := firstOf(chosen(cmd, "amount", "progress"), reference(args[1]), checkPlan(plan))
		if err != nil {
			return err
		}
		return a.replay(cmd.Context(), args[0], plan, progress)
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

// replay checks the file and the budget, replays, and shows the report, also of a replay that did
// not get to its end.
func (a *app) replay(ctx context.Context, path string, plan replay.Plan, progress string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return usagef("FILE: %v", err)
	}
	defer file.Close()
	total, err := replay.Count(file, plan.Bytes)
	if err != nil {
		return fmt.Errorf("%s: %w; nothing was sent", path, err)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("%s: it must be a file that can be read twice: %w", path, err)
	}
	first, cancel := context.WithTimeout(ctx, plan.Timeout)
	defer cancel()
	if _, err := c.Budget(first, plan.Budget); err != nil {
		return err
	}
	bar := a.newProgress(progress, total)
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

// verdict returns what a script must know of a replay: nil only when every call came out as
// expected and the log was replayed to its end.
func verdict(r replay.Report) error {
	if r.Worst == nil {
		if r.Complete {
			return nil
		}
		return errors.New("interrupted; the same command goes on where it stopped")
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

// replayed lays out a report.
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
