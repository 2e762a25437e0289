package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

const ledgerHelp = `Shows what happened to a budget's deductions, oldest first: deductions,
confirms, expiries and rollbacks, of each bucket in the order of their commits.

Without --follow it shows one page and the cursor from which to resume. With --follow it continues
with new entries, through restarts of the server, until it is interrupted (exit status 0); -o json
then writes one entry per line.

With --cursor-file it reads the cursor from FILE, if the file exists, and stores the cursor there
after each page. The same command then resumes where it stopped and skips nothing. Only a crash
between showing a page and storing its cursor repeats that page. To act on each entry once, remember
the entries of the last page by bucket and entry (or by request_id, kind, rollback_id and
cancelled).`

// ledgerView holds the flags of the ledger command.
type ledgerView struct {
	budget, after, file string
	sinceText           string
	since               time.Time
	limit, tail         int
	follow              bool
}

// begin reads the first page.
func (v *ledgerView) begin(ctx context.Context, c *client.Client) (*client.LedgerPage, error) {
	switch {
	case v.tail > 0:
		return c.LedgerTail(ctx, v.budget, v.tail)
	case !v.since.IsZero():
		return c.LedgerSince(ctx, v.budget, v.since, v.limit)
	}
	return c.Ledger(ctx, v.budget, v.after, v.limit, 0)
}

func (a *app) ledgerCommand() *cobra.Command {
	var view ledgerView
	cmd := &cobra.Command{
		Use:   "ledger BUDGET",
		Short: "Show or follow what happened to a budget's deductions",
		Long:  ledgerHelp,
		Example: `  budgetctl ledger spring-sale
  budgetctl ledger spring-sale --tail 20
  budgetctl ledger spring-sale --since 2026-05-01T12:00:00Z
  budgetctl ledger spring-sale --follow --cursor-file spring-sale.cursor -o json`,
		Args: arguments,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&view.follow, "follow", "f", false, "continue with new entries")
	flags.StringVar(&view.after, "after", "", "cursor from which to resume (default the oldest entry)")
	flags.IntVar(&view.tail, "tail", 0, "begin with the last N entries, 1 to 1000")
	flags.StringVar(&view.sinceText, "since", "", "begin with the entries of this instant or later")
	flags.StringVar(&view.file, "cursor-file", "", "file that keeps the cursor; created if missing")
	flags.IntVar(&view.limit, "limit", 100, "the most entries of a page, 1 to 1000")
	must(cmd.MarkFlagFilename("cursor-file"))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		view.budget = args[0]
		err := firstOf(reference(args[0]), a.checkLedger(view))
		if err == nil && view.sinceText != "" {
			view.since, err = instant("since", view.sinceText)
		}
		if err != nil {
			return err
		}
		return a.ledger(cmd, view)
	}
	return cmd
}

func (a *app) checkLedger(view ledgerView) error {
	switch {
	case view.limit < 1 || view.limit > client.MaxLedgerPage:
		return usagef("--limit %d: must be 1 to %d", view.limit, client.MaxLedgerPage)
	case view.tail < 0 || view.tail > client.MaxLedgerPage:
		return usagef("--tail %d: must be 1 to %d", view.tail, client.MaxLedgerPage)
	case view.beginnings() > 1:
		return usagef("--after, --cursor-file, --tail and --since: it can begin at one of them")
	case view.follow && a.output == "yaml":
		return usagef("--output yaml: --follow writes table or json")
	}
	return nil
}

// beginnings returns how many flags say where to begin.
func (v *ledgerView) beginnings() (n int) {
	for _, given := range []bool{v.after != "", v.file != "", v.tail != 0, v.sinceText != ""} {
		if given {
			n++
		}
	}
	return n
}

