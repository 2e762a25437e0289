package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

const watchHelp = `Shows the present state of a budget at regular intervals until it is interrupted
(exit status 0): what remains, what was used and how fast, when it will be used up, what each bucket
holds, and what was refused. A terminal is redrawn until q is pressed. Otherwise each look is one
line (-o json: one object).

If the server is unavailable, it says so on stderr and tries again.`

// shownRefusals is how many recent refusals a terminal shows.
const shownRefusals = 5

// watching is the state of a watch.
type watching struct {
	app    *app
	client *client.Client
	budget string
	header bool // whether the header of the lines was written
	live   bool // whether a terminal shows it
}

// look is the state of a budget at one time.
type look struct {
	Budget  *client.Budget  `json:"budget"`
	Series  *client.Series  `json:"series"`
	Buckets []client.Bucket `json:"buckets"`

	refusals []client.Refusal // for a terminal
}

func (a *app) watchCommand() *cobra.Command {
	var every time.Duration
	var count int
	cmd := &cobra.Command{
		Use:   "watch BUDGET",
		Short: "Show a budget live: remaining, used, rate, exhaustion, and its buckets",
		Long:  watchHelp,
		Example: `  budgetctl watch spring-sale
  budgetctl watch spring-sale --every 10s -o json >> spring-sale.jsonl`,
		Args: arguments,
	}
	cmd.Flags().DurationVar(&every, "every", time.Second, "time between two looks, 100ms to 1h")
	cmd.Flags().IntVar(&count, "count", 0, "end after N looks; 0: never")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		switch {
		case every < 100*time.Millisecond || every > time.Hour:
			err = usagef("--every %s: must be 100ms to 1h", every)
		case count < 0:
			err = usagef("--count %d: must not be negative", count)
		case a.output == "yaml" || a.output == "name":
			err = usagef("--output %s: watch writes table or json", a.output)
		}
		if err := firstOf(reference(args[0]), err); err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		w := &watching{app: a, client: c, budget: args[0]}
		if w.live = a.output == "table" && a.width() > 0; w.live {
			return w.onTerminal(cmd.Context(), every, count)
		}
		return w.run(cmd.Context(), every, count)
	}
	return cmd
}

// run takes looks until ctx ends. An error of the first look is the command's error. Later looks
// are repeated if the server is unavailable.
func (w *watching) run(ctx context.Context, every time.Duration, count int) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for looks := 0; ; {
		silence := w.app.waiting()
		l, err := w.look(ctx)
		silence()
		switch kind := client.KindOf(err); {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if err := w.show(l); err != nil {
				return err
			}
			looks++
		case looks == 0, kind != budget.NotDone && kind != budget.MayBeDone:
			return err
		default:
			fmt.Fprintln(w.app.stderr, "budgetctl watch:", err)
		}
		if count > 0 && looks >= count {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look reads everything that is shown.
func (w *watching) look(ctx context.Context) (*look, error) {
	ctx, cancel := context.WithTimeout(ctx, w.app.timeout)
	defer cancel()
	b, err := w.client.Budget(ctx, w.budget)
	if err != nil {
		return nil, err
	}
	s, err := w.client.Series(ctx, w.budget, client.SeriesSpan{})
	if err != nil {
		return nil, err
	}
	buckets, err := w.client.Buckets(ctx, w.budget)
	if err != nil {
		return nil, err
	}
	l := &look{Budget: b, Series: s, Buckets: buckets.Buckets}
	if w.live {
		// A caller who may not see refusals sees everything else.
		l.refusals, _ = w.client.Refusals(ctx,
			client.RefusalQuery{Budget: b.Name, Limit: shownRefusals})
	} else {
		s.Points = nil
	}
	return l, nil
}

// show writes a line for a look.
func (w *watching) show(l *look) error {
	var out string
	switch {
	case w.app.output == "json":
		line, err := json.Marshal(l, json.Deterministic(true))
		if err != nil {
			return fmt.Errorf("look cannot be written as JSON: %w", err)
		}
		out = string(line) + "\n"
	default:
		out = watchLine(l, !w.header)
		w.header = true
	}
	if _, err := io.WriteString(w.app.stdout, out); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// watchLine formats a look in columns of fixed width, because the widest number is not known yet.
func watchLine(l *look, header bool) string {
	const layout = "%-20s  %-9s  %16s  %16s  %-20s  %14s  %14s  %-20s  %s\n"
	out := ""
	if header {
		out = fmt.Sprintf(layout, "AT", "STATUS", "USED", "REMAINING", "OPENS AT", "STRANDED",
			"PER SECOND", "EXHAUSTED", "BUCKETS")
	}
	b, s := l.Budget, l.Series
	buckets := make([]string, len(l.Buckets))
	for i, bk := range l.Buckets {
		buckets[i] = grouped(bk.Remaining)
		if bk.Halted != "" || bk.Status != "online" {
			buckets[i] += "(" + printable(bk.Status) + ")"
		}
	}
	at := cell(s.Now.At.Truncate(time.Second))
	return out + fmt.Sprintf(layout, at, printable(string(b.Status)), cell(b.Used),
		cell(orUnlimited(b.Remaining)), cell(b.OpensAt), cell(s.Now.Stranded), cell(s.RatePerS),
		exhaustion(s), strings.Join(buckets, " "))
}
