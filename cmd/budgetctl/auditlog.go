package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/client"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

func (a *app) auditLogCommand() *cobra.Command {
	var query client.AuditLogQuery
	var from, to string
	var tail int
	cmd := &cobra.Command{
		Use:   "audit-log",
		Short: "Show who did what, and verify that the log is unchanged",
		Long: `Shows administrative calls and refused authentications, the oldest first. With
--newest-first, --before with the last number shown goes on. "audit-log export" writes all of them
as JSON lines, "audit-log verify" checks the chain of their hashes.`,
		Example: `  budgetctl audit-log --tail 20
  budgetctl audit-log --op append --from 2026-05-01T00:00:00Z
  budgetctl audit-log --newest-first --before 1204
  budgetctl audit-log verify --anchor 1204:9f86d0...`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := firstOf(between(&query, from, to), checkTail(tail, &query)); err != nil {
				return err
			}
			query.Tenant = a.tenant
			return call(a, cmd, func(ctx context.Context, c *client.Client) (*client.AuditLogPage, error) {
				if tail > 0 {
					return auditLogTail(ctx, c, query, tail)
				}
				return c.AuditLog(ctx, query)
			}, auditLogText)
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&query.After, "after", 0, "only entries with a higher number")
	flags.Int64Var(&query.Before, "before", 0, "only entries with a lower number")
	flags.BoolVar(&query.NewestFirst, "newest-first", false, "begin with the newest entry")
	flags.IntVar(&tail, "tail", 0, "the last N entries, 1 to 1000, the oldest of them first")
	flags.StringVar(&from, "from", "", "first instant")
	flags.StringVar(&to, "to", "", "first instant that is not shown")
	flags.StringVar(&query.Principal, "principal", "", "only of this principal")
	flags.StringVar(&query.Target, "target", "", "only of this budget, instance or key")
	flags.StringVar(&query.Op, "op", "", "only this call, such as append")
	flags.IntVar(&query.Limit, "limit", 100, "the most entries, 1 to 1000")
	cmd.AddCommand(a.exportCommand(), a.verifyCommand())
	return cmd
}

func between(query *client.AuditLogQuery, from, to string) (err error) {
	if query.Limit < 1 || query.Limit > client.MaxAuditLogPage {
		return usagef("--limit %d: must be 1 to %d", query.Limit, client.MaxAuditLogPage)
	}
	if from != "" {
		if query.From, err = instant("from", from); err != nil {
			return err
		}
	}
	if to != "" {
		query.To, err = instant("to", to)
	}
	return err
}

// checkTail refuses --tail beside a flag that says which end to begin with.
func checkTail(tail int, query *client.AuditLogQuery) error {
	switch {
	case tail < 0 || tail > client.MaxAuditLogPage:
		return usagef("--tail %d: must be 1 to %d", tail, client.MaxAuditLogPage)
	case tail > 0 && (query.NewestFirst || query.After != 0):
		return usagef("--tail begins near the end; it excludes --after and --newest-first")
	}
	return nil
}

// auditLogTail reads the last entries of a query, in numerical order.
func auditLogTail(
	ctx context.Context, c *client.Client, query client.AuditLogQuery, tail int,
) (*client.AuditLogPage, error) {
	query.NewestFirst, query.Limit = true, tail
	page, err := c.AuditLog(ctx, query)
	if err == nil {
		slices.Reverse(page.Entries)
	}
	return page, err
}

func auditLogText(page *client.AuditLogPage) string {
	rows := make([][]any, len(page.Entries))
	for n, e := range page.Entries {
		rows[n] = []any{e.Seq, e.At, e.Principal, e.KeyID, e.Source, e.Op, e.Tenant, e.Target, e.Outcome,
			e.Times}
	}
	return listing([]string{"seq", "at", "principal", "key", "from", "call", "tenant", "target",
		"outcome", "times"}, rows)
}

// entries reads the log up to its present end and passes each entry to take. It returns the first
// page, which says where the log begins and ends. It shows its progress.
func (a *app) entries(
	ctx context.Context, take func(client.AuditLogEntry) error,
) (*client.AuditLogPage, auditlog.Anchor, error) {
	c, err := a.client()
	if err != nil {
		return nil, auditlog.Anchor{}, err
	}
	var first *client.AuditLogPage
	var head auditlog.Anchor
	var begin int64
	var bar *progress
	defer func() { bar.finish() }()
	for after := int64(0); ; {
		page, err := a.auditLogPage(ctx, c, after)
		if err != nil {
			return nil, head, err
		}
		if first == nil {
			first = page
			if head, err = auditlog.ParseAnchor(page.Head); err != nil {
				return nil, head, err
			}
			if len(page.Entries) > 0 {
				begin = page.Entries[0].Seq - 1
			}
			bar = a.newProgress(int(head.Seq - begin))
		}
		now, err := auditlog.ParseAnchor(page.Head)
		if err != nil {
			return nil, head, err
		}
		for _, entry := range page.Entries {
			if entry.Seq > head.Seq && entry.Seq <= now.Seq { // appended since the first page
				return first, head, nil
			}
			if err := take(entry); err != nil {
				return first, head, err
			}
			after = entry.Seq
		}
		bar.show(int(after - begin))
		if len(page.Entries) == 0 {
			return first, head, nil
		}
	}
}

