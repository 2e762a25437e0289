package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const watchHelp = `Shows a budget as it is now, again and again, until it is interrupted (exit
status 0): what remains, what was used and how fast, when it will be used up, and what each
bucket holds. On a terminal the table is redrawn in place; elsewhere each look is one
line (-o json: one object).

A server that is not available is asked again; that is said on stderr.`

// watching is a watch under way.
type watching struct {
	app    *app
	client *client.Client
	budget string
	// drawn is how many lines of the terminal the last look took.
	drawn  int
	header bool // the header of the lines was written
}

// look is a budget as of one look.
type look struct {
	Budget  *client.Budget  `json:"budget"`
	Series  *client.Series  `json:"series"`
	Buckets []client.Bucket `json:"buckets"`
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
	cmd.Flags().IntVar(&count, "count", 0, "end after so many looks; 0: go on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		switch {
		case every < 100*time.Millisecond || every > time.Hour:
			err = usagef("--every %s: must be 100ms to 1h", every)
		case count < 0:
			err = usagef("--count %d: must not be negative", count)
		case a.output == "yaml":
			err = usagef("--output yaml: watch writes table or json")
		}
		if err := firstOf(reference(args[0]), err); err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		w := &watching{app: a, client: c, budget: args[0]}
		return w.run(cmd.Context(), every, count)
	}
	return cmd
}

// run looks until ctx ends. The first look succeeds or is the command's error; later ones that find
// the server unavailable are done again.
func (w *watching) run(ctx context.Context, every time.Duration, count int) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for looks := 0; ; {
		l, err := w.look(ctx)
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
			w.drawn = 0
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

// look asks for everything that is shown.
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
	s.Points = nil // of no use here
	buckets, err := w.client.Buckets(ctx, w.budget)
	if err != nil {
		return nil, err
	}
	return &look{Budget: b, Series: s, Buckets: buckets.Buckets}, nil
}

// show writes a look: redrawn on a terminal, as a line elsewhere.
func (w *watching) show(l *look) error {
	var out string
	file, isFile := w.app.stdout.(*os.File)
	switch {
	case w.app.output == "json":
		line, err := json.Marshal(l, json.Deterministic(true), json.WithMarshalers(unlimited))
		if err != nil {
			return fmt.Errorf("look cannot be written as JSON: %w", err)
		}
		out = string(line) + "\n"
	case isFile && term.IsTerminal(int(file.Fd())):
		width, height, err := term.GetSize(int(file.Fd()))
		if err != nil {
			width, height = 80, 24
		}
		out, w.drawn = redraw(strings.Split(watchTable(l), "\n"), w.drawn, width, height)
	default:
		out = watchLine(l, !w.header)
		w.header = true
	}
	if _, err := io.WriteString(w.app.stdout, out); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

// redraw returns what replaces the `drawn` lines above the cursor by these, as much of them as the
// terminal has room for, and how many lines that are.
func redraw(lines []string, drawn, width, height int) (out string, now int) {
	if room := max(height-1, 2); len(lines) > room {
		hidden := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], fmt.Sprintf("(%d more)", hidden))
	}
	var b strings.Builder
	if drawn > 0 {
		b.WriteString(text.CursorUp.Sprintn(drawn) + "\r")
	}
	for _, line := range lines {
		b.WriteString(text.Trim(line, width) + text.EraseLine.Sprint() + "\n")
	}
	for range drawn - len(lines) { // what is left of a longer table
		b.WriteString(text.EraseLine.Sprint() + "\n")
	}
	return b.String(), max(len(lines), drawn)
}

// watchTable lays out a look.
func watchTable(l *look) string {
	b, s := l.Budget, l.Series
	rows := make([][]any, len(l.Buckets))
	for i, bk := range l.Buckets {
		status := bk.Status
		if bk.Fenced != "" {
			status = "fenced"
		}
		rows[i] = []any{bk.Key, status, bk.Instance, bk.Remaining, bk.Used, bk.Returning}
	}
	return details(field{"budget", b.Name}, field{"status", b.Status}, field{"at", s.Now.At},
		field{"total", unless(b.Unlimited, b.TotalQuantity)}, field{"used", b.Used},
		field{"held", b.Held}, field{"remaining", unless(b.Unlimited, b.Remaining)},
		field{"undistributed", unless(b.Unlimited, b.Undistributed)}, field{"in transit", b.InTransit},
		field{"stranded", s.Now.Stranded},
		field{"rate per second", s.RatePerS}, field{"exhausted", exhaustion(s)}) + "\n\n" +
		listing([]string{"bucket", "status", "instance", "remaining", "used", "returning"}, rows)
}

// watchLine lays out a look in columns of fixed width: the widest number is not known yet.
func watchLine(l *look, header bool) string {
	const layout = "%-20s  %-9s  %16s  %16s  %14s  %14s  %-20s  %s\n"
	out := ""
	if header {
		out = fmt.Sprintf(layout, "AT", "STATUS", "USED", "REMAINING", "STRANDED", "PER SECOND",
			"EXHAUSTED",
			"BUCKETS")
	}
	b, s := l.Budget, l.Series
	buckets := make([]string, len(l.Buckets))
	for i, bk := range l.Buckets {
		buckets[i] = grouped(bk.Remaining)
		if bk.Fenced != "" || bk.Status != "online" {
			buckets[i] += "(" + printable(bk.Status) + ")"
		}
	}
	at := cell(s.Now.At.Truncate(time.Second))
	return out + fmt.Sprintf(layout, at, printable(string(b.Status)), cell(b.Used),
		cell(unless(b.Unlimited, b.Remaining)), cell(s.Now.Stranded),
		cell(s.RatePerS), exhaustion(s), strings.Join(buckets, " "))
}
