package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/auditor"
)

// audit recomputes the books of all budgets. No work may be in progress.
func (w *World) audit() (*auditor.Report, error) {
	ctx, cancel := bounded()
	defer cancel()
	stores := map[string]auditor.Redis{}
	for i, r := range w.Redis {
		stores[fmt.Sprint("redis-", i)] = auditor.Server(r.Addr())
	}
	return auditor.Audit(ctx, w.Rows, stores)
}

func (w *World) each(
	ctx context.Context, query string, id int64, scan func(*sql.Rows) error,
) error {
	rows, err := w.Rows.QueryContext(ctx, query, id)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// verify compares a budget's books with the answers and with the service's own audit through every
// node. It returns all differences, and the units lost in store mode.
func (w *World) verify(b *book, found *auditor.Budget) (wrong []string, lost int64) {
	if found == nil {
		return []string{b.name + " is not in the database"}, 0
	}
	wrong, lost = b.compare(found)
	if b.limited && !b.store {
		wrong = append(wrong, w.limited(b)...)
	}
	for i, c := range w.Clients {
		report, err := auditWhole(c, b.name)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: audit through node %d: %v", b.name, i, err))
		case !report.OK || len(report.Discrepancies)+len(report.Unchecked) > 0:
			wrong = append(wrong, fmt.Sprintf("%s: audit through node %d: %+v", b.name, i, *report))
		case client.Units(report.Total) != found.Total || report.Used != found.Used ||
			found.Total != client.Units(report.Undistributed)+client.Units(report.NotFunded)+report.InTransit+
				client.Units(report.InBuckets)+report.Held+report.Used+report.Quarantined+report.Forfeited:
			wrong = append(wrong, fmt.Sprintf("%s: audit through node %d: %+v, the rows have %d, %d used", b.name, i,
				*report, found.Total, found.Used))
		}
	}
	return append(wrong, b.wrong...), lost
}

// auditWhole audits a budget, and repeats the audit while a bucket could not be compared: an
// automatic recycle may be replacing it.
func auditWhole(c *client.Client, name string) (report *client.AuditReport, err error) {
	const tries, pause = 20, 100 * time.Millisecond
	for range tries {
		ctx, cancel := bounded()
		report, err = c.Audit(ctx, name)
		cancel()
		if err != nil || len(report.Unchecked) == 0 {
			break
		}
		time.Sleep(pause)
	}
	return report, err
}

// limited checks that in the ledger's rows no user exceeds the limit of perMinute units per minute.
// The audit compares the counters with the same rows.
func (w *World) limited(b *book) (wrong []string) {
	ctx, cancel := bounded()
	defer cancel()
	say := func(format string, args ...any) {
		wrong = append(wrong, b.name+": "+fmt.Sprintf(format, args...))
	}
	var id int64
	if err := w.Rows.QueryRowContext(ctx, `SELECT id FROM budget_management_bucket WHERE name = ?`,
		[]byte(b.name)).Scan(&id); err != nil {
		say("%v", err)
		return wrong
	}
	seen := 0
	err := w.each(ctx, `SELECT v.value, v.counted_at - v.counted_at % 60000, SUM(d.amount -
		COALESCE((SELECT SUM(g.amount) FROM give_back g
			WHERE g.budget_id = d.budget_id AND g.request_id = d.request_id), 0))
		FROM deduction_value v JOIN deduction d
		ON d.budget_id = v.budget_id AND d.request_id = v.request_id
		WHERE v.budget_id = ? AND v.dimension = 'user' GROUP BY 1, 2`, id, func(rows *sql.Rows) error {
		var user string
		var minute, units int64
		err := rows.Scan(&user, &minute, &units)
		seen++
		if units > perMinute {
			say("%s has %d in the minute at %d, the limit is %d", user, units, minute, perMinute)
		}
		return err
	})
	switch {
	case err != nil:
		say("%v", err)
	case seen == 0:
		say("no deduction counts in the limit")
	}
	return wrong
}