// ledger shows a page, and with --follow all later ones.
func (a *app) ledger(cmd *cobra.Command, view ledgerView) error {
	var err error
	if view.file != "" {
		if view.after, err = readCursor(view.file); err != nil {
			return err
		}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	// The first request is not repeated, so that a wrong address is an error at once.
	ctx, done := a.bounded(cmd.Context())
	defer done()
	page, err := view.begin(ctx, c)
	if err != nil {
		return err
	}
	lines := &entryLines{app: a, header: true}
	show := func(page *client.LedgerPage) error {
		if err := lines.show(page); err != nil || view.file == "" {
			return err
		}
		return storeCursor(view.file, page.Next)
	}
	if !view.follow {
		lines.whole = true
		return show(page)
	}
	if err := show(page); err != nil {
		return err
	}
	for page, err := range c.Follow(cmd.Context(), view.budget, page.Next, view.limit, 0) {
		if err != nil {
			return err
		}
		if err := show(page); err != nil {
			return err
		}
	}
	return nil
}

// entryLines writes pages with one entry per line. If whole is set, it writes one page with its
// cursor, as other commands write their answers.
type entryLines struct {
	app           *app
	header, whole bool
}

func (l *entryLines) show(page *client.LedgerPage) error {
	if l.whole {
		return l.app.show(page, func() string {
			return listing(entryHeader, entryRows(page)) + "\n\nnext: " + page.Next
		})
	}
	if len(page.Entries) == 0 {
		return nil
	}
	var text strings.Builder
	if l.app.output == "json" {
		for _, e := range page.Entries {
			line, err := json.Marshal(e, json.Deterministic(true))
			if err != nil {
				return fmt.Errorf("entry cannot be written as JSON: %w", err)
			}
			text.Write(append(line, '\n'))
		}
	} else {
		for _, row := range followedRows(page, l.header) {
			text.WriteString(row + "\n")
		}
		l.header = false
	}
	// One write, so that a page is shown completely or not at all.
	if _, err := io.WriteString(l.app.stdout, text.String()); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return nil
}

var entryHeader = []string{"at", "kind", "request id", "amount", "bucket", "entry", "rollback id",
	"reference"}

func entryRows(page *client.LedgerPage) [][]any {
	rows := make([][]any, len(page.Entries))
	for i, e := range page.Entries {
		rollback := e.RollbackID
		switch {
		case e.Cancelled:
			rollback = "(cancel)"
		case e.OfGroup:
			rollback = "(group)"
		case e.Uncollected > 0:
			rollback = "(" + grouped(e.Uncollected) + " uncollected)"
		}
		rows[i] = []any{e.At, e.Kind, e.RequestID, e.Amount, e.Bucket, e.Entry, rollback, e.Reference}
	}
	return rows
}

// followedRows formats entries in columns of fixed width, because the widest text is not known yet.
func followedRows(page *client.LedgerPage, header bool) []string {
	const layout = "%-20s  %-8s  %-24s  %12s  %-24s  %8s  %-16s  %s"
	var out []string
	if header {
		head := make([]any, len(entryHeader))
		for i, name := range entryHeader {
			head[i] = strings.ToUpper(name)
		}
		out = append(out, strings.TrimRight(fmt.Sprintf(layout, head...), " "))
	}
	for _, row := range entryRows(page) {
		cells := make([]any, len(row))
		for i, value := range row {
			cells[i] = cell(value)
		}
		out = append(out, fmt.Sprintf(layout, cells...))
	}
	return out
}

// readCursor reads a stored cursor. It returns "" if the file does not exist.
func readCursor(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("--cursor-file: %w", err)
	}
	cursor := strings.TrimSpace(string(text))
	if cursor == "" {
		return "", usagef("--cursor-file %s is empty; remove it to begin with the oldest entry", file)
	}
	return cursor, nil
}

// storeCursor replaces a stored cursor after its page was shown. After a crash the file holds
// either the old or the new cursor.
func storeCursor(file, cursor string) error {
	fail := func(err error) error {
		return fmt.Errorf("the cursor is not stored, the last page will be shown again: %w", err)
	}
	dir := filepath.Dir(file)
	temporary, err := os.CreateTemp(dir, "."+filepath.Base(file)+".*")
	if err != nil {
		return fail(err)
	}
	defer os.Remove(temporary.Name()) // fails after the rename
	_, err = temporary.WriteString(cursor + "\n")
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		return fail(err)
	}
	if folder, err := os.Open(dir); err == nil { // otherwise a power failure may undo the rename
		_ = folder.Sync()
		_ = folder.Close()
	}
	return nil
}
