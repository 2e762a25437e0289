package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/client"
)

// read reads a budget directly from the ledger's tables.
func (w *World) read(name string) (l books, err error) {
	ctx, cancel := bounded()
	defer cancel()
	l.rows, l.adjustments = map[string]row{}, map[string]string{}
	var id int64
	err = w.Rows.QueryRowContext(ctx,
		`SELECT id, total_quantity, undistributed_quantity, quarantined_quantity,
		forfeited_quantity, pending_shrink_quantity
		FROM budget_management_bucket WHERE name = ?`, []byte(name)).
		Scan(&id, &l.total, &l.undistributed, &l.quarantined, &l.forfeited, &l.pendingShrink)
	if err != nil {
		return l, err
	}
	err = w.Rows.QueryRowContext(ctx, `SELECT COALESCE(SUM(outstanding_quantity), 0),
		COALESCE(SUM(held_quantity), 0), COALESCE(SUM(used_quantity), 0),
		COALESCE(SUM(returning_quantity), 0)
		FROM bucket_epoch WHERE budget_id = ?`, id).
		Scan(&l.outstanding, &l.held, &l.used, &l.returning)
	if err != nil {
		return l, err
	}
	err = errors.Join(
		w.each(ctx, `SELECT d.request_id, d.bucket_id = 0, d.amount, COALESCE((SELECT SUM(g.amount)
			FROM give_back g WHERE g.budget_id = d.budget_id AND g.request_id = d.request_id), 0)
			FROM deduction d WHERE d.budget_id = ?`, id, func(rows *sql.Rows) error {
			var id string
			var r row
			err := rows.Scan(&id, &r.isVoid, &r.amount, &r.rolledBack)
			l.rows[id] = r
			return err
		}),
		w.each(ctx,
			`SELECT request_id, status FROM adjustment WHERE budget_id = ? AND LENGTH(request_id) > 0`, id,
			func(rows *sql.Rows) error {
				var id, status string
				err := rows.Scan(&id, &status)
				l.adjustments[id] = status
				return err
			}))
	return l, err
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

// verify compares a budget's ledger with the answers, and audits it through every node. It returns
// all differences, and the units lost in store mode.
func (w *World) verify(b *book) (wrong []string, lost int64) {
	ledger, err := w.read(b.name)
	if err != nil {
		return []string{fmt.Sprintf("%s: %v", b.name, err)}, 0
	}
	wrong, lost = b.compare(ledger)
	if b.limited {
		wrong = append(wrong, w.limited(b)...)
	}
	for i, c := range w.Clients {
		report, err := auditWhole(c, b.name)
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("%s: audit through node %d: %v", b.name, i, err))
		case !report.OK || len(report.Discrepancies)+len(report.Unchecked) > 0:
			wrong = append(wrong, fmt.Sprintf("%s: audit through node %d: %+v", b.name, i, *report))
		case report.Total != ledger.total || report.Used != ledger.used ||
			report.Total != report.Undistributed+
				report.InTransit+report.Remaining+report.Held+report.Used+report.Quarantined+report.Forfeited:
			wrong = append(wrong, fmt.Sprintf("%s: audit through node %d: %+v, the rows: %+v", b.name, i,
				*report,
				ledger.figures()))
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

// limited checks a budget with a limit of perMinute units per user and minute: no user exceeds it
// in the ledger's rows. The audit compares its counters with the same rows.
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
	case seen == 0 && !b.store:
		say("nobody has taken anything")
	}
	return wrong
}