func (a *app) auditLogPage(
	ctx context.Context, c *client.Client, after int64,
) (*client.AuditLogPage, error) {
	ctx, done := a.bounded(ctx)
	defer done()
	return c.AuditLog(ctx, client.AuditLogQuery{After: after, Limit: client.MaxAuditLogPage})
}

func (a *app) exportCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "export",
		Short:   "Write the whole audit log as JSON lines",
		Example: `  budgetctl audit-log export > audit-log.jsonl`,
		Args:    arguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, _, err := a.entries(cmd.Context(), func(entry client.AuditLogEntry) error {
				text, err := json.Marshal(entry, jsontext.Multiline(false))
				if err == nil {
					_, err = a.stdout.Write(append(text, '\n'))
				}
				return err
			})
			return err
		},
	}
}

// verified is the answer of 'budgetctl audit-log verify'.
type verified struct {
	OK      bool   `json:"ok"`
	Entries int64  `json:"entries"`
	Removed string `json:"removed"`
	Anchor  string `json:"anchor"`
	// Unchecked are anchors whose entries were removed.
	Unchecked []string `json:"unchecked,omitzero"`
	Problem   string   `json:"problem,omitzero"`
}

func (a *app) verifyCommand() *cobra.Command {
	var anchors []string
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that no entry was changed, removed or added",
		Long: `Recomputes the hashes of all entries and shows an anchor. A database administrator could
change an entry and recompute all later hashes; the anchor of an earlier check reveals that. Keep it
where database administrators cannot write, and pass it to the next check. An anchor whose entry
audit_log.keep has removed cannot be checked: it is listed as unchecked. Exit status 4 means that
the chain is broken.`,
		Example: `  budgetctl audit-log verify
  budgetctl audit-log verify \
      --anchor 1204:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: arguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.verify(cmd, anchors) },
	}
	cmd.Flags().StringArrayVar(&anchors, "anchor", nil,
		"NUMBER:HASH of an earlier check; may be repeated")
	return cmd
}

func (a *app) verify(cmd *cobra.Command, texts []string) error {
	var anchors []auditlog.Anchor
	for _, text := range texts {
		anchor, err := auditlog.ParseAnchor(text)
		if err != nil {
			return usagef("--anchor %q: must be NUMBER:HASH", text)
		}
		anchors = append(anchors, anchor)
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	begin, err := a.auditLogPage(cmd.Context(), c, 0)
	if err != nil {
		return err
	}
	var out verified
	for {
		if out, err = a.verifyFrom(cmd.Context(), begin.Removed, anchors); err != nil {
			return err
		}
		began := begin.Removed
		if begin, err = a.auditLogPage(cmd.Context(), c, 0); err != nil {
			return err
		}
		if out.OK || begin.Removed == began {
			break
		} // budgetd has removed entries meanwhile
	}
	err = a.show(out, func() string {
		list := []field{{"ok", out.OK}, {"entries", out.Entries}, {"removed", out.Removed},
			{"anchor", out.Anchor}}
		for _, anchor := range out.Unchecked {
			list = append(list, field{"unchecked", anchor})
		}
		return details(append(list, field{"problem", out.Problem})...)
	})
	if err == nil && !out.OK {
		err = statusError{fmt.Errorf("the chain is broken: %s", out.Problem), exitDiscrepancy}
	}
	return err
}

// verifyFrom verifies the entries after those that were removed.
func (a *app) verifyFrom(ctx context.Context, removed string,
	anchors []auditlog.Anchor) (out verified, err error) {
	begin, err := auditlog.ParseAnchor(removed)
	if err != nil {
		return out, err
	}
	v := auditlog.NewVerifier(begin, anchors...)
	out = verified{OK: true, Removed: removed}
	for _, anchor := range v.Gone() {
		out.Unchecked = append(out.Unchecked, anchor.String())
	}
	_, head, err := a.entries(ctx, func(entry client.AuditLogEntry) error {
		row, err := rowOf(entry)
		if err != nil {
			return &auditlog.Break{Seq: entry.Seq, Reason: err.Error()}
		}
		if err := v.Add(row); err != nil {
			return err
		}
		out.Entries++
		return nil
	})
	if err == nil {
		err = v.End(head)
	}
	out.Anchor = v.Last().String()
	var broken *auditlog.Break
	if errors.As(err, &broken) {
		out.OK, out.Problem, err = false, broken.Error(), nil
	}
	return out, err
}

// rowOf returns an entry in the form that was hashed.
func rowOf(e client.AuditLogEntry) (auditlog.Row, error) {
	row := auditlog.Row{Seq: e.Seq, AtMS: e.At.UnixMilli(), Principal: e.Principal, KeyID: e.KeyID,
		Source: e.Source,
		Op:     e.Op, Tenant: e.Tenant, Target: e.Target, RequestID: e.RequestID,
		CorrelationID: e.CorrelationID,
		Outcome:       e.Outcome, Times: e.Times}
	if e.Before != nil {
		row.Before = []byte(*e.Before)
	}
	if e.After != nil {
		row.After = []byte(*e.After)
	}
	if !e.At.Equal(time.UnixMilli(row.AtMS)) {
		return row, fmt.Errorf("its time is finer than milliseconds")
	}
	return row, row.Hash.UnmarshalText([]byte(e.Hash))
}
