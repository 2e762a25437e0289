package main

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/spf13/cobra"
)

func (a *app) recycleCommand() *cobra.Command {
	var history bool
	cmd := &cobra.Command{
		Use:   "recycle BUDGET",
		Short: "Bring a budget's fragments together and hand out by demand",
		Long: `Brings the units of a budget's buckets together and hands them out again by recent demand.
In ledger mode that is one transaction. In store mode it closes and opens the buckets. No call is
refused because of it. Interrupting this command does not stop it. --history shows earlier
recycles, the newest first.`,
		Example: `  budgetctl recycle spring-sale
  budgetctl recycle spring-sale --history -o json`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := reference(args[0]); err != nil {
				return err
			}
			if history {
				return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.RecyclePage, error) {
					return c.Recycles(ctx, args[0], 0, "")
				}, func(page *client.RecyclePage) string { return recycleRows(page.Recycles) })
			}
			return a.recycle(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&history, "history", false, "show the recycles so far instead")
	return cmd
}

// recycleLook is how often the state of a running recycle is read.
const recycleLook = 200 * time.Millisecond

// recycle runs a recycle to its end and shows the report.
func (a *app) recycle(ctx context.Context, name string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	type answer struct {
		run *client.Recycle
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		step, cancel := context.WithTimeout(ctx, a.timeout)
		defer cancel()
		run, err := c.Recycle(step, name)
		answered <- answer{run, err}
	}()
	bar := &recycleBar{app: a, silence: a.waiting()}
	defer bar.finish()
	var run *client.Recycle
	ticker := time.NewTicker(recycleLook)
	defer ticker.Stop()
	for run == nil || run.Running() {
		select {
		case got := <-answered:
			if got.err != nil {
				return got.err
			}
			run = got.run
			bar.show(run)
			continue
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("interrupted; the recycle continues: 'budgetctl recycle --history' " +
				"shows how far it is")
		}
		newest, err := a.newestRecycle(ctx, c, name, run)
		switch {
		case err == nil && newest != nil:
			bar.show(newest)
			if run != nil {
				run = newest
			}
		case err != nil && run != nil && client.KindOf(err) != budget.NotDone:
			return err
		}
	}
	bar.finish()
	return a.show(run, func() string { return recycleRows([]client.Recycle{*run}) })
}

// newestRecycle reads the running recycle, or the present state of run. It returns nil if the
// history does not have it yet.
func (a *app) newestRecycle(ctx context.Context, c *client.Client, name string,
	run *client.Recycle) (
	*client.Recycle, error) {
	step, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	page, err := c.Recycles(step, name, 10, "")
	if err != nil {
		return nil, err
	}
	for i := range page.Recycles {
		if r := &page.Recycles[i]; run != nil && r.Run == run.Run || run == nil && r.Running() {
			return r, nil
		}
	}
	return nil, nil
}

// recycleBar shows progress once the number of buckets is known.
type recycleBar struct {
	app     *app
	silence func() // ends the note that it waits
	bar     *progress
}

func (b *recycleBar) show(r *client.Recycle) {
	if b.bar == nil {
		b.silence()
		b.bar = b.app.newProgress(r.Buckets)
	}
	b.bar.show(r.Done)
}

func (b *recycleBar) finish() {
	b.silence()
	b.bar.finish()
}

func recycleRows(runs []client.Recycle) string {
	rows := make([][]any, len(runs))
	for i, r := range runs {
		rows[i] = []any{r.Run, r.Status, r.Cause, r.Done, r.Buckets, r.Skipped, r.Moved, r.UnitsBefore,
			r.StrandedBefore, r.UnitsAfter, r.StrandedAfter, r.BeganAt, r.EndedAt}
	}
	return listing([]string{"run", "status", "cause", "done", "buckets", "skipped", "moved",
		"units before",
		"stranded", "units after", "stranded", "began", "ended"}, rows)
}
